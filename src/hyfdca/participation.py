"""Who takes part in which round, all from the study's seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.seeds import stream


@dataclass(frozen=True)
class Participation:
    """The participants of each round.

    Parameters
    ----------
    of_round : callable
        Takes the round number, from 1, and returns the ranks of the participants.
    is_complete : bool
        Everybody takes part in every round, which saves round trips.
    """

    of_round: Callable[[int], Sequence[int]]
    is_complete: bool = False


def complete(n_clients: int) -> Participation:
    """Everybody, always."""
    everyone = tuple(range(n_clients))
    return Participation(lambda _: everyone, is_complete=True)


def random_fraction(n_clients: int, fraction: float, seed: int) -> Participation:
    """A fixed number of clients, drawn anew each round; at least one."""
    if not 0.0 < fraction <= 1.0:
        raise ValueError(
            f"The participation must be above 0 and at most 1: {fraction}."
        )
    size = max(1, round(fraction * n_clients))
    if size == n_clients:
        return complete(n_clients)

    def of_round(round_number: int) -> Sequence[int]:
        random = stream(seed, "participation", round_number)
        drawn = random.choice(n_clients, size, replace=False)
        return tuple(np.sort(drawn).tolist())

    return Participation(of_round)


def bernoulli(n_clients: int, probability: float, seed: int) -> Participation:
    """Each client by itself with the same probability; a round may be empty."""
    if not 0.0 < probability <= 1.0:
        raise ValueError(
            f"The probability must be above 0 and at most 1: {probability}."
        )

    if probability == 1.0:
        return complete(n_clients)

    def of_round(round_number: int) -> Sequence[int]:
        random = stream(seed, "participation", round_number)
        return tuple(np.flatnonzero(random.random(n_clients) < probability).tolist())

    return Participation(of_round)


def cyclic(sets: Sequence[Sequence[int]]) -> Participation:
    """Take the sets in turn, as in Theorem 4."""
    turns = [tuple(sorted(set(members))) for members in sets]
    if not turns:
        raise ValueError("A cycle needs at least one set of clients.")
    return Participation(lambda round_number: turns[(round_number - 1) % len(turns)])


def schedule(rounds: Sequence[Sequence[int]]) -> Participation:
    """The participants of each round, given; after the last round it starts again."""
    return cyclic(rounds)
