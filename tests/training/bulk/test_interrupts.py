"""Ctrl-C at any time ends a simulation, and never crashes the interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import random, signal
import numpy as np, scipy.sparse as sp
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.holdings import partition as parts
from hyfdca.holdings.participation import random_fraction
from hyfdca.maths.losses import make_loss
from hyfdca.training.bulk.dual_ascent import BulkDualAscent
from hyfdca.training.bulk.stacked import stacked

numbers = np.random.default_rng(0)
X = sp.csr_array(numbers.normal(size=(5000, 12)))
y = np.where(numbers.random(5000) < 0.5, -1.0, 1.0)
blocks = stacked(X, y, parts.grid(5000, 12, (5, 2), seed=1), by="samples")
settings = Hyfdca(step="paper", local_fraction=0.3)
present = random_fraction(10, 0.5, 0)
run = BulkDualAscent(blocks, make_loss("hinge"), 0.01, settings, present, 0)
run.round()
signal.signal(signal.SIGALRM, signal.default_int_handler)
random.seed(0)
for _ in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + 0.005 * random.random())
        while True:
            run.round()
    except KeyboardInterrupt:
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
print("still there")
"""


@pytest.mark.slow
def test_interrupts_do_not_crash():
    """Compiled rounds are interrupted 150 times, each at another moment."""
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, timeout=400, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == "still there\n"
