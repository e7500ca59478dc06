"""A client's half of the alignment: it shows pseudonyms, and learns its place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyfdca.arrays import BoolArray, IntArray, TokenArray
from hyfdca.crypto.keys.pseudonyms import (
    NO_LABEL,
    NO_WEIGHT,
    AlignmentKeys,
    class_pseudonyms,
    feature_pseudonyms,
    label_tokens,
    sample_pseudonyms,
)
from hyfdca.crypto.keys.set_secrets import SetSecrets
from hyfdca.data.tables import Table
from hyfdca.data.target_columns import (
    is_known,
    is_labelled,
    is_left_out,
    target_texts,
    targets_of,
    texts_by_column,
)
from hyfdca.data.targets import Targets
from hyfdca.holdings.ownership import OwnCells
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import (
    RemoteProtocolError,
    pack_tokens,
    unpack_bits,
    unpack_choice,
    unpack_indices,
    unpack_order,
    unpack_places,
)
from hyfdca.protocol.messages import Message
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.admission import Admission, Placement
from hyfdca.stages.alignment.aligned_table import (
    AlignedTable,
    column_tokens,
    row_tokens,
)
from hyfdca.stages.alignment.blank_cells import SharedBlanks, first_blank
from hyfdca.stages.alignment.compared import ComparedGroups
from hyfdca.stages.alignment.hints import RoundedCells
from hyfdca.stages.alignment.kinds import pack_kinds
from hyfdca.stages.alignment.matching import n_repeated
from hyfdca.stages.alignment.own_checks import (
    classes_of,
    other_classes_of,
    refusal_of,
)
from hyfdca.stages.alignment.similar_ids import ShownForms
from hyfdca.stages.alignment.yes_or_no import answer_numbers


class AlignmentClient:
    """Answers from its own table; ``aligned`` exists once it knows its place.

    Parameters
    ----------
    pseudonyms : array (n_rows, 2), optional
        The pseudonyms of its rows; by default those that the keys give its IDs.
    secrets : SetSecrets, optional
        Needed if the study shares values of blank cells.
    admission : Admission, optional
        By default the client accepts every place.
    """

    def __init__(
        self,
        table: Table,
        keys: AlignmentKeys,
        settings: m.AlignmentSettings,
        pseudonyms: TokenArray | None = None,
        secrets: SetSecrets | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._table, self._keys, self._settings = table, keys, settings
        self._secrets, self._admission = secrets, admission or Admission()
        self._classes = classes_of(table, settings)
        self._given_pseudonyms = pseudonyms
        self._pseudonyms: TokenArray | None = None  # then in the study's order
        self._aligned: AlignedTable | None = None
        self._forms = ShownForms()
        self._rounded_by: dict[m.Line, RoundedCells] = {}
        self._compared = ComparedGroups()
        self.order = np.empty(0, np.int64)  # its rows, in the study's order
        self.columns = np.empty(0, np.int64)  # likewise

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            "rows": self._rows,
            "id forms": self._id_forms,
            "numbers": lambda r: answer_numbers(self._table, r),
            "targets": self._target_tokens,
            "placement": self._place,
            "blanks": lambda r: m.BlankNotes(self._blanks.blanks(r)),
            "known cells": lambda r: m.KnownNotes(self._blanks.known(r)),
            "fill cells": self._fill,
            "cells": self._cells,
            "hints": self._hints,
        }

    @property
    def table(self) -> Table:
        """Its table as it was read, with the values that others had for it."""
        return self._table

    @property
    def aligned(self) -> AlignedTable:
        """Its table in the study's order."""
        if self._aligned is None:
            raise RemoteProtocolError("the placement has not come yet")
        return self._aligned

    def _rows(self, _: Message) -> m.Rows | m.Refused:
        if self._aligned is not None:
            raise RemoteProtocolError("rows are asked for after their placement")
        refused = refusal_of(self._table, self._classes, self._settings)
        if refused is not None:
            return refused
        table, keys = self._table, self._keys
        pseudonyms = self._given_pseudonyms
        if pseudonyms is None:
            pseudonyms = sample_pseudonyms(table.ids, keys)
        if repeated := n_repeated(pseudonyms):
            return m.Refused("repeated", repeated)
        self._pseudonyms = pseudonyms
        names, hidden, tokens = list(table.features), None, None
        others = other_classes_of(table, self._settings)
        if self._settings.hide_feature_names:
            names, hidden = [], pack_tokens(feature_pseudonyms(names, keys))
        if table.labels is not None:
            tokens = pack_tokens(_shown_tokens(table, pseudonyms, keys))
        return m.Rows(
            pack_tokens(pseudonyms),
            names,
            hidden,
            tokens,
            list(self._classes.names),
            self._classes.has_rest,
            pack_kinds(table.kinds),
            table.n_missing > 0,
            None if others is None else pack_tokens(class_pseudonyms(others, keys)),
        )

    def _id_forms(self, request: m.IdFormsRequest) -> m.IdForms:
        if self._settings.similar_ids != "refuse":
            raise RemoteProtocolError("the study does not compare similar IDs")
        return self._forms.answer(self._table.ids, request, self._keys)

    def _target_tokens(self, _: Message) -> m.TargetTokens:
        table, pseudonyms = self._table, self._pseudonyms
        if pseudonyms is None or table.labels is None:
            raise RemoteProtocolError("labels are requested before rows, or none exist")
        settings, tokens = self._settings, []
        is_number = settings.task == "regression"
        columns = texts_by_column(table, is_number, settings.rounds_targets)
        for number, texts in enumerate(columns):
            numbered = [f"{number} {text}" for text in texts]
            own = label_tokens(pseudonyms, numbered, self._keys)
            own[~is_labelled(table)] = NO_LABEL
            tokens.append(pack_tokens(own))
        return m.TargetTokens(tokens)

    def _place(self, notice: m.PlacementNotice) -> None:
        if self._pseudonyms is None or self._aligned is not None:
            raise RemoteProtocolError("a placement comes before the rows, or twice")
        table = self._table
        rows = self._placed(notice.rows)
        columns = unpack_order(notice.columns, len(table.features))
        own = _own_cells(notice, (len(rows), len(columns)))
        counts_rows = unpack_bits(notice.counts_rows, own.owns.shape[:1])
        if table.labels is None and counts_rows.any():
            raise RemoteProtocolError("a client is to count losses, but has no labels")
        if notice.counts_bias and not counts_rows.any():
            raise RemoteProtocolError("a client is to count the bias, which it lacks")
        counts_columns = unpack_bits(notice.counts_columns, own.owns.shape[1:])
        is_rounded = self._rounds(notice, len(rows))
        targets = self._targets(notice, rows, is_rounded)
        features = tuple(table.features[column] for column in columns.tolist())
        aligned = AlignedTable(
            features=features,
            cells=table.cells[rows][:, columns],
            targets=targets,
            own=own,
            counts_sample=counts_rows[own.row_groups],
            counts_feature=counts_columns[own.column_groups],
            counts_bias=notice.counts_bias,
            classes=tuple(notice.classes),
            n_samples=notice.n_samples,
            levels=_levels(table, features, notice.categories),
        )
        self._admission.place(Placement(aligned, rows, columns, is_rounded))
        self._aligned = aligned
        self._pseudonyms = self._pseudonyms[rows]
        self.order, self.columns = rows, columns

    def _placed(self, payload: memoryview) -> IntArray:
        """Return the rows that have a place, if only rows without a label have none."""
        table = self._table
        if not self._settings.needs_labels:
            return unpack_order(payload, len(table.ids))
        rows = unpack_choice(payload, len(table.ids))
        is_absent = np.ones(len(table.ids), dtype=bool)
        is_absent[rows] = False
        if np.any(is_absent & is_known(table)) or np.any(is_left_out(table)[rows]):
            raise RemoteProtocolError("other rows are left out than those to leave out")
        return rows

    def _rounds(self, notice: m.PlacementNotice, n_rows: int) -> BoolArray:
        """Return of which rows the server has targets rounded."""
        if notice.rounded is None:
            return np.zeros(n_rows, dtype=bool)
        if not self._settings.rounds_targets:
            raise RemoteProtocolError("the study does not round labels")
        return unpack_bits(notice.rounded, (n_rows,))

    def _targets(
        self, notice: m.PlacementNotice, rows: IntArray, is_rounded: BoolArray
    ) -> Targets | None:
        """Return the targets of this client's rows, rounded where the server asks."""
        self._check_classes(notice.classes)
        table, settings = self._table, self._settings
        if table.labels is None:
            return None
        targets = targets_of(table, notice.classes, settings.positive, settings.targets)
        targets = targets.of_rows(rows)
        return targets.rounded(is_rounded) if is_rounded.any() else targets

    def _check_classes(self, classes: list[str]) -> None:
        """Refuse classes that cannot be those of this client's labels."""
        positive = self._settings.positive
        if self._settings.task == "regression":
            is_possible = not classes
        elif positive is None:
            is_possible = {*self._classes.names} <= {*classes} and len(classes) > 1
        else:
            is_possible = len(classes) == 2 and classes[1] == positive
        if not is_possible or len(set(classes)) < len(classes):
            raise RemoteProtocolError("these cannot be the classes of the study")

    @property
    def _blanks(self) -> SharedBlanks:
        if self._settings.blank_cells != "share" or self._secrets is None:
            raise RemoteProtocolError("the study does not share cells that are blank")
        orders = (self.order, self.columns)
        placed = (self.aligned, self._placed_pseudonyms)
        secrets, share = self._secrets, self._admission.share
        return SharedBlanks(self._table, orders, *placed, secrets, share)

    def _fill(self, request: m.FillRequest) -> m.Filled:
        table, before = self._blanks.filled(request), self.aligned
        levels = {name: table.levels.get(name, ()) for name in before.levels}
        cells = table.cells[self.order][:, self.columns]
        self._table, self._aligned = table, replace(before, cells=cells, levels=levels)
        n_blank, column = first_blank(self._aligned)
        return m.Filled(first_blank(before)[0] - n_blank, n_blank, column)

    def _cells(self, request: m.CellsRequest) -> m.CellTokens:
        columns, is_wanted = _rectangles(request, self.aligned.own)
        shown = "cells", request.by, request.hints is not None
        with self._compared.once(shown, columns):
            return self._tokens(request, columns, is_wanted)

    def _tokens(
        self, request: m.CellsRequest, columns: IntArray, is_wanted: BoolArray
    ) -> m.CellTokens:
        table, own = self.aligned, self.aligned.own
        if request.hints is not None:
            others = _listed(is_wanted & ~own.owns[:, columns], columns)
            table = self._rounded(request.by).table(*others, request.hints)
        given = self._placed_pseudonyms, self._keys, request.hints is not None
        if request.by == "column":
            tokens = column_tokens(table, _listed(is_wanted, columns), *given)
        else:
            by_row = row_tokens(table, columns, *given)
            tokens = by_row[is_wanted[own.row_groups].T]
        return m.CellTokens(pack_tokens(tokens))

    def _hints(self, request: m.HintsRequest) -> m.Hints:
        columns, is_wanted = _rectangles(request, self.aligned.own)
        rounded = self._rounded(request.by)
        with self._compared.once(("hints", request.by, True), columns):
            return m.Hints(rounded.hints(*_listed(is_wanted, columns)))

    @property
    def _placed_pseudonyms(self) -> TokenArray:
        assert self._pseudonyms is not None  # noqa: S101  # before the placement
        return self._pseudonyms

    def _rounded(self, by: m.Line) -> RoundedCells:
        tolerance, key = self._settings.cell_tolerance, self._keys.cells
        if not tolerance:
            raise RemoteProtocolError("the study does not round cells")
        if by not in self._rounded_by:
            placed = self.aligned, self._placed_pseudonyms
            self._rounded_by[by] = RoundedCells(*placed, key, tolerance, by)
        return self._rounded_by[by]


def _rectangles(
    request: m.CellsRequest | m.HintsRequest, own: OwnCells
) -> tuple[IntArray, BoolArray]:
    """Return the column groups of a request, and the row groups it names for each."""
    columns = unpack_indices(request.columns, own.owns.shape[1])
    return columns, unpack_bits(request.rows, (own.owns.shape[0], len(columns)))


def _listed(is_wanted: BoolArray, columns: IntArray) -> tuple[IntArray, IntArray]:
    """Return the row and column groups of rectangles, by column group."""
    places, row_groups = np.nonzero(is_wanted.T)
    return row_groups, columns[places]


def _own_cells(notice: m.PlacementNotice, shape: tuple[int, int]) -> OwnCells:
    """Return which cells of a table of that shape the client counts."""
    row_groups, n_row_groups = _groups(notice.row_groups, shape[0])
    column_groups, n_column_groups = _groups(notice.column_groups, shape[1])
    owns = unpack_bits(notice.owns, (n_row_groups, n_column_groups))
    return OwnCells(row_groups, column_groups, owns)


def _groups(payload: memoryview, size: int) -> tuple[IntArray, int]:
    """Return the group of each thing, and how many groups there are."""
    groups = unpack_places(payload, size, size)
    sizes = np.bincount(groups)
    if not sizes.all():
        raise RemoteProtocolError("groups are numbered with gaps")
    return groups, len(sizes)


def _levels(
    table: Table, features: tuple[str, ...], categories: memoryview | None
) -> dict[str, tuple[str, ...]]:
    """Return the levels of the columns that are categories in the study.

    A column that is blank here may be a category elsewhere.
    """
    named: set[str] = set()
    if categories is not None:
        is_category = unpack_bits(categories, (len(features),))
        named = {features[column] for column in np.flatnonzero(is_category)}
    blank = {
        name
        for name, kind in zip(table.features, table.kinds, strict=False)
        if kind == "blank"
    }
    if not table.levels.keys() <= named or named - table.levels.keys() - blank:
        raise RemoteProtocolError("these cannot be the categories of the study")
    return {name: table.levels.get(name, ()) for name in features if name in named}


def _shown_tokens(
    table: Table, pseudonyms: TokenArray, keys: AlignmentKeys
) -> TokenArray:
    """Return a token of each row's label, weight and offset, or why it has none."""
    tokens = label_tokens(pseudonyms, target_texts(table), keys)
    tokens[is_left_out(table)] = NO_WEIGHT
    tokens[~is_labelled(table)] = NO_LABEL
    return tokens
