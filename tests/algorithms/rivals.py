"""Problems on which rival methods are compared with what their theory says."""

from __future__ import annotations

import numpy as np

from hyfdca.maths.objective import Objective, Optimum, reference_optimum
from tests.support.small_runs import (
    Run,
    make_training,
    partition_of,
    pooled,
    table_for,
)

N_SAMPLES, N_FEATURES = 60, 12  # equal groups on every grid below
L2 = 0.05
CONSTANT = 1e12  # a rate offset before which √t does not count


def rival(algorithm: str, shape: str, loss: str = "logistic", **given: object) -> Run:
    """Return a run of a method by its name, measured rarely."""
    X, y = table(loss)
    return make_training(
        X,
        y,
        partition_of(shape, N_SAMPLES, N_FEATURES),
        algorithm=algorithm,
        loss=loss,
        **{"l2": L2, "measure_every": 1_000, **given},
    )


def table(loss: str = "logistic") -> tuple:
    """Return the rows and labels of all problems with a loss."""
    return table_for(loss, N_SAMPLES, N_FEATURES)


def dense(loss: str = "logistic") -> tuple[np.ndarray, np.ndarray]:
    """Return the rows, as a plain array, and the labels."""
    X, y = table(loss)
    return X.toarray(), y


def weights_at(run: Run) -> list[np.ndarray]:
    """Return the model's weights as each client has them of its features."""
    half = run.server
    return [c.weights_of(half.weights_for(k)) for k, c in enumerate(run.clients)]


def objective(loss: str = "logistic", l2: float = L2) -> Objective:
    """Return the problem on all the data in one place."""
    X, y = table(loss)
    return pooled(X, y, loss, l2)


def optimum(loss: str = "logistic", l2: float = L2) -> Optimum:
    """Return its certified solution."""
    return reference_optimum(objective(loss, l2), 1e-12)


def excess(run: Run, loss: str = "logistic", l2: float = L2) -> float:
    """Run all rounds; return how far P of the model is above the optimum."""
    problem = objective(loss, l2)
    return problem.primal(run.finish()) - optimum(loss, l2).primal


def column_groups(run: Run) -> list[np.ndarray]:
    """Return the different sets of features that clients hold."""
    sets = {tuple(items.tolist()) for items in run.layout.features.items}
    return [np.array(columns) for columns in sorted(sets)]


def constant_rate(rate: float) -> dict[str, float]:
    """Return settings with the same rate in every round."""
    return {"rate": rate * CONSTANT, "rate_offset": CONSTANT}


def block_gradient(weights, groups, l2=L2):
    """Return the gradient of each column group's own problem, all in one vector.

    It is zero at the concatenation of the groups' own solutions and nowhere else.
    """
    X, y = dense()
    gradient = l2 * weights
    for columns in groups:
        part = X[:, columns]
        slopes = -y / (1 + np.exp(y * (part @ weights[columns])))
        gradient[columns] += part.T @ slopes / len(y)
    return gradient
