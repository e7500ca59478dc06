"""A study that its tables stop, then one that mends them, with a rival's rounds.

All tests share its kits: first it is refused, then it runs to its round limit.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hyfdca.cli.exit_codes import NOT_CONVERGED
from hyfdca.model.file import as_bytes
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import Outcome, train
from tests.flare.flare_kits import Site, numbers, site
from tests.flare.flare_parties import Command
from tests.online.refusals import assert_told
from tests.support.consortia import (
    N_ROWS,
    NAMES,
    Files,
    Organisation,
    assert_one_sentence,
    make_files,
)
from tests.support.thoroughness import sampled

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("online 2")]

_N_ROUNDS = 3


class Study(NamedTuple):
    """A study whose commands have all ended."""

    parties: Site
    files: Files
    server: Command
    clients: dict[str, Command]


def ended(made: Site, files: Files) -> Study:
    """Run a study to its end."""
    server, clients = made.start()
    for party in (server, *clients.values()):
        party.ends(180)
    return Study(made, files, server, clients)


# Both algorithms make one exchange per round.
@pytest.fixture(scope="module", params=sampled(["fedavg", "hyfem"], 2))
def refused(
    request: pytest.FixtureRequest,
    small_tls: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Study]:
    """Run a study in which nobody holds a part of the cells."""
    files = make_files(
        algorithm=f'"{request.param}"',
        uncovered='"refuse"',
        max_rounds=str(_N_ROUNDS),
        tol="1e-9",
    )
    with site(tmp_path_factory.mktemp("mended"), files) as made:
        yield ended(made, files)


@pytest.fixture(scope="module")
def mended(refused: Study) -> Study:
    """Run it again once an organisation has a table with all cells."""
    made, files, _, _ = refused
    rows = list(range(N_ROWS))
    whole = Organisation(rows, NAMES, files.organisations["north"].labels)
    files.organisations["coast"] = whole
    files.write(made.folder)  # the kits have their own study file
    shutil.copy(made.folder / "coast.csv", made.data["coast"])
    return ended(made, files)


@pytest.fixture(scope="module")
def expected(mended: Study) -> Outcome:
    """The outcome of the same study in one process."""
    made = mended.parties
    return train(prepare(load(made.study), made.folder), lambda *_: None)


def test_cells_that_nobody_holds_are_refused(refused: Study) -> None:
    """With their share and what to do, at every party."""
    assert refused.server.ends() == 2, refused.server.said
    last = refused.server.said.splitlines(keepends=True)[-1]
    assert_one_sentence(last)
    assert "20.0% of all cells" in last
    assert "set uncovered = " in last
    assert_told(refused.clients, last)


def test_a_rival_between_processes_is_that_of_one_process(
    mended: Study, expected: Outcome
) -> None:
    """Model at every party, history and round trips, with vectors sealed."""
    made = mended.parties
    assert expected.model().certificate is not None
    for party in ("server", *made.names):
        written = (made.kit(party) / "out" / "model.json").read_bytes()
        assert written == as_bytes(expected.model())
    history = made.result("history.json")
    assert numbers(history) == numbers(expected.history())
    assert [record["round_trips"] for record in history] == [1.0] * _N_ROUNDS


def test_every_party_says_that_training_did_not_converge(mended: Study) -> None:
    """The exit code is 3 everywhere, with the gap and what to do about it."""
    for party in (mended.server, *mended.clients.values()):
        assert party.ends() == NOT_CONVERGED, party.said
        said = " ".join(party.said.split())
        reason = f"stopped (round limit) after {_N_ROUNDS} rounds"
        assert f"Not converged: {reason}" in said
        assert "above tol = 1e-09" in said
