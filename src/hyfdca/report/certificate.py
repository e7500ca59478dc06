"""The certificate in words: how far the model can be from the best one."""

from __future__ import annotations

import math

import msgspec

from hyfdca.model.file import CertificateEntry

_DIGITS = 2
_USELESS = 100  # times the best loss: bounds beyond this are useless
_TINY = 1e-5  # of the best loss: smaller bounds are not spelt out


class CertificateInWords(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate, and the sentence that it proves.

    Parameters
    ----------
    most_above_best : float or None
        The model's loss is at most this share above the lowest possible, (P - D) / D;
        None if nothing is proven.
    """

    sentence: str
    most_above_best: float | None
    primal: float
    dual: float | None
    relative_gap: float | None


def in_words(certificate: CertificateEntry, n_uncovered: int) -> CertificateInWords:
    """Return what a certificate proves.

    Parameters
    ----------
    n_uncovered : int
        How many cells of the pooled table nobody holds.
    """
    excess = _excess(certificate.primal, certificate.dual)
    table = "the pooled table"
    if n_uncovered:
        table += ", in which cells that nobody holds are filled in"
    own = "This model's training loss with penalty"
    lowest = f"the lowest of any model of this kind on {table}"
    if excess is None:
        sentence = (
            f"Nothing is proven about how close this model is to the best on {table}."
        )
    elif excess > _USELESS:
        sentence = f"{own} can be more than {_USELESS} times {lowest}."
    elif excess == 0:
        sentence = f"{own} is {lowest}."
    else:
        most = rounded_up(100 * max(excess, _TINY))
        sentence = f"{own} is at most {most} % above {lowest}."
    return CertificateInWords(
        sentence=sentence,
        most_above_best=excess,
        primal=certificate.primal,
        dual=certificate.dual,
        relative_gap=certificate.relative_gap,
    )


def _excess(primal: float, dual: float | None) -> float | None:
    """Return how far P can be above the optimum, as a share of the optimum."""
    if dual is None or primal < dual:
        return None
    if primal == dual:
        return 0.0
    # The optimum is at least D, so (P - P*) / P* is at most (P - D) / D.
    excess = (primal - dual) / dual if dual > 0 else math.inf
    return excess if math.isfinite(excess) else None


def rounded_up(value: float) -> str:
    """Return a positive number rounded up to two digits."""
    if value >= 10**_DIGITS:
        return f"{math.ceil(value):,}"
    places = _DIGITS - 1 - math.floor(math.log10(value))
    return f"{math.ceil(value * 10**places) / 10**places:.{max(places, 0)}f}"
