"""How far a reader has to jump: one bundle round as a walk through the files.

Counts the functions that one round calls in this package, the files they are in, how
often the next call is in another file than the one before (file switches), and how deep
calls are nested. Two clients, each with half of the columns, no encryption; the round
alone, without measuring.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer

import hyfdca
from hyfdca.algorithms.bundle.bundle import Bundle
from hyfdca.holdings.block import split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.participation import complete
from hyfdca.holdings.partition import grid
from hyfdca.maths.losses import make_loss
from hyfdca.protocol.messages import Profile
from hyfdca.runtime.driver import Traffic
from hyfdca.training.in_process import train_in_process
from hyfdca.training.runner import Runner
from hyfdca.training.settings import TrainingSettings

NEEDS = ()
_PACKAGE = str(Path(hyfdca.__file__).parent)
_BEFORE = {"open": 387, "sealed": 529}  # file switches before the rooms were made


@dataclass
class Walk:
    """The calls of one round, in their order."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    depth: int = 0
    deepest: int = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call or a return; ``sys.setprofile`` calls this."""
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return
        if event == "call":
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
            self.calls.append((code.co_filename, code.co_qualname))
        elif event == "return":
            self.depth -= 1

    @property
    def switches(self) -> int:
        """How often the next call is in another file."""
        files = [file for file, _ in self.calls]
        return sum(a != b for a, b in pairwise(files))


def traced_round(profile: Profile) -> Walk:
    """Return the walk through the fourth round of a bundle training."""
    runner = _runner(profile)
    rounds = runner.rounds()
    for _ in range(3):
        next(rounds)
    walk = Walk()
    conversation = runner.server.round([0, 1])
    sys.setprofile(walk)
    try:
        runner.driver.run(conversation, Traffic())
    finally:
        sys.setprofile(None)
    return walk


def _runner(profile: Profile) -> Runner:
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = np.where(y == 1, 1.0, -1.0)[:, None]
    n_samples, n_features = X.shape
    partition = grid(n_samples, n_features, (1, 2), seed=0)
    layout = layout_of(partition, bias=True)
    blocks = split_blocks(sp.csr_array(X), labels, partition, layout, 1.0)
    settings = TrainingSettings(
        make_loss("logistic"), 1e-3, Bundle(), profile=profile, tolerance=0.0
    )
    return train_in_process(settings, layout, blocks, complete(2)).runner


def run(_: Path | None) -> None:
    """Print the walk in both profiles; no data set is needed."""
    for profile in ("open", "sealed"):
        walk = traced_round(profile)
        functions, files = set(walk.calls), {file for file, _ in walk.calls}
        before = _BEFORE[profile]
        print(
            f"{profile:7} {len(functions)} functions in {len(files)} files, "
            f"{len(walk.calls)} calls, {walk.switches} file switches "
            f"(before the rooms: {before}, {walk.switches / before:.2f} of it), "
            f"depth {walk.deepest}"
        )
