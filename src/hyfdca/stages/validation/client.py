"""A point of the curves, a client's half; ``server.py`` has the exchanges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hyfdca.arrays import FloatArray
from hyfdca.data.targets import Targets
from hyfdca.maths.losses import Loss
from hyfdca.model.scaling import TargetScaling
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.stages.evaluation.held_out_client import (
    HeldOutClient,
    HeldOutInputs,
    bounds_of,
)
from hyfdca.stages.evaluation.messages import MeasureParts
from hyfdca.stages.evaluation.totals import sealed_parts
from hyfdca.stages.score_parts import OwnParts
from hyfdca.stages.validation import messages as m
from hyfdca.stages.validation.sums import own_sums


@dataclass(frozen=True, repr=False)
class PresentModel:
    """What a client knows about the present model, in the units of training.

    Parameters
    ----------
    intercept : array (n_outputs,) or None
        The intercept; None if the client does not know it.
    """

    parts: OwnParts
    intercept: FloatArray | None


@dataclass(frozen=True, repr=False)
class ValidationInputs(HeldOutInputs):
    """What a client needs to score rows.

    Parameters
    ----------
    present : callable
        Returns the model that a notice names, or refuses it.
    target : TargetScaling or None
        None without labels.
    """

    present: Callable[[m.PointNotice], PresentModel]
    loss: Loss
    target: TargetScaling | None


class ValidationClient(HeldOutClient[ValidationInputs]):
    """Gives parts of scores to label holders, and sums over the rows it labels."""

    def _forget(self) -> None:
        super()._forget()
        self._model: PresentModel | None = None
        self._sums: list[FloatArray] | None = None

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase."""
        return {
            **super().handlers,
            "validation point": self._take_point,
            "validation bounds": self._bounds,
            "validation sums": self._add_up,
        }

    def _take_point(self, notice: m.PointNotice) -> None:
        model = self._inputs.present(notice)
        self._forget()
        self._model = model

    @property
    def _present(self) -> PresentModel:
        if self._model is None:
            raise RemoteProtocolError("no point has been named yet")
        return self._model

    @property
    def _own_parts(self) -> OwnParts:
        return self._present.parts

    def _score(self, sums: FloatArray, targets: Targets) -> None:
        inputs, intercept = self._inputs, self._present.intercept
        if intercept is None or inputs.target is None:
            raise RemoteProtocolError("it lacks the intercept or labels of scores")
        self._sums = own_sums(sums + intercept, targets, inputs.loss, inputs.target)

    @property
    def _own_sums(self) -> list[FloatArray]:
        if self._sums is None:
            raise RemoteProtocolError("its rows have no scores yet")
        return self._sums

    def _bounds(self, _: Message) -> m.SumBounds:
        return m.SumBounds(bounds_of(self._own_sums))

    def _add_up(self, request: m.SumsRequest) -> MeasureParts:
        return sealed_parts(self._sealing, self._own_sums, request.grids)
