"""Messages about a study as a whole: who is present, what is saved, when it ends."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hyfdca.model.file import StopReason
from hyfdca.protocol.messages import Message, Number, Seen
from hyfdca.protocol.phases import START, Phase, Phases
from hyfdca.protocol.transcript import Account, Accounts
from hyfdca.study.tuning import RoundLimit, RunChoice, RunNumber
from hyfdca.study.values import Positive, Tolerance

_MOST_ROUNDS = 2**40
Round = Annotated[int, msgspec.Meta(ge=0, le=_MOST_ROUNDS)]
Rank = Annotated[int, msgspec.Meta(ge=0, le=2**16)]
Version = Annotated[int, msgspec.Meta(ge=1, le=2**16)]
Hash = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class Hello(Message, frozen=True):
    """Ask who is present; everybody must have the same study file and protocol."""

    study_hash: Annotated[Hash, Seen("study")]
    protocol: Annotated[Version, Seen("numbers")]


class Present(Message, frozen=True):
    """What a client has saved earlier: the study's keys, and rounds."""

    study_hash: Annotated[Hash, Seen("study")]
    protocol: Annotated[Version, Seen("numbers")]
    has_keys: Annotated[bool, Seen("numbers")]
    kept: Annotated[
        Annotated[list[Round], msgspec.Meta(max_length=16)], Seen("numbers")
    ]


class BeginRequest(Message, frozen=True):
    """Begin a run of the study; pending requests up to a number are obsolete.

    Choices for the run are None where they equal the study file.
    """

    after: Annotated[Number, Seen("numbers")]
    run: Annotated[RunNumber, Seen("run settings")]
    l2: Annotated[Positive | None, Seen("run settings")]
    tol: Annotated[Tolerance | None, Seen("run settings")]
    max_rounds: Annotated[RoundLimit | None, Seen("run settings")]

    @classmethod
    def of(cls, run: RunChoice, after: int) -> BeginRequest:
        """Return the request that begins a run."""
        return cls(after, run.number, run.l2, run.tol, run.max_rounds)

    def run_choice(self) -> RunChoice:
        """Return the run, and what was chosen for it."""
        return RunChoice(
            number=self.run, l2=self.l2, tol=self.tol, max_rounds=self.max_rounds
        )


class StartNotice(Message, frozen=True):
    """Training begins, with this algorithm; no reply."""

    algorithm: Annotated[Annotated[str, msgspec.Meta(max_length=32)], Seen("algorithm")]


class KeepRequest(Message, frozen=True):
    """Save the state after a round, so that it can be restored.

    The relative gap and the members present are for display. With it come the accounts
    that members gave when the last round was saved.
    """

    round: Annotated[Round, Seen("numbers")]
    relative_gap: Annotated[float | None, Seen("certificate")]
    present: Annotated[
        Annotated[list[Rank], msgspec.Meta(max_length=2**16)], Seen("members")
    ]
    accounts: Accounts


class Kept(Message, frozen=True):
    """The state is saved; the client's account of what it was sent."""

    account: Annotated[Account, Seen("accounts")]


class StopRequest(Message, frozen=True):
    """The study ends after a round, for a reason that its file allows.

    The relative gap is that of the model about to be released.
    """

    round: Annotated[Round, Seen("numbers")]
    relative_gap: Annotated[float, Seen("certificate")]
    reason: Annotated[StopReason, Seen("numbers")]


class ReturnRequest(Message, frozen=True):
    """Restore the saved state after a round; discard all later ones.

    Pending requests up to a number belong to a round that is repeated.
    """

    round: Annotated[Round, Seen("numbers")]
    after: Annotated[Number, Seen("numbers")]


class FinishNotice(Message, frozen=True):
    """The study has ended: the model, as a file, and the last accounts."""

    model: Annotated[Annotated[bytes, msgspec.Meta(max_length=2**30)], Seen("model")]
    accounts: Accounts


# Clients come and go, so any phase may follow any other.
PHASES: Phases = {
    "hello": Phase(Hello, (Present,)),
    "begin": Phase(BeginRequest, (Message,)),
    "keep": Phase(KeepRequest, (Kept,)),
    "return": Phase(ReturnRequest, (Message,)),
    "stop": Phase(StopRequest, (Message,)),
    "finish": Phase(FinishNotice, (Message,)),
}

# The first phase of training, before those of the algorithm.
START_PHASES: Phases = {"start": Phase(StartNotice, after=(START,))}
