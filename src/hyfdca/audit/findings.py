"""What attacks recovered, in sentences, and which findings the user accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hyfdca.audit.client_attack import Group, RotationScore
from hyfdca.audit.column_attack import ColumnScore
from hyfdca.audit.scoring import AttackScore
from hyfdca.audit.sparse_attack import SparseScore
from hyfdca.errors import StudyError, counted
from hyfdca.protocol.messages import Profile

# What the trust model admits, so that --expect may accept it.
EXPECTABLE = (
    "client-rows",  # others' cells of shared rows, from known rows
    "client-sparse",  # others' sparse columns of shared rows, without a known row
    "client-columns",  # others' rows, on columns that both hold
    "server-shares",  # rows, from differences of shares, in the open profile
    "server-planes",  # rows, from differences of planes, in the open profile
)
# By attack of the server. The first two succeed only if nothing is sealed.
_SERVER_KINDS = {
    "margins and weights": "server-margins",
    "duals and shares": "server-duals",
    "share differences": "server-shares",
    "plane differences": "server-planes",
}


@dataclass(frozen=True)
class Finding:
    """An attack that recovers cells.

    Parameters
    ----------
    share : float
        The share of the attacked rows or columns that was recovered.
    is_admitted : bool
        Whether the trust model says that this is possible.
    """

    kind: str
    share: float
    sentence: str
    is_admitted: bool = True

    def is_accepted(self, expected: Mapping[str, float]) -> bool:
        """Return whether the user expects findings of this kind and extent."""
        return self.is_admitted and self.share <= expected.get(self.kind, -1.0)


def expected_from(text: str) -> dict[str, float]:
    """Read the largest share to accept of each kind, as in "client-rows=0.5".

    Raises
    ------
    StudyError
    """
    expected = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        kind, _, share = item.partition("=")
        if kind not in EXPECTABLE:
            raise StudyError(
                f"--expect does not know {kind!r}; choose from {', '.join(EXPECTABLE)}."
            )
        expected[kind] = _share(kind, share) if "=" in item else 1.0
    return expected


def _share(kind: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise StudyError(
            f"--expect has {text!r} as the share of {kind}; give a number from 0 to 1, "
            f"such as {kind}=0.5."
        )
    return share


def is_admitted(attack: str, profile: Profile) -> bool:
    """Return whether the trust model allows an attack of the server to succeed."""
    return profile == "open" and _SERVER_KINDS[attack] in EXPECTABLE


def server_findings(
    attacks: Mapping[str, AttackScore], profile: Profile
) -> Iterator[Finding]:
    """Return the attacks of the server that succeed."""
    for name, score in attacks.items():
        if score.succeeds:
            sentence = (
                f"The server's attack by {name} succeeds: it recovers "
                f"{score.recovered:.0%} of the rows, with an error of "
                f"{score.error:.2g} times that of predicting the mean."
            )
            share = max(score.recovered, score.directions)
            kind = _SERVER_KINDS[name]
            yield Finding(kind, share, sentence, is_admitted(name, profile))


def row_finding(
    client: str, names: Sequence[str], found: RotationScore
) -> Finding | None:
    """Return what known rows give a client, if anything."""
    tried = [(found.few, found.n_few), (found.enough, found.n_enough)]
    score, n_known = max(tried, key=lambda one: (one[0].recovered, -one[1]))
    if not score.succeeds:
        return None
    sentence = (
        f"With {counted(n_known, 'known row')}, {client} computes "
        f"{_where(names, found.group)}: {score.recovered:.0%} of the other rows are "
        f"right to 1 %, with an error of {score.error:.2g} times that of predicting "
        "the mean."
    )
    return Finding("client-rows", score.recovered, sentence)


def sparse_finding(
    client: str, names: Sequence[str], found: SparseScore
) -> Finding | None:
    """Return which columns a client finds without a known row, if any."""
    if not found.n_found:
        return None
    kinds = [(found.binary, "of 0 and 1"), (found.sparse, "mostly 0")]
    parts = [
        f"{columns.found:,} of {counted(columns.columns, 'column')} {what}"
        for columns, what in kinds
        if columns.found
    ]
    sentence = (
        f"Without a known row, {client} computes {_where(names, found.group)}: "
        f"{' and '.join(parts)}, right in every row."
    )
    return Finding("client-sparse", found.n_found / found.n_columns, sentence)


def column_finding(
    client: str, names: Sequence[str], found: ColumnScore
) -> Finding | None:
    """Return which rows sums over shared columns give a client, if any."""
    score = found.score
    if not score.succeeds:
        return None
    sentence = (
        f"From {counted(found.n_columns, 'column')} that both have, {client} computes "
        f"rows of {names[found.other]}: {score.recovered:.0%} of {found.n_rows:,}, and "
        f"{score.directions:.0%} up to a factor."
    )
    share = max(score.recovered, score.directions)
    return Finding("client-columns", share, sentence)


def _where(names: Sequence[str], group: Group) -> str:
    others = ", ".join(names[other] for other in group.others)
    return f"cells of {others} in {counted(len(group.rows), 'shared row')}"
