"""Levels, the server's half: it matches tokens and adds counts that it cannot read.

It follows the alignment if some column is a category, as a separate conversation with
the holders of such columns.

| phase        | down                          | up                                 |
|--------------|-------------------------------|------------------------------------|
| level tokens | -                             | keyed tokens of a client's levels, |
|              |                               | by column                          |
| level        | -                             | the same of their names without    |
| spellings    |                               | capitals and blanks, each once     |
| level union  | how many levels the study has | -                                  |
|              | in each column, the places of |                                    |
|              | the client's own              |                                    |
| arrange      | schemes, owner groups         | -                                  |
| level counts | a grid                        | rows of each level, sealed         |
| keep levels  | their sums, sealed            | how many features each column has  |
| level names  | -                             | names, as part of the model        |

Each holder of a column opens the counts of all its levels and determines by itself
which get a feature (``choice.py``), so all agree. Levels are numbered as rows are: by
their first holder, then by the order in which it shows them. So a run has the same bits
under any key, and the order means nothing to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import IntArray, TokenArray
from hyfdca.crypto.schemes.fixedpoint import grid_for
from hyfdca.crypto.schemes.registry import Adders, Use
from hyfdca.errors import counted
from hyfdca.federation.messages import GridRequest
from hyfdca.federation.owner_groups import OwnerGroups, by_feature
from hyfdca.federation.sums import CachedSum, check_grid, whole_layout
from hyfdca.holdings.axis import Axis
from hyfdca.model.file import CategoryEntry
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_indices,
    unpack_places,
    unpack_tokens,
)
from hyfdca.protocol.messages import GridSpec, Message, Part
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.matching import match
from hyfdca.stages.alignment.server import Alignment
from hyfdca.stages.levels import messages as m
from hyfdca.stages.levels.features import Levels

_DIFFERENT = "holders of a column name different levels"
_TOO_MANY = "a column has more features than levels"


_SINGLE = 2  # levels of a client with a single one, besides that of blank cells


@dataclass(frozen=True)
class _Union:
    """The levels of all clients, by category.

    Parameters
    ----------
    sizes : array (categories,)
        How many levels each has.
    places, categories : dicts of int to array
        By client: the places of its levels among those of their column, and the number
        of that column among the categories.
    """

    sizes: IntArray
    places: dict[int, IntArray]
    categories: dict[int, IntArray]

    def strangers(self, category: int) -> tuple[int, int] | None:
        """Return two clients with several levels of a category, none in common.

        All have the level of blank cells. One of the two is the first with several.
        """
        own = {
            client: {*places[self.categories[client] == category].tolist()}
            for client, places in self.places.items()
        }
        several = [client for client, levels in own.items() if len(levels) > _SINGLE]
        for other in several[1:]:
            if len(own[several[0]] & own[other]) == 1:
                return several[0], other
        return None


class LevelsServer:
    """Lets the holders of categories agree on their levels."""

    def __init__(
        self,
        columns: Alignment,
        settings: m.LevelSettings,
        adders: Adders,
        session: ServerSession,
    ) -> None:
        self._columns, self._settings = columns, settings
        self._adders, self._session = adders, session
        is_category = columns.is_category.astype(np.int64)
        self._categories = columns.layout.features.expanded(is_category)
        held = self._categories.items
        self._holders = [client for client, own in enumerate(held) if len(own)]

    def run(self) -> Conversation[Levels]:
        """Return how columns become features; every holder then knows it too.

        Raises
        ------
        AlignmentError
            If there are too many levels, or some that are written differently.
        """
        union = yield from self._union()
        notices = {
            client: m.UnionNotice(
                pack_indices(union.sizes[self._categories.items[client]]),
                pack_indices(union.places[client]),
            )
            for client in self._holders
        }
        yield from self._session.tell("level union", notices)
        counts = yield from self._counts(self._categories.expanded(union.sizes))
        kept = yield from self._kept(counts, union.sizes)
        entries = yield from self._entries(kept)
        widths = np.ones(len(self._columns.features), np.int64)
        widths[self._columns.is_category] = kept
        names = self._columns.named("category")
        found = {name: union.strangers(place) for place, name in enumerate(names)}
        return Levels(
            self._columns,
            widths,
            dict(zip(names, entries, strict=True)),
            {name: pair for name, pair in found.items() if pair is not None},
        )

    def _union(self) -> Conversation[_Union]:
        union = yield from self._shown("level tokens")
        if union.sizes.sum() >= m.MOST_LEVELS:
            raise AlignmentError(
                f"The categories have {union.sizes.sum():,} levels together, more than "
                f"{m.MOST_LEVELS:,}; leave out columns of free text with ignore."
            )
        if self._settings.similar == "refuse":
            spelt = yield from self._shown("level spellings")
            self._check_spelling(union.sizes - spelt.sizes)
        return union

    def _shown(self, phase: str) -> Conversation[_Union]:
        """Ask for tokens of all levels, or of their spellings, and match them."""
        requests = dict.fromkeys(self._holders, Message())
        replies = yield from self._session.ask(phase, requests, m.LevelTokens)
        shown: dict[int, tuple[IntArray, TokenArray]] = {}
        for client, reply in replies.items():
            with reply_of(client):
                shown[client] = self._checked(client, reply)
        return _matched(shown, self._categories.n_items)

    def _check_spelling(self, n_similar: IntArray) -> None:
        """Refuse levels of a column that differ only in capitals or blanks."""
        names = self._columns.named("category")
        for name, count in zip(names, n_similar.tolist(), strict=True):
            if count > 0:
                levels = counted(count, "level that differs", "levels that differ")
                raise AlignmentError(
                    f"Column {name!r} has {levels} from another one only in capitals "
                    "or blanks; write them alike in all tables, or set "
                    'similar_levels = "allow" (the default is "refuse") if they are '
                    "different levels."
                )

    def _checked(
        self, client: int, reply: m.LevelTokens
    ) -> tuple[IntArray, TokenArray]:
        """Return the category of each of a client's levels, and their tokens."""
        own = self._categories.items[client]
        sizes = unpack_places(reply.n_levels, len(own), m.MOST_LEVELS)
        tokens = unpack_tokens(reply.tokens, 2 * int(sizes.sum()))
        return np.repeat(own, sizes), tokens.reshape(-1, 2)

    def _counts(self, levels: Axis) -> Conversation[CachedSum]:
        """Return the sealed sums of how many rows have each level."""
        groups = OwnerGroups(levels, self._adders.group_secret, "levels")
        n_holders = len(self._holders)
        scheme = self._adders.pick(Use(groups.arrangement, 1, n_summands=n_holders))
        notices = {c: by_feature(scheme, groups, c) for c in self._holders}
        yield from self._session.tell("arrange", notices)
        n_samples = self._columns.layout.samples.n_items
        grid = grid_for(n_samples, n_holders, self._adders.encryption.sum_bits)
        request = GridRequest(GridSpec(grid.fraction_bits, grid.limit_bits))
        requests = dict.fromkeys(self._holders, request)
        parts = yield from self._session.ask("level counts", requests, Part)
        adder = self._adders.named(scheme)
        total = CachedSum(whole_layout(levels, groups.numbers, 1, adder))
        for client, part in parts.items():
            check_grid(client, part.vector, grid.fraction_bits)
            total.put(client, part.vector)
        return total

    def _kept(self, counts: CachedSum, sizes: IntArray) -> Conversation[IntArray]:
        """Return how many features each category has; all its holders must agree."""
        notices = {c: m.CountsNotice(counts.take(c)) for c in self._holders}
        replies = yield from self._session.ask("keep levels", notices, m.KeptLevels)
        widths = np.full(len(sizes), -1)
        for client, reply in replies.items():
            own = self._categories.items[client]
            with reply_of(client):
                claimed = unpack_places(reply.widths, len(own), m.MOST_LEVELS)
                _check(np.all(claimed < np.maximum(sizes[own], 1)), _TOO_MANY)
            with reply_of(*self._sharing(own)):
                _check(np.all((widths[own] < 0) | (widths[own] == claimed)), _DIFFERENT)
            widths[own] = claimed
        return widths

    def _entries(self, widths: IntArray) -> Conversation[list[CategoryEntry]]:
        """Return the levels of all categories, by name if the study releases names."""
        if not self._settings.releases_names:
            hidden = CategoryEntry(levels=None, reference=None, has_other=False)
            return [hidden for _ in widths]
        requests = dict.fromkeys(self._holders, Message())
        replies = yield from self._session.ask("level names", requests, m.LevelNames)
        found: list[dict[int, m.ColumnLevels]] = [{} for _ in widths]
        for client, reply in replies.items():
            own = self._categories.items[client].tolist()
            with reply_of(client):
                _check(len(reply.columns) == len(own), "it names levels of others")
            for category, claimed in zip(own, reply.columns, strict=True):
                found[category][client] = claimed
        return [
            _entry(claimed, width)
            for claimed, width in zip(found, widths.tolist(), strict=True)
        ]

    def _sharing(self, categories: IntArray) -> list[int]:
        """Return the clients that hold some of these categories."""
        held = self._categories.items
        return [c for c in self._holders if np.isin(held[c], categories).any()]


def _matched(
    shown: Mapping[int, tuple[IntArray, TokenArray]], n_categories: int
) -> _Union:
    """Match the tokens of clients' levels; each comes with its category."""
    matched = match({client: tokens for client, (_, tokens) in shown.items()})
    each = list(zip(shown, matched.axis.items, matched.orders, strict=True))
    category = np.full(matched.axis.n_items, -1)
    for client, items, order in each:
        claimed = shown[client][0][order]
        with reply_of(*shown):
            _check(
                np.all((category[items] < 0) | (category[items] == claimed)),
                _DIFFERENT,
            )
        category[items] = claimed
    sizes = np.bincount(category, minlength=n_categories)
    place = np.empty(len(category), np.int64)
    place[np.argsort(category, kind="stable")] = np.arange(len(category))
    place -= (np.cumsum(sizes) - sizes)[category]
    places = {c: place[items][np.argsort(o)] for c, items, o in each}
    return _Union(sizes, places, {client: own for client, (own, _) in shown.items()})


def _entry(claimed: Mapping[int, m.ColumnLevels], width: int) -> CategoryEntry:
    """Return a column's levels from the names that its holders give."""
    for client, own in claimed.items():
        with reply_of(client):
            _check(len(own.names) == width - own.has_other, "it names other levels")
    with reply_of(*claimed):
        return _agreed_entry(list(claimed.values()))


def _agreed_entry(claimed: Sequence[m.ColumnLevels]) -> CategoryEntry:
    """Return a column's levels if nobody contradicts them."""
    has_other, n_levels = claimed[0].has_other, len(claimed[0].names)
    _check(all(own.has_other == has_other for own in claimed), _DIFFERENT)
    names = [_agreed(own.names[place] for own in claimed) for place in range(n_levels)]
    reference = _agreed(own.reference for own in claimed)
    _check(None not in names, "nobody names a level of a column")
    levels = tuple(name for name in names if name is not None)
    is_once = len({*levels, reference}) > n_levels
    _check(is_once, "a column has two levels of one name")
    return CategoryEntry(levels=levels, reference=reference, has_other=has_other)


def _agreed(names: Iterable[str | None]) -> str | None:
    """Return the name that some give and nobody contradicts; None without any."""
    given = {name for name in names if name is not None}
    _check(len(given) <= 1, _DIFFERENT)
    return given.pop() if given else None


def _check(is_right: bool | np.bool_, otherwise: str) -> None:
    if not is_right:
        raise RemoteProtocolError(otherwise)
