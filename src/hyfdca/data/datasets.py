"""The data sets of the paper, read from their original files.

``sources`` finds and checks these files; this module trusts them.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from hyfdca.arrays import FloatArray

_PARTS = ("train", "t10k")
_IDX_UBYTE = 0x08
_OPENERS: dict[str, Callable[[Path], IO[bytes]]] = {
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


@dataclass(frozen=True)
class Dataset:
    """A table in one place.

    Parameters
    ----------
    X : CSR array (n_samples, n_features)
        With 32-bit indices.
    y : array (n_samples,)
        Labels -1 and 1.
    """

    X: sp.csr_array
    y: FloatArray


class Labelled(NamedTuple):
    """A table with the labels as they are in its files, (n_samples,)."""

    X: sp.csr_array
    labels: NDArray[Any]


def two_classes(
    table: Labelled, positive: Collection[int], bias: float | None = None
) -> Dataset:
    """Return a table with label 1 for some labels and -1 for all others.

    Parameters
    ----------
    positive : collection of int
    bias : float, optional
        The value of one more column, the last.
    """
    X = table.X
    if bias is not None:
        column = sp.csr_array(np.full((X.shape[0], 1), bias))
        X = sp.hstack([X, column], format="csr")
    labels = np.where(np.isin(table.labels, list(positive)), 1.0, -1.0)
    return Dataset(_small(X), labels)


def read_mnist(folder: Path) -> Labelled:
    """Return the images of the training part, then of the other, and their digits."""
    images = [_read_idx(folder / f"{part}-images-idx3-ubyte.gz") for part in _PARTS]
    digits = [_read_idx(folder / f"{part}-labels-idx1-ubyte.gz") for part in _PARTS]
    pixels = [part.reshape(len(part), -1) for part in images]
    return Labelled(scaled_pixels(np.concatenate(pixels)), np.concatenate(digits))


def scaled_pixels(pixels: NDArray[np.uint8]) -> sp.csr_array:
    """Return pixels in [0, 1], (n_images, n_pixels)."""
    return sp.csr_array(sp.csr_array(pixels).astype(np.float64) / 255.0)


def read_libsvm(path: Path) -> Labelled:
    """Return a table of LIBSVM text, compressed as the ending of the file says."""
    # Imported here because it takes a second, and looking for files does not need it.
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    with _OPENERS[path.suffix](path) as file:
        table, labels = load_svmlight_file(file, zero_based=False)
    return Labelled(sp.csr_array(table), labels)


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Return an array of bytes in the idx format: two zeros, type, rank, sizes."""
    with gzip.open(path) as file:
        content = file.read()
    if content[:3] != bytes([0, 0, _IDX_UBYTE]) or len(content) < 4:
        raise ValueError(f"{path.name} is not an idx file of unsigned bytes.")
    rank = content[3]
    start = 4 + 4 * rank
    shape = np.frombuffer(content, ">u4", count=rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape.tolist())


def _small(table: Any) -> sp.csr_array:
    """Return the table with 32-bit indices, which kernels read faster."""
    table = sp.csr_array(table)
    indices = table.indices.astype(np.int32, copy=False)
    indptr = table.indptr.astype(np.int32, copy=False)
    return sp.csr_array((table.data, indices, indptr), shape=table.shape)
