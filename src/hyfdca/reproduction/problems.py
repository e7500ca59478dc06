"""The problems of the paper's study: tables, splits, and what the paper leaves open.

Every choice that the paper does not state is a field of ``Choices``; the defaults are
argued in ``docs/reproduce.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray
from hyfdca.data.sources import find_data
from hyfdca.data.splits import train_validation
from hyfdca.holdings.partition import (
    QUADRANTS,
    Partition,
    deal_nonzeros,
    image_quadrants,
)
from hyfdca.maths.losses import make_loss
from hyfdca.maths.objective import Objective
from hyfdca.reproduction.paper import DATA_SETS, Clients, DataSetName
from hyfdca.training.bulk.stacked import Order, StackedBlocks, stacked

MnistClients = Literal["clients", "groups"]
Refresh = Literal["all", "drawn"]
DivideBy = Literal["all", "active"]


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open.

    Parameters
    ----------
    mnist_positive : tuple of int
        The digits labelled 1.
    mnist_clients : {"clients", "groups"}
        Whether the paper's 5, 500 and 5,000 are the clients, of which 5 are then 4, or
        the sample groups, each of four clients.
    refresh : {"all", "drawn"}
        The samples whose margins HyFDCA's clients send in a round: all they hold, or
        those that somebody draws.
    divide_by : {"all", "active"}
        The number by which HyFDCA divides the changes of a sample's dual: all its
        holders, as printed, or those present (E9).
    validation : float
        The share of the rows to validate with.
    seed : int
        The seed of the validation rows, the split, presence and draws.
    """

    mnist_positive: tuple[int, ...] = (3,)
    mnist_clients: MnistClients = "clients"
    refresh: Refresh = "all"
    divide_by: DivideBy = "all"
    validation: float = 0.2
    seed: int = 0


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows of a table in one place, with labels -1 and 1, (n_samples,)."""

    X: sp.csr_array
    y: FloatArray

    def accuracy(self, weights: FloatArray) -> float:
        """Return the share of rows that a model classifies correctly."""
        if not np.isfinite(weights).all():
            return 0.0
        return float(np.mean((self.X @ weights >= 0) == (self.y > 0)))


@dataclass(frozen=True, repr=False)
class PaperProblem:
    """A data set, ready to be spread over clients."""

    name: DataSetName
    l2: float
    choices: Choices
    train: Rows
    validation: Rows

    @cached_property
    def objective(self) -> Objective:
        """The problem on the pooled training rows."""
        labels = self.train.y[:, None]
        return Objective(self.train.X, labels, make_loss("hinge"), self.l2)

    def partition(self, clients: Clients) -> Partition:
        """Return the partition, with as many clients as the paper prints."""
        if clients not in self._last_partition:
            self._last_partition.clear()
            self._last_partition[clients] = self._divided(clients)
        return self._last_partition[clients]

    @cached_property
    def _last_partition(self) -> dict[Clients, Partition]:
        """The last one only: blocks in both orders and the bundle method need it."""
        return {}

    def _divided(self, clients: Clients) -> Partition:
        seed = self.choices.seed
        if not isinstance(clients, int):
            return deal_nonzeros(self.train.X, clients, seed)
        n_groups = clients
        if self.choices.mnist_clients == "clients":
            n_groups = max(1, round(clients / QUADRANTS))
        return image_quadrants(len(self.train.y), n_groups, seed)

    def blocks(self, clients: Clients, by: Order) -> StackedBlocks:
        """Return the blocks of all clients."""
        return stacked(self.train.X, self.train.y, self.partition(clients), by)


def paper_problem(
    name: DataSetName,
    choices: Choices | None = None,
    folder: Path | None = None,
    l2: float | None = None,
) -> PaperProblem:
    """Load a data set of the paper and set validation rows aside.

    Parameters
    ----------
    folder : path, optional
        Where to look for the data first.
    l2 : float, optional
        By default the paper's λ.

    Raises
    ------
    StudyError
        If the data set is missing; the sentence says how to get it.
    """
    choices = choices or Choices()
    positive = choices.mnist_positive if name == "mnist" else None
    data = find_data(name, folder, positive)
    rows = train_validation(len(data.y), choices.validation, choices.seed)
    return PaperProblem(
        name,
        DATA_SETS[name].l2 if l2 is None else l2,
        choices,
        *(Rows(sp.csr_array(data.X[own]), data.y[own]) for own in rows),
    )


@lru_cache(maxsize=len(DATA_SETS))
def held_problem(
    name: DataSetName, choices: Choices, folder: Path | None
) -> PaperProblem:
    """Load a data set as ``paper_problem`` does, once per process."""
    return paper_problem(name, choices, folder)
