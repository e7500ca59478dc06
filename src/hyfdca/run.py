"""A study's run, as whoever coordinates it knows it."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.algorithms.scaling import Scaling
from hyfdca.consortium import Consortium
from hyfdca.losses import FloatArray
from hyfdca.rounds import Rounds
from hyfdca.runtimes.driver import Traffic
from hyfdca.study import Study


@dataclass(frozen=True)
class Run:
    """A study whose tables are aligned and scaled, ready to train or trained."""

    study: Study
    consortium: Consortium
    scaling: Scaling
    preparing_traffic: Traffic
    training: Rounds

    def accuracy(self, weights: FloatArray) -> float | None:
        """Return the share of the samples that get their class.

        None where there are no classes, or where nobody here has the samples.
        """
        del weights
        return None
