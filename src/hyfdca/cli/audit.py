"""Terminal output about an audit: who saw what, and what can be inferred from it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hyfdca.audit.report import Audit, ClientAudit
from hyfdca.audit.scoring import AttackScore
from hyfdca.audit.sightings import Sighting
from hyfdca.audit.values import VALUES

_CLEAN = (
    "Nobody saw more than the trust model allows, and no attack tried here found out "
    "more."
)
_NOT_ATTACKED = (
    "Nobody saw more than the trust model allows. None of the attacks here fits this "
    "algorithm, so none was tried: docs/threat-model.md says what it shows."
)


def show_audit(console: Console, audit: Audit) -> None:
    """Print the tables, then the verdict."""
    header = audit.header
    console.print(_seen_table("What the server saw", audit.seen))
    console.print(_attacks_table(audit))
    for client in audit.clients:
        name = escape(client.name)
        console.print(_seen_table(f"What {name} received and can open", client.seen))
        console.print(_client_table(audit, client))
        if client.columns:
            console.print(_columns_table(audit, client))
        console.print(_together(client), highlight=False, markup=False, soft_wrap=True)
    title = f"Profile {header.profile}, encryption {header.encryption}."
    console.print(title, highlight=False)
    verdict = _CLEAN if audit.was_attacked else _NOT_ATTACKED
    for sentence in audit.complaints or [verdict]:
        style = None if audit.is_clean else "bold red"
        console.print(sentence, style=style, markup=False, soft_wrap=True)


def _seen_table(title: str, seen: list[Sighting]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("value", style="bold")
    table.add_column("form")
    table.add_column("messages", justify="right")
    table.add_column("bytes", justify="right")
    order = {name: place for place, name in enumerate(VALUES)}
    for one in sorted(seen, key=lambda s: (s.form != "sealed", order[s.value])):
        form = f"sealed, {', '.join(sorted(one.schemes))}"
        table.add_row(
            VALUES[one.value].what,
            form if one.form == "sealed" else "open",
            f"{one.n_messages:,}",
            f"{one.n_bytes:,}",
        )
    return table


def _attacks_table(audit: Audit) -> Table:
    title = "What the server could infer from it"
    caption = "error: 0 is full recovery, 1 is as bad as predicting column means"
    table = Table(title=title, title_justify="left", caption=caption)
    table.add_column("attack", style="bold", no_wrap=True)
    for name in ("tries", "error", "found", "direction"):
        table.add_column(name, justify="right")
    table.add_column("outcome")
    for name, score in audit.attacks.items():
        table.add_row(name, *_figures(score), _outcome(audit, name, score))
    return table


def _outcome(audit: Audit, name: str, score: AttackScore) -> str:
    if not score.n_equations:
        return "no data"
    if not score.succeeds:
        return "fails"
    return "works (admitted)" if audit.is_admitted(name) else "WORKS"


def _figures(score: AttackScore) -> tuple[str, str, str, str]:
    return (
        f"{score.n_equations:,}",
        f"{score.error:.2g}",
        f"{score.recovered:.0%}",
        f"{score.directions:.0%}",
    )


def _table_of_numbers(title: str, of: str, names: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(of, style="bold")
    for name in names:
        table.add_column(name, justify="right")
    return table


def _client_table(audit: Audit, client: ClientAudit) -> Table:
    title = f"What {escape(client.name)} could infer about the others' part of its rows"
    names = ("rows", "Gram error", "known rows", "error", "found")
    table = _table_of_numbers(title, "shared with", names)
    for rotation in client.rotations:
        others = ", ".join(escape(audit.names[o]) for o in rotation.group.others)
        gram = "-" if rotation.gram_error is None else f"{rotation.gram_error:.2g}"
        start = [others, f"{len(rotation.group.rows):,}", gram]
        guesses = [(rotation.n_few, rotation.few)]
        if rotation.n_enough > rotation.n_few:
            guesses.append((rotation.n_enough, rotation.enough))
        for n_known, score in guesses:
            found = [str(n_known), f"{score.error:.2g}", f"{score.recovered:.0%}"]
            table.add_row(*start, *found)
            start = ["", "", ""]
    return table


def _together(client: ClientAudit) -> str:
    found = client.collusion
    return (
        f"The server and {client.name} together tried its keys on {found.n_vectors:,} "
        f"vectors of others: {found.n_inside:,} numbers open that it shares or totals "
        f"sealed to it, {found.n_outside:,} others."
    )


def _columns_table(audit: Audit, client: ClientAudit) -> Table:
    title = f"What {escape(client.name)} could infer about rows in shared columns"
    names = ("rows", "columns", "tries", "found", "direction")
    table = _table_of_numbers(title, "rows of", names)
    for found in client.columns:
        table.add_row(
            escape(audit.names[found.other]),
            f"{found.n_rows:,}",
            f"{found.n_columns:,}",
            f"{found.score.n_equations:,}",
            f"{found.score.recovered:.0%}",
            f"{found.score.directions:.0%}",
        )
    return table
