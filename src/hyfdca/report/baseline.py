"""What scores on held-out rows mean beside those of no model at all.

All of it follows from numbers that ``result.json`` has, where rows have no weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hyfdca.report.result_files import Evaluation


@dataclass(frozen=True)
class Baseline:
    """The scores of predicting the same for all held-out rows.

    Parameters
    ----------
    most_frequent : str
        The class that is predicted.
    log_loss, brier : float
        Of predicting each class with its share of the held-out rows.
    """

    most_frequent: str
    accuracy: float
    log_loss: float
    brier: float


def baseline(counts: Mapping[str, int]) -> Baseline | None:
    """Return the scores of no model, for the rows of each class."""
    n_rows = sum(counts.values())
    if not n_rows:
        return None
    shares = {name: own / n_rows for name, own in counts.items()}
    most = max(shares, key=lambda name: shares[name])
    squares = 1.0 - sum(own**2 for own in shares.values())
    return Baseline(
        most_frequent=most,
        accuracy=shares[most],
        log_loss=-sum(own * math.log(own) for own in shares.values() if own),
        brier=squares / 2 if len(shares) == 2 else squares,
    )


def predictive_values(
    found: Evaluation, counts: Mapping[str, int]
) -> tuple[float | None, float | None]:
    """Return the shares of right predictions: of the second class, and of the first.

    None for a class that was predicted for no row.
    """
    if len(counts) != 2 or found.sensitivity is None or found.specificity is None:
        return None, None
    n_first, n_second = counts.values()
    second, first = found.sensitivity * n_second, found.specificity * n_first
    return _share(second, n_first - first), _share(first, n_second - second)


def _share(right: float, wrong: float) -> float | None:
    # Sealed sums are rounded: no row is less than half a row.
    return right / (right + wrong) if right + wrong > 0.5 else None


def mean_prediction(found: Evaluation) -> float | None:
    """Return the mean predicted probability of the second class, if it is known."""
    bins = found.calibration.bins if found.calibration is not None else ()
    n_rows = sum(own.n_rows for own in bins)
    if not n_rows or n_rows != found.n_rows:  # some bins may be withheld
        return None
    return sum(own.n_rows * own.predicted for own in bins) / n_rows
