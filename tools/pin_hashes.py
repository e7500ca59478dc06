"""Adds the hashes of pip's own report to a requirements file, for --require-hashes.

    pip install --dry-run --ignore-installed --no-deps --report - -r constraints.txt |
        python tools/pin_hashes.py requirements-hashes.txt

Wheels differ by platform and version of Python, so hashes that are in the file already
stay, as long as the version of the package is the same.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Pins = dict[str, set[str]]  # hashes of each name==version

_ALGORITHM = "sha256"
_HASH = re.compile(rf"--hash={_ALGORITHM}:([0-9a-f]{{64}})")


def reported(report: Mapping[str, Any]) -> Pins:
    """Return the hash of every package of a report.

    Raises
    ------
    KeyError
        If pip knows none of a package.
    """
    pins: Pins = {}
    for entry in report["install"]:
        named = entry["metadata"]
        own = entry["download_info"]["archive_info"]["hashes"][_ALGORITHM]
        pins[f"{named['name'].lower()}=={named['version']}"] = {own}
    return pins


def read(text: str) -> Pins:
    """Return the hashes of a requirements file that this module wrote."""
    lines = text.replace("\\\n", " ").splitlines()
    return {line.split()[0]: set(_HASH.findall(line)) for line in lines if line.strip()}


def written(pins: Pins) -> str:
    """Return a requirements file."""
    entries = [
        " \\\n".join([name, *(f"    --hash={_ALGORITHM}:{own}" for own in sorted(of))])
        for name, of in sorted(pins.items())
    ]
    return "\n".join(entries) + "\n"


def merged(old: Pins, new: Pins) -> Pins:
    """Return the new pins, with the old hashes of the same versions."""
    return {name: own | old.get(name, set()) for name, own in new.items()}


def main(path: Path) -> None:
    """Add the report on standard input to a file."""
    old = read(path.read_text(encoding="utf-8")) if path.exists() else {}
    pins = merged(old, reported(json.load(sys.stdin)))
    path.write_text(written(pins), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
