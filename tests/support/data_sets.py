"""The paper's data sets in miniature: the same formats, ten rows each."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import joblib
import numpy as np
import pytest

from hyfdca.data import sources
from hyfdca.data.public_sets import SETS, Form

DIGITS = [*range(10)]
_N_TRAIN = 6  # of the ten images

NEWS20 = b"".join(b"%+d %d:0.5\n" % (1 - 2 * (row % 2), row + 1) for row in range(10))
KINDS = [2, 1, 2, 7, 3, 2, 4, 5, 6, 1]  # of forest
ELEVATIONS = [1859, 3858, 2000, 2001, 2500, 1860, 3000, 3500, 1859, 3333]


def covtype_text() -> bytes:
    """Return one scaled column, the first, and one that is 1 in every other row."""
    lines = []
    for row, (kind, elevation) in enumerate(zip(KINDS, ELEVATIONS, strict=True)):
        share = (elevation - 1859) / (3858 - 1859)
        cells = [f"1:{share:.6g}"] * (share > 0) + ["54:1"] * (row % 2)
        lines.append(" ".join([str(1 + (kind == 2)), *cells]))
    return "\n".join([*lines, ""]).encode()


def images() -> np.ndarray:
    """Return an image for each digit, with one pixel that is 17 times the digit."""
    pixels = np.zeros((10, 28 * 28), np.uint8)
    np.fill_diagonal(pixels, [255, *(17 * digit for digit in DIGITS[1:9]), 255])
    return pixels


def write_mnist(folder: Path) -> None:
    """Write the four files."""
    parts = {"train": slice(0, _N_TRAIN), "t10k": slice(_N_TRAIN, 10)}
    for part, rows in parts.items():
        pixels = images()[rows]
        header = struct.pack(">HBB3I", 0, 8, 3, len(pixels), 28, 28)
        _zip(folder / f"{part}-images-idx3-ubyte.gz", header + pixels.tobytes())
        header = struct.pack(">HBBI", 0, 8, 1, len(pixels))
        _zip(folder / f"{part}-labels-idx1-ubyte.gz", header + bytes(DIGITS[rows]))


def _zip(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))


def write_news20(folder: Path) -> None:
    """Write the rebuilt edition."""
    (folder / "news20.binary.xz").write_bytes(lzma.compress(NEWS20))


def write_covtype(folder: Path) -> None:
    """Write the rebuilt edition."""
    path = folder / "covtype.libsvm.binary.scale.bz2"
    path.write_bytes(bz2.compress(covtype_text()))


WRITERS: dict[str, Callable[[Path], None]] = {
    "mnist": write_mnist,
    "news20": write_news20,
    "covtype": write_covtype,
}


def write_sets(folder: Path, *names: str) -> Path:
    """Write some sets, by default all, each into a folder of its own."""
    for name in names or WRITERS:
        (folder / name).mkdir(parents=True)
        WRITERS[name](folder / name)
    return folder


def write_covertype_cache(home: Path) -> None:
    """Write what ``fetch_covtype`` leaves."""
    cells = np.zeros((10, 54))
    cells[:, 0] = ELEVATIONS
    cells[1::2, 53] = 1.0
    (home / "covertype").mkdir(parents=True)
    joblib.dump(cells, home / "covertype" / "samples_py3", compress=9)
    joblib.dump(np.array(KINDS), home / "covertype" / "targets_py3", compress=9)


def write_openml_cache(home: Path, name: str = "52667/mnist_784.arff.gz") -> None:
    """Write what ``fetch_openml("mnist_784")`` leaves, some digits in quotes."""
    path = home / "openml/openml.org/data/v1/download" / name
    path.parent.mkdir(parents=True)
    header = [f"@ATTRIBUTE pixel{number + 1} real" for number in range(28 * 28)]
    rows = [
        ",".join([*map(str, pixels), f"'{digit}'" if digit % 2 else str(digit)])
        for pixels, digit in zip(images().tolist(), DIGITS, strict=True)
    ]
    lines = ["@RELATION mnist_784", "", *header, "", "@DATA", *rows, ""]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


def shrink_sets(root: Path, patch: pytest.MonkeyPatch) -> None:
    """Replace the table of sets by miniature ones, and find nothing outside."""
    made = write_sets(root / "made")
    shapes = {"mnist": (10, 784), "news20": (10, 10), "covtype": (10, 54)}
    for name, shape in shapes.items():
        forms = tuple(_with_sums(form, made / name) for form in SETS[name].forms)
        patch.setitem(SETS, name, replace(SETS[name], shape=shape, forms=forms))
    patch.delenv(sources.VARIABLE, raising=False)
    patch.setenv("XDG_CACHE_HOME", str(root / "caches"))
    patch.setenv("SCIKIT_LEARN_DATA", str(root / "sklearn"))
    patch.setattr(sources, "_PROJECT", root / "clone")


def _with_sums(form: Form, folder: Path) -> Form:
    sums = {name: _sha256(folder / name) for name, known in form.files.items() if known}
    return replace(form, files={**form.files, **sums})


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class _Silent(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *given: object) -> None:  # noqa: A002
        """Log nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine; yield the address."""
    handler = partial(_Silent, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def serve_from(site: str, patch: pytest.MonkeyPatch) -> None:
    """Download all sets from one address, each below its name."""
    patch.setenv("no_proxy", "127.0.0.1")
    for name, data in SETS.items():
        forms = [
            form if form.site is None else replace(form, site=f"{site}/{name}")
            for form in data.forms
        ]
        patch.setitem(SETS, name, replace(data, forms=tuple(forms)))
