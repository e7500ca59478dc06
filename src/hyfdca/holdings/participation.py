"""The participants of each round, derived from the study's seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.maths.seeds import stream


@dataclass(frozen=True)
class Participation:
    """The participants of each round.

    Parameters
    ----------
    of_round : callable
        Takes the round number, starting at 1, and returns the participants' ranks.
    is_complete : bool
        Whether all clients take part in every round, which saves round trips.
    """

    of_round: Callable[[int], Sequence[int]]
    is_complete: bool = False


# Plain objects, not closures, so that an estimator that holds one can be pickled.


@dataclass(frozen=True)
class _Cycle:
    turns: tuple[tuple[int, ...], ...]

    def __call__(self, round_number: int) -> Sequence[int]:
        return self.turns[(round_number - 1) % len(self.turns)]


@dataclass(frozen=True)
class _RandomSubset:
    n_clients: int
    size: int
    seed: int

    def __call__(self, round_number: int) -> Sequence[int]:
        random = stream(self.seed, "participation", round_number)
        drawn = random.choice(self.n_clients, self.size, replace=False)
        return tuple(np.sort(drawn).tolist())


@dataclass(frozen=True)
class _Coins:
    n_clients: int
    probability: float
    seed: int

    def __call__(self, round_number: int) -> Sequence[int]:
        random = stream(self.seed, "participation", round_number)
        present = random.random(self.n_clients) < self.probability
        return tuple(np.flatnonzero(present).tolist())


def complete(n_clients: int) -> Participation:
    """All clients take part in every round."""
    return Participation(_Cycle((tuple(range(n_clients)),)), is_complete=True)


def random_fraction(n_clients: int, fraction: float, seed: int) -> Participation:
    """Draw a fixed number of clients for each round; at least one."""
    _check_share("participation", fraction)
    size = max(1, round(fraction * n_clients))
    if size >= n_clients:
        return complete(n_clients)
    return Participation(_RandomSubset(n_clients, size, seed))


def bernoulli(n_clients: int, probability: float, seed: int) -> Participation:
    """Draw each client independently with one probability; rounds may be empty."""
    _check_share("probability", probability)
    if probability == 1.0:
        return complete(n_clients)
    return Participation(_Coins(n_clients, probability, seed))


def cyclic(sets: Sequence[Sequence[int]]) -> Participation:
    """Cycle through the sets, as in Theorem 4."""
    turns = tuple(tuple(sorted(set(members))) for members in sets)
    if not turns:
        raise ValueError("A cycle needs at least one set of clients.")
    return Participation(_Cycle(turns))


def schedule(rounds: Sequence[Sequence[int]]) -> Participation:
    """Use the given participants of each round, repeated after the last one."""
    return cyclic(rounds)


def _check_share(name: str, share: float) -> None:
    if not 0.0 < share <= 1.0:
        raise ValueError(f"The {name} must be above 0 and at most 1, got {share}.")
