"""A model's coefficients in the units of the tables, and what they mean.

The margin of a row is intercept + Σ_f coefficient_f x_f, with x_f as in the tables.
With the logistic loss the margin is the logarithm of the odds, so the exponential of a
coefficient is the odds ratio of one unit more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.model.categories import MISSING, level_features
from hyfdca.model.model import Model

ONE_UNIT = "one unit more"
ONE_FOR_ZERO = "1 instead of 0"
_AGAINST = "instead of "
MOST = 500  # coefficients in a card and a page; all are in the model file

_LARGEST = 700.0  # exponents beyond this overflow


class Coefficient(msgspec.Struct, frozen=True, kw_only=True):
    """One feature's coefficients, one number per output.

    Parameters
    ----------
    change : str
        The change that the coefficient is for: one unit or one day more, 1 instead of 0
        in a column of both, or a level instead of its reference.
    per_unit : tuple of float
        The coefficients in the units of the table.
    step : float or None
        One step of the scaling in the units of the table; None without scaling.
    per_scale : tuple of float or None
        The coefficients of one such step, such as a standard deviation, or None. A
        column of 0 and 1 has no steps in between, nor have levels.
    ratio, ratio_per_scale : tuple of float or None
        Their odds ratios; None for losses without odds. A number beyond all bounds is
        null.
    """

    feature: str
    change: str
    per_unit: tuple[float, ...]
    step: float | None
    per_scale: tuple[float, ...] | None
    ratio: tuple[float | None, ...] | None
    ratio_per_scale: tuple[float | None, ...] | None

    @property
    def is_level(self) -> bool:
        """Whether it is for a category's level, against the reference level."""
        return self.change.startswith(_AGAINST)

    @property
    def is_whole(self) -> bool:
        """Whether it is for a whole change, which has no steps."""
        return self.is_level or self.change == ONE_FOR_ZERO

    @property
    def effect(self) -> tuple[float, ...]:
        """The numbers for comparing features."""
        return self.per_scale or self.per_unit


class Coefficients(msgspec.Struct, frozen=True, kw_only=True):
    """A model's coefficients, those with the largest effect first.

    Parameters
    ----------
    outputs : tuple of str
        What each number of a coefficient is about: classes, or the target.
    step : str or None
        One step of the scaling, in words.
    intercept : tuple of float
        The margin of a row whose features are all zero.
    n_features, n_zero : int
        The number of features in the model, and how many have only zeros.
    """

    outputs: tuple[str, ...]
    has_odds: bool
    step: str | None
    intercept: tuple[float, ...]
    n_features: int
    n_zero: int
    largest: tuple[Coefficient, ...]


@dataclass(frozen=True)
class _Units:
    """The change that coefficients are for.

    Parameters
    ----------
    whole : frozenset of str
        Features without steps: those of levels, which are never scaled, and columns
        of 0 and 1.
    """

    of: dict[str, str]
    whole: frozenset[str]


_MOST = 1e300
_EQUAL = 1e-11  # of variances
_STEPS = {"standard": "one standard deviation", "maxabs": "the largest absolute value"}


def coefficients_of(model: Model) -> Coefficients:
    """Return the coefficients of a model, those with the largest effect first."""
    scaling, file = model.scaling, model.file
    with np.errstate(over="ignore", invalid="ignore"):
        per_unit = model.weights / scaling.scale[:, None]
        per_unit = _drawable(per_unit)
        intercept = _drawable(model.intercept - scaling.offset @ per_unit)
    is_scaled = file.scaling.scale != "none"
    units = _units(model)
    is_stepped = np.array([own not in units.whole for own in model.features])
    is_stepped &= is_scaled
    effects = np.where(is_stepped[:, None], model.weights, per_unit)
    effect = np.abs(effects).max(axis=1)
    order = np.argsort(-effect, kind="stable")[:MOST].tolist()
    return Coefficients(
        outputs=_outputs(model),
        has_odds=model.has_probabilities,
        step=_STEPS.get(file.scaling.scale),
        intercept=tuple(intercept.tolist()),
        n_features=len(model.weights),
        n_zero=int(np.sum(~model.weights.any(axis=1))),
        largest=tuple(
            _coefficient(model, units, per_unit, is_scaled, place) for place in order
        ),
    )


def _coefficient(
    model: Model, units: _Units, per_unit: FloatArray, is_scaled: bool, place: int
) -> Coefficient:
    feature = model.features[place]
    own = tuple(per_unit[place].tolist())
    is_stepped = is_scaled and feature not in units.whole
    per_scale = tuple(model.weights[place].tolist()) if is_stepped else None
    has_odds = model.has_probabilities
    return Coefficient(
        feature=feature,
        change=units.of.get(feature, ONE_UNIT),
        per_unit=own,
        step=float(model.scaling.scale[place]) if is_stepped else None,
        per_scale=per_scale,
        ratio=_exponentials(own) if has_odds else None,
        ratio_per_scale=_exponentials(per_scale) if has_odds and per_scale else None,
    )


def _drawable(numbers: FloatArray) -> FloatArray:
    """Return finite numbers, which pages and figures need."""
    return np.clip(np.nan_to_num(numbers), -_MOST, _MOST)


def _exponentials(exponents: tuple[float, ...]) -> tuple[float | None, ...]:
    return tuple(math.exp(e) if e < _LARGEST else None for e in exponents)


def _outputs(model: Model) -> tuple[str, ...]:
    """Return the subject of each output: two classes have one, the second's."""
    if not model.classes:
        return (model.file.label_column or "the target",)
    return model.classes if len(model.classes) > 2 else model.classes[1:]


def _units(model: Model) -> _Units:
    file = model.file
    of = dict.fromkeys(file.dates, "one day more")
    levels: set[str] = set()
    for column, entry in file.categories.items():
        if entry.levels is None:  # their features are named #1, #2, ...
            own = [f for f in file.weights if f.startswith(f"{column}=#")]
        else:
            own = level_features(column, entry, 0)
        reference = entry.reference
        named = None if reference is None else reference or MISSING
        against = "its reference level" if named is None else f"{column}={named}"
        of |= dict.fromkeys(own, f"{_AGAINST}{against}")
        levels.update(own)
    binary = _of_zero_and_one(model) - levels - set(file.dates)
    of |= dict.fromkeys(binary, ONE_FOR_ZERO)
    return _Units(of, frozenset(levels | binary))


def _of_zero_and_one(model: Model) -> set[str]:
    """Return the features whose cells were all 0 or 1, as far as the scaling tells.

    A model does not say which cells were true or false. But of whole numbers, only 0
    and 1 have the variance m (1 - m), with m their mean.
    """
    if model.file.scaling.scale != "standard":
        return set()
    with np.errstate(over="ignore"):  # for huge numbers
        mean, variance = model.scaling.offset, model.scaling.scale**2
        binary = mean * (1.0 - mean)
    is_binary = (binary > 0) & (np.abs(variance - binary) <= _EQUAL * binary)
    return {model.features[place] for place in np.flatnonzero(is_binary).tolist()}
