"""Makers of kits: a consortium whose parties share no folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hyfdca.kits.enrolment import enrol
from hyfdca.kits.installing import install
from hyfdca.kits.key_files import read_public
from hyfdca.kits.provisioning import provision
from tests.support.consortia import make_files

NAMES = ("north", "city", "coast")

PRIVATE_MARKS = (b"PRIVATE KEY", b"hyfdca-secret1")


@dataclass(frozen=True)
class Parties:
    """A coordinator and three organisations, each with a folder of its own."""

    root: Path

    @property
    def coordinator(self) -> Path:
        """Where the coordinator works."""
        return self.root / "coordinator"

    @property
    def requests(self) -> Path:
        """The requests that the coordinator received."""
        return self.coordinator / "requests"

    @property
    def study(self) -> Path:
        """The coordinator's study file."""
        return self.coordinator / "study.toml"

    @property
    def kits(self) -> Path:
        """The folder that the coordinator provisioned."""
        return self.coordinator / "kits"

    def keys(self, name: str) -> Path:
        """The folder of an organisation's keys."""
        return self.root / name / "keys"

    def kit(self, name: str) -> Path:
        """The folder of an organisation's kit."""
        return self.root / name / "kit"

    def copy(self, root: Path) -> Parties:
        """Return the same parties elsewhere, for a test to spoil."""
        shutil.copytree(self.root, root)
        return Parties(root)

    def write_study(self, *names: str, server: str = "", **settings: str) -> None:
        """Write the study file with the public keys of these organisations."""
        files = make_files(**settings)
        for name in list(files.organisations):
            if name not in names:
                del files.organisations[name]
            else:
                line = f'public_key = "{read_public(self.keys(name)).text}"'
                files.organisations[name].extra = f"# data =\n{line}"
        self.coordinator.mkdir(exist_ok=True)
        path = files.write(self.coordinator)
        for name in names:
            (self.coordinator / f"{name}.csv").replace(self.root / name / "data.csv")
        path.write_text(path.read_text() + f"[server]\n{server}\n")

    def hand_in(self, *names: str) -> None:
        """Deliver these organisations' requests to the coordinator."""
        self.requests.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(self.keys(name) / f"{name}.request.json", self.requests)


def enrolled(root: Path) -> Parties:
    """Return parties with keys, requests at the coordinator and a study file."""
    parties = Parties(root)
    for name in NAMES:
        enrol(name, parties.keys(name))
    parties.write_study(*NAMES)
    parties.hand_in(*NAMES)
    return parties


def installed(parties: Parties) -> Parties:
    """Provision and install every kit."""
    provision(parties.study, parties.requests, parties.kits, None)
    for name in NAMES:
        package = parties.root / name / "package.json"
        shutil.copy(parties.kits / f"{name}.package.json", package)
        install(package, parties.keys(name), parties.kit(name))
    return parties


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Return the contents of a folder, to detect whether something was written."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
