"""Lines of the closing table about rows that were set aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Line = tuple[str, str]


def evaluation_lines(
    found: dict[str, Any] | None, classes: Sequence[str] = ()
) -> Iterator[Line]:
    """Yield how good the model is on rows that were set aside, if there are any."""
    if found is None:
        return
    yield "rows set aside to test the model", f"{found['n_rows']:,}"
    if found["n_rows_left_out"]:
        yield "  without a label or of weight 0", f"{found['n_rows_left_out']:,}"
    lines = _of_numbers(found) if "rmse" in found else _of_classes(found, classes)
    for what, value in lines:
        yield f"  {what}", value


def _of_numbers(found: dict[str, Any]) -> Iterator[Line]:
    yield "R²", "-" if found["r2"] is None else f"{found['r2']:.4f}"
    yield "mean absolute error", f"{found['mae']:.4g}"
    yield "root of the mean squared error", f"{found['rmse']:.4g}"
    if found["quantile_loss"] is not None:
        yield "quantile loss", f"{found['quantile_loss']:.4g}"


def _of_classes(found: dict[str, Any], classes: Sequence[str]) -> Iterator[Line]:
    yield "accuracy", f"{found['accuracy']:.1%}"
    if found["log_loss"] is not None:
        yield "log loss", f"{found['log_loss']:.4f}"
        yield "Brier score", f"{found['brier']:.4f}"
    if found["classes"] is None:
        yield from _of_two_classes(found, classes)
        return
    for name, own in found["classes"].items():
        yield f"AUC of {name}", _interval(own, "auc")


def _of_two_classes(found: dict[str, Any], classes: Sequence[str]) -> Iterator[Line]:
    of = [f" (rows of {name})" for name in classes] or ["", ""]
    yield f"sensitivity{of[1]}", f"{found['sensitivity']:.1%}"
    yield f"specificity{of[0]}", f"{found['specificity']:.1%}"
    yield "AUC", _interval(found, "auc")
    yield "Kolmogorov-Smirnov", _interval(found, "ks")
    calibration = found["calibration"]
    if calibration is not None and calibration["slope"] is not None:
        slope, intercept = calibration["slope"], calibration["intercept"]
        yield "calibration slope, intercept", f"{slope:.3f}, {intercept:.3f}"


def _interval(found: dict[str, Any], name: str) -> str:
    return f"{found[f'{name}_low']:.4f} to {found[f'{name}_high']:.4f}"
