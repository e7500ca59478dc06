"""Alignment, the server's half: it matches pseudonyms and sends each client its place.

It comes before everything else, as a separate conversation.

| phase     | down                                 | up                               |
|-----------|--------------------------------------|----------------------------------|
| rows      | -                                    | pseudonyms of IDs, feature names |
|           |                                      | (or pseudonyms of them) and      |
|           |                                      | kinds, tokens of (ID, label) or  |
|           |                                      | "no label", class names          |
| id forms  | forms, to clients that share few     | pseudonyms of IDs in these forms |
|           | rows                                 |                                  |
| numbers   | columns of numbers that are yes and  | which have others than 0 and 1   |
|           | no at another client                 |                                  |
| targets   | to clients with labels, if some      | tokens of labels, weights and    |
|           | differ                               | offsets, in single precision     |
| placement | order of rows and columns, their     | -                                |
|           | groups, what is counted, classes,    |                                  |
|           | which columns are categories, which  |                                  |
|           | labels to round                      |                                  |
| blanks    | which of its cells others hold too,  | which of them are blank, sealed  |
|           | if it has blank ones                 | for each of these                |
| known     | these notes                          | what it has in these cells,      |
| cells     |                                      | sealed for each that asked       |
| fill      | these notes                          | how many got a value             |
| cells     |                                      |                                  |
| cells     | groups that hold cells held twice    | tokens of the rows' cells there; |
|           |                                      | of the columns' if some differ   |
| hints     | such groups that the client owns, if | how to round its cells, sealed   |
|           | tokens differ                        | for those that hold them too     |

The server sees which pseudonyms and tokens are equal, and who has no label of which
row; it has no key. It learns how many cells are blank, but not which. Rows without a
label anywhere, or of weight 0, get no place. All that a client learns about others is
the groups of its own rows and columns, numbered in its own order, and whether it counts
them. Since rows are numbered by their first holder, the order of shared rows tells a
client in which order that holder has them in its table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hyfdca.arrays import BoolArray, ByteArray, IntArray, TokenArray
from hyfdca.data.labels import common_classes
from hyfdca.data.tables import KINDS, Kind
from hyfdca.holdings.axis import Axis
from hyfdca.holdings.coverage import coverage_of
from hyfdca.holdings.layout import Layout
from hyfdca.holdings.ownership import CellHolders, cell_holders
from hyfdca.protocol.codec import (
    pack_bits,
    pack_indices,
)
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import (
    BadReplyError,
    Conversation,
    ServerSession,
    reply_of,
)
from hyfdca.stages.alignment import checks, class_checks
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.blank_exchange import fill_blanks
from hyfdca.stages.alignment.comparison import CellComparison
from hyfdca.stages.alignment.held_out import TrainedRows, check_some_held_out
from hyfdca.stages.alignment.kinds import (
    CATEGORY,
    agreed_kinds,
    check_categorical,
)
from hyfdca.stages.alignment.label_rows import Blanks, LabelRows
from hyfdca.stages.alignment.matching import Matched, match
from hyfdca.stages.alignment.shown import (
    Shown,
    label_rows_of,
    names_of,
    read_shown,
)
from hyfdca.stages.alignment.similar_ids import find_similar_ids
from hyfdca.stages.alignment.target_comparison import compare_targets
from hyfdca.stages.alignment.yes_or_no import check_yes_or_no

_Orders = tuple[IntArray, IntArray]  # of a client's rows and columns


@dataclass(frozen=True)
class Alignment:
    """The aligned problem, and who holds what, as far as a server knows.

    Parameters
    ----------
    features : tuple of str
        Names of all features, or their pseudonyms where names are hidden.
    classes : tuple of str
        Empty for regression; negative and positive class where there are two.
    kinds : array (features,)
        The kind of each feature, as its place in ``KINDS``.
    blanks : Blanks
        Labels that some clients lack and others have.
    is_rounded : array (samples,)
        Whether the label, weight and offset of each are taken in single precision,
        because a holder has no more digits.
    n_without_label, n_without_weight : int
        Rows that were left out: nobody has their label, or their weight is 0.
    n_filled : int
        Blank cells of a client that got a value from another one.
    has_blanks : bool
        Whether any client has a blank cell.
    label_owners : array (samples,)
        The lowest-ranked client that has the label of each.
    """

    layout: Layout
    features: tuple[str, ...]
    classes: tuple[str, ...]
    kinds: ByteArray
    blanks: Blanks
    is_rounded: BoolArray
    n_without_label: int = 0
    n_without_weight: int = 0
    n_filled: int = 0
    has_blanks: bool = False
    label_owners: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def is_category(self) -> BoolArray:
        """Which features are categories."""
        return np.equal(self.kinds, CATEGORY)

    def named(self, kind: Kind) -> tuple[str, ...]:
        """Return the names of the features of one kind."""
        places = np.flatnonzero(self.kinds == KINDS.index(kind))
        return tuple(self.features[place] for place in places.tolist())


class AlignmentServer:
    """Matches clients' rows and columns, or raises ``AlignmentError``.

    Parameters
    ----------
    trained : TrainedRows, optional
        What is known about the training rows, where rows set aside are aligned.
    """

    def __init__(
        self,
        names: Sequence[str],
        settings: m.AlignmentSettings,
        session: ServerSession,
        trained: TrainedRows | None = None,
    ) -> None:
        self._names, self._settings, self._session = names, settings, session
        self._trained = trained
        self.pseudonyms: list[TokenArray] = []  # that clients have shown

    def run(self) -> Conversation[Alignment]:
        """Align all tables; every client then knows its place."""
        shown = yield from self._ask_rows()
        self.pseudonyms = [own.pseudonyms for own in shown]
        if self._trained is not None:
            self._trained.check_apart(self._names, self.pseudonyms)
        rows = match({c: own.pseudonyms for c, own in enumerate(shown)})
        yield from self._compare_ids(rows.axis)
        columns = match({c: own.features for c, own in enumerate(shown)})
        labels = label_rows_of(shown, rows)
        every = self._every(shown, rows, columns)
        yield from check_yes_or_no(self._names, shown, columns, self._session)
        is_rounded = np.zeros(rows.axis.n_items, dtype=bool)
        if self._settings.needs_labels:
            is_rounded = yield from self._compare_labels(every, rows, labels)
        alignment, orders = self._matched(shown, (rows, columns), labels, is_rounded)
        blank = [client for client, own in enumerate(shown) if own.has_blanks]
        layout = alignment.layout
        del shown, rows  # large, and not needed once they are matched
        holders = cell_holders(layout.samples, layout.features)
        notices = {
            client: _notice(alignment, client, own, holders[client])
            for client, own in enumerate(orders)
        }
        del orders
        yield from self._session.tell("placement", notices)
        del notices
        if blank and self._settings.blank_cells == "share":
            replies = yield from fill_blanks(layout, holders, blank, self._session)
            alignment = self._filled(alignment, replies)
        if self._settings.disagreeing_cells == "refuse":
            yield from self._compare_cells(alignment, holders)
        return alignment

    def _filled(
        self, alignment: Alignment, replies: Mapping[int, m.Filled]
    ) -> Alignment:
        """Note how many cells got a value; refuse those that stay blank, if needed."""
        for client, reply in replies.items():
            own = alignment.layout.features.items[client]
            if reply.n_blank and not reply.column < len(own):
                raise BadReplyError("fill cells", client, "it has no such column")
            if reply.n_blank and self._settings.needs_values:
                column = alignment.features[int(own[reply.column])]
                raise checks.blank_cells(self._names[client], reply.n_blank, column)
        n_filled = sum(reply.n_filled for reply in replies.values())
        return replace(alignment, n_filled=n_filled)

    def _compare_ids(self, rows: Axis) -> Conversation[None]:
        """Refuse IDs that differ only in how they are written."""
        if self._settings.similar_ids == "refuse":
            found = yield from find_similar_ids(rows, self._session)
            checks.check_similar_ids(self._names, found)

    def _compare_cells(
        self, alignment: Alignment, holders: Sequence[CellHolders]
    ) -> Conversation[None]:
        """Refuse cells that differ, exactly or by more than the tolerance."""
        comparison = CellComparison(alignment.layout, holders, self._session)
        counts = yield from comparison.counts()
        tolerance = self._settings.cell_tolerance
        if counts and tolerance:
            comparison = replace(comparison, is_rounded=True)
            counts = yield from comparison.counts()
        if counts:
            differing = yield from comparison.columns()
            columns = [alignment.features[column] for column in differing.tolist()]
            shares = self._settings.blank_cells == "share"
            raise checks.differing_cells(
                self._names,
                counts,
                columns,
                None if alignment.is_category[differing].all() else tolerance,
                alignment.layout.samples.items,
                may_be_blank=alignment.has_blanks and not shares,
            )

    def _compare_labels(
        self, every: Layout, rows: Matched, labels: LabelRows
    ) -> Conversation[BoolArray]:
        """Check all rows' labels; return which ones holders must round."""
        names, settings = self._names, self._settings
        columns = settings.targets.columns
        compared = yield from compare_targets(
            every, rows.orders, labels, columns, self._session
        )
        if compared.counts:
            rows_of = every.samples.items
            raise checks.differing_targets(names, compared, settings, rows_of)
        if settings.is_held_out:
            check_some_held_out(labels.is_labelled)
            return compared.is_rounded
        checks.check_labelled(names, every.samples.items, labels.is_labelled)
        checks.check_labels_visible(names, labels.blanks(), settings)
        return compared.is_rounded

    def _every(self, shown: Sequence[Shown], rows: Matched, columns: Matched) -> Layout:
        """Return who holds what before rows are left out, if tables fit together."""
        if not self._settings.hide_feature_names:
            checks.check_names(self._names, [own.names for own in shown])
        labelled = tuple(own.label_tokens is not None for own in shown)
        every = Layout(rows.axis, columns.axis, labelled)
        if not self._settings.allow_unshared:
            checks.check_shared(self._names, every)
        return every

    def _matched(
        self,
        shown: Sequence[Shown],
        matched: tuple[Matched, Matched],
        labels: LabelRows,
        is_rounded: BoolArray,
    ) -> tuple[Alignment, list[_Orders]]:
        """Match what was shown; also return each client's order of rows and columns."""
        rows, columns = matched
        if self._settings.needs_labels:
            rows = rows.restricted(labels.is_labelled)
            is_rounded = is_rounded[labels.is_labelled]
        labelled = tuple(own.label_tokens is not None for own in shown)
        layout = Layout(rows.axis, columns.axis, labelled)
        alignment = self._alignment(layout, columns, shown, labels, is_rounded)
        return alignment, list(zip(rows.orders, columns.orders, strict=True))

    def _alignment(
        self,
        layout: Layout,
        columns: Matched,
        shown: Sequence[Shown],
        labels: LabelRows,
        is_rounded: BoolArray,
    ) -> Alignment:
        """Return the alignment of the remaining rows, if they make a study."""
        features = names_of(shown, columns)
        kinds = self._agreed_kinds(shown, columns, features)
        if self._settings.uncovered == "refuse":
            coverage = coverage_of(layout.samples, layout.features)
            checks.check_covered(self._names, coverage, features)
        n_left_out = len(labels.owners) - layout.samples.n_items
        return Alignment(
            layout,
            features,
            self._common_classes(layout, shown),
            kinds,
            labels.blanks(),
            is_rounded,
            n_left_out - labels.n_without_weight,
            labels.n_without_weight,
            has_blanks=any(own.has_blanks for own in shown),
            label_owners=self._label_owners(labels),
        )

    def _label_owners(self, labels: LabelRows) -> IntArray:
        is_kept = labels.is_labelled
        return labels.owners[is_kept] if self._settings.needs_labels else labels.owners

    def _agreed_kinds(
        self, shown: Sequence[Shown], columns: Matched, names: Sequence[str]
    ) -> ByteArray:
        if not self._settings.hide_feature_names:
            check_categorical(self._settings.categorical, names)
        each = zip(shown, columns.orders, strict=True)
        kinds = [own.kinds[order] for own, order in each]
        return agreed_kinds(self._names, names, columns.axis, kinds)

    def _ask_rows(self) -> Conversation[list[Shown]]:
        everyone = dict.fromkeys(range(len(self._names)), Message())
        replies = yield from self._session.ask("rows", everyone, Message)
        shown = []
        for client, reply in replies.items():
            if isinstance(reply, m.Refused):
                raise checks.refusal(self._names[client], reply, self._settings)
            assert isinstance(reply, m.Rows)  # noqa: S101  # the table of phases
            with reply_of(client):
                shown.append(read_shown(reply, self._settings))
        return shown

    def _common_classes(
        self, layout: Layout, shown: Sequence[Shown]
    ) -> tuple[str, ...]:
        if self._settings.task == "regression":
            return ()
        positive = self._settings.positive
        if self._trained is not None:
            self._trained.check_classes((own.classes for own in shown), positive)
            return self._trained.classes
        classes = common_classes((own.classes for own in shown), positive)
        class_checks.check_classes(classes, self._settings, layout.samples.n_items)
        class_checks.check_spelling(self._names, [own.classes.names for own in shown])
        if self._settings.max_classes is not None:
            return classes
        if positive is None:
            class_checks.check_linked(self._names, [own.classes.names for own in shown])
        else:
            own_classes = [own.classes for own in shown]
            others = [own.other_classes for own in shown]
            class_checks.check_linked_to_positive(
                self._names, own_classes, others, positive
            )
        return classes


def _notice(
    alignment: Alignment, client: int, orders: _Orders, held: CellHolders
) -> m.PlacementNotice:
    """Return the notice of a client's place."""
    layout, (rows, columns) = alignment.layout, orders
    is_category = alignment.is_category[layout.features.items[client]]
    counts_rows = np.zeros(held.owners.shape[0], dtype=bool)
    counts_rows[held.row_groups] = layout.counts_samples(client)
    counts_columns = np.zeros(held.owners.shape[1], dtype=bool)
    counts_columns[held.column_groups] = layout.counts_features(client)
    is_rounded = alignment.is_rounded[layout.samples.items[client]]
    rounds = layout.labelled[client] and bool(is_rounded.any())
    return m.PlacementNotice(
        n_samples=layout.samples.n_items,
        rows=pack_indices(rows),
        columns=pack_indices(columns),
        row_groups=pack_indices(held.row_groups),
        column_groups=pack_indices(held.column_groups),
        owns=pack_bits(held.own_cells(client).owns),
        counts_rows=pack_bits(counts_rows),
        counts_columns=pack_bits(counts_columns),
        counts_bias=client == layout.bias_designee,
        classes=list(alignment.classes),
        categories=pack_bits(is_category) if is_category.any() else None,
        rounded=pack_bits(is_rounded) if rounds else None,
    )
