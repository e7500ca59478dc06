"""Attacks from views: what they recover, and where they must not."""

from __future__ import annotations

import pytest

from hyfdca.audit.report import audit_folder
from tests.audit.audits import (
    GRID,
    HORIZONTAL,
    N_ROWS,
    PAPER,
    THREE,
    TWO,
    audited,
    record,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_figure")]

STREAM = '"stream"'
OPEN = '"open"'
FREE = {"loss": '"hinge"', "l2": "0.01"}
HINGE = {**FREE, "penalise_intercept": "true"}
DRAWN = {**PAPER, "local_fraction": "0.2", "max_rounds": "80"}
ONE = {**PAPER, "local_steps": "1", "max_rounds": "80"}
FEDAVG = {"algorithm": '"fedavg"', "loss": '"logistic"', "max_rounds": "12"}
SERVER_ATTACKS = {
    "margins and weights",
    "duals and shares",
    "share differences",
    "plane differences",
}


def test_unencrypted_the_papers_attacks_recover_the_data(tmp_path):
    """If nothing is sealed, both least-squares reconstructions give every cell."""
    audit = audited(tmp_path, GRID, profile=OPEN, **DRAWN)
    for name in ("margins and weights", "duals and shares"):
        assert audit.attacks[name].error < 1e-6
        assert audit.attacks[name].recovered == 1.0
    assert not audit.is_clean


@pytest.mark.sampled(5)
@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("participation", ["1.0", "0.5"])
def test_unencrypted_the_bundle_gives_the_data_away(profile, participation, tmp_path):
    """If nothing is sealed, the bundle's margins and weights give every cell.

    This is the control for the runs below: the same attack, the same messages.
    """
    given = {**HINGE, "profile": f'"{profile}"', "participation": participation}
    audit = audited(tmp_path, GRID, max_rounds="60", **given)
    assert audit.attacks["margins and weights"].error < 1e-6


def test_open_shares_give_rows_away(tmp_path):
    """With one dual changed per round, differences of open shares are the rows."""
    audit = audited(tmp_path, HORIZONTAL, profile=OPEN, encryption=STREAM, **ONE)
    found = audit.attacks["share differences"]
    assert found.recovered > 0.9
    assert found.error < 0.3
    assert audit.is_admitted("share differences")
    assert not audit.is_clean
    assert audit.is_accepted({"server-shares": 1.0})  # the trust model says so
    assert not audit.attacks["margins and weights"].succeeds
    assert not audit.attacks["duals and shares"].succeeds


@pytest.mark.thorough
def test_factors_of_rows_come_from_another_holder(tmp_path):
    """The share of the bias cell's holder reveals the rows of those that lack it."""
    given = {**ONE, "labels_visible_to_holders": "true", "max_rounds": "150"}
    audit = audited(
        tmp_path, TWO, lacking=["city"], profile=OPEN, encryption=STREAM, **given
    )
    assert audit.attacks["share differences"].recovered > 0.9


@pytest.mark.thorough
def test_without_a_bias_rows_are_found_but_for_a_factor(tmp_path):
    """If no cell is known, the server still learns the direction of rows."""
    given = {**ONE, "fit_intercept": "false"}
    audit = audited(tmp_path, HORIZONTAL, profile=OPEN, encryption=STREAM, **given)
    assert audit.attacks["share differences"].directions > 0.9
    assert audit.attacks["share differences"].recovered < 0.1


@pytest.mark.parametrize("method", [HINGE, FREE], ids=["penalised", "free"])
def test_open_planes_give_rows_away(method, tmp_path):
    """With the hinge loss, slopes of planes that differ in one sample are the row.

    Bias cells show which planes these are, or balances if the intercept is free.
    """
    audit = audited(tmp_path, GRID, profile=OPEN, encryption=STREAM, **method)
    assert audit.attacks["plane differences"].recovered > 0.2
    assert [found.kind for found in audit.findings] == ["server-planes"]


@pytest.mark.sampled(11)
@pytest.mark.parametrize("encryption", ["stream", "bfv"])
@pytest.mark.parametrize("who", ["grid", "horizontal"])
@pytest.mark.parametrize("method", ["drawn", "one", "line search", "bundle", "lbfgs"])
def test_sealed_no_server_attack_beats_the_mean(method, who, encryption, tmp_path):
    """In the sealed profile a server does no better than predicting column means."""
    given = {
        "drawn": DRAWN,
        "one": ONE,
        "line search": {"algorithm": '"hyfdca"'},
        "bundle": HINGE,
        "lbfgs": {"algorithm": '"lbfgs"'},
    }[method]
    given = {**given, "encryption": f'"{encryption}"', "max_rounds": "25"}
    given["small_vectors"] = '"same"'  # otherwise stream would seal such short vectors
    audit = audited(tmp_path, {"grid": GRID, "horizontal": HORIZONTAL}[who], **given)
    assert set(audit.attacks) == SERVER_ATTACKS
    for score in audit.attacks.values():
        assert score.error >= 0.95
        assert score.recovered == score.directions == 0
    assert audit.is_clean


@pytest.mark.parametrize(
    "method", [PAPER, HINGE, FEDAVG], ids=["hyfdca", "bundle", "fedavg"]
)
def test_two_holders_learn_each_others_rows(method, tmp_path):
    """With two holders, as many known rows as the other has columns give all rows.

    Federated averaging itself sends no margins, but its certificate does.
    """
    audit = audited(tmp_path, TWO, clients=["north"], encryption=STREAM, **method)
    [rotation] = audit.clients[0].rotations
    assert rotation.n_few == rotation.n_enough == 3
    assert rotation.few.error < 1e-6
    assert rotation.few.recovered == 1.0
    assert [found.kind for found in audit.findings] == ["client-rows"]
    assert audit.is_accepted({"client-rows": 1.0})  # the trust model says so


@pytest.mark.parametrize("method", [PAPER, HINGE], ids=["hyfdca", "bundle"])
def test_three_holders_take_more_known_rows(method, tmp_path):
    """With three holders that many known rows give none, twice as many give all."""
    audit = audited(tmp_path, THREE, clients=["north"], encryption=STREAM, **method)
    [rotation] = audit.clients[0].rotations
    assert (rotation.n_few, rotation.n_enough) == (3, 6)
    assert rotation.few.recovered == 0
    assert rotation.few.error > 0.5
    assert rotation.enough.recovered == 1.0


@pytest.mark.parametrize("who", [TWO, THREE], ids=["two", "three"])
def test_the_others_gram_matrix_is_found(who, tmp_path):
    """Margins and duals give the sum of the other holders' Gram matrices."""
    audit = audited(tmp_path, who, clients=["north"], encryption=STREAM, **PAPER)
    [rotation] = audit.clients[0].rotations
    assert rotation.gram_error < 1e-6


def test_holders_that_need_no_margins_learn_nothing(tmp_path):
    """A client that receives duals but no margins has nothing to subtract from."""
    audit = audited(tmp_path, TWO, clients=["city"], encryption=STREAM, **PAPER)
    [rotation] = audit.clients[0].rotations
    assert rotation.few.n_equations == 0
    assert rotation.few.recovered == 0


@pytest.mark.parametrize("method", [ONE, HINGE], ids=["hyfdca", "bundle"])
def test_two_sealed_holders_of_columns_learn_rows(method, tmp_path):
    """Of two holders, each reads the other's rows in weights minus its own share."""
    audit = audited(
        tmp_path, HORIZONTAL, clients=["north"], encryption=STREAM, **method
    )
    [found] = audit.clients[0].columns
    assert (found.n_rows, found.n_columns) == (20, 6)
    assert found.score.recovered > 0.2


def test_more_holders_of_columns_hide_rows(tmp_path):
    """With four holders, the others' sums mix the rows of all of them."""
    four = {
        name: (range(10 * place, 10 * place + 10), range(5))
        for place, name in enumerate(("north", "city", "coast", "south"))
    }
    audit = audited(tmp_path, four, clients=["north"], encryption=STREAM, **ONE)
    assert [found.score.recovered for found in audit.clients[0].columns] == [0, 0, 0]


SEARCH = {
    "algorithm": '"hyfdca"',
    "step": '"line_search"',
    "local_steps": "1",
    "max_rounds": "80",
}


def test_open_line_searches_give_rows_away(tmp_path):
    """The image of a direction over one drawn sample is its row too."""
    audit = audited(tmp_path, HORIZONTAL, profile=OPEN, encryption=STREAM, **SEARCH)
    assert audit.attacks["share differences"].recovered > 0.7


def test_two_sealed_holders_learn_rows_of_line_searches(tmp_path):
    """In the sealed profile holders receive the image and subtract their own."""
    given = {**SEARCH, "clients": ["north"], "encryption": STREAM}
    audit = audited(tmp_path, HORIZONTAL, **given)
    assert audit.clients[0].columns[0].score.recovered > 0.7


def test_cells_that_a_client_has_itself_are_not_recovered(tmp_path):
    """The first holder counts them, so they are in margins of the second."""
    who = {"north": (range(N_ROWS), range(3)), "city": (range(N_ROWS), range(5))}
    folder = record(tmp_path, who, ["north", "city"], **FREE)
    north, city = audit_folder(folder).clients
    assert [rotation.group.others for rotation in north.rotations] == [(1,)]
    assert not city.rotations
    assert not city.sparse
