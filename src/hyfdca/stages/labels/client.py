"""Labels and weights, a client's half; ``server.py`` has the exchanges."""

from __future__ import annotations

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import power_above
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.data.targets import SampleLosses, Targets, class_weights
from hyfdca.federation.messages import GridRequest
from hyfdca.federation.sealing import Sealing
from hyfdca.protocol.codec import RemoteProtocolError, unpack_indices
from hyfdca.protocol.messages import Message, Part, TooLarge
from hyfdca.protocol.sessions import Handlers
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.labels import messages as m
from hyfdca.stages.labels.whole_numbers import (
    GRID,
    as_whole_numbers,
    from_whole_numbers,
    width_of,
)


class LabelClient:
    """Gives labels that others lack, takes those that it lacks, and weighs its rows."""

    def __init__(self, aligned: AlignedTable, sealers: Sealers) -> None:
        if aligned.targets is None:
            raise RemoteProtocolError("a client without labels is asked about them")
        self._aligned, self._targets = aligned, aligned.targets
        self._settings = aligned.targets.settings
        self._n_totals = len(aligned.classes) if self._settings.is_balanced else 1
        n_held = len(aligned.counts_sample)
        self._sealing = Sealing("sealed", sealers, (n_held, 0), 1)
        self._totals: FloatArray | None = None

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            "arrange": self._sealing.arrange,
            "give labels": self._give,
            "take labels": self._take,
            "weight bound": self._bound,
            "weigh rows": self._weigh,
            "weight totals": self._take_totals,
        }

    @property
    def losses(self) -> SampleLosses:
        """What the losses of this client's samples are, once everything is known."""
        targets = self._complete
        labels, offsets = targets.encoded, targets.offsets
        shape = labels.shape
        weights = self._weights(targets)
        return SampleLosses(
            labels,
            None if np.all(weights == 1.0) else _columns(weights, shape),
            None if offsets is None or not offsets.any() else _columns(offsets, shape),
        )

    @property
    def _complete(self) -> Targets:
        if not self._targets.is_known.all():
            raise RemoteProtocolError("labels that others have did not come")
        return self._targets

    def _weights(self, targets: Targets) -> FloatArray:
        """Return c s N / Σ s of each sample, with c the weight of its class."""
        settings, totals = self._settings, self._totals
        if settings.needs_totals and totals is None:
            raise RemoteProtocolError("the total of all weights did not come")
        weights = targets.weights
        if weights is None or totals is None:
            weights = np.ones(len(targets.values))
        else:
            weights = weights * (self._aligned.n_samples / totals.sum())
        by_class = class_weights(settings.class_weight, self._aligned.classes, totals)
        return weights if by_class is None else by_class[targets.classes] * weights

    # Labels that some holders lack

    def _give(self, request: m.GiveRequest) -> Part:
        rows = unpack_indices(request.positions, len(self._targets.values))
        if not self._settings.labels_visible:
            raise RemoteProtocolError("the study lets no other holder learn labels")
        if not self._targets.is_known[rows].all():
            raise RemoteProtocolError("a label is asked for that this client lacks")
        numbers = as_whole_numbers(self._targets.values[rows])
        part = self._sealing.sample_part(numbers, GRID, rows=rows)
        assert isinstance(part, Part)  # noqa: S101  # its numbers are below the limit
        return part

    def _take(self, notice: m.LabelsNotice) -> None:
        rows = np.flatnonzero(~self._targets.is_known)
        if [vector.fraction_bits for vector in notice.values] != [GRID.fraction_bits]:
            raise RemoteProtocolError("labels do not come as one sum of whole numbers")
        width = width_of(self._settings.n_columns)
        numbers = self._sealing.opened_samples(notice.values, rows, width)
        try:
            values = from_whole_numbers(numbers)
            self._targets = self._targets.completed(rows, values)
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from None

    # Sums of weights

    def _counted(self) -> FloatArray:
        """Return the sums of the weights that this client counts, by class."""
        targets = self._complete.of_rows(np.flatnonzero(self._aligned.counts_sample))
        classes = targets.classes if self._settings.is_balanced else None
        if classes is None:
            classes = np.zeros(len(targets.values), np.int64)
        return np.bincount(classes, targets.weights, self._n_totals).astype(np.float64)

    def _bound(self, _: Message) -> m.WeightBound:
        return m.WeightBound(power_above(float(self._counted().sum())))

    def _weigh(self, request: GridRequest) -> Part:
        part = self._sealing.total_part(self._counted(), request.grid)
        if isinstance(part, TooLarge):
            raise RemoteProtocolError("the grid is too fine for these weights")
        assert isinstance(part, Part)  # noqa: S101  # the only other answer
        return part

    def _take_totals(self, notice: m.TotalsNotice) -> None:
        totals = self._sealing.opened_totals(notice.totals, (1, self._n_totals))[0]
        if not np.all(totals > 0.0):
            raise RemoteProtocolError("the rows of a class have no weight")
        self._totals = totals


def _columns(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return one number per sample for all its outputs."""
    return np.repeat(values[:, None], shape[1], axis=1)
