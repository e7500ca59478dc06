"""Checks by an organisation before it takes part and before training begins."""

from __future__ import annotations

import numpy as np

from hyfdca.algorithms.registry import ALGORITHMS, AUTO, CHOSEN_BY_AUTO
from hyfdca.arrays import IntArray
from hyfdca.data.tables import Table
from hyfdca.errors import StudyError
from hyfdca.federation.algorithm import Algorithm
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.protocol.messages import Message, TotalsSpec
from hyfdca.study import messages as m
from hyfdca.study.client.policy import MemberPolicy
from hyfdca.study.client.rounds import RoundsTaken
from hyfdca.study.identity import hash_text
from hyfdca.study.plan import PROTOCOL, Plan
from hyfdca.training.settings import TrainingSettings


def check_same_study(request: m.Hello, own: bytes) -> None:
    """Refuse a server with another protocol, or whose study file has another hash."""
    if request.protocol != PROTOCOL:
        raise RefusedError(
            f"it uses protocol {PROTOCOL}, the server {request.protocol}; "
            "install the same version of hyfdca everywhere"
        )
    if request.study_hash != own:
        raise RefusedError(
            f"its study file ({hash_text(own)}) differs from the server's "
            f"({hash_text(request.study_hash)}); use the same file everywhere"
        )


def chosen_algorithm(training: TrainingSettings, name: str) -> Algorithm:
    """Return the algorithm that the server named, if the study allows it."""
    wanted = training.algorithm
    if name not in (CHOSEN_BY_AUTO if wanted is None else (wanted.name,)):
        expected = AUTO if wanted is None else wanted.name
        raise RemoteProtocolError(
            f"the study sets algorithm {expected!r}, but the server sent {name!r}"
        )
    return wanted or ALGORITHMS[name]()


def check_policy(
    policy: MemberPolicy, taken: RoundsTaken, plan: Plan, table: Table, width: int
) -> None:
    """Refuse what the organisation's own policy rules out, for this many outputs."""
    try:
        policy.check_table(table)
        taken.start(plan, width)
    except StudyError as error:
        raise RefusedError(str(error).rstrip(".")) from None


def check_owner_groups(groups: IntArray, what: str, n_clients: int) -> None:
    """Refuse more owner groups of rows or columns than there are sets of holders.

    Of n organisations, 2^(n - 1) sets contain this one.
    """
    if len(np.unique(groups)) > 2 ** min(n_clients - 1, 62):
        raise RemoteProtocolError(
            f"the alignment has more groups of {what} than there are sets of holders"
        )


def check_openers(request: Message, n_clients: int) -> None:
    """Refuse totals for a client that the study does not have, before any work.

    Raises
    ------
    RemoteProtocolError
    """
    fields = (getattr(request, name) for name in request.__struct_fields__)
    for field in fields:
        for spec in field if isinstance(field, list) else (field,):
            if isinstance(spec, TotalsSpec):
                ranks = (spec.opener, spec.witness or 0)
                if max(ranks) >= n_clients:
                    raise RemoteProtocolError(
                        "totals are asked for a client that the study does not have"
                    )
