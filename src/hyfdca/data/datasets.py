"""The data sets of the paper, read from their original files.

In this package only this module and ``readers`` read files.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from hyfdca.arrays import FloatArray

MNIST_BIAS = 10.0  # the paper's value; large, so that the penalty hardly affects it
_EVEN_DIGITS = (0, 2, 4, 6, 8)
_IDX_UBYTE = 0x08


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


def load_mnist(
    folder: Path | str,
    positive: Collection[int] = _EVEN_DIGITS,
    part: Literal["train", "t10k"] = "train",
) -> Dataset:
    """Return MNIST with pixels in [0, 1] and the bias, 10, as the last column.

    Parameters
    ----------
    folder : path
        Contains the four original files ``*-ubyte.gz``, directly or in ``mnist``.
    positive : collection of int
        The digits labelled 1. The paper does not state how it forms two classes.
    part : {"train", "t10k"}
    """
    folder = _folder_of(folder, "mnist")
    images = _read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    digits = _read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    pixels = images.reshape(len(images), -1)
    table = sp.csr_array(pixels).astype(np.float64) / 255.0
    bias = np.full((len(digits), 1), MNIST_BIAS)
    labels = np.where(np.isin(digits, list(positive)), 1.0, -1.0)
    return Dataset(_small(sp.hstack([table, sp.csr_array(bias)], format="csr")), labels)


def load_news20(folder: Path | str) -> Dataset:
    """Return news20.binary; some of its rows are empty."""
    path = _folder_of(folder, "news20") / "news20.binary.xz"
    with lzma.open(path) as file:
        return _read_libsvm(file, positive=1.0)


def load_covtype(folder: Path | str) -> Dataset:
    """Return covtype.binary, scaled; label 1 is class 2 of the set."""
    path = _folder_of(folder, "covtype") / "covtype.libsvm.binary.scale.bz2"
    with bz2.open(path) as file:
        return _read_libsvm(file, positive=2.0)


def _folder_of(folder: Path | str, name: str) -> Path:
    """Return a set's folder, given either that folder or its parent."""
    inner = Path(folder) / name
    return inner if inner.is_dir() else Path(folder)


def _read_libsvm(file: IO[bytes], positive: float) -> Dataset:
    table, labels = load_svmlight_file(file, zero_based=False)
    return Dataset(_small(table), np.where(labels == positive, 1.0, -1.0))


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Return an array of bytes in the idx format: two zeros, type, rank, sizes."""
    with gzip.open(path) as file:
        content = file.read()
    rank = content[3]
    if content[:3] != bytes([0, 0, _IDX_UBYTE]):
        raise ValueError(f"{path.name} is not an idx file of unsigned bytes.")
    start = 4 + 4 * rank
    shape = np.frombuffer(content, ">u4", count=rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape.tolist())


def _small(table: Any) -> sp.csr_array:
    """Return the table with 32-bit indices, which kernels read faster."""
    table = sp.csr_array(table)
    indices = table.indices.astype(np.int32, copy=False)
    indptr = table.indptr.astype(np.int32, copy=False)
    return sp.csr_array((table.data, indices, indptr), shape=table.shape)
