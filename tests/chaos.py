"""Studies whose processes are killed at seeded moments: a harness, and a table of it.

    python -m tests.chaos [SEED ...]

A study runs between real processes over mutual TLS. At moments drawn from the seed a
process is killed (SIGKILL). What does not come back by itself is restarted, as an
operator would do it. In the end the numbers must be those of the same study in one
process; with a quorum, those of a replay with the participants that were recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

from hyfdca.cli.exit_codes import NOT_CONVERGED
from hyfdca.kits import tls
from hyfdca.maths.seeds import stream
from tests.flare.flare_kits import Site, compare, site
from tests.flare.flare_parties import Command, wait_until
from tests.support.consortia import Files, make_files

DEADLINE = 420.0  # seconds until a study has made progress; more is a hang
_ORPHANS_LIVE = 5.0  # seconds at most, that processes outlive their command
_AWAY = 3  # rounds that a killed client misses in a study with a quorum

# Processes by words of their command lines.
_JOBS = {"client": "client.worker_process", "server": "server.runner_process"}
_PARENTS = {"client": "client.client_train", "server": "server.server_train"}

VICTIMS = ("client", "client job", "server", "server parent", "server job")


class Blow(NamedTuple):
    """What is to be killed, at which party, and when.

    Parameters
    ----------
    moment : str
        "set-up", "round", "keep" (a member has kept a round, the server has not),
        "end" (all rounds are over) or "model" (the party has the model).
    rounds, seconds
        Of a round: how many until then, and how long after that.
    """

    victim: str
    name: str
    moment: str
    rounds: int = 1
    seconds: float = 0.0


@dataclass
class Kill:
    """What was killed and how it ended, for the table."""

    seed: int
    blow: Blow
    round: int
    seconds: float = 0.0  # until the study made progress
    end: str = "hangs"


@dataclass
class Chaos:
    """A study under way, with what happened to it."""

    site: Site
    seed: int
    n_rounds: int
    server: Command
    clients: dict[str, Command]
    kills: list[Kill] = field(default_factory=list)

    @classmethod
    def started(cls, site: Site, seed: int, n_rounds: int) -> Chaos:
        """Start a study."""
        return cls(site, seed, n_rounds, *site.start())

    # Moments

    def _wait(self, holds: Callable[[], object], what: str) -> None:
        """Wait until a condition holds, or the study is over."""
        wait_until(
            lambda: holds() or self.server.process.poll() is not None,
            DEADLINE,
            f"{what}:\n{self.server.said}",
        )

    def _kept(self, party: str) -> set[str]:
        folder = self.site.kit(party) / "state" / "kept"
        return {path.name for path in folder.glob("*") if path.is_file()}

    def _is_keeping(self, member: str) -> bool:
        """Look closely for a second: the moment lasts milliseconds."""
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            before = self._kept("server")
            if {n for n in self._kept(member) - before if n.startswith("round-")}:
                return True
        return False

    def wait_for(self, blow: Blow) -> None:
        """Wait for the moment of a blow."""
        if blow.moment == "set-up":
            begun = lambda: "keys" in self._kept("coast")  # noqa: E731
            self._wait(begun, "the keys are agreed upon")
        elif blow.moment == "round":
            number = self.site.round() + blow.rounds
            self._wait(lambda: self.site.round() >= number, f"round {number}")
            time.sleep(blow.seconds)
        elif blow.moment == "keep":
            self._wait(lambda: self._is_keeping("coast"), "a round is being kept")
        elif blow.moment == "model":
            file = self.site.kit(blow.name) / "state" / "over.json"
            wait_until(file.exists, DEADLINE, f"the model:\n{self.server.said}")
        else:
            over = lambda: self.site.round() == self.n_rounds  # noqa: E731
            self._wait(over, "all rounds are over")

    # Killing

    def strike(self, blow: Blow, away: int = 0) -> None:
        """Kill a process, and restart what does not come back by itself."""
        kill = Kill(self.seed, blow, self.site.round())
        self.kills.append(kill)
        started = time.monotonic()
        side, _, part = blow.victim.partition(" ")
        command = self.server if side == "server" else self.clients[blow.name]
        if part:
            words = (_JOBS if part == "job" else _PARENTS)[side]
            _kill(command.family(words))
        else:
            family = command.family("")
            command.kill()
            psutil.wait_procs(family, _ORPHANS_LIVE)
            if away:
                self._gets_on(away)
            self._start_again(side, blow.name)
        self._gets_on(2)
        kill.seconds = time.monotonic() - started
        kill.end = "continues"

    def _start_again(self, side: str, name: str) -> None:
        if side == "server":
            self.server = self.site.server("--resume")
        else:
            self.clients[name] = self.site.client(name)

    def _gets_on(self, n_rounds: int) -> None:
        number = min(self.site.round() + n_rounds, self.n_rounds)
        self._wait(lambda: self.site.round() >= number, f"round {number}")

    def ends(self) -> None:
        """Wait until everybody has ended well, with the model."""
        assert self.server.ends(DEADLINE) == NOT_CONVERGED, self.server.said
        model = self.site.kit("server") / "out" / "model.json"
        for name, command in self.clients.items():
            assert command.ends(DEADLINE) == NOT_CONVERGED, command.said
            own = self.site.kit(name) / "out" / "model.json"
            assert own.read_bytes() == model.read_bytes()


def _kill(family: list[psutil.Process]) -> None:
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may be ending by itself
            process.kill()
    psutil.wait_procs(family, _ORPHANS_LIVE)


def files_of(quorum: int | None, **settings: str) -> Files:
    """Return a study of many cheap rounds."""
    given = {} if quorum is None else {"quorum": str(quorum)}
    own = {"algorithm": '"hyfdca"', "step": '"safe"'}
    if "algorithm" in settings:
        own = {}
    return make_files(tol="0", phase_timeout="20", **own, **given, **settings)


def drawn(seed: int) -> list[Blow]:
    """Return one blow against each kind of process, at moments drawn from a seed."""
    random = stream(seed, "chaos")
    blows = []
    for victim in random.permutation(VICTIMS).tolist():
        name = ("north", "city", "coast")[random.integers(3)]
        rounds, seconds = int(random.integers(1, 12)), 0.3 * float(random.random())
        owner = name if victim.startswith("client") else "server"
        blows.append(Blow(victim, owner, "round", rounds, seconds))
    return blows


# A path that does not end before its last round
PATH = {"algorithm": '"bundle"', "l2": "[1.0, 0.1, 0.01]", "folds": "3"}


def run(
    folder: Path,
    seed: int,
    blows: Sequence[Blow],
    quorum: int | None = None,
    **settings: str,
) -> list[Kill]:
    """Run a study in which processes are killed; its numbers are the undisturbed ones.

    With a quorum, clients that are killed stay away for a while.
    """
    n_rounds = 20 * len(blows) + (60 if quorum else 0)
    files = files_of(quorum, max_rounds=str(n_rounds), **settings)
    away = 0 if quorum is None else _AWAY
    with site(folder, files) as made:
        chaos = Chaos.started(made, seed, n_rounds)
        try:
            for blow in blows:
                chaos.wait_for(blow)
                chaos.strike(blow, away if blow.victim == "client" else 0)
            chaos.ends()
        finally:
            sys.stdout.write(table(chaos.kills))
            sys.stdout.flush()
        compare(made, replays=quorum is not None)
        if quorum is not None:
            check_absences(made)
    for kill in chaos.kills:
        kill.end = "the same numbers"
    return chaos.kills


def check_absences(made: Site) -> None:
    """Check that some rounds were run without all organisations."""
    history = made.result("history.json")
    assert any(len(r["participants"]) < len(made.names) for r in history)


# The table

# Moments that are unlikely to be drawn.
MOMENTS = (
    Blow("client job", "coast", "set-up"),
    Blow("client job", "coast", "keep"),
    Blow("server job", "server", "keep"),
    Blow("client", "city", "end"),
    Blow("server", "server", "end"),
    Blow("server", "server", "model"),
    Blow("client", "city", "model"),
)
STUDIES: tuple[tuple[int, Sequence[Blow], int | None], ...] = (
    (0, drawn(0), None),
    (1, drawn(1), None),
    (2, drawn(2), 2),
    (3, drawn(3), 2),
    (4, MOMENTS, None),
)


def table(kills: list[Kill]) -> str:
    """Return what was killed when and how it ended."""
    head = f"{'seed':>4} {'killed':14} {'of':8} {'at':8} {'round':>5} {'s':>6}"
    lines = [f"{head}  how it ended"]
    lines += [
        f"{k.seed:>4} {k.blow.victim:14} {k.blow.name:8} {k.blow.moment:8} "
        f"{k.round:>5} {k.seconds:>6.1f}  {k.end}"
        for k in kills
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run all studies, or those of some seeds; return how many did not end well."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    known = [seed for seed, *_ in STUDIES]
    parser.add_argument("seeds", nargs="*", type=int, help=f"some of {known}")
    wanted = parser.parse_args().seeds
    if not set(wanted) <= set(known):
        parser.error(f"there are no studies but those of the seeds {known}")
    tls._KEY_BITS = 2048  # keys of full length only take longer to make
    kills: list[Kill] = []
    n_bad = 0
    for seed, blows, quorum in STUDIES:
        if wanted and seed not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                kills += run(Path(folder), seed, blows, quorum)
            except AssertionError as error:
                n_bad += 1
                sys.stdout.write(f"seed {seed}: {error}\n")
    sys.stdout.write(table(kills))
    return n_bad


if __name__ == "__main__":
    sys.exit(main())
