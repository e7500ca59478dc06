"""Which client updates which samples in which round of HyFDCA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyfdca.algorithms.hyfdca.settings import HyfdcaSettings
from hyfdca.arrays import IntArray
from hyfdca.federation.client import Party, check_few
from hyfdca.federation.local import work as local_work
from hyfdca.holdings.layout import Layout
from hyfdca.maths.draws import distinct_rows, round_key
from hyfdca.protocol.codec import RemoteProtocolError

DRAW = "draw"  # what the randomness is for


def local_steps(settings: HyfdcaSettings, layout: Layout, client: int) -> int:
    """Return H, at most the client's number of samples."""
    n_held = len(layout.samples.items[client])
    return min(local_work.local_steps(settings, layout, client), n_held)


def drawn_share(settings: HyfdcaSettings, layout: Layout) -> float:
    """Return the share of all holdings of samples that is drawn per round."""
    steps = sum(local_steps(settings, layout, k) for k in range(layout.n_clients))
    return steps / max(sum(map(len, layout.samples.items)), 1)


def check_drawn(settings: HyfdcaSettings, party: Party, n_drawn: int) -> None:
    """Refuse a draw of the wrong number of a client's samples.

    A round draws H of them. Where everybody takes part and draws everything, it draws
    those that the client counts.
    """
    steps = min(local_work.own_steps(settings, party), party.n_held)
    n_counted = int(party.block.counts_sample.sum())
    is_everything = party.is_complete and steps == party.n_held
    if n_drawn != steps and not (is_everything and n_drawn == n_counted):
        raise RemoteProtocolError(
            f"{n_drawn} samples are drawn, where the study draws {steps}"
        )
    check_few(party.least_rows, n_drawn, "a draw")


def check_searched(settings: HyfdcaSettings, party: Party, n_drawn: int) -> None:
    """Refuse a draw for a line search that no round of the study makes.

    The draw is over the samples of all clients, so how many of them a client holds is
    left to chance, unless everything is drawn.
    """
    draws_all = settings.local_fraction == 1 and not settings.iic
    if draws_all and settings.local_steps is None and n_drawn != party.n_held:
        raise RemoteProtocolError(f"{n_drawn} samples are drawn instead of all")
    check_few(party.least_rows, n_drawn, "a draw")


@dataclass(frozen=True)
class Draw:
    """Who updates which samples in a round.

    ``drawn`` has the positions each client draws, ``touched`` the positions of all
    drawn samples at every holder; None stands for all samples held. Where
    ``is_shared`` is false every sample is drawn by one client alone.
    """

    drawn: dict[int, IntArray | None]
    touched: dict[int, IntArray | None]
    n_distinct: int
    is_shared: bool = True


@dataclass(frozen=True)
class Draws:
    """The draws of all rounds, from the study's seed."""

    settings: HyfdcaSettings
    layout: Layout
    is_complete: bool
    seed: int

    def of_round(self, round_number: int, participants: Sequence[int]) -> Draw:
        """Draw each labelled participant's samples, without replacement."""
        layout = self.layout
        items = layout.samples.items
        drawn: dict[int, IntArray | None] = {}
        for client in participants:
            if layout.labelled[client] and len(items[client]):
                drawn[client] = self._draw_of(client, round_number)
        is_everything = all(rows is None for rows in drawn.values())
        if self.is_complete and self._is_same_for_all and is_everything:
            return self._everything
        parts = [items[c] if r is None else items[c][r] for c, r in drawn.items()]
        distinct = np.unique(np.concatenate([*parts, np.empty(0, np.int64)]))
        return Draw(drawn, dict(layout.samples.positions_of(distinct)), len(distinct))

    @property
    def _is_same_for_all(self) -> bool:
        """Whether all holders of a sample compute the same change of its dual."""
        return self.settings.variant == "practical" or self.settings.cap == "one"

    @cached_property
    def _everything(self) -> Draw:
        """Let each sample's designated holder change it.

        All holders would compute the same change and the mean of it (E5); one of
        them is enough, and the others need not learn the margin.
        """
        layout = self.layout
        drawn = {}
        for client in range(layout.n_clients):
            counted = layout.counts_samples(client)
            if counted.any():
                drawn[client] = None if counted.all() else np.flatnonzero(counted)
        # All clients, even without samples: they need the weights for measuring.
        touched: dict[int, IntArray | None] = dict.fromkeys(range(layout.n_clients))
        return Draw(drawn, touched, layout.samples.n_items, is_shared=False)

    def local_steps(self, client: int) -> int:
        """Return H of a client."""
        return local_steps(self.settings, self.layout, client)

    def _draw_of(self, client: int, round_number: int) -> IntArray | None:
        n_held = len(self.layout.samples.items[client])
        steps = self.local_steps(client)
        if steps == n_held:
            return None
        return distinct_rows(self.round_key(round_number), client, n_held, steps)

    def round_key(self, round_number: int) -> np.uint64:
        """Return the key of all draws of a round."""
        return round_key(self.seed, DRAW, round_number)
