"""Textbook formulas of all losses, and random cases of each."""

import math

import numpy as np
from scipy.special import xlog1py, xlogy

from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.seeds import stream

# Textbook formulas, written without the package's trick: the loss of margin z and
# label or target y, its parameter p, and l*(-a) in b = y a (or a) on its domain.
VALUES = {
    "hinge": lambda z, y, p: np.maximum(0, 1 - y * z),
    "squared_hinge": lambda z, y, p: np.maximum(0, 1 - y * z) ** 2,
    "half_squared_hinge": lambda z, y, p: np.maximum(0, 1 - y * z) ** 2 / 2,
    "smoothed_hinge": lambda z, y, p: np.where(
        y * z >= 1,
        0.0,
        np.where(y * z <= 1 - p, 1 - y * z - p / 2, (1 - y * z) ** 2 / (2 * p)),
    ),
    "logistic": lambda z, y, p: np.logaddexp(0, -y * z),
    "half_squared": lambda z, y, p: (z - y) ** 2 / 2,
    "squared": lambda z, y, p: (z - y) ** 2,
    "absolute": lambda z, y, p: np.abs(z - y),
    "epsilon_insensitive": lambda z, y, p: np.maximum(0, np.abs(z - y) - p),
    "squared_epsilon_insensitive": lambda z, y, p: (
        np.maximum(0, np.abs(z - y) - p) ** 2
    ),
    "huber": lambda z, y, p: np.where(
        np.abs(z - y) <= p, (z - y) ** 2 / 2, p * np.abs(z - y) - p**2 / 2
    ),
    "scaled_huber": lambda z, y, p: np.where(
        np.abs(z - y) <= p, (z - y) ** 2 / (2 * p), np.abs(z - y) - p / 2
    ),
    "pinball": lambda z, y, p: np.where(y >= z, p * (y - z), (1 - p) * (z - y)),
}


CONJUGATES = {
    "hinge": lambda b, y, p: -b,
    "squared_hinge": lambda b, y, p: -b + b**2 / 4,
    "half_squared_hinge": lambda b, y, p: -b + b**2 / 2,
    "smoothed_hinge": lambda b, y, p: -b + p * b**2 / 2,
    "logistic": lambda b, y, p: xlogy(b, b) + xlog1py(1 - b, -b),
    "half_squared": lambda b, y, p: b**2 / 2 - y * b,
    "squared": lambda b, y, p: b**2 / 4 - y * b,
    "absolute": lambda b, y, p: -y * b,
    "epsilon_insensitive": lambda b, y, p: -y * b + p * np.abs(b),
    "squared_epsilon_insensitive": lambda b, y, p: -y * b + p * np.abs(b) + b**2 / 4,
    "huber": lambda b, y, p: b**2 / 2 - y * b,
    "scaled_huber": lambda b, y, p: p * b**2 / 2 - y * b,
    "pinball": lambda b, y, p: -y * b,
}


DOMAINS = {
    "hinge": lambda p: (0, 1),
    "squared_hinge": lambda p: (0, math.inf),
    "half_squared_hinge": lambda p: (0, math.inf),
    "smoothed_hinge": lambda p: (0, 1),
    "logistic": lambda p: (0, 1),
    "half_squared": lambda p: (-math.inf, math.inf),
    "squared": lambda p: (-math.inf, math.inf),
    "absolute": lambda p: (-1, 1),
    "epsilon_insensitive": lambda p: (-1, 1),
    "squared_epsilon_insensitive": lambda p: (-math.inf, math.inf),
    "huber": lambda p: (-p, p),
    "scaled_huber": lambda p: (-1, 1),
    "pinball": lambda p: (p - 1, p),
}


# The steepest slope L and the Lipschitz constant of the derivative.
CONSTANTS = {
    "hinge": lambda p: (1, math.inf),
    "squared_hinge": lambda p: (math.inf, 2),
    "half_squared_hinge": lambda p: (math.inf, 1),
    "smoothed_hinge": lambda p: (1, 1 / p),
    "logistic": lambda p: (1, 1 / 4),
    "half_squared": lambda p: (math.inf, 1),
    "squared": lambda p: (math.inf, 2),
    "absolute": lambda p: (1, math.inf),
    "epsilon_insensitive": lambda p: (1, math.inf),
    "squared_epsilon_insensitive": lambda p: (math.inf, 2),
    "huber": lambda p: (p, 1),
    "scaled_huber": lambda p: (1, 1 / p),
    "pinball": lambda p: (max(p, 1 - p), math.inf),
}


# Distances y z (or y - z) at which a loss has a kink or its derivative one.
KINKS = {
    "hinge": lambda p: [1],
    "squared_hinge": lambda p: [1],
    "half_squared_hinge": lambda p: [1],
    "smoothed_hinge": lambda p: [1, 1 - p],
    "logistic": lambda p: [],
    "half_squared": lambda p: [],
    "squared": lambda p: [],
    "absolute": lambda p: [0],
    "epsilon_insensitive": lambda p: [-p, p],
    "squared_epsilon_insensitive": lambda p: [-p, p],
    "huber": lambda p: [-p, p],
    "scaled_huber": lambda p: [-p, p],
    "pinball": lambda p: [0],
}


EXTRA = [
    ("smoothed_hinge", 0.1),
    ("smoothed_hinge", 2.0),
    ("epsilon_insensitive", 0.7),
    ("squared_epsilon_insensitive", 0.7),
    ("huber", 0.3),
    ("scaled_huber", 0.3),
    ("pinball", 0.1),
    ("pinball", 0.9),
]


CASES = [(name, None) for name in LOSSES] + EXTRA


N_CASES = 300


class Case:
    """A loss beside its textbook formulas."""

    def __init__(self, name, parameter, seed):
        self.loss = make_loss(name, parameter)
        self.name, p = name, self.loss.parameter
        self.random = stream(seed, "losses", name)
        self.value = lambda z, y: VALUES[name](z, y, p)
        self.lipschitz, self.smoothness = CONSTANTS[name](p)
        self.low, self.high = DOMAINS[name](p)
        self.kinks = KINKS[name](p)
        self.is_signed = self.loss.task == "classification"
        n = N_CASES
        signs = np.where(self.random.random(n) < 0.5, -1.0, 1.0)
        self.y = signs if self.is_signed else 2 * self.random.normal(size=n)
        self.z = 3 * self.random.normal(size=n)
        self.q = 10 ** self.random.uniform(-2, 2, size=n)
        # Duals inside the domain, a fifth of them at each end of it.
        low, high = max(self.low, -3.0), min(self.high, 3.0)
        b = self.random.uniform(low, high, size=n)
        b[: n // 5], b[-(n // 5) :] = low, high
        self.a = self.sign(self.y) * self.random.permutation(b)

    def sign(self, y):
        """Return what turns a dual into b."""
        return y if self.is_signed else np.ones_like(y)

    def conjugate(self, a, y):
        """Return the textbook's l*(-a)."""
        b = self.sign(y) * a
        inside = (b >= self.low) & (b <= self.high)
        finite = CONJUGATES[self.name](np.where(inside, b, 0.0), y, self.loss.parameter)
        return np.where(inside, finite, math.inf)

    def kink_margins(self, y):
        """Return the margins of all kinks of samples with labels y."""
        places = np.array(self.kinks, dtype=float)[:, None]
        return y * places if self.is_signed else y - places

    def dual_objective(self, new, a, z, y, q):
        """Return what the new value of a dual is to maximise."""
        d = new - a
        return -self.conjugate(new, y) - d * z - q * d * d / 2


MARGINS = [0.0, 1e-12, 0.7, 30.0, 700.0, 1e4, 1e8, 1e300]
