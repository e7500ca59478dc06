"""Curves of a study with rows set aside: the loss on them after some rounds."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.errors import StudyError
from hyfdca.federation.server import Point
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Driver, Traffic
from hyfdca.stages.validation.messages import PHASES
from hyfdca.stages.validation.server import ValidationServer
from hyfdca.study.exposure_notes import curves_note, path_note
from hyfdca.study.plan import Plan
from hyfdca.study.server import Prepared
from hyfdca.training.runner import Runner

STAGE = "validation"


@dataclass(frozen=True)
class Validator:
    """Measures the model of a round on rows set aside.

    Parameters
    ----------
    every : int
        Rounds from one point of the curves to the next.
    session : ServerSession
        The session of the training, which continues afterwards.
    driver : Driver
        Carries the requests of the stage.
    """

    every: int
    server: ValidationServer
    session: ServerSession
    driver: Driver

    def is_due(self, round_number: int) -> bool:
        """Return whether the study file requires a point after this round."""
        return round_number % self.every == 0

    def measure(
        self, round_number: int, point: Point, traffic: Traffic
    ) -> dict[str, float]:
        """Return the round's record about rows set aside."""
        with self.session.visiting(PHASES):
            conversation = self.server.run(round_number, point)
            return self.driver.run(conversation, traffic)


def note_before(plan: Plan, runner: Runner) -> str | None:
    """Return what a study will let organisations find out, before its first round."""
    federation, validator = runner.federation, runner.validator
    if not isinstance(validator, Validator):
        return path_note(plan.names, federation)
    n_points = plan.training.max_rounds // validator.every + 1  # with the evaluation
    n_scores = n_points * federation.problem.n_outputs
    held_out = validator.server.held_out
    return curves_note(plan.names, federation.layout, held_out, n_scores)


def validator_of(plan: Plan, prepared: Prepared, driver: Driver) -> Validator | None:
    """Return the measurer of the curves' points; None if the study has none.

    Raises
    ------
    StudyError
        If a label holder does not know the intercept.
    """
    held_out, every = prepared.held_out, plan.evaluation.curves
    if held_out is None or every is None:
        return None
    federation = prepared.federation
    server = ValidationServer(
        held_out, prepared.levels.entries, prepared.adders, federation.session
    )
    if plan.bias is not None:
        _check_bias(plan, prepared, server.held_out.receivers)
    return Validator(every, server, federation.session, driver)


def _check_bias(plan: Plan, prepared: Prepared, receivers: list[int]) -> None:
    """Refuse a label holder that does not know the penalised intercept.

    It is a feature of clients that count the loss of a training row.
    """
    layout = prepared.federation.layout
    for client in receivers:
        if not layout.counts_samples(client).any():
            raise StudyError(
                f"Organisation {plan.names[client]!r} has labels of rows set aside, "
                "but no training row whose loss it counts, so it does not know the "
                "penalised intercept that curves need; leave out curves, or set "
                "penalise_intercept = false."
            )
