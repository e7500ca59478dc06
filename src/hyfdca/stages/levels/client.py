"""A client's half of the levels: it shows tokens, and chooses as all holders do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.keys.pseudonyms import AlignmentKeys, level_pseudonyms
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.data.expansion import Expansion
from hyfdca.data.tables import bare_name
from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sealing.unopened import UnopenedError
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_indices,
    pack_tokens,
    unpack_places,
)
from hyfdca.protocol.messages import Message, Part
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.levels import messages as m
from hyfdca.stages.levels.choice import Choice, choose_levels


@dataclass(frozen=True, repr=False)
class _Category:
    """A client's column that is a category.

    Parameters
    ----------
    column : int
        Its place among the client's columns.
    levels : tuple of str
        Levels by code; the first is "", a blank cell, even if there is none.
    codes : array (levels,)
        Codes in the order in which they are shown.
    counts : array (levels,)
        How many of the rows that the client counts have each level, in that order.
    """

    column: int
    name: str
    levels: tuple[str, ...]
    codes: IntArray
    counts: IntArray

    @property
    def shown(self) -> list[str]:
        """The names of the levels, in the order in which they are shown."""
        return [self.levels[code] for code in self.codes.tolist()]


class LevelsClient:
    """Answers from its own columns; ``expansion`` exists once levels are chosen.

    Parameters
    ----------
    salt : bytes
        A secret of the client that follows only from its table. It determines the order
        in which levels are shown: the same under any key, and meaningless to others.
    """

    def __init__(
        self,
        table: AlignedTable,
        salt: bytes,
        keys: AlignmentKeys,
        settings: m.LevelSettings,
        sealers: Sealers,
    ) -> None:
        self._keys, self._settings, self._sealers = keys, settings, sealers
        self._n_columns = len(table.features)
        self._categories = _categories(table, salt)
        self._sizes = np.empty(0, np.int64)  # levels of each category in the study
        self._places = np.empty(0, np.int64)  # of its own levels, one after the other
        self._sealing: Sealing | None = None
        self._choices: list[Choice] | None = None

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            "level tokens": self._tokens,
            "level spellings": self._spellings,
            "level union": self._take_union,
            "arrange": self._arrange,
            "level counts": self._counts,
            "keep levels": self._keep,
            "level names": self._names,
        }

    @property
    def expansion(self) -> Expansion:
        """How the client's columns become features."""
        widths, places = np.ones(self._n_columns, np.int64), {}
        each = zip(self._categories, self._chosen, self._own_places, strict=True)
        for own, choice, shown in each:
            widths[own.column] = choice.width
            places[own.column] = np.empty(len(own.levels), np.int64)
            places[own.column][own.codes] = choice.places[shown]
        return Expansion(widths, places)

    @property
    def _chosen(self) -> list[Choice]:
        if self._choices is None:
            raise RemoteProtocolError("the levels have not been chosen yet")
        return self._choices

    @property
    def _own_places(self) -> list[IntArray]:
        """The places of its own levels, by category."""
        return self._by_category(self._places)

    def _by_category(self, places: IntArray) -> list[IntArray]:
        ends = np.cumsum([len(own.codes) for own in self._categories])
        return np.split(places, ends[:-1])

    def _tokens(self, _: Message) -> m.LevelTokens:
        tokens = [
            level_pseudonyms(own.name, own.shown, self._keys)
            for own in self._categories
        ]
        sizes = np.array([len(own.codes) for own in self._categories])
        return m.LevelTokens(pack_indices(sizes), pack_tokens(np.concatenate(tokens)))

    def _spellings(self, _: Message) -> m.LevelTokens:
        """Return tokens of the levels without capitals and blanks, each once."""
        if self._settings.similar != "refuse":
            raise RemoteProtocolError("the study does not compare similar levels")
        tokens = []
        for own in self._categories:
            bare = sorted(set(map(bare_name, own.shown)))
            # Names of columns are trimmed, so no column has these tokens itself.
            words = level_pseudonyms(f"\n{own.name}", bare, self._keys)
            tokens.append(words[np.lexsort(words.T)])
        sizes = np.array([len(words) for words in tokens])
        return m.LevelTokens(pack_indices(sizes), pack_tokens(np.concatenate(tokens)))

    def _take_union(self, notice: m.UnionNotice) -> None:
        n_own = sum(len(own.codes) for own in self._categories)
        sizes = unpack_places(notice.n_levels, len(self._categories), m.MOST_LEVELS)
        if sizes.sum() >= m.MOST_LEVELS:
            raise RemoteProtocolError("there are too many levels")
        places = unpack_places(notice.places, n_own, m.MOST_LEVELS)
        for size, own in zip(sizes, self._by_category(places), strict=True):
            if len(np.unique(own)) < len(own) or own.max(initial=-1) >= size:
                raise RemoteProtocolError("levels have no place, or share one")
        self._sizes, self._places = sizes, places
        self._sealing = Sealing("sealed", self._sealers, (0, int(sizes.sum())), 1)

    def _arrange(self, notice: Arrangements) -> None:
        self._sealed.arrange(notice)

    @property
    def _sealed(self) -> Sealing:
        if self._sealing is None:
            raise RemoteProtocolError("the levels of the study are not known yet")
        return self._sealing

    def _counts(self, request: GridRequest) -> Part:
        try:
            sealed = self._sealed.sealed_features(
                "level counts", self._own_counts(), request.grid
            )
            return Part(sealed)
        except GridOverflowError:
            raise RemoteProtocolError("the grid is too fine for these counts") from None

    def _own_counts(self) -> FloatArray:
        """Return how many rows have each level of the study, (levels, 1)."""
        counts = np.zeros((int(self._sizes.sum()), 1))
        starts = np.cumsum(self._sizes) - self._sizes
        each = zip(starts, self._own_places, self._categories, strict=True)
        for start, places, own in each:
            counts[start + places, 0] = own.counts
        return counts

    def _keep(self, notice: m.CountsNotice) -> m.KeptLevels:
        opened = self._sealed.opened_features("level counts", notice.counts, 1)
        counts = np.rint(opened)
        if np.any(counts != opened) or np.any(counts < self._own_counts()):
            raise UnopenedError
        by_category = np.split(counts[:, 0].astype(np.int64), np.cumsum(self._sizes))
        self._choices = [
            choose_levels(own, self._settings.min_count) for own in by_category[:-1]
        ]
        widths = np.array([choice.width for choice in self._choices])
        return m.KeptLevels(pack_indices(widths))

    def _names(self, _: Message) -> m.LevelNames:
        if not self._settings.releases_names:
            raise RemoteProtocolError("the study does not release names of levels")
        each = zip(self._categories, self._chosen, self._own_places, strict=True)
        return m.LevelNames([_column_levels(*own) for own in each])


def _column_levels(own: _Category, choice: Choice, places: IntArray) -> m.ColumnLevels:
    """Return the levels of a column, with the names that the client has."""
    name_of = dict(zip(places.tolist(), own.shown, strict=True))
    names = [name_of.get(level) for level in choice.kept.tolist()]
    reference = None if choice.reference is None else name_of.get(choice.reference)
    return m.ColumnLevels(names, reference, choice.has_other)


def _categories(table: AlignedTable, salt: bytes) -> list[_Category]:
    """Return the categories of a table, with all levels that it may have."""
    owned, found = table.own.of(table.cells), []
    for column in table.categories:
        name = table.features[column]
        levels = ("", *table.levels[name])
        codes = np.nan_to_num(owned.data[owned.indices == column]).astype(np.int64)
        counts = np.bincount(codes, minlength=len(levels))
        order = _order(salt, name, levels)
        found.append(_Category(column, name, levels, order, counts[order]))
    return found


def _order(salt: bytes, column: str, levels: Sequence[str]) -> IntArray:
    """Return an order of levels that depends only on the salt."""
    digests = [
        blake2b(f"{column}\0{level}".encode(errors="surrogatepass"), key=salt).digest()
        for level in levels
    ]
    return np.array(sorted(range(len(levels)), key=digests.__getitem__), np.int64)
