"""The paper's data sets: their shapes, their files and where these come from.

The checksums of news20.binary and covtype.binary are those of files rebuilt from the
sets' raw data. LIBSVM's own files have other bytes, so their shape is checked instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hyfdca.data.datasets import Labelled, read_libsvm, read_mnist
from hyfdca.data.sklearn_cache import read_covertype, read_openml_mnist


@dataclass(frozen=True)
class Form:
    """A form in which a folder may contain a set.

    Parameters
    ----------
    read : function of the folder
    files : dict of str to str or None
        The names of the files with their SHA-256, if known.
    is_fixed : bool
        Whether other checksums mean damage, not another edition.
    site : str, optional
        The address below which the files can be downloaded.
    """

    read: Callable[[Path], Labelled]
    files: Mapping[str, str | None]
    is_fixed: bool = False
    site: str | None = None

    @classmethod
    def of_file(
        cls,
        read: Callable[[Path], Labelled],
        name: str,
        checksum: str | None = None,
        *,
        is_fixed: bool = False,
        site: str | None = None,
    ) -> Form:
        """Return a form of one file, given a function of that file."""
        files = {name: checksum}
        return cls(lambda folder: read(folder / name), files, is_fixed, site)


@dataclass(frozen=True)
class PublicSet:
    """A data set of the paper.

    Parameters
    ----------
    title : str
        Its usual name.
    shape : tuple of int
        Samples and features, without a bias.
    labels : tuple of int
        All labels of its files.
    positive : tuple of int
        Those that become 1.
    forms : tuple of Form
        In a folder of data sets; one of them can be downloaded.
    cached : tuple of Form
        In scikit-learn's cache.
    bias : float, optional
        The value of one more column.
    """

    title: str
    shape: tuple[int, int]
    labels: tuple[int, ...]
    positive: tuple[int, ...]
    forms: tuple[Form, ...]
    cached: tuple[Form, ...] = ()
    bias: float | None = None

    @property
    def download(self) -> Form:
        """The form that can be downloaded."""
        return next(form for form in self.forms if form.site is not None)


MNIST_BIAS = 10.0  # the paper's value; large, so that the penalty hardly affects it

# The mirror that PyTorch keeps; its files are the original ones, byte for byte.
_MNIST_SITE = "https://ossci-datasets.s3.amazonaws.com/mnist"
_LIBSVM_SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_OPENML_MNIST = "openml/openml.org/data/v1/download/52667"

_MNIST = {
    "train-images-idx3-ubyte.gz": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels-idx1-ubyte.gz": (
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images-idx3-ubyte.gz": (
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
}
_COVTYPE = "covtype.libsvm.binary.scale.bz2"
_COVTYPE_SHA256 = "3663c48bd3da210514fc27ead55830fac8160bbfe79e1a72b2c53e3331c7e74b"
_NEWS20 = "news20.binary.xz"
_NEWS20_SHA256 = "942355af7f52e7cf7acac47221cff710c56ecea7719bf9415dab50cb9799a97f"

# By name, which is also the name of the set's folder.
SETS: dict[str, PublicSet] = {
    "mnist": PublicSet(
        "MNIST",
        (70_000, 784),
        labels=tuple(range(10)),
        positive=(0, 2, 4, 6, 8),  # the paper does not state its two classes
        forms=(Form(read_mnist, _MNIST, is_fixed=True, site=_MNIST_SITE),),
        cached=(
            Form.of_file(read_openml_mnist, f"{_OPENML_MNIST}/mnist_784.arff.gz"),
            Form.of_file(read_openml_mnist, f"{_OPENML_MNIST}.gz"),  # of older versions
        ),
        bias=MNIST_BIAS,
    ),
    "news20": PublicSet(
        "news20.binary",
        (19_996, 1_355_191),
        labels=(-1, 1),
        positive=(1,),
        forms=(
            Form.of_file(read_libsvm, _NEWS20, _NEWS20_SHA256, is_fixed=True),
            Form.of_file(read_libsvm, "news20.binary.bz2", site=_LIBSVM_SITE),
        ),
    ),
    "covtype": PublicSet(
        "covtype.binary",
        (581_012, 54),
        labels=(1, 2),
        positive=(2,),
        # LIBSVM's own file has the same name and other bytes.
        forms=(
            Form.of_file(read_libsvm, _COVTYPE, _COVTYPE_SHA256, site=_LIBSVM_SITE),
        ),
        cached=(
            Form(
                read_covertype,
                {"covertype/samples_py3": None, "covertype/targets_py3": None},
            ),
        ),
    ),
}
