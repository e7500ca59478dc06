"""Terminal output about kits."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hyfdca.kits.checking import (
    Checked,
    CheckedKit,
    CheckedTable,
    FeatureFacts,
)
from hyfdca.kits.installing import Installed
from hyfdca.kits.provisioning import Provisioned

_MOST_NAMED, _MOST_LISTED = 3, 40
_COMPARE = (
    "Compare both numbers with the coordinator and the other organisations, by "
    "telephone or in person."
)


def show_checked(console: Console, checked: Checked) -> None:
    """Show a table that matches the study, and its kit if there is one."""
    title = "Fits the study" if checked.kit is None else "Ready to take part"
    table = Table(title=title, title_justify="left", show_header=False)
    for what, value in _rows(checked):
        # Plain text, because names from files may look like markup.
        table.add_row(what, Text(value, overflow="fold"))
    console.print(table)
    console.print(_features(checked.table.features))
    for warning in checked.warnings:
        say(console, f"Warning: {warning}")


def show_not_compared(console: Console, n_tables: int) -> None:
    """Say that tables that fit the study need not fit each other."""
    if n_tables > 1:
        say(
            console,
            f"The {n_tables} tables were checked one by one, not compared with each "
            "other: hyfdca train does that before its first round.",
        )


def _rows(checked: Checked) -> list[tuple[str, str]]:
    own = checked.table
    where = "in the study file" if checked.kit is None else "on the roster"
    return [
        ("organisation", f"{checked.name!r}, {where}"),
        ("study", repr(checked.study)),
        ("rows", f"{own.n_rows}, each with its own ID"),
        ("features", str(len(own.features))),
        ("labels", own.labels),
        *_left_out(own),
        ("missing cells", str(own.n_missing)),
        ("constant columns", _named([f.name for f in own.features if f.is_constant])),
        *([] if checked.kit is None else _kit_rows(checked.kit)),
    ]


def _kit_rows(kit: CheckedKit) -> list[tuple[str, str]]:
    first, last = (
        day.date().isoformat()
        for day in (
            kit.certificate.not_valid_before_utc,
            kit.certificate.not_valid_after_utc,
        )
    )
    return [
        ("certificate", f"valid from {first} to {last}"),
        ("study's fingerprint", kit.study_fingerprint),
        ("root's fingerprint", kit.root_fingerprint),
        ("own key's fingerprint", kit.key_fingerprint),
    ]


def _left_out(own: CheckedTable) -> Iterator[tuple[str, str]]:
    """Yield how many rows the organisation trains on only with others, or not."""
    if own.n_without_label:
        yield "rows without a label here", str(own.n_without_label)
    if own.n_without_weight:
        yield "rows of weight 0, left out", str(own.n_without_weight)


def _features(features: tuple[FeatureFacts, ...]) -> Table:
    """Return the columns that are trained on, with what this organisation has there."""
    table = Table(title="Features", title_justify="left")
    table.add_column("name")
    table.add_column("kind")
    for what in ("smallest", "largest", "blank cells"):
        table.add_column(what, justify="right")
    for own in features[:_MOST_LISTED]:
        extremes = (f"{own.smallest:.6g}", f"{own.largest:.6g}")
        if own.n_levels is not None:
            extremes = (f"{own.n_levels:,} levels", "")
        name = Text(own.name, overflow="fold")
        table.add_row(name, own.what, *extremes, f"{own.n_missing:,}")
    if (n_more := len(features) - _MOST_LISTED) > 0:
        table.caption = f"and {n_more:,} more"
    return table


def _named(features: list[str]) -> str:
    names = ", ".join(map(repr, features[:_MOST_NAMED]))
    more = len(features) - _MOST_NAMED
    return (names or "none") + (f" and {more} more" if more > 0 else "")


def show_fingerprints(console: Console, shown: Provisioned | Installed) -> None:
    """Show the fingerprints that people compare out of band."""
    say(console, f"Study:            {shown.study_fingerprint}")
    say(console, f"Root certificate: {shown.root_fingerprint}")
    say(console, _COMPARE)


def say(console: Console, sentence: str) -> None:
    """Print a line unchanged, however narrow the terminal."""
    console.print(sentence, soft_wrap=True, markup=False, highlight=False)
