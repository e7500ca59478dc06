"""Predictions of split rows: the right numbers, for the asker alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hyfdca.errors import StudyError
from hyfdca.prediction import messages as p
from hyfdca.prediction.split_rows import predictions_of
from hyfdca.protocol.client_session import TOKEN_BYTES, decode, unframe
from hyfdca.protocol.codec import unpack_tokens
from hyfdca.stages.alignment import messages as a
from tests.model.models import make_model, make_table, random_cells
from tests.prediction.split_cases import HOLDINGS, NAMES, STUDY_HASH, Split, part_of
from tests.support.thoroughness import examples

pytestmark = pytest.mark.usefixtures("small_paillier")
KINDS = {"two": "logistic", "three": "logistic", "regression": "squared"}
SCHEMES = ["stream", "bfv", "paillier"]


def messages(split, phase, kind, is_up):
    """Return the decoded messages of a phase, by client."""
    token = STUDY_HASH[:TOKEN_BYTES]
    return [
        (client, decode(unframe(reply if is_up else request, token)[1], kind))
        for said, client, request, reply in split.said
        if said == phase
    ]


def tolerance(split):
    """Return how far sums on the grid may be from the margins of the pooled table.

    Each holder rounds to the nearest point of the grid; floats round in every sum.
    """
    requests = messages(split, "parts", p.PartsRequest, is_up=False)
    step = math.ldexp(1.0, -max(r.grid.fraction_bits for _, r in requests))
    sizes = np.abs(split.model.weights).sum() * max(np.nanmax(np.abs(split.cells)), 1)
    floats = 4 * np.finfo(float).eps * (sizes / split.model.scaling.scale.min() + 1)
    return len(split.names) * step / 2 + floats


def pooled(split, rows):
    """Return the margins that the pooled table gives."""
    return split.model.margins(make_table(split.cells))[list(rows)]


@pytest.mark.parametrize("scale", ["none", "standard", "maxabs"])
@pytest.mark.parametrize("kind", KINDS)
def test_margins_are_those_of_the_pooled_table(kind, scale):
    """Complete rows get the model's margin, up to the grid, in the asker's order."""
    model = make_model(kind, KINDS[kind], scale, "refuse")
    split = Split(model, random_cells(9), HOLDINGS)
    scores = split.scores("city")
    rows = HOLDINGS[1][0]
    complete = scores.n_absent == 0
    assert np.array(rows)[complete].tolist() == [3, 2, 1]
    errors = np.abs(scores.margins - pooled(split, rows))[complete]
    assert errors.max() <= tolerance(split) < 1e-12


def test_the_asker_adds_offsets():
    """They are its own, in the order of its table, and nobody else needs them."""
    model = make_model("two", "logistic", offset_column="base")
    split = Split(model, random_cells(9), HOLDINGS)
    offsets = np.array([0.5, -1.5, 2.0, 0.25, 1.0])
    scores, table = split.scores("north"), split.tables[0]
    plain = predictions_of(model, table, scores).predictions
    assert "offsets are taken as 0" in plain.note
    found = predictions_of(model, replace(table, offsets=offsets), scores).predictions
    assert found.note == ""
    rows = [table.ids.index(row) for row in found.ids]
    np.testing.assert_array_equal(found.margins, plain.margins + offsets[rows, None])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_encrypted_equals_unencrypted(kind, scheme):
    """Encryption changes no bit of a score."""
    model, study = make_model(kind, KINDS[kind]), {}
    if scheme == "paillier":
        study = {"paillier_bits": 512}
    scores = [
        Split(model, random_cells(9), HOLDINGS, name, study=own).scores("north")
        for name, own in (("none", {}), (scheme, study))
    ]
    assert np.array_equal(scores[0].margins, scores[1].margins)
    assert np.array_equal(scores[0].n_absent, scores[1].n_absent)


def test_a_coarser_grid():
    """Compact sums have 42 bits: the bound on errors follows the grid."""
    model, cells = make_model(missing="refuse"), random_cells(9)
    split = Split(model, cells, HOLDINGS, study={"precision": "compact"})
    scores = split.scores("north")
    errors = np.abs(scores.margins - pooled(split, range(5)))[scores.n_absent == 0]
    assert 1e-14 < errors.max() <= tolerance(split) < 1e-9


numbers = st.sets(st.integers(0, 5), min_size=1).map(sorted)
columns = st.sets(st.integers(0, 3), min_size=1).map(sorted)


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(numbers, columns), min_size=2, max_size=4), st.data())
def test_any_holdings(holdings, data):
    """For all holdings, cells count once, and absent ones are counted."""
    model = make_model("two", scale="standard", missing="refuse")
    asker = data.draw(st.integers(0, len(holdings) - 1))
    split = Split(model, random_cells(6), holdings, "stream")
    scores = split.scores(NAMES[asker])
    is_held = np.zeros((6, 4), dtype=bool)
    for own_rows, own_columns in holdings:
        is_held[np.ix_(own_rows, own_columns)] = True
    rows = holdings[asker][0]
    assert scores.n_absent.tolist() == (4 - is_held[rows].sum(axis=1)).tolist()
    complete = scores.n_absent == 0
    errors = np.abs(scores.margins - pooled(split, rows))[complete]
    assert errors.max(initial=0.0) <= tolerance(split)


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(numbers, columns), min_size=2, max_size=4))
def test_what_nobody_holds_is_filled(holdings):
    """If the model fills missing cells, absent ones are filled in the same way."""
    model = make_model("three", missing="mean")
    cells = random_cells(6, n_missing=3)
    split = Split(model, cells, holdings, "none")
    scores = split.scores("north")
    is_held = np.zeros(cells.shape, dtype=bool)
    for own_rows, own_columns in holdings:
        is_held[np.ix_(own_rows, own_columns)] = True
    split.cells = np.where(is_held, cells, np.nan)
    errors = np.abs(scores.margins - pooled(split, holdings[0][0]))
    assert errors.max() <= tolerance(split)


def test_rows_of_the_asker_alone():
    """A row that only the asker holds is predicted if the asker has all features."""
    model = make_model(missing="refuse")
    split = Split(model, random_cells(5), [([0, 1], range(4)), ([3, 4], [0, 1])])
    scores = split.scores("north")
    assert scores.n_absent.tolist() == [0, 0]
    assert np.abs(scores.margins - pooled(split, [0, 1])).max() <= tolerance(split)


def test_zeros_that_are_not_stored():
    """Sparse tables give the same scores, also where scaling centres features."""
    split = Split(make_model(missing="refuse"), random_cells(9), HOLDINGS)
    dense = split.scores("coast")
    for rank, table in enumerate(split.tables):
        cells = sp.csr_array(table.cells.toarray())
        split.tables[rank] = replace(table, cells=cells)
    sparse = split.scores("coast")
    assert np.array_equal(dense.margins, sparse.margins)


def test_several_ask():
    """All askers are served, each with its own rows."""
    split = Split(make_model(missing="refuse"), random_cells(9), HOLDINGS)
    answers, members = split.run("north", "coast")
    assert [(x.asker, x.n_rows, x.refusal) for x in answers] == [
        ("north", 5, ""),
        ("coast", 4, ""),
    ]
    assert members[1].scores is None
    for rank in (0, 2):
        scores = members[rank].scores
        complete = scores.n_absent == 0
        errors = np.abs(scores.margins - pooled(split, HOLDINGS[rank][0]))[complete]
        assert complete.sum() == 3
        assert errors.max() <= tolerance(split)


def test_cells_that_disagree():
    """Different values of one cell are refused; the asker learns how many."""
    split = Split(make_model(missing="refuse"), random_cells(9), HOLDINGS)
    split.tables[1].cells.data[:] += 1.0
    answers, members = split.run("north")
    assert "'north' and 'city' in 4 rows" in answers[0].refusal
    assert members[0].refusal == answers[0].refusal
    assert members[0].scores is None


def test_cells_that_were_rounded():
    """Values within the study's tolerance are the same; the first holder's count."""
    split = Split(make_model(missing="refuse"), random_cells(9), HOLDINGS)
    expected = split.scores("north").margins
    split.tables[2].cells.data[1::2] *= 1.0 + 1e-7  # x0, which north holds too
    np.testing.assert_array_equal(split.scores("north").margins, expected)


def test_cells_that_are_blank_here_and_known_there():
    """If the study shares them, scores are those of complete tables; otherwise none."""
    shared = {"blank_cells": "share"}
    split = Split(make_model(missing="refuse"), random_cells(9), HOLDINGS, study=shared)
    expected = split.scores("north").margins
    split.tables[0].cells[0, 0] = split.tables[2].cells[1, 1] = np.nan  # x0 of row 0
    answers, _ = split.run("north")
    assert "1 blank cell that no other" in answers[0].refusal
    split.tables[2] = part_of(split.model, split.cells, HOLDINGS[2])
    np.testing.assert_array_equal(split.scores("north").margins, expected)


def test_who_asks_after_a_refusal_is_served():
    """Rows that cannot be aligned cost their own asker its scores, and nobody else."""
    both = [[0, 1, 2, 3, 4], [0, 1, 2]], [[0, 1, 2, 3, 4], [2, 3]], [[3, 4], [0, 1, 2]]
    split = Split(make_model(missing="refuse"), random_cells(9), both)
    split.tables[1].cells[0, 0] += 1.0  # of a row that "coast" does not hold
    answers, members = split.run("north", "coast")
    assert "'north' and 'city' in 1 row" in answers[0].refusal
    assert answers[1].refusal == ""
    assert members[0].scores is None
    errors = np.abs(members[2].scores.margins - pooled(split, both[2][0]))
    assert np.all(members[2].scores.n_absent == 0)
    assert errors.max() <= tolerance(split)


# Who sees what


@pytest.mark.parametrize("scheme", ["stream", "bfv"])
def test_the_server_reads_no_score(scheme):
    """No number of a score or of a part of it is in what the server passes on."""
    model = make_model("three", missing="refuse")
    split = Split(model, random_cells(9), HOLDINGS, scheme)
    plain = Split(model, random_cells(9), HOLDINGS, "none")
    split.scores("north")
    plain.scores("north")

    def words(run):
        vectors = []
        for _, reply in messages(run, "parts", p.ScoreParts, is_up=True):
            vectors.append(bytes(reply.margins.payload))
        for _, notice in messages(run, "scores", p.ScoresNotice, is_up=False):
            vectors += [bytes(vector.payload) for vector in notice.margins]
        return vectors

    every = b"".join(request + reply for *_, request, reply in split.said)
    for vector in words(plain):
        found = [vector[i : i + 8] for i in range(0, len(vector) - 7, 8)]
        telling = [word for word in found if len(set(word)) > 3]
        assert telling
        assert not any(word in every for word in telling)


def test_only_the_asker_gets_scores():
    """Nobody else receives a sum, and others provide only requested rows."""
    split = Split(make_model(), random_cells(9), HOLDINGS)
    split.scores("north")
    sums = messages(split, "scores", p.ScoresNotice, is_up=False)
    assert [client for client, _ in sums] == [0]
    [(_, asked)] = messages(split, "request", p.Asked, is_up=True)
    wanted = {*map(tuple, unpack_tokens(asked.pseudonyms).reshape(-1, 2).tolist())}
    assert len(wanted) == 5
    for _, rows in messages(split, "rows", a.Rows, is_up=True):
        shown = unpack_tokens(rows.pseudonyms).reshape(-1, 2)
        assert {*map(tuple, shown.tolist())} <= wanted
        assert rows.label_tokens is None


def test_predictions_are_not_linked():
    """The same rows have other pseudonyms in every prediction."""
    split = Split(make_model(), random_cells(9), HOLDINGS)
    split.scores("north")
    split.scores("north")
    first, second = messages(split, "request", p.Asked, is_up=True)
    assert first[1].nonce != second[1].nonce
    seen = [{*unpack_tokens(asked.pseudonyms).tolist()} for _, asked in (first, second)]
    assert not seen[0] & seen[1]


def test_keys_are_those_of_before():
    """The study's keys are made once; later predictions compare them."""
    split = Split(make_model(), random_cells(9), HOLDINGS)
    split.scores("north")
    phases = {phase for phase, *_ in split.said}
    split.said.clear()
    split.scores("north")
    assert "make keys" in phases
    assert not {"make keys", "take keys"} & {phase for phase, *_ in split.said}


def test_what_an_asker_can_solve():
    """With as many classes as others have columns, scores are their cells (docs)."""
    model, cells = make_model("three", missing="refuse"), random_cells(9)
    split = Split(model, cells, [(range(9), [0, 1]), (range(9), [2, 3])])
    scores = split.scores("north")
    scaled = (cells - model.scaling.offset) / model.scaling.scale
    rest = scores.margins - model.intercept - scaled[:, :2] @ model.weights[:2]
    solved = np.linalg.lstsq(model.weights[2:].T, rest.T, rcond=None)[0].T
    found = solved * model.scaling.scale[2:] + model.scaling.offset[2:]
    assert np.abs(found - cells[:, 2:]).max() < 1e-9


# What an asker makes of it


def test_rows_without_some_feature_are_left_out():
    """Incomplete rows get no prediction, and are counted."""
    model = make_model(missing="refuse")
    split = Split(model, random_cells(9), HOLDINGS)
    made = predictions_of(model, split.tables[0], split.scores("north"))
    assert made.predictions.ids == ("r1", "r2", "r3")
    assert (made.n_left_out, made.n_filled) == (2, 0)
    wanted = model.predict(make_table(split.cells))[1:4]
    assert made.predictions.predicted.tolist() == wanted.tolist()


def test_filled_cells_are_counted():
    """If the model fills cells, all rows are predicted, and filled cells counted."""
    model = make_model(missing="mean")
    split = Split(model, random_cells(9), HOLDINGS)
    made = predictions_of(model, split.tables[0], split.scores("north"))
    assert len(made.predictions.ids) == 5
    assert (made.n_left_out, made.n_filled) == (0, 2)


def test_no_row_is_complete():
    """If no row can be predicted, one sentence says so, with counts."""
    model = make_model(missing="refuse")
    split = Split(model, random_cells(9), [([0, 1], [0]), ([0, 1], [1])])
    with pytest.raises(StudyError, match="None of the 2 rows can be predicted"):
        predictions_of(model, split.tables[0], split.scores("north"))
