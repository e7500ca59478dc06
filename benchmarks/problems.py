"""The problems on which rounds are counted: hinge loss, the paper's λ and splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.arrays import FloatArray
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.data.datasets import Dataset
from hyfdca.data.sources import find_data, locate
from hyfdca.federation.algorithm import Algorithm
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import Participation, complete
from hyfdca.holdings.partition import Partition, deal_nonzeros, grid, image_quadrants
from hyfdca.maths.losses import make_loss
from hyfdca.protocol.messages import Profile
from hyfdca.runtime.inprocess import InProcess
from hyfdca.training.in_process import train_in_process
from hyfdca.training.runner import Runner
from hyfdca.training.settings import TrainingSettings


@dataclass(frozen=True)
class Table:
    """Data in one place; labels (n_samples, 1)."""

    X: sp.csr_array
    y: FloatArray


@dataclass(frozen=True)
class Problem:
    """A table, its λ and its partition."""

    name: str
    l2: float
    load: Callable[[Path | None], Table]
    split: Callable[[Table], Partition]
    shape: str
    data: str | None = None  # the data set that is needed

    def is_there(self, folder: Path | None) -> bool:
        """Return whether the table can be loaded."""
        return self.data is None or locate(self.data, folder) is not None


def breast_cancer(_: Path | None = None) -> Table:
    """Return the standardised features with a unit bias."""
    X, y = load_breast_cancer(return_X_y=True)
    return Table(
        biased(StandardScaler().fit_transform(X)), np.where(y, 1.0, -1.0)[:, None]
    )


def digits(_: Path | None = None) -> Table:
    """Return 3 against the rest, pixels in [0, 1], with a unit bias."""
    X, y = load_digits(return_X_y=True)
    return Table(biased(X / 16.0), np.where(y == 3, 1.0, -1.0)[:, None])


def biased(X: FloatArray) -> sp.csr_array:
    """Return the table with a column of ones."""
    return sp.csr_array(np.hstack([X, np.ones((len(X), 1))]))


def mnist(folder: Path | None) -> Table:
    """Return all 70,000 images, 3 against the rest."""
    return _table(find_data("mnist", folder, [3]))


def covtype(folder: Path | None) -> Table:
    """Return covtype, scaled."""
    return _table(find_data("covtype", folder))


def news20(folder: Path | None) -> Table:
    """Return news20."""
    return _table(find_data("news20", folder))


def _table(data: Dataset) -> Table:
    return Table(data.X, data.y[:, None])


def _quadrants(n_groups: int) -> Callable[[Table], Partition]:
    return lambda table: image_quadrants(table.X.shape[0], n_groups, seed=0)


def _dealt(shape: tuple[int, int]) -> Callable[[Table], Partition]:
    return lambda table: deal_nonzeros(table.X, shape, seed=0)


def _grid(table: Table) -> Partition:
    return grid(*table.X.shape, (3, 3), seed=0)


MNIST_125 = Problem("MNIST", 1e-3, mnist, _quadrants(125), "125x4", "mnist")
MNIST_5 = Problem("MNIST", 1e-3, mnist, _quadrants(5), "5x4", "mnist")
COVTYPE_12 = Problem("covtype", 5e-5, covtype, _dealt((12, 12)), "12x12", "covtype")
COVTYPE_3 = Problem("covtype", 5e-5, covtype, _dealt((3, 3)), "3x3", "covtype")
NEWS20 = Problem("news20", 1e-5, news20, _dealt((3, 3)), "3x3", "news20")
BREAST_CANCER = Problem("breast_cancer", 1e-3, breast_cancer, _grid, "3x3")
DIGITS = Problem("digits", 1e-3, digits, _grid, "3x3")


def training(  # noqa: PLR0913
    problem: Problem,
    table: Table,
    *,
    profile: Profile = "open",
    algorithm: Algorithm | None = None,
    participation: Callable[[int], Participation] = complete,
    max_rounds: int = 150,
    encryption: Encryption | None = None,
    free_intercept: bool = False,
) -> Runner:
    """Return a run to a certified 0.1 %, by default of the bundle method."""
    partition = problem.split(table)
    layout = layout_of(partition)
    settings = TrainingSettings(
        make_loss("hinge"),
        problem.l2,
        algorithm or Bundle(),
        profile=profile,
        max_rounds=max_rounds,
        tolerance=1e-3,
        encryption=encryption or Encryption(),
        free_intercept=free_intercept,
    )
    blocks = split_blocks(table.X, table.y, partition, layout)
    present = participation(partition.n_clients)
    return train_in_process(settings, layout, blocks, present).runner


def one_by_one(runner: Runner) -> InProcess:
    """Let one client work at a time; return the driver that carries messages."""
    driver = runner.driver
    assert isinstance(driver, InProcess)  # noqa: S101  # of train_in_process
    driver.work_one_by_one()
    return driver
