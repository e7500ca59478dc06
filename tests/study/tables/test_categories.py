"""Studies with text, dates and booleans give the model of a pooled pipeline."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.errors import StudyError
from hyfdca.model.file import as_bytes
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.inprocess import InProcess
from hyfdca.study.file import load
from hyfdca.study.local.study import local_clients, local_plan, prepare, read_tables
from hyfdca.study.server import StudyServer
from tests.support.durable_runs import Consortium
from tests.support.mixed_tables import (
    MixedStudy,
    assert_is_pooled,
    mixed_frame,
    references_of,
    trained,
)
from tests.support.thoroughness import examples

pytestmark = pytest.mark.usefixtures("no_figure")


def test_the_model_is_that_of_a_pooled_pipeline(tmp_path):
    """Levels of one site, rare ones and shared cells included."""
    outcome = trained(MixedStudy(), tmp_path)
    assert references_of(outcome)["ward"] == "ICU"
    assert {"ward=harbour", "ward=other", "code=007"} & set(
        outcome.run.consortium.features
    ) >= {"ward=harbour", "ward=other"}
    assert_is_pooled(outcome, mixed_frame())


def test_blank_cells_are_a_level(tmp_path):
    """A blank category is a level of its own if it is frequent enough."""
    frame = mixed_frame()
    frame.loc[::9, "ward"] = None
    study = MixedStudy(frame, {"missing": '"mean"'})
    outcome = trained(study, tmp_path)
    assert "ward=missing" in outcome.run.consortium.features
    assert_is_pooled(outcome, frame)


def test_few_blank_cells_are_others(tmp_path):
    """A rare level like any other; without a setting they are refused."""
    frame = mixed_frame()
    frame.loc[[3, 60], "ward"] = None
    outcome = trained(MixedStudy(frame, {"missing": '"mean"'}), tmp_path)
    assert "ward=missing" not in outcome.run.consortium.features
    assert_is_pooled(outcome, frame)
    with pytest.raises(StudyError, match=r"2 missing cells in north\.csv"):
        trained(MixedStudy(frame), tmp_path)


@pytest.mark.parametrize("encryption", ["stream", "bfv"])
def test_encrypted_is_unencrypted(tmp_path, encryption):
    """Runs are equal bit for bit, ties included, although all tokens differ."""
    plain = trained(MixedStudy(settings={"tol": "1e-3"}), tmp_path)
    own = {"tol": "1e-3", "encryption": f'"{encryption}"'}
    sealed = trained(MixedStudy(settings=own), tmp_path)
    assert sealed.run.consortium.features == plain.run.consortium.features
    np.testing.assert_array_equal(sealed.weights, plain.weights)
    assert sealed.certificate == plain.certificate


@pytest.mark.parametrize("scale", ["none", "maxabs"])
def test_levels_are_never_scaled(tmp_path, scale):
    """They are 0 and 1 whatever happens to numbers."""
    own = {"scale": f'"{scale}"', "tol": "1e-2"}
    run = prepare(load(MixedStudy(settings=own).write(tmp_path)), tmp_path)
    places = [n for n, name in enumerate(run.consortium.features) if "=" in name]
    assert len(places) == 7
    np.testing.assert_array_equal(run.scaling.scale[places], 1.0)
    for client, block in enumerate(run.blocks):
        items = run.consortium.alignment.layout.features.items[client]
        own = block.X.toarray()[:, np.isin(items, places)]
        assert set(own.ravel().tolist()) <= {0.0, 1.0}
        assert block.X.nnz <= len(block.X.toarray()) * len(items)


def test_one_hot_columns_are_sparse(tmp_path):
    """At most one cell of a category is stored per row."""
    run = prepare(load(MixedStudy().write(tmp_path)), tmp_path)
    city = run.blocks[1]
    assert city.X.shape[1] == 2 + 5 + 2
    assert np.diff(city.X.indptr).max() <= 4


def test_everything_is_a_category(tmp_path):
    """Then nothing is scaled, and organisations without features take part."""
    frame = mixed_frame()
    every = '["age", "pressure", "ward", "admitted", "smoker", "code"]'
    own = {"categorical": every, "tol": "1e-3", "encryption": '"stream"'}
    outcome = trained(MixedStudy(frame, own), tmp_path)
    features = outcome.run.consortium.features
    assert "smoker=True" in features
    assert not any(name.startswith("age") for name in features)  # all are rare
    assert outcome.ending.is_converged


def resumable(folder):
    MixedStudy(settings={"encryption": '"stream"', "tol": "1e-3"}).write(folder)
    return Consortium(folder)


def test_resumed_is_undisturbed(tmp_path):
    """A study whose parties all restart repeats its levels, and ends the same."""
    undisturbed = prepare(load(resumable(tmp_path).folder / "study.toml"), tmp_path)
    expected = undisturbed.training.finish()
    consortium = resumable(tmp_path)
    consortium.begin(2)
    for rank in range(len(consortium.tables)):
        consortium.network.restart(rank)
    _, found = consortium.train()
    np.testing.assert_array_equal(found, expected)


def test_a_table_with_other_levels_cannot_resume(tmp_path):
    """The names of levels are part of the table."""
    consortium = resumable(tmp_path)
    consortium.begin(2)
    table = consortium.tables[0]
    levels = {"ward": tuple(f"{name}!" for name in table.levels["ward"])}
    consortium.tables[0] = replace(table, levels=levels)
    consortium.network.restart(0)
    with pytest.raises(Exception, match="its table has changed"):
        consortium.train()


# What the server sees


class Spy:
    """A stage that keeps what passes."""

    def __init__(self, stage, seen):
        self._stage, self._seen = stage, seen

    def handle(self, phase, payload):
        """Answer as the stage does."""
        reply = self._stage.handle(phase, payload)
        self._seen += [bytes(payload), bytes(reply)]
        return reply


def seen_by_the_server(path):
    """Return what the server sees and knows before training."""
    file = load(path)
    plan, seen = local_plan(file), []
    members = local_clients(plan, read_tables(file, path.parent))

    def driver(stage):
        return InProcess(
            {k: Spy(member.stage(stage), seen) for k, member in enumerate(members)}
        )

    prepared = StudyServer(plan, driver, ServerSession(plan.token)).prepare()
    return b"".join(seen), prepared


NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=6)
    .map(str.casefold)
    .filter(lambda name: len(name) < 100),
    min_size=7,
    max_size=7,
    unique=True,
)


@settings(max_examples=examples(12), deadline=None)
@given(NAMES)
def test_no_name_of_a_level_is_seen(tmp_path_factory, names):
    """Without their release, the server sees neither names nor counts."""
    folder = tmp_path_factory.mktemp("names")
    frame = mixed_frame()
    known = sorted(set(frame["ward"]))
    frame["ward"] = frame["ward"].map(dict(zip(known, names, strict=True)))
    study = MixedStudy(frame)
    study.settings = {
        "release_level_names": "false",
        "encryption": '"stream"',
        "categorical": '["ward", "code"]',
    }
    seen, prepared = seen_by_the_server(study.write(folder))
    assert b"ward" in seen
    for name in names:
        assert name.encode() not in seen
    assert "ward=#1" in prepared.levels.alignment.features


def test_released_names_are_seen_once_they_are_released(tmp_path):
    """By default names are part of the model, but not those of rare levels."""
    seen, _ = seen_by_the_server(MixedStudy().write(tmp_path))
    for name in (b"ICU", b"harbour", b"emergency"):
        assert name in seen
    for name in (b"chapel", b"attic"):
        assert name not in seen


def test_hidden_names_are_not_in_the_model(tmp_path):
    """In that case, features are numbered."""
    own = {"release_level_names": "false", "tol": "1e-2"}
    outcome = trained(MixedStudy(settings=own), tmp_path)
    content = as_bytes(outcome.model())
    assert b"harbour" not in content
    assert b"ICU" not in content
    assert json.loads(content)["categories"]["ward"]["levels"] is None
    shown = "\n".join(outcome.summary().notes)
    assert "'ward' has 5 features; the names of its levels are not released" in shown


def test_no_feature_is_left(tmp_path):
    """A study all of whose columns say nothing is refused."""
    own = {"min_level_count": "1000"}
    study = MixedStudy(settings=own)
    study.tables = {"north": study.tables["north"][["id", "ward", "y"]]}
    own["categorical"] = "[]"
    with pytest.raises(StudyError, match="All columns are categories with a single"):
        trained(study, tmp_path)


def test_categories_beside_rounded_cells(tmp_path):
    """Where numbers held twice agree only roughly, levels are still compared by name.

    Coast has the levels of other rows, and so other codes.
    """
    study = MixedStudy()
    frame = study.frame.set_index("id")
    for name in ("city", "coast"):
        own = study.tables[name]
        for column in ("age", "ward"):
            own[column] = frame.loc[own["id"], column].to_numpy()
    study.tables["coast"]["age"] *= 1 + 1e-9
    outcome = trained(study, tmp_path)
    assert_is_pooled(outcome, mixed_frame())
    is_first = study.tables["coast"].index == 0
    study.tables["coast"]["ward"] = study.tables["coast"]["ward"].mask(is_first, "hall")
    with pytest.raises(StudyError, match="'north' and 'coast' in 1 row"):
        trained(study, tmp_path)


def test_rows_without_a_label(tmp_path):
    """Rows that are left out have no level."""
    frame = mixed_frame()
    frame.loc[frame["ward"] == "harbour", "y"] = None
    settings = {"tol": "1e-3", "labels_visible_to_holders": "true"}
    outcome = trained(MixedStudy(frame, settings), tmp_path)
    assert "ward=harbour" not in outcome.run.consortium.features
    assert outcome.result()["rows_without_label"] == 20
