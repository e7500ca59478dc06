"""The evaluation, the server's half: the released model on rows that were set aside.

It comes after the release of the model, as a separate conversation. Scores come
first (``scores.py``), then sums over the rows of all label holders, which one client
opens for the server.

| phase            | who           | down                    | up                      |
|------------------|---------------|-------------------------|-------------------------|
| evaluated model  | everybody     | the released model      | a proof of which it is  |
| same model       | everybody     | the proofs of all       | -                       |
| measure bounds   | label holders | a centre                | powers of two           |
| measures         | label holders | the same, grids         | sums of losses, errors, |
|                  |               |                         | rows by class           |
| score bins       | label holders | edges of bins           | rows by class and bin   |
| calibration bins | label holders | tenths at which bins    | rows, probabilities and |
|                  |               | end                     | labels by bin           |
| recalibration    | label holders | intercept and slope     | a loss, its derivatives |
| open measures    | one client    | sums of all parts       | the sums, open          |

Theory of operation. A client tests only the model whose weights it released, and only
if all others were sent the same: otherwise a server could have a model of its choice
tested, one column after the other. Questions about scores are also limited, over the
whole run (``answered.py``), and no client shows fewer than
``min_bin`` rows of a class in a bin (``bins.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.registry import Adders
from hyfdca.data.labels import n_outputs
from hyfdca.federation.blame import sums_of
from hyfdca.maths.losses import Loss
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, pack_reals
from hyfdca.protocol.messages import Message, TotalsSpec
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.stages.alignment.server import Alignment
from hyfdca.stages.evaluation import messages as m
from hyfdca.stages.evaluation.bins import (
    Histogram,
    as_histograms,
    even_edges,
    first_edges,
    is_even,
)
from hyfdca.stages.evaluation.calibration import (
    TENTH_SCORES,
    Recalibration,
    as_bins,
    derivative_bounds,
    joined_tenths,
)
from hyfdca.stages.evaluation.curves import FINER, RocPoint, curves, finer_edges
from hyfdca.stages.evaluation.measures import (
    class_measures,
    number_measures,
    rates,
    widths_of,
)
from hyfdca.stages.evaluation.scores import HeldOut, ScoresServer
from hyfdca.stages.evaluation.totals import TotalsServer, largest_bounds

_FEWEST_BINS, _MOST_BINS = 10, 1000

Counted = tuple[Histogram, FloatArray]  # scores in bins, and pairs within clients


@dataclass(frozen=True)
class EvaluationSettings:
    """A study's settings for the evaluation."""

    loss: Loss
    min_bin: int

    @property
    def has_probabilities(self) -> bool:
        """Whether margins yield probabilities."""
        return self.loss.name == "logistic"


class EvaluationServer:
    """Lets clients test a model, and returns the results.

    Parameters
    ----------
    alignment : Alignment
        The alignment of the rows set aside.
    """

    def __init__(
        self,
        alignment: Alignment,
        settings: EvaluationSettings,
        adders: Adders,
        session: ServerSession,
    ) -> None:
        self._alignment, self._settings = alignment, settings
        self._adders, self._session = adders, session
        self._held_out = HeldOut(alignment.layout.samples, alignment.label_owners)
        self._classes = alignment.classes
        everyone = range(alignment.layout.n_clients)
        self._everyone = everyone
        self._totals = TotalsServer(adders, session, self._held_out.receivers, everyone)

    def run(self, model: bytes) -> Conversation[dict[str, Any]]:
        """Test a model; return the entry ``evaluation`` of ``result.json``."""
        yield from self._agree_on(model)
        width = n_outputs(self._classes)
        alignment, session = self._alignment, self._session
        scores = ScoresServer(self._held_out, width, self._adders, session)
        with sums_of(alignment.layout):
            yield from scores.run()
        left_out = alignment.n_without_label + alignment.n_without_weight
        measure = self._classification if self._classes else self._regression
        measures = yield from measure()
        n_rows = measures.pop("n_rows")
        return {"n_rows": n_rows, "n_rows_left_out": left_out, **measures}

    def _agree_on(self, model: bytes) -> Conversation[None]:
        """Send everybody the model, and the proof that all have the same."""
        sent = dict.fromkeys(self._everyone, m.EvaluatedModel(model))
        tags = yield from self._session.ask("evaluated model", sent, m.ModelTag)
        proofs = m.ModelTags([reply.tag for reply in tags.values()])
        same = dict.fromkeys(self._everyone, proofs)
        yield from self._session.ask("same model", same, Message)

    # Measures

    def _regression(self) -> Conversation[dict[str, Any]]:
        """Measure errors, and the spread of labels around their mean."""
        totals, _ = yield from self._measured(0.0)
        with self._reading():
            mean = float(totals[2][0] / totals[1][0])
        totals, _ = yield from self._measured(mean)
        with self._reading():
            return number_measures(totals)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Blame those who added to sums, or opened them, if the sums make no sense."""
        with (
            reply_of(*self._totals.contributors),
            np.errstate(all="raise", under="ignore"),
        ):
            yield

    def _measured(self, centre: float) -> Conversation[tuple[list[FloatArray], float]]:
        """Return all sums of measures, and a bound on the scores."""
        widths = widths_of(len(self._classes), self._settings.loss)
        request = m.BoundsRequest(centre)
        replies = yield from self._totals.ask(
            "measure bounds", request, m.MeasureBounds
        )
        sums = {client: reply.sums for client, reply in replies.items()}
        bounds = largest_bounds(sums, len(widths))
        score = max(reply.score for reply in replies.values())
        totals = yield from self._totals.gather(
            "measures", lambda grids: m.MeasuresRequest(centre, grids), bounds, widths
        )
        with self._reading():
            if _given(totals)[0][0] != len(self._held_out.owners):
                raise RemoteProtocolError(
                    "other rows were measured than those set aside"
                )
        return _given(totals), score

    def _classification(self) -> Conversation[dict[str, Any]]:
        totals, bound = yield from self._measured(0.0)
        n_classes = len(self._classes)
        with self._reading():
            measures = class_measures(totals, n_classes)
            by_class = rates(totals, n_classes)
        weight = float(totals[1][:n_classes].sum())
        rows = (measures["n_rows"], weight)
        counted = yield from self._histograms(rows, bound)
        with self._reading():
            # Of several classes the one with the highest score is predicted, which is
            # no point of a class's own curve.
            point = RocPoint(**by_class[1]) if n_classes == 2 else None
            found = [curves(*own, point) for own in counted]
        histograms = [histogram for histogram, _ in counted]
        calibrations = yield from self._calibrations(histograms, rows, bound)
        each = [
            {**own, "calibration": calibration}
            for own, calibration in zip(found, calibrations, strict=True)
        ]
        if n_classes == 2:
            return {**measures, **by_class[1], **each[0], "classes": None}
        named = zip(self._classes, by_class, each, strict=True)
        classes = {name: {**rate, **own} for name, rate, own in named}
        of_two = dict.fromkeys((*by_class[0], *each[0]))
        return {**measures, **of_two, "classes": classes}

    # Scores in bins

    def _histograms(
        self, rows: tuple[int, float], bound: float
    ) -> Conversation[list[Counted]]:
        """Count scores in bins, and in new ones until these hold about equal shares."""
        bound = max(bound, np.finfo(np.float64).tiny)
        n_bins = rows[0] // self._settings.min_bin
        n_bins = min(max(n_bins, _FEWEST_BINS), _MOST_BINS)
        more = TENTH_SCORES if self._settings.has_probabilities else np.empty(0)
        width = n_outputs(self._classes)
        edges = [np.union1d(first_edges(bound, n_bins), more)] * width
        for _ in range(m.MOST_PASSES - 1):
            counted = yield from self._counted(edges, rows)
            with self._reading():
                if all(is_even(histogram, n_bins) for histogram, _ in counted):
                    break
                edges = [
                    np.union1d(even_edges(histogram, bound, n_bins), more)
                    for histogram, _ in counted
                ]
        if rows[0] >= FINER * n_bins * self._settings.min_bin:
            with self._reading():
                edges = [finer_edges(histogram) for histogram, _ in counted]
            counted = yield from self._counted(edges, rows)
        return counted

    def _counted(
        self, edges: list[FloatArray], rows: tuple[int, float]
    ) -> Conversation[list[Counted]]:
        """Return bins and pairs within clients, by output."""
        size = sum(4 * (len(own) + 1) for own in edges)
        packed = [pack_reals(own) for own in edges]
        totals = yield from self._totals.gather(
            "score bins",
            lambda grids: m.BinsRequest(grids, packed),
            [*rows, rows[1] ** 2],
            [size, size, 4 * len(edges)],
        )
        counts, weights, pairs = _given(totals)
        histograms = as_histograms(edges, counts, weights)
        return list(zip(histograms, pairs.reshape(-1, 4), strict=True))

    # Calibration

    def _calibrations(
        self, histograms: Sequence[Histogram], rows: tuple[int, float], bound: float
    ) -> Conversation[list[dict[str, Any] | None]]:
        """Return the calibration of each output, if there are probabilities."""
        if not self._settings.has_probabilities:
            return [None] * len(histograms)
        bins = yield from self._calibration_bins(histograms, rows)
        lines = yield from self._lines(len(histograms), rows[1], bound)
        return [
            {"slope": slope, "intercept": intercept, "bins": own}
            for (intercept, slope), own in zip(lines, bins, strict=True)
        ]

    def _calibration_bins(
        self, histograms: Sequence[Histogram], rows: tuple[int, float]
    ) -> Conversation[list[list[dict[str, Any]]]]:
        """Return predicted and observed shares by bin; None if a client withholds."""
        ends: list[IntArray] = [
            joined_tenths(own, self._settings.min_bin) for own in histograms
        ]
        size, packed = sum(map(len, ends)), [pack_indices(own) for own in ends]
        totals = yield from self._totals.gather(
            "calibration bins",
            lambda grids: m.CalibrationRequest(grids, packed),
            rows,
            [size, 3 * size],
        )
        if totals is None:
            return [[] for _ in ends]
        with self._reading():
            return as_bins(ends, *totals)

    def _lines(
        self, width: int, weight: float, bound: float
    ) -> Conversation[list[tuple[float | None, float | None]]]:
        """Return intercept and slope by output; None where they do not exist."""
        outputs = [Recalibration() for _ in range(width)]
        for _ in range(m.MOST_STEPS):
            if all(own.is_over for own in outputs):
                break
            points = np.array([own.point for own in outputs])
            totals = yield from self._totals.gather(
                "recalibration",
                partial(_recalibration, pack_reals(points)),
                derivative_bounds(points, bound, weight),
                [width] * 6,
            )
            with self._reading():
                for own, sums in zip(outputs, np.array(_given(totals)).T, strict=True):
                    own.take(sums, weight)
        return [own.line for own in outputs]


def _recalibration(
    points: memoryview, grids: list[TotalsSpec]
) -> m.RecalibrationRequest:
    return m.RecalibrationRequest(grids, points)


def _given(totals: list[FloatArray] | None) -> list[FloatArray]:
    """Return totals of a phase in which nobody may withhold its part."""
    assert totals is not None  # noqa: S101  # the table of phases
    return totals
