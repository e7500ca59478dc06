"""Real studies on this machine: kits, and the commands of hyfdca as processes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hyfdca.kits.all_local import provision_all
from tests.flare.flare_parties import (
    Command,
    ended,
    logs_of,
    own_port,
)
from tests.support.consortia import NAMES as COLUMNS
from tests.support.consortia import Files, Organisation, make_files
from tests.support.durable_runs import replayed, undisturbed

HYFDCA = str(Path(sys.executable).with_name("hyfdca"))
NAMES = ["north", "city", "coast", "island"]


def four_organisations(**settings: str) -> Files:
    """Return a study of four; the last has no labels and shares cells with others."""
    files = make_files(labels_visible_to_holders="true", **settings)
    labels = files.organisations["north"].labels
    island = Organisation(list(range(15, 45)), COLUMNS[1:4], labels, "label = false")
    del island.table["y"]
    files.organisations["island"] = island
    return files


class Site:
    """A study's kits, tables and commands, each organisation in its own folder.

    Parameters
    ----------
    before : sequence of str
        The first words of each command line, such as those that enter a namespace.
    """

    def __init__(self, folder: Path, files: Files, before: Sequence[str] = ()) -> None:
        self.folder, self._before = folder, list(before)
        self.names = list(files.organisations)
        self.study = files.write(folder)
        server = f'\n[server]\nhost = "localhost"\nport = {own_port()}\n'
        self.study.write_text(self.study.read_text("utf-8") + server, "utf-8")
        provision_all(self.study, self.kits)
        self.data: dict[str, Path] = {}
        for name in self.names:
            home = folder / "tables" / name
            home.mkdir(parents=True)
            self.data[name] = Path(shutil.copy(folder / f"{name}.csv", home))
        self.commands: list[Command] = []

    @property
    def kits(self) -> Path:
        """The folder of all kits."""
        return self.folder / "kits"

    def kit(self, name: str) -> Path:
        """Return a party's kit."""
        return self.kits / name

    def server(self, *options: str) -> Command:
        """Start the server's command."""
        return self._started("server", "server", *options)

    def client(self, name: str, kit: Path | None = None) -> Command:
        """Start an organisation's command."""
        own = str(self.data.get(name, self.data[self.names[0]]))
        return self._started("client", name, "--data", own, kit=kit)

    def start(self) -> tuple[Command, dict[str, Command]]:
        """Start all commands."""
        return self.server(), {name: self.client(name) for name in self.names}

    def _started(
        self, kind: str, name: str, *options: str, kit: Path | None = None
    ) -> Command:
        folder = kit or self.kit(name)
        words = [HYFDCA, kind, "--kit", str(folder), *options]
        self.commands.append(Command(folder, [*self._before, *words]))
        return self.commands[-1]

    # What is seen from outside

    def round(self) -> int:
        """Return the last round that the server reports."""
        return int(_read(self.kit("server") / "state" / "status.json").get("round", 0))

    def result(self, name: str, party: str = "server") -> Any:
        """Return what a party has written to its folder out."""
        return _read(self.kit(party) / "out" / name)

    def logs(self) -> str:
        """Return the end of every log and all that was said, for tests that fail."""
        said = (f"== {c.kit.name} said\n{c.said}" for c in self.commands)
        return "\n".join([logs_of(self.kits), *said])

    def close(self) -> None:
        """End all commands."""
        for command in self.commands:
            command.close()


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


@contextmanager
def site(folder: Path, files: Files, before: Sequence[str] = ()) -> Iterator[Site]:
    """Yield a study for tests; end everything they started."""
    # With a space: NVFlare's own commands do not quote.
    home = folder / "two words"
    home.mkdir()
    with ended(Site(home, files, before), home) as made:
        yield made


NUMBERS = ("round", "primal", "dual", "gap", "relative_gap", "participants")


def numbers(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the part of a history that does not depend on how it was run."""
    return [{name: record[name] for name in NUMBERS} for record in history]


def compare(made: Site, *, replays: bool) -> None:
    """Compare what the server wrote with the same rounds in one process, bit for bit.

    Parameters
    ----------
    replays : bool
        The participants are those that were recorded, not those that were drawn.
    """
    history = made.result("history.json")
    if replays:
        rounds, weights = replayed(made.folder, _with_ranks(history, made.names))
    else:
        rounds, weights = undisturbed(made.folder)
    expected = [
        {**record, "participants": [made.names[c] for c in record["participants"]]}
        for record in rounds.history
    ]
    assert numbers(history) == numbers(_without_nan(expected))
    model = made.result("model.json")
    found = [*model["weights"].values(), model["intercept"]]
    assert np.array_equal(np.array(found), weights)


def _with_ranks(
    history: list[dict[str, Any]], names: list[str]
) -> list[dict[str, Any]]:
    """Return a history from a file in the form that rounds produce."""
    return [
        {
            **record,
            "participants": tuple(map(names.index, record["participants"])),
            "primal": np.nan if record["primal"] is None else record["primal"],
        }
        for record in history
    ]


def _without_nan(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a history with None for unmeasured values, as in a file."""
    return [
        {name: None if _is_nan(value) else value for name, value in record.items()}
        for record in history
    ]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and np.isnan(value)
