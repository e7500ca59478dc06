"""Ensures that a step of HyFDCA changes as many duals as the study says.

A draw has the size of the study. But a dual hardly moves if its curvature is enlarged,
or its change divided, far beyond what an honest server sends: the share would then
differ in a single row. So a client checks whatever multiplies and divides:

* **Factors** of samples depend on who holds a sample, so they are the same in an owner
  group. They are between 1 / its holders with labels and a bit more than N.
* **The factor** of a round is 1, N, or how many samples change, as the settings say.
* **Divisors** count holders that are present, so they too are the same in a group.
"""

from __future__ import annotations

import numpy as np

from hyfdca.algorithms.hyfdca import messages as m
from hyfdca.algorithms.hyfdca.safe_step import SAFETY
from hyfdca.algorithms.hyfdca.settings import HyfdcaSettings
from hyfdca.arrays import FloatArray, IntArray
from hyfdca.federation.client import Party, check_same_in_groups
from hyfdca.federation.sealing.client_sealing import Rows
from hyfdca.protocol.codec import RemoteProtocolError

_ROUNDING = 1e-3  # at most: the estimated interaction is a sum on a grid


def check_factors(settings: HyfdcaSettings, party: Party, factors: FloatArray) -> None:
    """Refuse factors of curvatures that ``safe_factors`` cannot give."""
    if not (settings.is_safe and party.is_complete and settings.min_rows == 1):
        raise RemoteProtocolError("steps of this study have no factors of samples")
    least = (1 - _ROUNDING) / party.label_holders
    most = (1 + SAFETY * party.problem.n_samples) * (1 + _ROUNDING)
    if np.any(factors < least) or np.any(factors > most):
        raise RemoteProtocolError("a factor is beyond those of a safe step")
    check_same_in_groups(party.block, factors, "factors")


def check_step(
    settings: HyfdcaSettings, party: Party, request: m.StepRequest, n_drawn: int
) -> None:
    """Refuse a step that is scaled otherwise than the settings say."""
    least, most = _factor_range(settings, party, n_drawn)
    if not least <= request.factor <= most:
        raise RemoteProtocolError("the factor of a step is not the study's")
    if (request.cap is None) != (settings.variant == "practical"):
        raise RemoteProtocolError("the cap of a step is not the study's")
    is_by_all = request.divisors is None or request.is_alone
    if settings.divides_by_all(party.is_complete) and not is_by_all:
        raise RemoteProtocolError("a step of this study is averaged over all holders")


def _factor_range(
    settings: HyfdcaSettings, party: Party, n_drawn: int
) -> tuple[int, int]:
    """Return the least and the largest factor of a round."""
    n_samples = party.problem.n_samples
    if settings.variant == "theory":
        return n_samples, n_samples
    is_prompt = settings.min_rows == 1
    if settings.step == "paper" or (party.is_complete and is_prompt):
        return 1, 1
    # Where each sample has one holder, those that all clients draw count.
    return min(n_drawn, n_samples) if is_prompt else n_samples, n_samples


def check_divisors(party: Party, rows: Rows, divisors: IntArray) -> None:
    """Refuse to divide changes by other than the holders that may be present."""
    if np.any(divisors > party.label_holders[rows]):
        raise RemoteProtocolError("a dual has more holders than all with labels")
    check_same_in_groups(party.block, divisors, "divisors", rows)
