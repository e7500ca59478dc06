"""Two runs of one study between processes, with the same kits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hyfdca.flare.status import RUNS_LOG
from hyfdca.model.file import as_bytes
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import Outcome, train
from hyfdca.study.tuning import RunChoice, tuned
from tests.flare.flare_kits import Site, site
from tests.flare.flare_parties import Command
from tests.support.consortia import make_files

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("online 2")]

_SAID = (
    "Run 2 of the study 'test': l2 = 0.5 (study file: 0.05, allowed: 1e-05 to 1.0), "
    "max_rounds = 30 (study file: 1000, allowed: 1 to 2000)."
)
_TUNING = """
[tuning]
l2 = {least = 1e-5, most = 1.0}
max_rounds = {most = 2000}
"""


class Study(NamedTuple):
    """A study of which two runs have ended, and the models of the first."""

    parties: Site
    server: Command
    clients: dict[str, Command]
    first: dict[str, bytes]


@pytest.fixture(scope="module")
def study(small_tls: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """Run a study, then once more with other settings."""
    files = make_files(tol="1e-2", encryption='"stream"')
    files.organisations["coast"].extra += _TUNING
    with site(tmp_path_factory.mktemp("further"), files) as made:
        server, clients = made.start()
        assert [p.ends(180) for p in (server, *clients.values())] == [0] * 4
        parties = ("server", *made.names)
        first = {name: _model(made, name, "model.json") for name in parties}
        server = made.server("--tune", "l2=0.5", "--tune", "max_rounds=30")
        server.says("Waiting for", 60)  # clients that have a model wait briefly
        clients = {name: made.client(name) for name in made.names}
        assert [p.ends(180) for p in (server, *clients.values())] == [0] * 4
        yield Study(made, server, clients, first)


@pytest.fixture(scope="module")
def expected(study: Study) -> Outcome:
    """The outcome of a study whose file has the chosen values, in one process."""
    made = study.parties
    chosen = tuned(load(made.study), RunChoice(number=2, l2=0.5, max_rounds=30))
    return train(prepare(chosen, made.folder), lambda *_: None)


def _model(made: Site, party: str, name: str) -> bytes:
    return (made.kit(party) / "out" / name).read_bytes()


def test_a_further_run_is_a_study_with_the_chosen_values(
    study: Study, expected: Outcome
) -> None:
    """Byte for byte at every party, beside the first model, which stays as it was."""
    for party, first in study.first.items():
        second = _model(study.parties, party, "run-2/model.json")
        assert second == as_bytes(expected.model())
        assert _model(study.parties, party, "model.json") == first != second


def test_every_party_sees_what_was_chosen(study: Study) -> None:
    """On its screen and in its log, with what the study file says."""
    for command in (study.server, *study.clients.values()):
        assert _SAID in " ".join(command.said.split())
        log = (command.kit / "log" / RUNS_LOG).read_text("utf-8")
        assert log.endswith(f" {_SAID}\n")
        assert log.count("\n") == 1


def test_the_result_says_which_run_it_is(study: Study) -> None:
    """With the chosen values."""
    about = study.parties.result("run-2/result.json")["about"]
    assert about["run"] == 2
    assert [own["setting"] for own in about["changes"]] == ["l2", "max_rounds"]
    assert study.parties.result("result.json")["about"]["run"] == 1
