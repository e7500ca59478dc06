"""Points of the curves at a client: when it answers, and its model at that time.

A client answers a round only if it is due by its own study file, and each round once.
So a server gets no more points than the file allows, except for rounds repeated after a
failure (``release.py`` counts these). Nothing of the training changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.registry import Sealers
from hyfdca.data.expansion import Expansion
from hyfdca.federation.algorithm import ClientHalf
from hyfdca.federation.client import Party
from hyfdca.federation.messages import Released
from hyfdca.model.categories import places_of, width_of
from hyfdca.model.file import CategoryEntry
from hyfdca.model.scaling import Scaling, among_levels
from hyfdca.protocol.codec import RemoteProtocolError, unpack_reals
from hyfdca.protocol.phases import Phases
from hyfdca.stages.evaluation.answered import Answered
from hyfdca.stages.levels.messages import ColumnLevels
from hyfdca.stages.score_parts import OwnParts, parts_of
from hyfdca.stages.validation.client import (
    PresentModel,
    ValidationClient,
    ValidationInputs,
)
from hyfdca.stages.validation.messages import PointNotice
from hyfdca.study.client.release import Releases
from hyfdca.study.client.stages import ClientStages
from hyfdca.study.plan import Plan


class DueRounds:
    """The rounds of the curves that a client answers, each once."""

    def __init__(self, plan: Plan, releases: Releases) -> None:
        self._plan, self._releases = plan, releases
        self._last = releases.last_saved

    def go_back(self, last_saved: int) -> None:
        """Return to a saved round; those after it are run again."""
        self._last = last_saved

    def take(self, number: int) -> None:
        """Note a round; refuse one that is not due, or was answered.

        A point shows scores even if nothing else of the round was answered, so it
        counts as a round that is under way.

        Raises
        ------
        RemoteProtocolError
        """
        plan, every = self._plan, self._plan.evaluation.curves
        self._releases.check_not_over()
        is_due = every is not None and 0 < number <= plan.training.max_rounds
        if every is None or not is_due or number % every:
            raise RemoteProtocolError(f"the study's curves have no round {number}")
        last_saved = self._releases.last_saved
        if number <= max(self._last, last_saved):
            raise RemoteProtocolError(f"round {number} of the curves was answered")
        # If rounds may proceed without it, a client may have missed some.
        is_always_present = plan.quorum == len(plan.names) and not plan.is_rehearsal
        if is_always_present and number > last_saved + plan.checkpoint_every:
            raise RemoteProtocolError(f"round {number} has not been reached")
        self._releases.begin_round()
        self._last = number


class OwnPoint:
    """The model that a client has now, in the units of training.

    Parameters
    ----------
    phases : Phases
        The phases of the algorithm in use.
    due : DueRounds
        The rounds that it answers.
    """

    def __init__(
        self,
        stages: ClientStages,
        party: Party,
        half: ClientHalf,
        phases: Phases,
        bias: float | None,
        due: DueRounds,
    ) -> None:
        self._stages, self._party, self._half = stages, party, half
        self._phases, self._bias, self._due = phases, bias, due

    def client(
        self, plan: Plan, sealers: Callable[[], Sealers], answered: Answered
    ) -> ValidationClient:
        """Return the handlers for points of the curves."""
        inputs = ValidationInputs(
            self._stages.held_out,
            self._stages.held_out_order,
            sealers,
            self._party.rank,
            len(plan.names),
            self._party.least_rows,
            answered,
            self.named_by,
            plan.training.loss,
            self._stages.target,
        )
        return ValidationClient(inputs)

    def named_by(self, notice: PointNotice) -> PresentModel:
        """Return the model that a release would give now.

        Raises
        ------
        RemoteProtocolError
            If the round is not due, or the notice contradicts what the client knows.
        """
        stages = self._stages
        weights, rest = np.split(
            self._weights(notice.point), [int(stages.expansion.widths.sum())]
        )
        intercept: FloatArray | None
        intercept = self._party.unpacked_intercepts(notice.intercepts)
        if self._bias is not None:
            intercept = rest[0] * self._bias if len(rest) else None
        parts = self._parts(notice.levels, weights)
        self._due.take(notice.round)
        return PresentModel(parts, intercept)

    def _weights(self, content: bytes) -> FloatArray:
        """Return the weights of the client's own features; a bias comes last."""
        try:
            kind = self._phases["release"].request
            request = msgspec.msgpack.decode(content, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RemoteProtocolError(f"the point does not decode: {error}") from None
        released = self._half.handlers["release"](request)
        assert isinstance(released, Released)  # noqa: S101  # the table of phases
        shape = (self._party.n_features, self._party.problem.n_outputs)
        return unpack_reals(released.weights, math.prod(shape)).reshape(shape)

    def _parts(self, levels: list[ColumnLevels], weights: FloatArray) -> OwnParts:
        """Return the contribution to the margins of the rows set aside."""
        table, expansion = self._stages.held_out, self._stages.expansion
        trained = {name: c for c, name in enumerate(self._stages.aligned.features)}
        columns = np.array([trained[name] for name in table.features], np.int64)
        widths = expansion.widths[columns]
        features = _runs(expansion.starts[columns], widths)
        entries = self._entries(levels)
        places = {
            column: places_of(entries[name], table.levels[name])
            for column, name in enumerate(table.features)
            if name in entries
        }
        own, scaling = Expansion(widths, places), self._scaling()
        each = (scaling.offset, scaling.scale, scaling.filling)
        chosen = Scaling(*(values[features] for values in each))
        return parts_of(table, own, chosen, weights[features])

    def _scaling(self) -> Scaling:
        """Return the scaling of all its own features: those of levels are unchanged."""
        expansion = self._stages.expansion
        places = expansion.starts[expansion.is_number]
        size = int(expansion.widths.sum())
        return among_levels(self._stages.scaling, places, size)

    def _entries(self, levels: list[ColumnLevels]) -> dict[str, CategoryEntry]:
        """Return the levels of its categories; refuse those that differ from its own.

        Rows set aside may have levels that the client's other rows do not have.
        """
        aligned, expansion = self._stages.aligned, self._stages.expansion
        held_out = self._stages.held_out.features
        names = [name for name in held_out if name in aligned.levels]
        if len(levels) != len(names):
            raise RemoteProtocolError("there are levels of other columns than its own")
        entries = {}
        for name, given in zip(names, levels, strict=True):
            named = tuple(level for level in given.names if level is not None)
            entry = CategoryEntry(named, given.reference, given.has_other)
            column = aligned.features.index(name)
            places = expansion.places[column].tolist()
            own = zip(("", *aligned.levels[name]), places, strict=True)
            is_right = width_of(entry) == expansion.widths[column] and all(
                named[place] == level for level, place in own if 0 <= place < len(named)
            )
            if not is_right:
                raise RemoteProtocolError(f"these are not the levels of {name!r}")
            entries[name] = entry
        return entries


def _runs(starts: IntArray, widths: IntArray) -> IntArray:
    """Return consecutive whole numbers from each start, ``width`` of them each."""
    runs = [np.arange(s, s + w) for s, w in zip(starts, widths, strict=True)]
    return np.concatenate([np.empty(0, np.int64), *runs])
