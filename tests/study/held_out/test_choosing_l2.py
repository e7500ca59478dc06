"""Studies that choose l2: against pooled fits with the same folds, and what is said."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from hyfdca.crypto.keys.pseudonyms import folds_of
from hyfdca.errors import StudyError
from hyfdca.federation.path import chosen_place
from hyfdca.maths.objective import reference_optimum
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.file import load
from hyfdca.study.local.run import pooled_objective
from hyfdca.study.local.study import prepare
from hyfdca.study.local.training import train_file
from tests.support.consortia import N_ROWS, assert_one_sentence, make_files
from tests.support.durable_runs import Consortium, write

pytestmark = pytest.mark.usefixtures("no_figure")

L2S = (0.3, 0.03, 0.003)
CHOSEN = {"l2": "[0.003, 0.3, 0.03]", "folds": "3", "tol": "1e-5"}


def folds_by_sample(run, n_folds=3, salt=""):
    """Return the fold of every sample of a run, from its members' tables."""
    layout = run.training.federation.layout
    folds = np.full(layout.samples.n_items, -1)
    for member, items in zip(run.members, layout.samples.items, strict=True):
        alignment = member._stages._alignment
        ids = [member._table.ids[row] for row in alignment.order]
        own = folds_of(ids, n_folds, salt)
        assert np.all((folds[items] == -1) | (folds[items] == own))
        folds[items] = own
    return folds


def pooled_scores(run, folds):
    """Return the validation losses of a reference solver on the pooled rows."""
    whole = pooled_objective(run)
    scores = np.empty((len(L2S), folds.max() + 1))
    for place, l2 in enumerate(L2S):
        for fold in range(scores.shape[1]):
            rows = np.flatnonzero(folds != fold)
            left_out = whole.of_rows(np.flatnonzero(folds == fold))
            problem = replace(whole.of_rows(rows), l2_strength=l2)
            weights = reference_optimum(problem, 1e-10).weights
            losses = whole.loss.value(left_out.margins(weights), left_out.labels)
            scores[place, fold] = losses.mean()
    return scores


@pytest.mark.parametrize(
    "settings",
    [
        {"encryption": '"stream"'},
        {"profile": '"open"', "salt": '"2026"', "choice": '"one_standard_error"'},
    ],
    ids=["sealed", "open"],
)
@pytest.mark.parametrize("unlabelled", [False, True], ids=["labelled", "unlabelled"])
def test_the_choice_is_that_of_the_pooled_rows(settings, unlabelled, tmp_path):
    """Every holder finds the same folds; a solver on pooled rows the same losses."""
    given = {**CHOSEN, **settings, "penalise_intercept": "true"}
    write(tmp_path, unlabelled, **given)
    run = prepare(load(tmp_path / "study.toml"), tmp_path)
    run.training.finish()
    salt = settings.get("salt", "").strip('"')
    scores = pooled_scores(run, folds_by_sample(run, salt=salt))
    found = np.array([row.folds for row in run.path])
    np.testing.assert_allclose(found, scores, rtol=0.02)
    choice = settings.get("choice", '"best"').strip('"')
    best, chosen = chosen_place(scores, choice)
    assert [row.is_best for row in run.path].index(True) == best
    assert [row.is_chosen for row in run.path].index(True) == chosen
    assert max(max(row.relative_gap) for row in run.path) <= 1e-5


@pytest.mark.slow
def test_the_result_has_the_path(tmp_path):
    """l2, certificate and weights are those of the chosen model; a record per l2."""
    write(tmp_path, **CHOSEN)
    outcome = train_file(tmp_path / "study.toml", tmp_path / "out", lambda *_: None)
    result = msgspec.json.decode((tmp_path / "out" / "result.json").read_bytes())
    model = msgspec.json.decode((tmp_path / "out" / "model.json").read_bytes())
    path = result["path"]
    assert [row["l2"] for row in path] == list(L2S)
    assert result["path_score"] == "log_loss"
    [chosen] = [row for row in path if row["is_chosen"]]
    assert chosen["mean"] == min(row["mean"] for row in path)
    assert chosen["mean"] == pytest.approx(np.mean(chosen["folds"]))
    expected = np.std(chosen["folds"], ddof=1) / np.sqrt(3)
    assert chosen["standard_error"] == pytest.approx(expected)
    assert result["l2"] == model["l2"] == chosen["l2"]
    assert result["relative_gap"] <= 1e-5
    assert result["converged"]
    whole = replace(pooled_objective(outcome.run), l2_strength=chosen["l2"])
    assert whole.primal(outcome.weights) == pytest.approx(result["primal"], rel=1e-9)


@pytest.mark.parametrize(
    ("n_classes", "settings", "score"),
    [
        (2, {}, "log_loss"),
        (2, {"class_weight": '"balanced"'}, "mean loss"),
        (3, {}, "mean loss"),  # the sum over the classes, each against all others
        (2, {"loss": '"hinge"'}, "mean loss"),
    ],
)
def test_the_score_is_named_as_what_it_is(n_classes, settings, score, tmp_path):
    """It is only a log loss if it is that of the rows left out."""
    labels = [f"class {row % n_classes}" for row in range(N_ROWS)]
    given = {**CHOSEN, **settings, "max_rounds": "1"}
    path = make_files(labels, **given).write(tmp_path)
    outcome = train_file(path, tmp_path / "out", lambda *_: None)
    assert outcome.result()["path_score"] == score


def test_a_study_with_one_l2_has_no_path(tmp_path):
    """The keys are there all the same."""
    write(tmp_path, max_rounds="3")
    outcome = train_file(tmp_path / "study.toml", tmp_path / "out", lambda *_: None)
    result = outcome.result()
    assert (result["l2"], result["path"], result["path_score"]) == (0.05, None, None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"l2": "[0.1, 0.01]"}, "folds = 5"),
        ({"l2": '"auto"'}, "folds = 5"),
        ({"folds": "3"}, "one l2"),
        ({"choice": '"one_standard_error"'}, "leave choice out"),
        ({"l2": "[0.1, 0.1]", "folds": "3"}, "twice"),
        ({"l2": "[0.1]", "folds": "3"}, "l2"),
        ({"l2": "[0.1, -1.0]", "folds": "3"}, "l2"),
        ({"l2": '"many"', "folds": "3"}, "auto"),
        ({**CHOSEN, "folds": "1"}, "folds"),
        ({**CHOSEN, "choice": '"worst"'}, "one_standard_error"),
        ({**CHOSEN, "algorithm": '"hyfdca"'}, "algorithm='bundle'"),
        ({**CHOSEN, "folds": "60"}, "fewer folds"),
    ],
)
def test_what_cannot_be_is_one_sentence(settings, said, tmp_path):
    """The sentence says what to write instead."""
    make_files(**settings).write(tmp_path)
    with pytest.raises(StudyError) as error:
        train_file(tmp_path / "study.toml", tmp_path / "out", lambda *_: None)
    assert said in str(error.value)
    assert_one_sentence(f"{error.value}\n")


@pytest.mark.slow
def test_what_a_path_exposes_is_said_before_it_starts(tmp_path):
    """Its margins are counted with all points; a resumed study does not say it."""
    write(tmp_path, **CHOSEN)
    said = []
    train_file(
        tmp_path / "study.toml", tmp_path / "out", lambda *_: None, tell=said.append
    )
    [sentence] = said
    assert "18 margins per row" in sentence
    consortium = Consortium(tmp_path)
    runner, _ = consortium.train()
    assert sentence in consortium.sentences
    n_points = sum(fit.rounds for fit in runner.server.fits)
    assert n_points > len(runner.history)


def test_a_policy_counts_all_fits(tmp_path):
    """Rounds times outputs are at most rounds times fits."""
    write(tmp_path, max_rounds="10", **CHOSEN)
    plan = Consortium(tmp_path).plan
    MemberPolicy(most_rounds=120).check_rounds(plan, 1)
    with pytest.raises(StudyError, match="119 rounds"):
        MemberPolicy(most_rounds=119).check_rounds(plan, 1)


def test_folds_follow_from_id_and_salt():
    """They are the same in any table, differ by salt, and are about equal in size."""
    ids = [f"P{number}" for number in range(3000)]
    folds = folds_of(ids, 5, "2026")
    assert np.array_equal(folds[::-1], folds_of(ids[::-1], 5, "2026"))
    assert np.mean(folds == folds_of(ids, 5, "2027")) == pytest.approx(0.2, abs=0.04)
    assert np.bincount(folds, minlength=5) == pytest.approx(600, abs=100)
