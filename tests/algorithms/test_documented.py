"""docs/algorithms.md lists every algorithm, with its settings and its defaults."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from hyfdca.algorithms.registry import ALGORITHMS, settings_of

PARTITIONS = {
    "rows": "row-partitioned",
    "columns": "column-partitioned",
    "rows or columns": "row- or column-partitioned",
}
PAGE = Path(__file__).parents[2] / "docs" / "algorithms.md"


def rows(heading: str) -> dict[str, str]:
    """Return the rows of the table below a heading, by the algorithm they are of."""
    [section] = re.findall(
        rf"^{heading}$(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S
    )
    found = re.findall(r"^\| `(\w+)` \|(.*)\|$", section, re.M)
    assert len(dict(found)) == len(found)
    return dict(found)


def test_every_algorithm_is_listed():
    """The page lists all algorithms, and no others."""
    assert set(rows("# Algorithms")) == set(ALGORITHMS)
    assert set(rows("## Settings")) == set(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_are_those_of_the_algorithm(name):
    """Every setting is named, and numbers that are given as defaults are."""
    text = rows("## Settings")[name]
    if shared := re.search(r"those of `(\w+)`", text):
        text += rows("## Settings")[shared[1]]
    named = set(re.findall(r"`(\w+)`", text)) - set(ALGORITHMS)
    assert {n for n in named if not n.endswith("Settings")} == set(settings_of(name))
    defaults = {f.name: f.default for f in dataclasses.fields(ALGORITHMS[name])}
    for setting, value in re.findall(r"`(\w+)` = ([^\s,;()|]+)", text):
        assert json.loads(value) == defaults[setting]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_needs_are_those_of_the_algorithm(name):
    """What the table says of partitions, labels and presence is what is refused."""
    partition, _, presence, labels, *_ = (
        cell.strip() for cell in rows("# Algorithms")[name].split("|")[1:]
    )
    needs = ALGORITHMS[name]().needs
    assert partition == PARTITIONS.get(needs.split, needs.split)
    assert labels == needs.labels
    assert (presence == "yes") == (needs.presence == "everyone")
