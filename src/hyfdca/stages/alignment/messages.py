"""What both halves of the alignment know, and the messages between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from hyfdca.data.labels import Task
from hyfdca.protocol.messages import Message, Number

MOST_CLASSES = 1000
LONGEST_NAME = 1000  # characters of the name of a class or a feature

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
ClassList = Annotated[list[Name], msgspec.Meta(max_length=MOST_CLASSES)]
DisagreeingCells = Literal["refuse", "first"]


@dataclass(frozen=True)
class AlignmentSettings:
    """What a study says of its alignment; each party has its own copy.

    Parameters
    ----------
    positive : str or None
        The positive label of a classification.
    hide_feature_names : bool
        Show the server keyed pseudonyms of feature names.
    allow_unshared : bool
        Let organisations take part that share no ID with others and lack features:
        what they do not have is taken as zero.
    disagreeing_cells : {"refuse", "first"}
        What to do if organisations have different values of a cell: stop, or count
        that of the lowest-ranked one, as for every cell held twice, without comparing.
    needs_labels : bool
        Refuse rows that no organisation has the label of.
    """

    task: Task
    positive: str | None = None
    hide_feature_names: bool = False
    allow_unshared: bool = False
    disagreeing_cells: DisagreeingCells = "refuse"
    needs_labels: bool = True


class Rows(Message, tag="rows", frozen=True):
    """What a client shows of its rows, columns and labels."""

    pseudonyms: memoryview  # uint64, two a row
    features: list[Name]
    hidden_features: memoryview | None  # uint64, two a column, instead of names
    label_tokens: memoryview | None  # uint64, one a row; none without labels
    classes: ClassList
    has_rest: bool  # of classes, beside the positive one


class Refused(Message, tag="refused", frozen=True):
    """The answer of a client whose table cannot be aligned."""

    reason: Literal["repeated", "no numbers", "classes", "long names"]
    count: Number


class PlacementNotice(Message, frozen=True):
    """Where a client's rows and columns are in the study; no answer.

    Groups are owner groups, numbered in the order in which the client has them.
    """

    n_samples: Number
    rows: memoryview  # uint32: the client's rows, in the study's order
    columns: memoryview  # uint32
    row_groups: memoryview  # uint32, by row in the study's order
    column_groups: memoryview  # uint32
    owns: memoryview  # bits, row groups by column groups: counts their cells
    counts_rows: memoryview  # bits, by row group: designated to count the loss
    counts_columns: memoryview  # bits, by column group: to count the weight
    counts_bias: bool  # if the study has one: to count its weight
    classes: ClassList


class CellsRequest(Message, frozen=True):
    """Ask for tokens of cells held twice: column groups, and the row groups of each."""

    columns: memoryview  # uint32, the client's numbers, ascending
    rows: memoryview  # bits, row groups by these column groups


class CellTokens(Message, frozen=True):
    """A token a row of each column group asked for, over all its cells there."""

    tokens: memoryview  # uint64, by column group, then by row in the study's order
