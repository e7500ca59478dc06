"""Studies whose processes are killed at seeded moments: a harness, and a table of it.

    python -m tests.chaos [SEED ...]

A study runs between real processes over mutual TLS. At moments drawn from the seed a
process is killed (SIGKILL), and what does not come back by itself is started again, as
an operator would do it. In the end the numbers must be those of the same study in one
process; with a quorum, those of a replay with the participants that were recorded.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from hyfdca.kits import tls
from hyfdca.seeds import stream
from tests.consortia import Files, make_files
from tests.flare_kits import Site, compare, site
from tests.flare_parties import Command, wait_until

DEADLINE = 420.0  # seconds until a study has got on; more is a hang
_ORPHANS_LIVE = 5.0  # seconds at most, that processes outlive their command
_AWAY = 12.0  # seconds that somebody stays away from a study with a quorum

# Processes by words of their command lines.
_JOBS = {"client": "client.worker_process", "server": "server.runner_process"}
_PARENTS = {"client": "client.client_train", "server": "server.server_train"}

VICTIMS = ("client", "client job", "server", "server parent", "server job")


@dataclass
class Kill:
    """What was killed and how it ended, for people."""

    seed: int
    victim: str
    name: str
    round: int
    seconds: float = 0.0  # until the study had got on
    end: str = "hangs"


@dataclass
class Chaos:
    """A study under way, with what happened to it."""

    site: Site
    seed: int
    server: Command
    clients: dict[str, Command]
    kills: list[Kill] = field(default_factory=list)

    @classmethod
    def started(cls, site: Site, seed: int) -> Chaos:
        """Start a study and wait for its first round."""
        chaos = cls(site, seed, *site.start())
        chaos.gets_to(1)
        return chaos

    def gets_to(self, number: int) -> None:
        """Wait until a round is over."""
        # The command's end is an end too: what it said is in the complaint.
        reached = lambda: self.site.round() >= number or self._is_over()  # noqa: E731
        wait_until(reached, DEADLINE, f"round {number} of:\n{self.server.said}")

    def _is_over(self) -> bool:
        return self.server.process.poll() is not None

    # Killing

    def kill(self, victim: str, name: str, away: float = 0.0) -> Kill:
        """Kill a process of somebody, and start what does not come back by itself."""
        kill = Kill(self.seed, victim, name, self.site.round())
        self.kills.append(kill)
        started = time.monotonic()
        side, _, part = victim.partition(" ")
        command = self.server if side == "server" else self.clients[name]
        if part:
            words = (_JOBS if part == "job" else _PARENTS)[side]
            _kill(command.family(words))
        else:
            family = command.family("")
            command.kill()
            psutil.wait_procs(family, _ORPHANS_LIVE)
            time.sleep(away)
            self._start_again(side, name)
        self.gets_to(self.site.round() + 2)
        kill.seconds = time.monotonic() - started
        kill.end = "goes on"
        return kill

    def _start_again(self, side: str, name: str) -> None:
        if side == "server":
            self.server = self.site.server("--resume")
        else:
            self.clients[name] = self.site.client(name)

    def ends(self) -> None:
        """Wait until everybody has ended well, with the model."""
        assert self.server.ends(DEADLINE) == 0, self.server.said
        model = self.site.kit("server") / "out" / "model.json"
        for name, command in self.clients.items():
            assert command.ends(60) == 0, command.said
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
    return make_files(
        algorithm='"hyfdca"',
        step='"safe"',
        tol="0",
        phase_timeout="20",
        **given,
        **settings,
    )


def moments(seed: int, n_kills: int) -> Iterator[tuple[str, str, int, float]]:
    """Return victims, their names, rounds until the kill, and seconds after that."""
    random = stream(seed, "chaos")
    victims = [VICTIMS[i] for i in random.permutation(len(VICTIMS))][:n_kills]
    for victim in victims:
        name = ("north", "city", "coast")[random.integers(3)]
        rounds, seconds = int(random.integers(1, 12)), 0.3 * float(random.random())
        yield victim, name if victim.startswith("client") else "server", rounds, seconds


def run(folder: Path, seed: int, n_kills: int, quorum: int | None) -> list[Kill]:
    """Run a study in which processes are killed; its numbers are the undisturbed ones.

    With a quorum, clients that are killed stay away for a while.
    """
    n_rounds = 20 * n_kills + (60 if quorum else 0)
    files = files_of(quorum, max_rounds=str(n_rounds))
    with site(folder, files) as made:
        chaos = Chaos.started(made, seed)
        away = 0.0 if quorum is None else _AWAY
        try:
            for victim, name, rounds, seconds in moments(seed, n_kills):
                chaos.gets_to(made.round() + rounds)
                time.sleep(seconds)
                chaos.kill(victim, name, away if victim == "client" else 0.0)
            chaos.ends()
        finally:
            sys.stdout.write(table(chaos.kills))
            sys.stdout.flush()
        compare(made, replays=quorum is not None)
    for kill in chaos.kills:
        kill.end = "the same numbers"
    return chaos.kills


# The table

STUDIES: tuple[tuple[int, int | None], ...] = (
    (0, None),
    (1, None),
    (2, 2),
    (3, None),
    (4, 2),
)
_N_KILLS = 5


def table(kills: list[Kill]) -> str:
    """Return what was killed when and how it ended."""
    head = f"{'seed':>4} {'killed':14} {'of':8} {'in round':>8} {'s':>6}"
    lines = [f"{head}  how it ended"]
    lines += [
        f"{k.seed:>4} {k.victim:14} {k.name:8} {k.round:>8} {k.seconds:>6.1f}  {k.end}"
        for k in kills
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run all studies, or those of some seeds; return how many did not end well."""
    tls._KEY_BITS = 2048  # keys of full length only take longer to make
    wanted = [int(word) for word in sys.argv[1:]]
    kills: list[Kill] = []
    n_bad = 0
    for seed, quorum in STUDIES:
        if wanted and seed not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                kills += run(Path(folder), seed, _N_KILLS, quorum)
            except AssertionError as error:
                n_bad += 1
                sys.stdout.write(f"seed {seed}: {error}\n")
    sys.stdout.write(table(kills))
    return n_bad


if __name__ == "__main__":
    sys.exit(main())
