"""How often a client takes part under another placement: who counts what.

The server says which of its cells and labels a client counts, because others hold the
rest, and which rows and columns have the same holders. A client cannot check that. A
server that names a few rows only gets their mean and deviation as the scaling, and of
labels that are numbers too, before any round. Tokens of cells held twice are sums over
the cells of such groups. It could go on with other rows as often as it likes. Rows set
aside are like them: where a row alone is counted, the sums of a test tell its score. An
honest server has another placement only after some organisation changed its rows or
columns. So a client counts placements on disk, over all runs, before it accepts one.
"""

from __future__ import annotations

import hashlib

import msgspec
import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.runtime.store import Archive
from hyfdca.stages.alignment.admission import Admission, Placement
from hyfdca.study.client.checks import check_owner_groups
from hyfdca.study.client.study_record import StudyRecord
from hyfdca.study.plan import Plan

_TRAINING, _HELD_OUT = "placements", "placements-held-out"
_SHARED = "-shared"  # after these, for common cells
_DIGEST_BYTES = 16

MOST_PLACEMENTS = 10


def forget_placements(archive: Archive) -> None:
    """Begin to count again: the client's user says so."""
    for name in (_TRAINING, _HELD_OUT):
        archive.forget(name)
        archive.forget(name + _SHARED)


class Placements(Admission):
    """The placements of some rows that a client has accepted.

    Where values of blank cells are shared, the cells that it has in common with each
    other client are counted like them: these are told separately.

    Parameters
    ----------
    name : str
        Of the records in the archive.
    """

    def __init__(self, archive: Archive, plan: Plan, name: str) -> None:
        study, self._n_clients = plan.study_hash, len(plan.names)
        self._is_rehearsal = plan.is_rehearsal
        self._placed = StudyRecord(archive, name, study, list[bytes])
        self._shared = StudyRecord(
            archive, name + _SHARED, study, dict[int, list[bytes]]
        )

    def place(self, placement: Placement) -> None:
        """Note a placement; refuse groups that no holders can have, and one too many.

        Raises
        ------
        RemoteProtocolError
        """
        own = placement.aligned.own
        check_owner_groups(own.row_groups, "rows", self._n_clients)
        check_owner_groups(own.column_groups, "columns", self._n_clients)
        if not self._is_rehearsal:
            known, digest = self._placed.read() or [], placement_digest(placement)
            if _is_new(digest, known):
                self._placed.write([*known, digest])

    def share(self, partner: int, rows: IntArray, columns: IntArray) -> None:
        """Note the cells that another client holds too; refuse others too often.

        Raises
        ------
        RemoteProtocolError
        """
        if self._is_rehearsal:
            return
        known, digest = self._shared.read() or {}, shared_digest(rows, columns)
        of_partner = known.get(partner, [])
        if _is_new(digest, of_partner):
            self._shared.write({**known, partner: [*of_partner, digest]})


def _is_new(digest: bytes, known: list[bytes]) -> bool:
    """Return whether a digest is to be noted; refuse one too many."""
    if digest in known:
        return False
    if len(known) >= MOST_PLACEMENTS:
        raise RemoteProtocolError(
            f"the server gave it more than {MOST_PLACEMENTS} different places "
            "among the others' rows and columns; start this organisation's client "
            "with --restart if that is right"
        )
    return True


class NotedPlacements:
    """Those of the rows to train on, and those of the rows set aside."""

    def __init__(self, archive: Archive, plan: Plan) -> None:
        self.training = Placements(archive, plan, _TRAINING)
        self.held_out = Placements(archive, plan, _HELD_OUT)


def shared_digest(rows: IntArray, columns: IntArray) -> bytes:
    """Return what stands for cells, by rows and columns of the client's table."""
    sides = (np.sort(side).astype("<i8").tobytes() for side in (rows, columns))
    return _digest(msgspec.msgpack.encode(tuple(sides)))


def placement_digest(placed: Placement) -> bytes:
    """Return what stands for a placement, in the order of the client's own table.

    That is all that a server says in it: groups, cells, rows and features that the
    client counts, how many samples there are, and what is done with labels and levels.
    """
    aligned, own = placed.aligned, placed.aligned.own
    rows, columns = np.argsort(placed.rows), np.argsort(placed.columns)
    column_groups = own.column_groups[columns]
    # One at a time: a table of row groups and columns may be larger than any memory.
    cells = [_digest(np.packbits(c[column_groups]).tobytes()) for c in own.owns]
    of_rows = np.frombuffer(b"".join(cells), f"V{_DIGEST_BYTES}")[own.row_groups]
    by_row = aligned.counts_sample[rows], placed.is_rounded[rows]
    parts = (
        placed.rows[rows].astype("<i8").tobytes(),  # some may be left out
        of_rows[rows].tobytes(),
        _numbered(own.row_groups[rows]),
        _numbered(column_groups),
        *(np.packbits(flags).tobytes() for flags in by_row),
        np.packbits(aligned.counts_feature[columns]).tobytes(),
        aligned.counts_bias,
        aligned.n_samples,
        aligned.classes,
        sorted(aligned.levels),
    )
    return _digest(msgspec.msgpack.encode(parts))


def _numbered(groups: IntArray) -> bytes:
    """Return groups by the place where each one first appears: others are random."""
    _, first, own = np.unique(groups, return_index=True, return_inverse=True)
    return first[own].astype("<u4").tobytes()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
