"""The mutants of ``make thorough``: each still changes something."""

from __future__ import annotations

from tests.mutants import MUTANTS, ROOT


def test_every_mutant_changes_the_source():
    """What a mutant replaces is in its file, and the tests that it names exist."""
    for name, mutant in MUTANTS.items():
        for file, old, new in mutant.changes:
            text = (ROOT / "src" / "hyfdca" / file).read_text("utf-8")
            assert old in text, f"{name}: {file} has no {old!r}"
            assert old != new, name
        for path in mutant.tests:
            assert (ROOT / path).exists(), f"{name}: there is no {path}"
