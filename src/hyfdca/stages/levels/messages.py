"""The settings for levels, and the messages between the two halves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from hyfdca.data.tables import LONGEST_NAME
from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.protocol.messages import Message, Part, Seen, Sums
from hyfdca.protocol.phases import START, Phase, Phases

MOST_LEVELS = 2**22  # of all columns and organisations together

_Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
_Names = Annotated[list[_Name | None], msgspec.Meta(max_length=MOST_LEVELS)]


@dataclass(frozen=True)
class LevelSettings:
    """A study's settings for categories; each party has its own copy.

    Parameters
    ----------
    min_count : int
        Levels with fewer rows are one level, "other".
    releases_names : bool
        Whether the names of levels become part of the model.
    similar : {"refuse", "allow"}
        What to do if levels of a column differ only in capitals or blanks: stop, or
        treat them as different levels without checking.
    """

    min_count: int = 5
    releases_names: bool = True
    similar: Literal["refuse", "allow"] = "allow"


class LevelTokens(Message, frozen=True):
    """Keyed tokens of a client's levels, by column, in a meaningless order."""

    n_levels: Annotated[memoryview, Seen("level tokens")]  # uint32, by category
    tokens: Annotated[memoryview, Seen("level tokens")]  # uint64, two per level


class UnionNotice(Message, frozen=True):
    """How many levels each column has in the study; no answer."""

    n_levels: Annotated[memoryview, Seen("level numbers")]  # uint32, by category
    places: Annotated[
        memoryview, Seen("level numbers")
    ]  # uint32: the place of each of the client's levels among those of its column


class CountsNotice(Message, frozen=True):
    """How many rows have each level down; how many features each column has up."""

    counts: Annotated[Sums, Seen("level counts")]


class KeptLevels(Message, frozen=True):
    """The outcome of the counts, the same at all holders of a column."""

    widths: Annotated[memoryview, Seen("level numbers")]  # uint32, by category


class ColumnLevels(Message, frozen=True):
    """The levels of a column by name, as far as a client has them; None elsewhere."""

    names: Annotated[_Names, Seen("released levels")]  # those with a feature, in order
    reference: Annotated[_Name | None, Seen("released levels")]
    has_other: Annotated[bool, Seen("released levels")]


class LevelNames(Message, frozen=True):
    """The levels of a client's categories, as part of the model."""

    columns: Annotated[list[ColumnLevels], Seen("released levels")]


PHASES: Phases = {
    "level tokens": Phase(Message, (LevelTokens,), (START,)),
    "level spellings": Phase(Message, (LevelTokens,), ("level tokens",)),
    "level union": Phase(UnionNotice, after=("level tokens", "level spellings")),
    "arrange": Phase(Arrangements, after=("level union",)),
    "level counts": Phase(GridRequest, (Part,), ("arrange",), "level counts"),
    "keep levels": Phase(CountsNotice, (KeptLevels,), ("level counts",)),
    "level names": Phase(Message, (LevelNames,), ("keep levels",)),
}
