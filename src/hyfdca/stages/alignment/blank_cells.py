"""Blank cells that others know: what a client asks and learns about them.

A client tells each other holder, in a note that only the two can open, which of their
common cells it has blank. The other one answers with the values that it has. Where
several answer, the lowest-ranked one's value counts, as for all cells held twice. The
server sees how long notes are, so they are filled up as if more cells were blank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import msgspec
import numpy as np

from hyfdca.arrays import IntArray, TokenArray
from hyfdca.crypto.keys.notes import NoteError, open_note, seal_note
from hyfdca.crypto.keys.set_secrets import SetSecrets, derived
from hyfdca.data.filling import KnownCells, Places, blank_places, filled, known_cells
from hyfdca.data.tables import KINDS, LARGEST_CELL, Table, normalised
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_indices,
    unpack_bits,
    unpack_places,
)
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.alignment.lengths import padded_count

_PURPOSE = b"cells that one client has blank"
_BLANK, _KNOWN = b"blank", b"known"  # the two kinds of notes
_PLACE_BYTES = 4  # of the number of a row or column
_NUMBER, _KIND = np.dtype("<f8"), np.dtype("u1")
_CATEGORY = KINDS.index("category")

_LEAST = 1 << 12  # cells of a note, unless fewer are in common
_LEAST_NAMES = 1 << 16  # bytes of names of levels, where a column may have any
_HEAD = 64  # bytes of a note beside its cells and names: more than enough
_SIZE_BYTES = 8  # of the note's own size, before it is filled up

Notes = list[memoryview]


class _Note(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A note's content."""


_N = TypeVar("_N", bound=_Note)


class _Blank(_Note, frozen=True):
    """Which common cells are blank: their rows and columns."""

    rows: memoryview  # uint32
    columns: memoryview  # uint32


class _Known(_Note, frozen=True):
    """The sender's values of these cells."""

    kinds: memoryview  # uint8
    numbers: memoryview  # float64
    levels: list[m.Name]


@dataclass(frozen=True, repr=False)
class _Common:
    """The cells that another client holds too, by rows and columns of the study."""

    partner: int
    rows: IntArray
    columns: IntArray


class SharedBlanks:
    """A client's half.

    Parameters
    ----------
    table : Table
        The table as it was read.
    orders : pair of arrays
        Rows and columns of the table, in the study's order.
    pseudonyms : array (rows, 2)
        In the study's order; with the columns, they bind a note to its cells.
    share : callable
        Raises ``RemoteProtocolError`` if a partner's common cells, given by rows and
        columns of the table, are not accepted.
    """

    def __init__(
        self,
        table: Table,
        orders: Places,
        aligned: AlignedTable,
        pseudonyms: TokenArray,
        secrets: SetSecrets,
        share: Callable[[int, IntArray, IntArray], None],
    ) -> None:
        self._share = share
        self._table, self._aligned, self._secrets = table, aligned, secrets
        self._pseudonyms, (self._rows, self._columns) = pseudonyms, orders

    def blanks(self, request: m.CommonCells) -> Notes:
        """Return which common cells are blank, sealed for each partner."""
        return [self._sealed_blank(common) for common in self._common(request)]

    def known(self, request: m.KnownRequest) -> Notes:
        """Return the values of cells that are blank at partners, sealed for each."""
        return [
            self._sealed_known(common, self._answer(common, note))
            for common, note in self._with_notes(request)
        ]

    def filled(self, request: m.FillRequest) -> Table:
        """Return the table with the values that partners know."""
        found = []
        for common, note in self._with_notes(request):
            places = self._blank_places(common)
            content = self._opened(common, _KNOWN, note, _Known)
            found.append((places, self._checked(content, places)))
        return filled(self._table, found)

    # What one client says to another

    def _blank(self, common: _Common) -> _Blank:
        rows, columns = self._blank_places(common)
        shape = self._table.cells.shape
        row_ranks = _ranks(self._rows[common.rows], shape[0])
        column_ranks = _ranks(self._columns[common.columns], shape[1])
        return _Blank(
            pack_indices(row_ranks[rows]), pack_indices(column_ranks[columns])
        )

    def _blank_places(self, common: _Common) -> Places:
        """Return the common cells that are blank here, by places in the table."""
        rows, columns = blank_places(self._table)
        is_row = np.zeros(len(self._table.ids), dtype=bool)
        is_column = np.zeros(len(self._table.features), dtype=bool)
        is_row[self._rows[common.rows]] = True
        is_column[self._columns[common.columns]] = True
        is_common = is_row[rows] & is_column[columns]
        return rows[is_common], columns[is_common]

    def _answer(self, common: _Common, note: memoryview) -> _Known:
        asked = self._opened(common, _BLANK, note, _Blank)
        n_cells = len(asked.rows) // _PLACE_BYTES
        rows = unpack_places(asked.rows, n_cells, len(common.rows))
        columns = unpack_places(asked.columns, n_cells, len(common.columns))
        places = (
            self._rows[common.rows[rows]],
            self._columns[common.columns[columns]],
        )
        known = known_cells(self._table, places)
        return _Known(
            memoryview(known.kinds.astype(_KIND).tobytes()),
            memoryview(known.numbers.astype(_NUMBER).tobytes()),
            list(known.levels),
        )

    def _checked(self, known: _Known, places: Places) -> KnownCells:
        """Return a partner's values, if they are valid in these cells."""
        n_cells, levels = len(places[0]), tuple(known.levels)
        sizes = (_KIND.itemsize * n_cells, _NUMBER.itemsize * n_cells)
        if (len(known.kinds), len(known.numbers)) != sizes:
            raise RemoteProtocolError("values do not come for the cells asked for")
        kinds = np.frombuffer(known.kinds, _KIND).astype(np.int64)
        numbers = np.frombuffer(known.numbers, _NUMBER)
        features = self._table.features
        is_category = np.array([name in self._aligned.levels for name in features])
        is_known = ~np.isnan(numbers)
        own = is_known & is_category[places[1]]
        is_possible = (kinds < len(KINDS)) & (np.abs(numbers) <= LARGEST_CELL)
        is_possible &= (kinds == _CATEGORY) == is_category[places[1]]
        is_place = np.isin(numbers, np.arange(len(levels)))
        if not np.all(is_possible[is_known]) or not np.all(is_place[own]):
            raise RemoteProtocolError("a value cannot be in the cell it is for")
        if any(normalised(level) != level for level in levels):
            raise RemoteProtocolError("a level has blanks around it")
        return KnownCells(kinds, numbers, levels)

    # Notes between two clients

    def _common(self, request: m.CommonCells) -> list[_Common]:
        own, n_partners = self._aligned.own, len(request.partners)
        if any(np.diff([-1, *request.partners]) <= 0):
            raise RemoteProtocolError("partners are named twice, or out of order")
        n_rows, n_columns = own.owns.shape
        is_row = unpack_bits(request.rows, (n_partners, n_rows))
        is_column = unpack_bits(request.columns, (n_partners, n_columns))
        every = [
            _Common(
                partner,
                np.flatnonzero(is_row[place, own.row_groups]),
                np.flatnonzero(is_column[place, own.column_groups]),
            )
            for place, partner in enumerate(request.partners)
        ]
        for common in every:
            self._key(common.partner)  # refuses who is not in the study
            rows, columns = self._rows[common.rows], self._columns[common.columns]
            self._share(common.partner, rows, columns)
        return every

    def _with_notes(
        self, request: m.KnownRequest | m.FillRequest
    ) -> list[tuple[_Common, memoryview]]:
        common = self._common(request)
        if len(common) != len(request.notes):
            raise RemoteProtocolError(f"expected {len(common)} notes about cells")
        return list(zip(common, request.notes, strict=True))

    def _sealed_blank(self, common: _Common) -> memoryview:
        content = self._blank(common)
        n_asked = len(content.rows) // _PLACE_BYTES
        return self._sealed(common, _BLANK, content, 2 * _PLACE_BYTES, n_asked)

    def _sealed_known(self, common: _Common, content: _Known) -> memoryview:
        each, n_asked = _NUMBER.itemsize + _KIND.itemsize, len(content.kinds)
        columns = self._columns[common.columns].tolist()
        room = 0
        if any(self._table.features[c] in self._table.levels for c in columns):
            n_bytes = len(msgspec.msgpack.encode(content.levels))
            room = padded_count(n_bytes, 2 * n_bytes + _LEAST_NAMES, _LEAST_NAMES)
        return self._sealed(common, _KNOWN, content, each, n_asked, room)

    def _sealed(
        self,
        common: _Common,
        kind: bytes,
        content: _Note,
        each: int,
        n_asked: int,
        room: int = 0,
    ) -> memoryview:
        """Return a note, as long as others about as many common cells.

        Parameters
        ----------
        each : int
            Bytes per cell.
        room : int
            Bytes for names.
        """
        place = self._place(common, kind, self._secrets.rank)
        written = msgspec.msgpack.encode(content)
        n_cells = padded_count(n_asked, len(common.rows) * len(common.columns), _LEAST)
        size = len(written).to_bytes(_SIZE_BYTES, "little")
        padded = (size + written).ljust(_HEAD + each * n_cells + room, b"\0")
        return memoryview(seal_note(padded, place, self._key(common.partner)))

    def _opened(
        self, common: _Common, kind: bytes, note: memoryview, form: type[_N]
    ) -> _N:
        place = self._place(common, kind, common.partner)
        try:
            padded = memoryview(open_note(note, place, self._key(common.partner)))
            size = int.from_bytes(padded[:_SIZE_BYTES], "little")
            content = padded[_SIZE_BYTES:][:size]
            return msgspec.msgpack.decode(content, type=form)
        except NoteError as error:
            raise RemoteProtocolError(f"a note is invalid: {error}") from None
        except msgspec.MsgspecError:  # which quotes invalid input
            raise RemoteProtocolError("a note has no cells in it") from None

    def _key(self, partner: int) -> bytes:
        """Return the key that only this client and a partner have."""
        try:
            pair = (min(partner, self._secrets.rank), max(partner, self._secrets.rank))
            return derived(self._secrets.of(pair), _PURPOSE)
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from None

    def _place(self, common: _Common, kind: bytes, sender: int) -> bytes:
        """Return a common name for the cells: all their rows and columns, in order."""
        digest = blake2b(b"%s %d %d " % (kind, sender, len(common.rows)))
        digest.update(np.ascontiguousarray(self._pseudonyms[common.rows]).data)
        digest.update(np.ascontiguousarray(self._aligned.words[common.columns]).data)
        return digest.digest()


def _ranks(chosen: IntArray, size: int) -> IntArray:
    """Return the rank of each of a table's lines among those that are chosen."""
    ranks = np.zeros(size, np.int64)
    ranks[chosen] = np.arange(len(chosen))
    return ranks


def first_blank(table: AlignedTable) -> tuple[int, int]:
    """Return how many cells are blank, and the first column with one."""
    columns = table.cells.indices[np.isnan(table.cells.data)]
    return len(columns), int(columns.min()) if len(columns) else 0
