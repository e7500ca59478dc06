"""What a study says, as both its sides read it from the same file."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.holdings.participation import Participation
from hyfdca.protocol.codec import TOKEN_BYTES
from hyfdca.stages.alignment.messages import AlignmentSettings
from hyfdca.stages.scaling import Missing, Scale
from hyfdca.training.runner import TrainingSettings

# Of what is said between organisations; raised whenever that changes.
PROTOCOL = 1


@dataclass(frozen=True)
class Plan:
    """A study's settings, from its keys to its model.

    Parameters
    ----------
    names : tuple of str
        The organisations, by rank.
    bias : float or None
        The value of the bias feature; none where there is no intercept.
    participation : Participation
        Who is drawn for which round. It is complete only where no round does without
        somebody.
    quorum : int
        How many organisations must be there for a round.
    phase_timeout : float
        Seconds that an answer may take.
    checkpoint_every : int
        Rounds after which all is kept.
    """

    study_hash: bytes
    names: tuple[str, ...]
    epoch: int
    encryption: Encryption
    alignment: AlignmentSettings
    scale: Scale
    missing: Missing
    bias: float | None
    training: TrainingSettings
    participation: Participation
    quorum: int
    phase_timeout: float
    checkpoint_every: int

    @property
    def token(self) -> bytes:
        """What tells messages of this study from others."""
        return self.study_hash[:TOKEN_BYTES]


def n_outputs(classes: tuple[str, ...]) -> int:
    """Return how many columns of weights a study has: one, or one a class."""
    return len(classes) if len(classes) > 2 else 1
