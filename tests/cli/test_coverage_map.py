"""The map of who holds which cells."""

from __future__ import annotations

from rich.console import Console

from hyfdca.cli.displays.coverage import coverage_map
from hyfdca.holdings.coverage import coverage_of
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.partition import from_holdings


def test_a_group_of_one_row():
    """Its head is not "1 rows"."""
    layout = layout_of(from_holdings(4, 2, [(range(4), range(1)), (range(1), [1])]))
    console = Console(record=True, width=80)
    coverage = coverage_of(layout.samples, layout.features)
    console.print(coverage_map(coverage, ["north", "city"]))
    shown = console.export_text()
    assert "1 row " in shown
    assert "3 rows " in shown
