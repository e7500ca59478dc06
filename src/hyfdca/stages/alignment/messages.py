"""The settings of the alignment, and the messages between its two halves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import msgspec

from hyfdca.data.id_forms import ID_FORMS, IdForm
from hyfdca.data.labels import Task
from hyfdca.data.tables import LONGEST_NAME
from hyfdca.data.targets import TargetSettings
from hyfdca.protocol.messages import Message, Number, Rank, Seen
from hyfdca.protocol.phases import START, Phase, Phases

MOST_CLASSES = 1000  # that max_classes may allow
MOST_COMPARED_CLASSES = 32  # beside a positive one
_USUAL_CLASSES = 20
_SINGLE_PRECISION = 2.0**-24  # the relative error of rounding to it

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
ClassList = Annotated[list[Name], msgspec.Meta(max_length=MOST_CLASSES)]
Uncovered = Literal["refuse", "mean", "zero"]
DisagreeingCells = Literal["refuse", "first"]
BlankCells = Literal["refuse", "share"]
SimilarIds = Literal["refuse", "allow"]
Line = Literal["row", "column"]  # over whose cells a token is


@dataclass(frozen=True)
class AlignmentSettings:
    """A study's settings for the alignment; each party has its own copy.

    Parameters
    ----------
    positive : str or None
        The positive label of a classification.
    hide_feature_names : bool
        Show the server keyed pseudonyms of feature names.
    allow_unshared : bool
        Admit organisations that share no ID with others and lack features: what they
        do not have is taken as zero.
    disagreeing_cells : {"refuse", "first"}
        What to do if organisations have different values of a cell: stop, or count
        that of the lowest-ranked one, as for every cell held twice, without comparing.
    cell_tolerance : float
        Values of a cell count as equal if their relative difference is at most this.
        Labels that are numbers, weights and offsets are compared in single precision
        if it allows for that.
    blank_cells : {"refuse", "share"}
        What to do if a cell is blank at an organisation and others have its value:
        stop, as if these were different values, or let that organisation learn it.
    needs_values : bool
        Refuse cells that are blank at all organisations that hold them, where such
        cells are shared; otherwise tables were refused when they were read.
    similar_ids : {"refuse", "allow"}
        What to do if many more rows of two organisations would match if their IDs were
        written alike: stop, or treat them as different rows without checking.
    uncovered : {"refuse", "mean", "zero"}
        What to do about cells that no organisation holds: stop, or take them as the
        mean of their column or as zero, depending on the scaling.
    needs_labels : bool
        Leave out rows whose label no organisation has.
    max_classes : int or None
        Refuse more; by default more than 20, and fractions: such labels are probably
        the numbers of a regression.
    targets : TargetSettings
        The parts of a label, and who may learn them.
    categorical : tuple of str
        Columns that the study names as categories; each must exist somewhere.
    is_held_out : bool
        Whether the rows are those set aside, which only test a model: each row counts
        where its label is, and an organisation may have none.
    """

    task: Task
    positive: str | None = None
    hide_feature_names: bool = False
    allow_unshared: bool = False
    disagreeing_cells: DisagreeingCells = "refuse"
    cell_tolerance: float = 0.0
    blank_cells: BlankCells = "refuse"
    needs_values: bool = False
    similar_ids: SimilarIds = "allow"
    uncovered: Uncovered = "zero"
    needs_labels: bool = True
    max_classes: int | None = None
    targets: TargetSettings = field(default_factory=TargetSettings)
    categorical: tuple[str, ...] = ()
    is_held_out: bool = False

    @property
    def of_held_out_rows(self) -> AlignmentSettings:
        """The settings for aligning rows set aside; IDs are compared in training."""
        return replace(self, allow_unshared=True, similar_ids="allow", is_held_out=True)

    @property
    def n_classes_allowed(self) -> int:
        """How many classes there may be."""
        return _USUAL_CLASSES if self.max_classes is None else self.max_classes

    @property
    def rounds_targets(self) -> bool:
        """Whether numbers other than cells are compared in single precision."""
        return self.cell_tolerance >= _SINGLE_PRECISION


class Rows(Message, tag="rows", frozen=True):
    """What a client shows about its rows, columns and labels."""

    pseudonyms: Annotated[memoryview, Seen("pseudonyms")]  # uint64, two per row
    features: Annotated[list[Name], Seen("feature names")]
    hidden_features: Annotated[
        memoryview | None, Seen("feature names")
    ]  # uint64, two per column, instead of names
    label_tokens: Annotated[
        memoryview | None, Seen("label tokens")
    ]  # uint64, one per row, NO_LABEL and NO_WEIGHT among them; None without labels
    classes: Annotated[ClassList, Seen("class names")]
    has_rest: Annotated[bool, Seen("numbers")]  # of classes, besides the positive one
    kinds: Annotated[memoryview | None, Seen("feature kinds")] = (
        None  # uint8, one per column; None if all are numbers
    )
    has_blanks: Annotated[bool, Seen("numbers")] = False  # whether any cell is blank
    other_classes: Annotated[memoryview | None, Seen("class pseudonyms")] = (
        None  # uint64, two per class besides the positive one; None if there are many
    )


class Refused(Message, tag="refused", frozen=True):
    """The answer of a client whose table cannot be aligned."""

    reason: Annotated[
        Literal[
            "repeated",
            "no numbers",
            "signs",
            "classes",
            "fractions",
            "long names",
            "blank words",
            "spelling",
            "dates",
        ],
        Seen("numbers"),
    ]
    count: Annotated[Number, Seen("numbers")]


class IdFormsRequest(Message, frozen=True):
    """Ask for pseudonyms of the IDs in simpler forms, of about one in ``every`` ID."""

    every: Annotated[int, msgspec.Meta(ge=1, le=2**16), Seen("numbers")]
    forms: Annotated[
        list[IdForm], msgspec.Meta(max_length=len(ID_FORMS)), Seen("numbers")
    ]


class IdForms(Message, frozen=True):
    """Pseudonyms of a client's IDs in each form asked for, none twice."""

    pseudonyms: Annotated[
        list[memoryview], Seen("form pseudonyms")
    ]  # uint64, two per ID, sorted: their order shows nothing of the rows'


class NumbersRequest(Message, frozen=True):
    """Ask about a client's columns of numbers that are yes and no elsewhere."""

    columns: Annotated[
        memoryview, Seen("placement")
    ]  # uint32, ascending: by the client's own numbers


class Numbers(Message, frozen=True):
    """The columns among them that have other numbers than 0 and 1."""

    columns: Annotated[memoryview, Seen("feature kinds")]  # uint32, ascending


class TargetTokens(Message, frozen=True):
    """Tokens of the labels, of the weights and of the offsets, as the study has them.

    Those of numbers are of their values in single precision, if the study rounds them.
    """

    tokens: Annotated[
        list[memoryview], Seen("label tokens")
    ]  # uint64, one per row, NO_LABEL among them


class PlacementNotice(Message, frozen=True):
    """Where a client's rows and columns are in the study; no answer.

    Groups are owner groups, numbered in the order in which the client has them.
    """

    n_samples: Annotated[Number, Seen("numbers")]
    rows: Annotated[
        memoryview, Seen("placement")
    ]  # uint32: the client's rows in the study's order, without those left out
    columns: Annotated[memoryview, Seen("placement")]  # uint32
    row_groups: Annotated[
        memoryview, Seen("group numbers")
    ]  # uint32, by row in the study's order
    column_groups: Annotated[memoryview, Seen("group numbers")]  # uint32
    owns: Annotated[
        memoryview, Seen("placement")
    ]  # bits, row groups by column groups: counts their cells
    counts_rows: Annotated[
        memoryview, Seen("placement")
    ]  # bits, by row group: designated to count the loss
    counts_columns: Annotated[
        memoryview, Seen("placement")
    ]  # bits, by column group: to count the weight
    counts_bias: Annotated[
        bool, Seen("placement")
    ]  # if the study has one: to count its weight
    classes: Annotated[ClassList, Seen("class names")]
    categories: Annotated[memoryview | None, Seen("feature kinds")] = (
        None  # bits, by column: a category; None if no column is
    )
    rounded: Annotated[memoryview | None, Seen("placement")] = (
        None  # bits, by row: label, weight and offset are taken in single precision
    )


class CommonCells(Message, frozen=True):
    """Which of a client's cells each of some other clients holds too."""

    partners: Annotated[list[Rank], Seen("holders")]  # ascending
    rows: Annotated[memoryview, Seen("group numbers")]  # bits, partners by row groups
    columns: Annotated[
        memoryview, Seen("group numbers")
    ]  # bits, partners by column groups


class KnownRequest(CommonCells, frozen=True):
    """Ask for the values of cells that are blank at these clients."""

    notes: Annotated[list[memoryview], Seen("blank cells")]  # by partner


class FillRequest(CommonCells, frozen=True):
    """These clients' values of cells that are blank at the receiver."""

    notes: Annotated[list[memoryview], Seen("filled cells")]  # by partner


class BlankNotes(Message, frozen=True):
    """Which cells are blank, sealed for each other holder of them."""

    notes: Annotated[list[memoryview], Seen("blank cells")]  # by partner


class KnownNotes(Message, frozen=True):
    """Values of cells that are blank at others, sealed for each of them."""

    notes: Annotated[list[memoryview], Seen("filled cells")]  # by partner


class Filled(Message, frozen=True):
    """How many blank cells got a value, and how many stay blank."""

    n_filled: Annotated[Number, Seen("numbers")]
    n_blank: Annotated[Number, Seen("numbers")]
    column: Annotated[Number, Seen("numbers")]  # the first with one that stays blank


# Groups of cells: column groups, by the client's own numbers, and row groups of each.
ColumnGroups = Annotated[memoryview, Seen("group numbers")]  # uint32, ascending
RowGroups = Annotated[
    memoryview, Seen("group numbers")
]  # bits, row groups by these column groups


class CellsRequest(Message, frozen=True):
    """Ask for tokens of cells held twice, by row; by column, to name those that differ.

    With hints, tokens are of rounded cells. There is one hint for each group of cells
    that the client does not own itself, by column group and then by row group.
    """

    columns: ColumnGroups
    rows: RowGroups
    hints: Annotated[list[memoryview] | None, Seen("cell hints")] = None
    by: Annotated[Line, Seen("numbers")] = "row"


class HintsRequest(Message, frozen=True):
    """Ask a client for hints on how to round cells that it owns."""

    columns: ColumnGroups
    rows: RowGroups
    by: Annotated[Line, Seen("numbers")] = "row"


class Hints(Message, frozen=True):
    """How to round cells, sealed for the other clients.

    One hint for each group of cells asked for, by column group, then by row group.
    """

    hints: Annotated[list[memoryview], Seen("cell hints")]


class CellTokens(Message, frozen=True):
    """One token per row and column group asked for, over all its cells there.

    By column there is one per column and row group.
    """

    tokens: Annotated[
        memoryview, Seen("cell tokens")
    ]  # uint64, by column group, then by row in the study's order, or by row group
    # and then by column


# A client's last phase before cells are compared: not all have blank cells.
PLACED = ("placement", "blanks", "known cells", "fill cells")

PHASES: Phases = {
    "rows": Phase(Message, (Rows, Refused), (START,)),
    "id forms": Phase(IdFormsRequest, (IdForms,), ("rows", "id forms")),
    "numbers": Phase(NumbersRequest, (Numbers,), ("rows", "id forms")),
    "targets": Phase(Message, (TargetTokens,), ("rows", "id forms", "numbers")),
    "placement": Phase(
        PlacementNotice, after=("rows", "id forms", "numbers", "targets")
    ),
    # Values of blank cells that others know, if the study shares them
    "blanks": Phase(CommonCells, (BlankNotes,), ("placement",)),
    "known cells": Phase(KnownRequest, (KnownNotes,), ("placement", "blanks")),
    "fill cells": Phase(FillRequest, (Filled,), PLACED[:-1]),
    # Comparison of cells held twice
    "cells": Phase(CellsRequest, (CellTokens,), (*PLACED, "cells", "hints")),
    "hints": Phase(HintsRequest, (Hints,), ("cells",)),
}
