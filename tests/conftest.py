"""Shared makers: seeds, small problems, and how hypothesis searches."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import typer.main
from hypothesis import settings

from hyfdca.arrays import FloatArray
from hyfdca.cli import main as cli
from hyfdca.crypto.schemes import paillier_keys
from hyfdca.crypto.schemes.paillier_keys import MODULUS_BITS, TEST_BITS
from hyfdca.kits import tls
from hyfdca.maths.losses import Loss
from hyfdca.maths.seeds import stream
from hyfdca.study import figures
from tests.kits import kit_makers
from tests.maths.loss_cases import CASES, Case
from tests.support import data_sets
from tests.support.selection import selected
from tests.support.thoroughness import examples

# Failing assertions of these modules are explained in full, as in a test file.
pytest.register_assert_rewrite(
    "tests.stages.key_holders",
    "tests.kits.kit_commands",
    "tests.online.refusals",
    "tests.support.wrong_requests",
)

# Derandomised: a failure is the same on every machine. Compiling takes longer than
# any deadline.
settings.register_profile(
    "hyfdca",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=examples(50),
)
settings.load_profile("hyfdca")

# A process of the command line makes its commands once, and so do the tests, which run
# it a thousand times.
typer.main.get_command = cache(typer.main.get_command)


# Their tests compile what others only load, each folder other functions. So one worker
# runs all of a folder, and no two compile the same.
_COMPILING = ("tests/crypto/", "tests/maths/", "tests/training/bulk/")


def _turn(item: pytest.Item) -> int:
    """Return when it is a test's turn.

    Tests of several processes wait for each other, so they begin early, but not before
    everything is compiled: otherwise each of their processes compiles it.
    """
    if item.nodeid.startswith(_COMPILING):
        return 0
    return 1 if item.nodeid.startswith("tests/online") else 2


def _keep_together(items: list[pytest.Item]) -> None:
    """Let one worker run all tests of each folder that compiles."""
    for item in items:
        for folder in _COMPILING:
            if item.nodeid.startswith(folder):
                item.add_marker(pytest.mark.xdist_group(folder))


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Order the tests, and leave out cases that only longer runs have."""
    items.sort(key=_turn)
    _keep_together(items)
    items[:], left_out = selected(items)
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(tryfirst=True)  # before fixtures, some of which train
def pytest_runtest_setup() -> None:
    """Fix what an estimator draws that was given no ``random_state``."""
    np.random.seed(7)  # noqa: NPY002  # the state that scikit-learn uses then


def pytest_collection_finish() -> None:
    """Exempt modules and tests, which stay to the end, from garbage collection."""
    gc.collect()
    gc.freeze()


# "7", "0,3,8" or "0-9"; no test may depend on one lucky seed.
_SEEDS = os.environ.get("HYFDCA_TEST_SEEDS", "7")


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    if last:
        return list(range(int(first), int(last) + 1))
    return [int(word) for word in text.split(",")]


@pytest.fixture(scope="session", params=_seeds(_SEEDS), ids="seed{}".format)
def seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of a test; HYFDCA_TEST_SEEDS runs several."""
    return int(request.param)


class Problem(NamedTuple):
    """A table and its labels, (n_samples, 1)."""

    X: sp.csr_array
    labels: FloatArray


def _table(seed: int, n_samples: int = 24, n_features: int = 6) -> sp.csr_array:
    """Return rows of all kinds: the first half full, then sparse, the last one zero."""
    random = stream(seed, "table")
    X = random.normal(size=(n_samples, n_features))
    half = n_samples // 2
    X[half:] *= random.random((n_samples - half, n_features)) < 0.3
    X[-1] = 0.0
    return sp.csr_array(X)


@pytest.fixture
def classification(seed: int) -> Problem:
    """Return labels -1 and 1 that no plane separates."""
    X = _table(seed)
    random = stream(seed, "classes")
    scores = X @ random.normal(size=X.shape[1]) + random.normal(size=X.shape[0])
    return Problem(X, np.where(scores > 0, 1.0, -1.0).reshape(-1, 1))


@pytest.fixture
def regression(seed: int) -> Problem:
    """Return targets that are linear in the features, plus noise."""
    X = _table(seed)
    random = stream(seed, "targets")
    targets = X @ random.normal(size=X.shape[1]) + random.normal(size=X.shape[0])
    return Problem(X, targets.reshape(-1, 1))


@pytest.fixture
def problem_for(
    classification: Problem, regression: Problem
) -> Callable[[Loss], Problem]:
    """Return the small problem whose labels a loss takes."""
    problems = {"classification": classification, "regression": regression}
    return lambda loss: problems[loss.task]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest, seed: int) -> Case:
    """Return random margins, labels and duals of a loss with its textbook formulas."""
    return Case(*request.param, seed)


@pytest.fixture
def small_paillier(monkeypatch):
    """Let the table of schemes accept Paillier keys of 512 bits."""
    monkeypatch.setattr(paillier_keys, "MODULUS_BITS", (TEST_BITS, *MODULUS_BITS))


@pytest.fixture(scope="module")
def no_figure() -> Iterator[None]:
    """Make studies write an empty figure: drawing takes longer than small studies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "draw_convergence", lambda _: b"")
        yield


@pytest.fixture
def small_sets(tmp_path, monkeypatch):
    """Replace the paper's data sets by small ones, none of which exists yet."""
    data_sets.shrink_sets(tmp_path / "small_sets", monkeypatch)


@pytest.fixture
def hyfdca(monkeypatch, capsys):
    """Run the command in this process; return exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hyfdca", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return caught.value.code or 0, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def small_tls():
    """Use TLS keys of 2048 bits, which takes a fifth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tls, "_KEY_BITS", 2048)
        yield


@pytest.fixture(scope="session")
def enrolled_once(small_tls, tmp_path_factory):
    """Make keys and requests of three organisations; not to be written to."""
    return kit_makers.enrolled(tmp_path_factory.mktemp("enrolled") / "parties")


@pytest.fixture(scope="session")
def installed_once(enrolled_once, tmp_path_factory):
    """Make kits of three organisations and a server; not to be written to."""
    root = tmp_path_factory.mktemp("installed") / "parties"
    return kit_makers.installed(enrolled_once.copy(root))


@pytest.fixture
def enrolled(enrolled_once, tmp_path):
    """Return enrolled organisations for a test to spoil."""
    return enrolled_once.copy(tmp_path / "parties")


@pytest.fixture
def installed(installed_once, tmp_path):
    """Return kits for a test to spoil."""
    return installed_once.copy(tmp_path / "parties")
