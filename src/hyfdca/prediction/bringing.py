"""What an organisation provides for predictions, and to whom."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.data.tables import Table
from hyfdca.model.model import Model
from hyfdca.prediction import messages as p
from hyfdca.prediction.blinded_rows import MOST_ROWS
from hyfdca.prediction.policy import PredictionLog, PredictionTerms
from hyfdca.stages.alignment.messages import AlignmentSettings


@dataclass(frozen=True, repr=False)
class Bringing:
    """What an organisation provides for predictions.

    Parameters
    ----------
    table : Table
        Rows that it asks for or holds features of; its columns are those of the model's
        columns that it has.
    digest : bytes
        The digest of the model.
    """

    table: Table
    model: Model
    digest: bytes
    terms: PredictionTerms
    log: PredictionLog
    alignment: AlignmentSettings
    asks: bool = False

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return int(self.model.weights.shape[1])

    @property
    def has_too_many_rows(self) -> bool:
        """Whether blinded IDs of this table are not compared."""
        return self.terms.ids == "blinded" and len(self.table.ids) > MOST_ROWS

    def objection(
        self, request: p.ConsiderRequest, asker: str, n_rows: int
    ) -> p.Declined | None:
        """Return why an asker's signed request is declined, or None if it is not."""
        declined = self.terms.objection(self.log, asker, n_rows)
        if declined is not None:
            return declined
        if request.model != self.digest or request.n_outputs != self.n_outputs:
            return p.Declined("model", 0)
        if self.log.has(request.nonce.hex()):
            return p.Declined("repeated", 0)
        return p.Declined("rows", 0) if self.has_too_many_rows else None
