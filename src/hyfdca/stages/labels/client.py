"""Labels and weights, a client's half; ``server.py`` has the exchanges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.fixedpoint import GridOverflowError, power_above
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.data.labels import n_outputs
from hyfdca.data.targets import SampleLosses, Targets, TargetSettings, class_weights
from hyfdca.federation.messages import GridRequest
from hyfdca.federation.sealing.client_sealing import Sealing
from hyfdca.federation.sealing.kinds import SampleKind, TotalsKind
from hyfdca.federation.sealing.unopened import UnopenedError
from hyfdca.model.scaling import TargetScaling, target_scaling
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError, unpack_indices
from hyfdca.protocol.messages import Message, Part, Sealed
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.labels import messages as m
from hyfdca.stages.labels.transfer import given_part, taken_values


def label_client(
    aligned: AlignedTable, settings: TargetSettings, sealers: Sealers
) -> LabelClient | WeightClient:
    """Return a client's half, with or without labels."""
    n_held = len(aligned.counts_sample)
    sealing = Sealing("sealed", sealers, (n_held, 0), 1)
    if aligned.targets is None:
        return WeightClient(aligned, settings, sealing)
    return LabelClient(aligned, aligned.targets, sealing)


class LabelClient:
    """Gives labels that others lack, takes those that it lacks, and weighs its rows."""

    def __init__(
        self, aligned: AlignedTable, targets: Targets, sealing: Sealing
    ) -> None:
        self._aligned, self._targets, self._sealing = aligned, targets, sealing
        self._settings = targets.settings
        self._n_totals = len(aligned.classes) if self._settings.is_balanced else 1
        self._totals: FloatArray | None = None
        self._mean = 0.0
        is_scaled = self._settings.scaling != "none"
        self._target = None if is_scaled else TargetScaling()

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            "arrange": self._sealing.arrange,
            "give labels": self._give_labels,
            "take labels": self._take_labels,
            "weight bound": self._bound,
            "weigh rows": self._weigh,
            "weight totals": self._take_totals,
            "give weights": self._give_weights,
            "target bound": lambda _: self._bound_of(np.abs(self._counted_targets())),
            "target parts": lambda r: self._part_of(self._counted_targets(), r),
            "target total": self._take_mean,
            "square bound": lambda _: self._bound_of(self._counted_squares()),
            "square parts": lambda r: self._part_of(self._counted_squares(), r),
            "square total": self._take_square,
            "target scaling": self._release_target,
        }

    @property
    def losses(self) -> SampleLosses:
        """The targets of this client's samples, once everything is known."""
        targets, target = self._complete, self.target
        width, offsets = n_outputs(self._aligned.classes), targets.offsets
        if offsets is not None:
            offsets = _by_output(offsets / target.scale, width, usual=0.0)
        weights = _by_output(self._weights(), width, usual=1.0)
        labels = targets.encoded
        if self._settings.scaling != "none":
            labels = target.apply(labels)
        return SampleLosses(labels, weights, offsets)

    @property
    def row_weights(self) -> FloatArray | None:
        """The weight of each sample in the table, (samples, 1); None for 1."""
        weights = self._complete.weights
        return None if weights is None else weights[:, None]

    @property
    def _complete(self) -> Targets:
        if not self._targets.is_known.all():
            raise RemoteProtocolError("labels that others have did not come")
        return self._targets

    def _weights(self) -> FloatArray:
        """Return c s N / Σ s of each sample, with c the weight of its class."""
        targets, settings, totals = self._complete, self._settings, self._totals
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

    def _give_labels(self, request: m.GiveRequest) -> Part:
        return self._given("labels", self._targets.values, request)

    def _given(
        self, kind: SampleKind, values: FloatArray, request: m.GiveRequest
    ) -> Part:
        """Return what is known about some rows, if the study lets holders know."""
        rows = unpack_indices(request.positions, len(values))
        if not self._settings.labels_visible:
            raise RemoteProtocolError("the study lets no other holder learn labels")
        if not self._targets.is_known[rows].all():
            raise RemoteProtocolError("a label is asked for that this client lacks")
        return given_part(self._sealing, kind, values[rows], rows)

    def _take_labels(self, notice: m.LabelsNotice) -> None:
        rows = np.flatnonzero(~self._targets.is_known)
        n_columns = self._settings.n_columns
        values = taken_values(self._sealing, "labels", notice.values, rows, n_columns)
        try:
            self._targets = self._targets.completed(rows, values)
        except ValueError as error:
            raise UnopenedError from error

    # Weights

    def _counted(self) -> FloatArray:
        """Return the sums of the weights that this client counts, by class."""
        targets = self._complete.of_rows(np.flatnonzero(self._aligned.counts_sample))
        is_balanced = self._settings.is_balanced
        classes = targets.classes if is_balanced else np.zeros_like(targets.classes)
        return np.bincount(classes, targets.weights, self._n_totals).astype(np.float64)

    def _bound(self, _: Message) -> m.SumBound:
        return m.SumBound(power_above(float(self._counted().sum())))

    def _weigh(self, request: GridRequest) -> Part:
        return self._total_part("weight totals", self._counted(), request)

    def _total_part(
        self, kind: TotalsKind, sums: FloatArray, request: GridRequest
    ) -> Part:
        try:
            sealed = self._sealing.sealed_totals(kind, sums, request.grid)
        except GridOverflowError:
            raise RemoteProtocolError("the grid is too fine for these sums") from None
        return Part(Sealed(sealed.fraction_bits, sealed.payload))

    def _take_totals(self, notice: m.TotalsNotice) -> None:
        shape = (1, self._n_totals)
        [totals] = self._sealing.opened_totals("weight totals", notice.totals, shape)
        if not np.all(totals > 0.0):
            raise RefusedError("the rows of a class have no weight")
        self._totals = totals

    def _give_weights(self, request: m.GiveRequest) -> Part:
        return self._given("sample weights", self._weights()[:, None], request)

    # Targets that are scaled

    @property
    def target(self) -> TargetScaling:
        """How the targets are scaled, once that is known."""
        if self._target is None:
            raise RemoteProtocolError("the scale of the targets did not come")
        return self._target

    def _counted_targets(self) -> FloatArray:
        """Return s_i y_i of the rows that this client counts."""
        return self._counted_rows(lambda values: values)

    def _counted_squares(self) -> FloatArray:
        """Return s_i (y_i - mean)² of the rows that this client counts."""
        return self._counted_rows(lambda values: (values - self._mean) ** 2)

    def _counted_rows(self, of: Callable[[FloatArray], FloatArray]) -> FloatArray:
        if self._settings.scaling == "none":
            raise RemoteProtocolError("the study does not scale its targets")
        targets = self._complete.of_rows(np.flatnonzero(self._aligned.counts_sample))
        values = of(targets.encoded[:, 0])
        return values if targets.weights is None else targets.weights * values

    def _bound_of(self, values: FloatArray) -> m.SumBound:
        return m.SumBound(power_above(float(values.sum())))

    def _part_of(self, values: FloatArray, request: GridRequest) -> Part:
        return self._total_part("target totals", np.array([values.sum()]), request)

    def _mean_of(self, notice: m.TargetTotal) -> float:
        opened = self._sealing.opened_totals("target totals", notice.total, (1, 1))
        total = float(opened[0, 0])
        n_rows = self._aligned.n_samples
        return total / (n_rows if self._totals is None else float(self._totals.sum()))

    def _take_mean(self, notice: m.TargetTotal) -> None:
        self._mean = self._mean_of(notice)

    def _take_square(self, notice: m.TargetTotal) -> None:
        is_centred = self._settings.scaling == "centre"
        mean_square = max(self._mean_of(notice), 0.0)
        self._target = target_scaling(self._mean, mean_square, is_centred)

    def _release_target(self, _: Message) -> m.TargetReleased:
        target = self.target
        return m.TargetReleased(target.centre, target.scale)


class WeightClient:
    """A client without labels: it needs the weights of its samples, if there are any.

    A holder's share of the weights is Σ v_i α_i x_i, so duals alone do not suffice.
    """

    def __init__(
        self, aligned: AlignedTable, settings: TargetSettings, sealing: Sealing
    ) -> None:
        self._aligned, self._settings, self._sealing = aligned, settings, sealing
        n_held = len(aligned.counts_sample)
        is_needed = settings.is_weighted and n_held > 0
        self._weights = None if is_needed else np.ones(n_held)

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {"arrange": self._sealing.arrange, "take weights": self._take_weights}

    @property
    def losses(self) -> SampleLosses:
        """What it knows about the losses of its samples: their weights."""
        if self._weights is None:
            raise RemoteProtocolError("the weights of its samples did not come")
        width = n_outputs(self._aligned.classes)
        return SampleLosses(None, _by_output(self._weights, width, usual=1.0))

    def _take_weights(self, notice: m.WeightsNotice) -> None:
        if not self._settings.is_weighted:
            raise RemoteProtocolError("the study has no weights")
        rows = np.arange(len(self._aligned.counts_sample))
        values = taken_values(self._sealing, "sample weights", notice.values, rows, 1)
        weights = values[:, 0]
        if not np.all(np.isfinite(weights) & (weights >= 0.0)):
            raise UnopenedError
        self._weights = weights


def _by_output(values: FloatArray, width: int, usual: float) -> FloatArray | None:
    """Return one number per sample for all outputs; None if all are the usual one."""
    if np.all(values == usual):
        return None
    return np.repeat(values[:, None], width, axis=1)
