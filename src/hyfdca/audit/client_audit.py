"""The audit of one recorded client: what it saw, and what it could find out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from hyfdca.audit.client_attack import Overheard, RotationScore, groups_of, mount
from hyfdca.audit.collusion import Collusion, CollusionScore, StolenKeys
from hyfdca.audit.column_attack import ColumnScore, Rests, attack_columns
from hyfdca.audit.facts import Facts
from hyfdca.audit.findings import (
    Finding,
    column_finding,
    row_finding,
    sparse_finding,
)
from hyfdca.audit.reading import messages
from hyfdca.audit.server_attacks import Truth
from hyfdca.audit.sightings import Sighting, Sightings
from hyfdca.audit.sparse_attack import SparseScore, attack_sparse
from hyfdca.audit.views import Header, read_view, view_path
from hyfdca.errors import StudyError


@dataclass(frozen=True)
class ClientAudit:
    """What a recorded client could find out.

    Parameters
    ----------
    rotations : list of RotationScore
        By group of its samples, from margins.
    columns : list of ColumnScore
        By other client, from weights or slopes of columns that both have.
    sparse : list of SparseScore
        By group of its samples, from margins, without a known row.
    collusion : CollusionScore
        What it could open together with the server.
    """

    name: str
    seen: list[Sighting]
    rotations: list[RotationScore]
    columns: list[ColumnScore]
    sparse: list[SparseScore]
    collusion: CollusionScore

    def findings(self, names: Sequence[str]) -> Iterator[Finding]:
        """Return what the client recovers, what needs no known row first."""
        found = [
            *(sparse_finding(self.name, names, sparse) for sparse in self.sparse),
            *(row_finding(self.name, names, rotation) for rotation in self.rotations),
            *(column_finding(self.name, names, column) for column in self.columns),
        ]
        yield from (one for one in found if one is not None)

    def complaints(self) -> Iterator[str]:
        """Return what the client should not open, even together with the server."""
        if n_outside := self.collusion.n_outside:
            yield (
                f"The server and {self.name!r} together open {n_outside:,} numbers of "
                "owner groups that it is not in."
            )

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the audit of the client for programs."""
        return {
            "seen": [one.as_json() for one in self.seen],
            "groups": [_rotation(names, rotation) for rotation in self.rotations],
            "columns": [
                {
                    "other": names[found.other],
                    "columns": found.n_columns,
                    "rows": found.n_rows,
                    **asdict(found.score),
                }
                for found in self.columns
            ],
            "sparse": [_sparse(names, found) for found in self.sparse],
            "with_server": asdict(self.collusion),
        }


def _rotation(names: Sequence[str], rotation: RotationScore) -> dict[str, Any]:
    return {
        "others": [names[other] for other in rotation.group.others],
        "rows": len(rotation.group.rows),
        "gram_error": rotation.gram_error,
        "few": {"known_rows": rotation.n_few, **asdict(rotation.few)},
        "enough": {"known_rows": rotation.n_enough, **asdict(rotation.enough)},
    }


def _sparse(names: Sequence[str], found: SparseScore) -> dict[str, Any]:
    return {
        "others": [names[other] for other in found.group.others],
        "rows": len(found.group.rows),
        "rank": found.rank,
        "binary": asdict(found.binary),
        "sparse": asdict(found.sparse),
        "dense": found.n_dense,
        "wrong": found.n_wrong,
        "programmes": found.n_programmes,
    }


def audit_client(path: Path, server: Header, facts: Facts, truth: Truth) -> ClientAudit:
    """Audit the view of a client.

    Raises
    ------
    StudyError
        If it is not of the server's run.
    """
    header, _ = read_view(path)
    if header.run != server.run or header.party is None:
        raise StudyError(
            f"The view {path} and the server's are of different runs; record them "
            "together."
        )
    sightings = Sightings(header.profile)
    received = messages(read_view(path)[1], {})
    sightings.look(said for said in received if said.direction == "down")
    overheard = Overheard(facts, header.party).listen(read_view(path)[1])
    groups = groups_of(facts, header.party)
    rests = Rests(facts, header.party).listen(read_view(path)[1])
    return ClientAudit(
        header.name,
        list(sightings.seen.values()),
        [mount(overheard, group, truth) for group in groups],
        attack_columns(rests, truth),
        attack_sparse(overheard, groups, truth),
        _collusion(path, header.party),
    )


def _collusion(path: Path, rank: int) -> CollusionScore:
    """Try a client's keys on the server's view, if the run recorded them."""
    kept = [r.payload for r in read_view(path)[1] if r.direction == "keys"]
    if not kept:
        return CollusionScore()
    keys = msgspec.msgpack.decode(kept[-1], type=StolenKeys)
    _, records = read_view(view_path(path.parent, None))
    return Collusion(rank, keys).listen(messages(records, {}))
