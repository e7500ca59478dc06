"""The reference of study files: complete, and the page that is in docs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.study.reference import MEANINGS, reference

PAGE = Path(__file__).parents[2] / "docs" / "study-file.md"


@pytest.mark.parametrize("kind", MEANINGS, ids=lambda kind: kind.__name__)
def test_every_key_has_a_meaning(kind):
    """Every meaning belongs to an existing key."""
    keys = [own.encode_name for own in msgspec.structs.fields(kind)]
    assert sorted(MEANINGS[kind]) == sorted(keys)


def test_the_page_is_up_to_date():
    """To update it: python -m hyfdca.study.reference > docs/study-file.md."""
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_what_it_says():
    """Types, ranges, defaults and choices, as they are in the code."""
    text = reference()
    for line in (
        '| `l2` | number, above 0 or list of numbers or `"auto"` | `0.001` | λ',
        '| `choice` | `"best"`, `"one_standard_error"` | `"best"` |',
        '| `scale` | `"maxabs"`, `"none"`, `"standard"` | `"none"` |',
        "| `max_rounds` | whole number, at least 1 | `1000` |",
        "| `name` | text | must be given | The study's name",
        '| `quorum` | `"all"` or whole number, at least 1 | `"all"` |',
        "| `port` | whole number, at least 1, at most 65535 | `8102` |",
        "| `label` | true or false | `true` |",
    ):
        assert line in text
    assert all(f"`{name}`" in text for name in ALGORITHMS)
