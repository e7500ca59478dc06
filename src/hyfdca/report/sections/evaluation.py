"""How the model does on rows that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hyfdca.errors import counted
from hyfdca.pages.elements import Html, element, folded
from hyfdca.pages.tables import Table, as_html
from hyfdca.report import figures as f
from hyfdca.report.card import Card
from hyfdca.report.class_counts import class_counts
from hyfdca.report.numbers import ABSENT, between, count, plain, share
from hyfdca.report.result_files import Calibration, Evaluation, RocPoint, Scores
from hyfdca.report.sections import UNKNOWN, Section, note, pair

_TITLE = "How it does on rows that it has not seen"
_NOT_HELD_OUT = (
    "No rows were held out, so this is not known. To find out, train with the table "
    "[evaluation] in the study file and holdout = 0.2, which sets a fifth of the rows "
    "aside."
)
_HELD_OUT = (
    "None of them was used for training, scaling, levels or the choice of λ. Sums over "
    "them were sealed, and nobody saw scores of rows of others."
)
_INTERVALS = (
    "Intervals of AUC, KS and the ROC curve say how exactly sealed histograms give "
    "these numbers on these rows. They are not sampling errors and no confidence "
    "intervals: other rows would give other numbers."
)
_MOST_CLASSES = 8  # in a chart of ROC curves
_NORMAL = 1.96  # of 95 %


def evaluation(card: Card) -> Section:
    """Return the scores on held-out rows, or how to have them."""
    found = card.evaluation
    if found is None:
        lead = _NOT_HELD_OUT if card.has_result else UNKNOWN
        return Section("evaluation", _TITLE, lead, ())
    rows = "rows" if found.n_rows is None else counted(found.n_rows, "row")
    were = "was" if found.n_rows == 1 else "were"
    lead = f"{rows[:1].upper()}{rows[1:]} {were} held out. {_HELD_OUT}"
    if found.n_rows_left_out:
        lead += (
            f" Not counted: {found.n_rows_left_out:,} without a label or of weight 0."
        )
    return Section("evaluation", _TITLE, lead, tuple(_content(card, found)))


def _content(card: Card, found: Evaluation) -> Iterator[Html]:
    counts = _counts(card, found)
    numbers = _numbers(found, counts, card.model.classes)
    known = [(what, said, n) for what, n, said in numbers if n != ABSENT]
    if known:
        columns = ("measure", "", "held-out rows")
        yield as_html(Table("", columns, tuple(known), n_words=2))
    if found.accuracy is not None and card.model.classes:
        yield note(_threshold(card))
    if found.classes:
        yield _class_table(found.classes)
        yield from _class_curves(found.classes)
    figures = [*_roc(found.roc), *_calibration(found.calibration)]
    if figures:
        yield pair(*figures)
    if found.roc or found.classes:
        yield note(_INTERVALS)
    if found.calibration and found.calibration.bins:
        yield folded("Calibration by bin", _bins(found.calibration), is_printed=True)


def _counts(card: Card, found: Evaluation) -> dict[str, int]:
    """Return the rows of each class, or nothing: weights of rows hide them."""
    if card.about is None or card.about.settings.get("weight_column") is not None:
        return {}
    return class_counts(found, card.model.classes) or {}


def _threshold(card: Card) -> str:
    if len(card.model.classes) > 2:
        return "A row is classified as the class with the highest score."
    second = card.model.classes[-1]
    if card.model.loss == "logistic":
        return (
            f"A row is classified as {second} if its predicted probability is above "
            "0.5. No other threshold was tried."
        )
    return f"A row is classified as {second} if its score is above 0."


def _numbers(
    found: Evaluation, counts: dict[str, int], classes: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    for name, n_rows in counts.items():
        part = share(n_rows / max(sum(counts.values()), 1))
        yield f"rows of {name}", count(n_rows), f"{part} of the held-out rows"
    yield "AUC", _auc(found), "0.5 is guessing, 1 is perfect order"
    ks = between(found.ks_low, found.ks_high)
    yield "Kolmogorov–Smirnov", ks, "largest distance between the classes' scores"
    yield "accuracy", share(found.accuracy), "rows classified correctly"
    if counts:
        most = max(counts, key=lambda name: counts[name])
        always = share(counts[most] / sum(counts.values()))
        yield "accuracy without a model", always, f"if every row were taken as {most}"
    first, second = classes if len(classes) == 2 else ("", "")
    yield "sensitivity", share(found.sensitivity), f"of the rows of {second}"
    yield "specificity", share(found.specificity), f"of the rows of {first}"
    yield "log loss", plain(found.log_loss), "lower is better"
    yield "Brier score", plain(found.brier), "mean squared error of probabilities"
    if found.calibration is not None:
        yield "calibration slope", plain(found.calibration.slope, 3), "1 is ideal"
        start = plain(found.calibration.intercept, 3)
        yield "calibration intercept", start, "0 is ideal"
    yield "R²", plain(found.r2), "share of the variance explained"
    yield "mean absolute error", plain(found.mae), "in units of the target"
    yield "root mean squared error", plain(found.rmse), "in units of the target"
    yield "quantile loss", plain(found.quantile_loss), "lower is better"


def _auc(found: Scores) -> str:
    interval = between(found.auc_low, found.auc_high)
    if interval == ABSENT or found.auc is None:
        return plain(found.auc) if interval == ABSENT else interval
    return f"{found.auc:.4f} (bins: {interval})"


def _class_table(classes: dict[str, Scores]) -> Html:
    columns = ("class", "AUC", "KS", "log loss", "calibration slope")
    rows = [
        (
            name,
            _auc(own),
            between(own.ks_low, own.ks_high),
            plain(own.log_loss),
            plain(own.calibration.slope if own.calibration else None, 3),
        )
        for name, own in classes.items()
    ]
    return as_html(Table("", columns, tuple(rows), "Each class against all others."))


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


def _calibration(found: Calibration | None) -> Iterator[Html]:
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
