"""A study that its tables stop, then one that mends them, and then a further run.

All tests share its kits. First one organisation's rows have no IDs, then (in `make
thorough`) IDs lost their zeros, then nobody holds some cells; every party says why.
Mended, the study runs to its round limit with a rival's rounds; `make thorough` also
runs it once more with other settings.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hyfdca.cli.exit_codes import NOT_CONVERGED
from hyfdca.flare.status import RUNS_LOG
from hyfdca.model.file import as_bytes
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import Outcome, train
from hyfdca.study.tuning import FIRST_RUN, RunChoice, tuned
from tests.flare.flare_kits import Site, numbers, site
from tests.flare.flare_parties import Command
from tests.online.refusals import assert_reported
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

_N_ROUNDS, _N_FURTHER = 3, 4
_TUNING = """
[tuning]
l2 = {least = 1e-5, most = 1.0}
max_rounds = {most = 2000}
"""
_SAID = (
    "Run 2 of the study 'test': l2 = 0.5 (study file: 0.05, allowed: 1e-05 to 1.0), "
    f"max_rounds = {_N_FURTHER} (study file: {_N_ROUNDS}, allowed: 1 to 2000)."
)


class Study(NamedTuple):
    """A study whose commands have all ended."""

    parties: Site
    files: Files
    server: Command
    clients: dict[str, Command]


def ended(made: Site, files: Files, *options: str) -> Study:
    """Run a study to its end."""
    server = made.server(*options)
    if options:
        server.says("Waiting for", 60)  # clients that have a model wait briefly
    clients = {name: made.client(name) for name in made.names}
    for party in (server, *clients.values()):
        party.ends(180)
    return Study(made, files, server, clients)


def number_rows(files: Files, name: str, width: int) -> None:
    """Give an organisation numeric IDs with at least this many digits."""
    own = files.organisations[name]
    own.table["id"] = [f"{row + 1:0{width}d}" for row in own.rows]


def deliver(made: Site, files: Files, *names: str) -> None:
    """Write the tables of organisations once more."""
    files.write(made.folder)  # the kits have their own study file
    for name in names:
        shutil.copy(made.folder / f"{name}.csv", made.data[name])


# Both algorithms make one exchange per round.
@pytest.fixture(scope="module", params=sampled(["fedavg", "hyfem"], 2))
def kits(
    request: pytest.FixtureRequest,
    small_tls: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Site, Files]]:
    """Make the kits of a study in which nobody holds a part of the cells."""
    files = make_files(
        algorithm=f'"{request.param}"',
        uncovered='"refuse"',
        max_rounds=str(_N_ROUNDS),
        tol="1e-9",
    )
    files.organisations["coast"].extra += _TUNING
    for name in files.organisations:
        number_rows(files, name, 4)
    with site(tmp_path_factory.mktemp("mended"), files) as made:
        yield made, files


@pytest.fixture(scope="module")
def unmatched(kits: tuple[Site, Files]) -> Study:
    """Run it with IDs that lost their zeros at one organisation."""
    made, files = kits
    number_rows(files, "city", 1)
    deliver(made, files, "city")
    return ended(made, files)


@pytest.fixture(scope="module")
def refused(kits: tuple[Site, Files]) -> Study:
    """Run it with IDs that match, but not all cells."""
    made, files = kits
    number_rows(files, "city", 4)
    deliver(made, files, "city")
    return ended(made, files)


@pytest.fixture(scope="module")
def mended(refused: Study) -> Study:
    """Run it again once an organisation has a table with all cells."""
    made, files, _, _ = refused
    rows, before = list(range(N_ROWS)), files.organisations["north"]
    whole = Organisation(rows, NAMES, before.labels, _TUNING)
    files.organisations["coast"] = whole
    number_rows(files, "coast", 4)
    deliver(made, files, "coast")
    return ended(made, files)


@pytest.fixture(scope="module")
def first_models(mended: Study) -> dict[str, bytes]:
    """The models of the first run, as every party has them."""
    return models(mended.parties, "model.json")


@pytest.fixture(scope="module")
def further(mended: Study, first_models: dict[str, bytes]) -> Study:
    """Run it once more with other settings."""
    tune = ("--tune", "l2=0.5", "--tune", f"max_rounds={_N_FURTHER}")
    return ended(mended.parties, mended.files, *tune)


def models(made: Site, name: str) -> dict[str, bytes]:
    """Return a file of the folder out, as every party has it."""
    return {
        p: (made.kit(p) / "out" / name).read_bytes() for p in ("server", *made.names)
    }


def in_one_process(made: Site, choice: RunChoice) -> Outcome:
    """Return the outcome of a run in one process."""
    chosen = tuned(load(made.study), choice)
    return train(prepare(chosen, made.folder), lambda *_: None)


def last_line(command: Command) -> str:
    """Return the last sentence of a command that refused something."""
    last = command.said.splitlines(keepends=True)[-1]
    assert_one_sentence(last)
    return last


def test_rows_without_ids_are_not_matched_by_their_numbers(
    kits: tuple[Site, Files],
) -> None:
    """A LIBSVM file is refused before its client looks for a server, unless asked."""
    made, _ = kits
    whole = made.data["north"]
    made.data["north"] = whole.with_suffix(".libsvm")
    made.data["north"].write_text("1 1:1\n-1 2:1\n", "utf-8")
    north = made.client("north")
    made.data["north"] = whole
    assert north.ends(180) == 2, north.said
    last = last_line(north)
    assert "Organisation 'north'" in last
    assert "north.libsvm has no IDs to match its rows by" in last
    assert 'set rows = "by order" if the same line is the same case' in last


@pytest.mark.thorough  # the next test ends a study in the same way
def test_ids_that_lost_their_zeros_are_refused(unmatched: Study) -> None:
    """Every party sees both names, counts and the reason; nothing trains."""
    assert unmatched.server.ends() == 2, unmatched.server.said
    last = last_line(unmatched.server)
    assert "Organisations 'north' and 'city' share 0 of 40 rows, and 20 more" in last
    assert "IDs that differ only in leading zeros" in last
    assert_reported(unmatched.clients, last)
    assert not list(unmatched.parties.kits.glob("*/state/kept/round-*"))


def test_cells_that_nobody_holds_are_refused(refused: Study) -> None:
    """Every party sees their share and what to do."""
    assert refused.server.ends() == 2, refused.server.said
    last = last_line(refused.server)
    assert "20.0% of all cells" in last
    assert "set uncovered = " in last
    assert_reported(refused.clients, last)


def test_a_rival_between_processes_is_that_of_one_process(
    mended: Study, first_models: dict[str, bytes]
) -> None:
    """Model at every party, history and round trips, with vectors sealed."""
    made = mended.parties
    expected = in_one_process(made, FIRST_RUN)
    assert expected.model().certificate is not None
    assert set(first_models.values()) == {as_bytes(expected.model())}
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


# Further runs in one process: tests/study/test_further_runs.py and
# tests/cli/test_cli_further_runs.py.


@pytest.mark.thorough
def test_a_further_run_is_a_study_with_the_chosen_values(
    further: Study, first_models: dict[str, bytes]
) -> None:
    """Every party has the same bytes, next to the unchanged first model."""
    made = further.parties
    choice = RunChoice(number=2, l2=0.5, max_rounds=_N_FURTHER)
    expected = as_bytes(in_one_process(made, choice).model())
    assert set(models(made, "run-2/model.json").values()) == {expected}
    assert models(made, "model.json") == first_models
    assert expected not in first_models.values()


@pytest.mark.thorough
def test_every_party_sees_what_was_chosen(further: Study) -> None:
    """Screen and log show it, next to the study file's values."""
    for command in (further.server, *further.clients.values()):
        assert command.ends() == NOT_CONVERGED, command.said
        assert _SAID in " ".join(command.said.split())
        log = (command.kit / "log" / RUNS_LOG).read_text("utf-8")
        assert log.endswith(f" {_SAID}\n")
        assert log.count("\n") == 1


@pytest.mark.thorough
def test_the_result_says_which_run_it_is(further: Study) -> None:
    """It also has the chosen values."""
    about = further.parties.result("run-2/result.json")["about"]
    assert about["run"] == 2
    assert [own["setting"] for own in about["changes"]] == ["l2", "max_rounds"]
    assert further.parties.result("result.json")["about"]["run"] == 1
