from __future__ import annotations

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from hyfdca.maths.compiling import CACHE, jit

PROGRAM = "from hyfdca.maths import compiling, losses; print(compiling.CACHE)"


def test_compiled_functions_are_kept_where_they_can_be() -> None:
    """Elsewhere the package works all the same, and compiles in each process."""
    assert CACHE
    nowhere = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}
    command = [sys.executable, "-c", PROGRAM]
    assert subprocess.check_output(command, env=nowhere) == b"False\n"  # noqa: S603


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return a maker of one function, which another process would make again."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def make():
        def total(values):
            return values.sum()

        return jit()(total)

    return make, tmp_path


def _race(make, monkeypatch):
    """Let two processes compile for different types, both with an empty index.

    Of one of them the code is written last, of the other the index.
    """
    whole, floats = make(), make()
    whole(np.ones(3, dtype=np.int32))
    late = floats._cache._cache_file
    monkeypatch.setattr(late, "_load_index", dict)
    monkeypatch.setattr(late, "_save_index", lambda _: None)
    floats(np.ones(3))


def test_processes_that_compile_at_once_do_not_take_each_others_code(kept, monkeypatch):
    make, _ = kept
    _race(make, monkeypatch)
    later = make()
    assert later(np.full(3, 0.5)) == 1.5
    assert later(np.ones(3, dtype=np.int32)) == 3


def test_compiled_code_is_loaded(kept):
    make, _ = kept
    make()(np.ones(3))
    later = make()
    later(np.ones(3))
    assert sum(later.stats.cache_hits.values()) == 1


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"spoilt", b"\x80\x04."])
def test_damaged_files_are_compiled_again(kept, kind, content):
    make, folder = kept
    make()(np.ones(3))
    [path] = folder.rglob(f"*.{kind}")
    path.write_bytes(content)
    assert make()(np.ones(3)) == 3
    later = make()
    later(np.ones(3))
    assert sum(later.stats.cache_hits.values()) == 1
