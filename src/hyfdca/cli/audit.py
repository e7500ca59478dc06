"""Terminal output about an audit: who saw what, and what can be inferred from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from hyfdca.audit.client_audit import ClientAudit
from hyfdca.audit.findings import Finding
from hyfdca.audit.report import Audit
from hyfdca.audit.scoring import AttackScore
from hyfdca.audit.sightings import Sighting
from hyfdca.audit.values import VALUES
from hyfdca.cli.displays.escaping import escape
from hyfdca.cli.displays.run import show_exposed

_NOT_ATTACKED = (
    "None of the server's attacks fits this algorithm, so none was tried: "
    "docs/threat-model.md says what it shows."
)
_NO_CLIENT = (
    "No organisation was recorded (--record-client), so what organisations can compute "
    "about each other was not measured."
)
_NO_PROOF = "That does not prove secrecy: docs/threat-model.md says what parties learn."


def show_audit(
    console: Console, audit: Audit, expected: Mapping[str, float] | None = None
) -> None:
    """Print what was recovered, then the tables and the verdict.

    Parameters
    ----------
    expected : mapping, optional
        The largest share to accept of each kind of finding.
    """
    expected = expected or {}
    show_exposed(console, audit.exposed())
    _show_findings(console, audit, expected)
    console.print(_seen_table("What the server saw", audit.seen))
    console.print(_attacks_table(audit))
    for client in audit.clients:
        _show_client(console, audit, client)
    header = audit.header
    title = f"Profile {header.profile}, encryption {header.encryption}."
    console.print(title, highlight=False)
    for sentence in audit.complaints:
        console.print(sentence, style="bold red", markup=False, soft_wrap=True)
    style = None if audit.is_accepted(expected) else "bold red"
    console.print(_verdict(audit, expected), style=style, markup=False, soft_wrap=True)


def _show_findings(
    console: Console, audit: Audit, expected: Mapping[str, float]
) -> None:
    for found in audit.findings:
        is_accepted = found.is_accepted(expected)
        word = "expected" if is_accepted else found.kind
        style = None if is_accepted else "bold red"
        sentence = f"{found.sentence} ({word})"
        console.print(
            sentence, style=style, markup=False, soft_wrap=True, highlight=False
        )


def _show_client(console: Console, audit: Audit, client: ClientAudit) -> None:
    title = f"What {escape(client.name)} received and can open"
    console.print(_seen_table(title, client.seen))
    console.print(_client_table(audit, client))
    if client.columns:
        console.print(_columns_table(audit, client))
    if client.sparse:
        console.print(_sparse_table(audit, client))
    console.print(_together(client), highlight=False, markup=False, soft_wrap=True)


def _verdict(audit: Audit, expected: Mapping[str, float]) -> str:
    """Return the last line, which must not sound like more than was measured."""
    unexpected = audit.unexpected(expected)
    if unexpected:
        advice = _advice(unexpected, expected)
        return f"Cells were recovered: {_kinds(unexpected)}.{advice}"
    if audit.complaints:
        return "A party saw more than the trust model allows."
    if audit.findings:
        return f"Cells were recovered, as expected: {_kinds(audit.findings)}."
    if not audit.was_attacked:
        return f"{_NOT_ATTACKED} {'' if audit.clients else _NO_CLIENT}".rstrip()
    tried = "Of the attacks tried here, none recovered a cell."
    return " ".join([tried, *([] if audit.clients else [_NO_CLIENT]), _NO_PROOF])


def _kinds(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(found.kind for found in findings))


def _advice(findings: Sequence[Finding], expected: Mapping[str, float]) -> str:
    """Return how to accept findings, if the trust model admits all of them."""
    if not all(found.is_admitted for found in findings):
        return ""
    if beyond := [found for found in findings if found.kind in expected]:
        most = max(beyond, key=lambda found: found.share - expected[found.kind])
        return (
            f" {_share(most.share)} was recovered ({most.kind}), and --expect accepts "
            f"{_share(expected[most.kind])}."
        )
    option = f"--expect {_kinds(findings)}".replace(", ", ",")
    return f" If the organisations accept that, say so with {option}."


def _share(share: float) -> str:
    """Return a percentage, precise enough to distinguish it from a smaller one."""
    return f"{100 * share:.4g} %"


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


def _sparse_table(audit: Audit, client: ClientAudit) -> Table:
    title = f"What {escape(client.name)} could infer without knowing a row"
    names = ("rows", "margins", "columns", "of 0 and 1", "mostly 0")
    table = _table_of_numbers(title, "columns of", names)
    table.caption = "margins: independent ones per row; columns found in all rows"
    for found in client.sparse:
        table.add_row(
            ", ".join(escape(audit.names[o]) for o in found.group.others),
            f"{len(found.group.rows):,}",
            f"{found.rank:,}",
            f"{found.n_columns:,}",
            f"{found.binary.found:,} of {found.binary.columns:,}",
            f"{found.sparse.found:,} of {found.sparse.columns:,}",
        )
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
