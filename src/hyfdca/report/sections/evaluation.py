"""How the model does on rows that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hyfdca.errors import counted
from hyfdca.pages.elements import Html, element, folded
from hyfdca.pages.tables import Table, as_html
from hyfdca.report import figures as f
from hyfdca.report.auc import advice
from hyfdca.report.card import Card
from hyfdca.report.numbers import count, plain
from hyfdca.report.result_files import Calibration, Evaluation, RocPoint, Scores
from hyfdca.report.sections import UNKNOWN, Section, note, pair
from hyfdca.report.sections.scores import has_weights, scores

_TITLE = "How it does on rows that it has not seen"
_NOT_HELD_OUT = (
    "No rows were held out, so this is not known. To find out, train with the table "
    "[evaluation] in the study file and holdout = 0.2, which sets a fifth of the rows "
    "aside."
)
_NOT_USED = "None of them was used for training, scaling, levels or the choice of λ."
_SEALED = "Sums over them were sealed, and nobody saw scores of rows of others."
_INTERVALS = (
    "Intervals of AUC, KS and the ROC curve say how exactly sealed histograms give "
    "these numbers on these rows. They are neither sampling errors nor confidence "
    "intervals: other rows would give other numbers."
)
_MOST_CLASSES = 8  # in a chart of ROC curves
_NORMAL = 1.96  # of 95 %


def evaluation(card: Card) -> Section:
    """Return the scores on held-out rows, or advice on how to get them."""
    found = card.evaluation
    if found is None:
        lead = _NOT_HELD_OUT if card.has_result else UNKNOWN
        return Section("evaluation", _TITLE, lead, ())
    rows = "rows" if found.n_rows is None else counted(found.n_rows, "row")
    were = "was" if found.n_rows == 1 else "were"
    lead = f"{rows[:1].upper()}{rows[1:]} {were} held out. {_use(card)} {_SEALED}"
    if found.n_rows_left_out:
        lead += (
            f" Not counted: {found.n_rows_left_out:,} without a label or of weight 0."
        )
    return Section("evaluation", _TITLE, lead, tuple(_content(card, found)))


def _use(card: Card) -> str:
    """Return what held-out rows were not used for, and what they were."""
    run = card.about.run if card.about is not None else 1
    if run == 1:
        return _NOT_USED
    return (
        "None of them was used for training, scaling or levels. They also scored "
        f"earlier runs of the study, of which this is run {run}; a model that is "
        "picked by their scores looks better than it is."
    )


def _content(card: Card, found: Evaluation) -> Iterator[Html]:
    yield from scores(card, found)
    if found.classes:
        yield from _class_curves(found.classes)
    curve = _calibration(found.calibration, has_weights(card))
    figures = [*_roc(found.roc), *curve]
    if figures:
        yield pair(*figures)
    if found.roc or found.classes:
        yield note(_INTERVALS)
    if (said := advice(found, card.about)) is not None:
        yield note(said)
    if found.calibration and found.calibration.bins:
        yield folded("Calibration by bin", _bins(found.calibration), is_printed=True)


def _class_curves(classes: dict[str, Scores]) -> Iterator[Html]:
    shown = {n: own.roc for n, own in list(classes.items())[:_MOST_CLASSES] if own.roc}
    if not shown:
        return
    traces = [
        f.dashed(
            f.line(*_middle(roc), name, f.LINES[place % len(f.LINES)]),
            f.DASHES[place % len(f.DASHES)],
        )
        for place, (name, roc) in enumerate(shown.items())
    ]
    caption = (
        "ROC curves, each class against all others, in the middle of their bounds."
    )
    yield f.figure("roc", caption, [*traces, _diagonal()], _rates(), height=420)


def _middle(roc: tuple[RocPoint, ...]) -> tuple[list[float], list[float]]:
    x = [point.false_positive_rate for point in roc]
    low_high = [(p.true_positive_rate_low, p.true_positive_rate_high) for p in roc]
    return x, [(low + high) / 2 for low, high in low_high]


def _diagonal() -> f.Trace:
    return {
        **f.dashed(f.line([0, 1], [0, 1], "", "#9a9a9a"), "dot"),
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _rates() -> dict[str, object]:
    return {
        "xaxis": {"title": f.title("false positive rate"), "range": [0, 1]},
        "yaxis": {"title": f.title("true positive rate"), "range": [0, 1.01]},
    }


def _roc(roc: tuple[RocPoint, ...] | None) -> Iterator[Html]:
    if not roc:
        return
    x = [point.false_positive_rate for point in roc]
    low = f.line(x, [p.true_positive_rate_low for p in roc], "at least", f.BLUE)
    high = f.line(x, [p.true_positive_rate_high for p in roc], "at most", f.RUST)
    high |= {"fill": "tonexty", "fillcolor": "rgba(31, 111, 139, 0.15)"}
    caption = "ROC curve: it lies between the two lines. Dotted: guessing."
    yield f.figure("roc", caption, [low, f.dashed(high), _diagonal()], _rates())


def _calibration(found: Calibration | None, has_weights: bool) -> Iterator[Html]:
    if found is None or not found.bins:
        return
    ends = [wilson(own.observed, own.n_rows) for own in found.bins]
    observed = [own.observed for own in found.bins]
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": [own.predicted for own in found.bins],
        "y": observed,
        "name": "bins",
        "showlegend": False,
        "marker": {"color": f.BLUE, "size": 8},
        "error_y": {
            "array": [e[1] - o for e, o in zip(ends, observed, strict=True)],
            "arrayminus": [o - e[0] for e, o in zip(ends, observed, strict=True)],
            "color": f.BLUE,
            "thickness": 1.2,
        },
        "text": [counted(own.n_rows, "row") for own in found.bins],
    }
    layout = {
        "xaxis": {"title": f.title("predicted probability"), "range": [-0.02, 1.02]},
        "yaxis": {"title": f.title("observed share"), "range": [-0.02, 1.02]},
    }
    caption = (
        "Calibration: dots on the dotted line are ideal. Bars are 95 % intervals for "
        "the observed share (Wilson)."
    )
    if has_weights:
        caption += " They count rows: with unequal weights they should be wider."
    yield f.figure("calibration", caption, [points, _diagonal()], layout)


def wilson(observed: float, n_rows: int) -> tuple[float, float]:
    """Return the 95 % interval for a share that was observed in some rows."""
    if not n_rows:
        return 0.0, 1.0
    observed = min(max(observed, 0.0), 1.0)
    z2 = _NORMAL**2 / n_rows
    centre = (observed + z2 / 2) / (1 + z2)
    spread = observed * (1 - observed) / n_rows + z2 / (4 * n_rows)
    half = _NORMAL * math.sqrt(spread) / (1 + z2)
    # Rounding must not put the observed share outside of its own interval.
    return min(centre - half, observed), max(centre + half, observed)


def _bins(found: Calibration) -> Html:
    rows = [
        (
            f"{own.low:.3f} to {own.high:.3f}",
            count(own.n_rows),
            plain(own.predicted, 3),
            plain(own.observed, 3),
        )
        for own in found.bins
    ]
    columns = ("predicted", "rows", "mean prediction", "observed share")
    return element("div", as_html(Table("", columns, tuple(rows))))
