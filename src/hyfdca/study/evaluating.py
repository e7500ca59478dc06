"""The end of a study with rows set aside: its model is tested on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Driver
from hyfdca.stages.evaluation.messages import PHASES
from hyfdca.stages.evaluation.server import EvaluationServer, EvaluationSettings
from hyfdca.study.costs import StageCost
from hyfdca.study.plan import Plan
from hyfdca.study.server import Prepared

STAGE = "evaluation"


@dataclass(frozen=True)
class Evaluator:
    """Tests a released model.

    Parameters
    ----------
    session : ServerSession
        The session of the training, which may have to continue if a client fails.
    driver : Driver
        Carries the requests of the stage.
    """

    server: EvaluationServer
    session: ServerSession
    driver: Driver
    cost: StageCost = field(default_factory=StageCost)

    def test(self, model: bytes) -> dict[str, Any]:
        """Return the entry ``evaluation`` of ``result.json``."""
        with self.session.visiting(PHASES), self.cost.timed():
            return self.driver.run(self.server.run(model), self.cost.traffic)


def evaluator_of(plan: Plan, prepared: Prepared, driver: Driver) -> Evaluator | None:
    """Return the tester of the study's model; None if no rows are set aside."""
    if prepared.held_out is None:
        return None
    settings = EvaluationSettings(plan.training.loss, plan.evaluation.min_bin)
    session = prepared.federation.session
    server = EvaluationServer(prepared.held_out, settings, prepared.adders, session)
    return Evaluator(server, session, driver)
