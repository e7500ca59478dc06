"""AUC as people read it: a number only where bins leave little open."""

from __future__ import annotations

from collections.abc import Iterator

from hyfdca.report.numbers import ABSENT, between, plain
from hyfdca.report.result_files import Evaluation, Scores
from hyfdca.study.about import About

WIDE = 0.05  # intervals that are wider stand alone


def auc_text(found: Scores, digits: int = 4) -> str:
    """Return AUC with its interval, or the interval alone if it is wide."""
    interval = between(found.auc_low, found.auc_high, digits)
    if interval == ABSENT:
        return plain(found.auc)
    if is_wide(found) or found.auc is None:
        return interval
    return f"{found.auc:.{digits}f} (bins: {interval})"


def is_wide(found: Scores) -> bool:
    """Return whether bins leave so much open that a number would mislead."""
    if found.auc_low is None or found.auc_high is None:
        return False
    return found.auc_high - found.auc_low > WIDE


def advice(found: Evaluation, about: About | None) -> str | None:
    """Return what makes wide intervals narrower, if anything is wide."""
    scores = [found, *(found.classes or {}).values()]
    if not any(map(is_wide, scores)):
        return None
    return " ".join(_sentences(about))


def _sentences(about: About | None) -> Iterator[str]:
    yield (
        "An interval of AUC stands alone where it is wider than "
        f"{WIDE:g}: a number in it could be far from the true one."
    )
    least = about.evaluation.get("min_bin") if about is not None else None
    if not isinstance(least, int):
        yield "More held-out rows or a lower min_bin in [evaluation] make it narrower."
    elif least > 1:
        yield (
            f"No organisation showed fewer than {least:,} rows of a class in a bin. A "
            "lower min_bin in [evaluation], or more held-out rows, make it narrower."
        )
    else:
        yield "More held-out rows make it narrower."
