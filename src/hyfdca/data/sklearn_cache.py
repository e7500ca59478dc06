"""Reads the paper's data sets from what scikit-learn's downloads left in its cache."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import scipy.sparse as sp

from hyfdca.arrays import FloatArray
from hyfdca.data.datasets import Labelled, scaled_pixels

_LODGEPOLE_PINE, _KINDS_OF_FOREST = 2, range(1, 8)
_N_PIXELS = 28 * 28
# Columns have no names after the header; the digit is the last, quoted or not.
_OPENML_TYPES = {
    **{f"f{number}": pa.uint8() for number in range(_N_PIXELS)},
    f"f{_N_PIXELS}": pa.string(),
}


def sklearn_folder() -> Path:
    """Return scikit-learn's cache folder; unlike its own function, make none."""
    default = os.path.join("~", "scikit_learn_data")
    return Path(os.path.expanduser(os.environ.get("SCIKIT_LEARN_DATA", default)))


def read_covertype(folder: Path) -> Labelled:
    """Return what ``fetch_covtype`` left, as covtype.binary: scaled, labels 1 and 2.

    Each feature is scaled to [0, 1] and rounded to six digits, as LIBSVM's own
    ``svm-scale`` prints it. Label 2 is kind of forest 2, label 1 any other.

    Parameters
    ----------
    folder : path
        scikit-learn's cache.
    """
    from sklearn.datasets import fetch_covtype  # noqa: PLC0415  # takes a second

    try:
        cells, kinds = fetch_covtype(
            data_home=folder, download_if_missing=False, return_X_y=True
        )
    except Exception:  # a damaged pickle may raise anything
        raise ValueError("scikit-learn cannot read it") from None
    if not np.isin(kinds, _KINDS_OF_FOREST).all():
        raise ValueError("it has other kinds of forest")
    for column in cells.T:
        column[:] = _scaled(column)
    labels = np.where(kinds == _LODGEPOLE_PINE, 2, 1)
    return Labelled(sp.csr_array(cells), labels)


def _scaled(column: FloatArray) -> FloatArray:
    """Return numbers in [0, 1] of six digits; zeros if all are equal."""
    values, places = np.unique(column, return_inverse=True)
    if len(values) == 1:
        return np.zeros_like(column)
    shares = (values - values[0]) / (values[-1] - values[0])
    return np.array([float(f"{share:.6g}") for share in shares])[places]


def read_openml_mnist(path: Path) -> Labelled:
    """Return what ``fetch_openml("mnist_784")`` left: all images and their digits."""
    with gzip.open(path) as file:
        if not any(line.strip().lower() == b"@data" for line in file):
            raise ValueError("it has no line @DATA")
        table = pa.csv.read_csv(
            file,
            pa.csv.ReadOptions(autogenerate_column_names=True),
            convert_options=pa.csv.ConvertOptions(column_types=_OPENML_TYPES),
        )
    *pixels, digits = table.columns
    images = np.column_stack([column.to_numpy() for column in pixels])
    texts = [text.strip("'\" ") for text in digits.to_pylist()]
    return Labelled(scaled_pixels(images), np.array(texts, dtype=np.int64))
