"""A reader finds a room by its name and what is in it at a glance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

_PROJECT = Path(__file__).parents[1]
_MOST_FILES = 25


def test_no_folder_has_too_many_files() -> None:
    """Beyond 25 files, a folder is two."""
    files = Counter(
        path.parent.relative_to(_PROJECT).as_posix()
        for room in ("src/hyfdca", "tests", "benchmarks")
        for path in (_PROJECT / room).rglob("*.py")
        if path.name != "__init__.py"
    )
    assert files["src/hyfdca/flare"] > 0
    assert {folder: n for folder, n in files.items() if n > _MOST_FILES} == {}
