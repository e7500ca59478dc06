"""Who may ask for predictions of split rows, for how many, and what is said if not."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.prediction import messages as p
from hyfdca.prediction.log import PredictionLog

_DECLINED = {
    "permission": "the study file does not say may_predict = true for it",
    "rate": (
        "predictions_per_hour of the study leaves it {count} rows at present; ask for "
        "fewer or wait"
    ),
    "model": "it asks for scores of another model; use the same model.json everywhere",
    "repeated": "this very request was answered before; ask anew",
}


@dataclass(frozen=True)
class PredictionTerms:
    """What the study file says of predictions; every organisation has its own copy.

    Parameters
    ----------
    askers : frozenset of str
        Who may ask.
    rows_per_hour : int
        For how many rows one of them may ask.
    """

    askers: frozenset[str]
    rows_per_hour: int

    def objection(
        self, log: PredictionLog, asker: str, n_rows: int
    ) -> p.Declined | None:
        """Return why somebody gets nothing, if there is a reason."""
        if asker not in self.askers:
            return p.Declined("permission", 0)
        left = max(self.rows_per_hour - log.n_last_hour(asker), 0)
        return p.Declined("rate", left) if n_rows > left else None


def declined_sentence(holder: str, asker: str, declined: p.Declined) -> str:
    """Return why a holder gives nothing to an asker."""
    why = _DECLINED[declined.reason].format(count=declined.count)
    return f"Organisation {holder!r} gives {asker!r} no predictions: {why}."
