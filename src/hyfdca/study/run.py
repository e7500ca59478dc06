"""A study's run, as whoever coordinates it knows it."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.arrays import FloatArray
from hyfdca.runtime.driver import Traffic
from hyfdca.stages.scaling import Scaling
from hyfdca.study.consortium import Consortium
from hyfdca.study.file import Study
from hyfdca.training.runner import Rounds


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
