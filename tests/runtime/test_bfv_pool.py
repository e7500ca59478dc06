"""Processes that seal and open BFV blocks: the same numbers, and no traces."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from hyfdca.crypto.schemes.bfv import BfvCipher
from hyfdca.crypto.schemes.bfv_blocks import COMPACT, FULL, BfvBlocks
from hyfdca.maths.seeds import stream
from hyfdca.runtime.bfv_pool import BfvWorkers, Workforce

pytestmark = pytest.mark.slow

N_BLOCKS = 20  # enough for several processes, and not a multiple of their chunks


@pytest.fixture(scope="module", params=[FULL, COMPACT], ids=["full", "compact"])
def parameters(request):
    return request.param


@pytest.fixture
def workers(parameters):
    return BfvWorkers(parameters, n_workers=2)


SEEDS = [bytes([group]) * 32 for group in (7, 9)]
OF_BLOCKS = [SEEDS[block >= 5] for block in range(N_BLOCKS)]  # two owner groups
GROUPS = np.array([seed[0] for seed in OF_BLOCKS])


def _seed_of(group):
    return bytes([group]) * 32


def _numbers(seed):
    shape = (N_BLOCKS, 4096)
    return stream(seed, "blocks").integers(-(2**40), 2**40, shape)


def test_processes_seal_and_open_in_order(parameters, workers, seed):
    """Blocks return in order, and either side opens what the other sealed."""
    numbers, here = _numbers(seed), BfvCipher(parameters, _seed_of)
    there = BfvCipher(parameters, _seed_of, workers)
    for one, other in ((here, there), (there, here)):
        opened = one.open(other.seal(numbers, GROUPS), GROUPS)
        np.testing.assert_array_equal(opened, numbers)


def test_what_is_no_ciphertext_is_refused(workers, seed):
    """A process reports what it cannot open, and continues working."""
    sealed = workers.work("seal", _numbers(seed), OF_BLOCKS)
    broken = sealed.copy()
    broken[3] = 255
    with pytest.raises(ValueError, match="not a ciphertext"):
        workers.work("open", broken, OF_BLOCKS)
    np.testing.assert_array_equal(
        workers.work("open", sealed, OF_BLOCKS), _numbers(seed)
    )


def test_ctrl_c_ends_no_process(workers, seed):
    """It reaches all processes of a terminal, but the one they work for decides."""
    sealed = workers.work("seal", _numbers(seed), OF_BLOCKS)
    free, _ = workers._started
    worker = free.get()
    rows, out = _numbers(seed)[:2], np.empty_like(sealed[:2])
    worker.work("seal", rows, out, SEEDS[0])
    worker._process.send_signal(signal.SIGINT)
    worker.work("seal", rows, out, SEEDS[0])
    assert worker._process.poll() is None
    free.put(worker)


def test_few_blocks_stay_in_this_process(workers):
    """If there is little to do, no process is started."""
    assert not workers.is_worth(1)
    assert workers.is_worth(N_BLOCKS)
    assert not BfvWorkers(FULL, n_workers=1).is_worth(N_BLOCKS)


@pytest.mark.skipif(sys.platform != "linux", reason="looks processes up in /proc")
def test_processes_have_no_secret_on_show_and_end(parameters, seed):
    """The key is in no command line or environment; no process stays behind."""
    workers = BfvWorkers(parameters, n_workers=2)
    workers.work("seal", _numbers(seed), OF_BLOCKS)
    free, _ = workers._started
    started = [free.get() for _ in range(2)]
    ids = [worker._process.pid for worker in started]
    for process in ids:
        for name in ("cmdline", "environ"):
            shown = Path(f"/proc/{process}/{name}").read_bytes()
            assert SEEDS[0] not in shown
            assert SEEDS[0].hex().encode() not in shown
    for worker in started:
        free.put(worker)
    del workers, free, started, worker
    gc.collect()
    assert not any(Path(f"/proc/{process}").exists() for process in ids)


def test_work_continues_without_a_process_that_was_killed(workers, seed):
    """The work of a dead process is done in this process."""
    numbers = _numbers(seed)
    workers.work("seal", numbers, OF_BLOCKS)
    free, _ = workers._started
    worker = free.get()
    worker._process.kill()
    worker._process.wait()
    free.put(worker)
    sealed = workers.work("seal", numbers, OF_BLOCKS)
    np.testing.assert_array_equal(workers.work("open", sealed, OF_BLOCKS), numbers)


def test_nothing_of_the_current_folder_is_imported(parameters, seed, tmp_path):
    """A file named like a library does not get access to the key."""
    (tmp_path / "seal.py").write_text("raise SystemExit('hijacked')")
    with contextlib.chdir(tmp_path):
        workers = BfvWorkers(parameters, n_workers=2)
        sealed = workers.work("seal", _numbers(seed), OF_BLOCKS)
    free, _ = workers._started
    assert all(free.get()._process.poll() is None for _ in range(2))
    here = BfvBlocks(parameters, SEEDS[0])
    np.testing.assert_array_equal(here.open(sealed[:5]), _numbers(seed)[:5])


def test_those_with_the_same_parameters_share_processes():
    """Clients in one process share workers, which get keys with the blocks."""
    hire = Workforce(2)
    assert hire(FULL) is hire(FULL)
    assert hire(FULL) is not hire(COMPACT)
