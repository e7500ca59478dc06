"""How λ was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyfdca.pages.elements import Html
from hyfdca.pages.tables import Table, as_html
from hyfdca.report import figures as f
from hyfdca.report.card import Card
from hyfdca.report.numbers import ABSENT, count, plain
from hyfdca.report.result_files import PathPoint
from hyfdca.report.sections import UNKNOWN, Section, note

_TITLE = "How λ was chosen"
_FIXED = (
    "The study file gave it. To have it chosen by cross-validation over all "
    'organisations in one run, write l2 = "auto" or a list of values, and folds = 5 in '
    "the table [evaluation]."
)
_CHOSEN = (
    "λ is how strongly the model is kept simple. For every value, models were trained "
    "on parts of the rows and scored on the rest. Then the final model was trained on "
    "all training rows with the value chosen."
)


def path(card: Card) -> Section:
    """Return the scores by λ, or how to have them."""
    given = f"λ = {card.model.l2:.4g}. "
    if not card.path:
        lead = given + (_FIXED if card.has_result else UNKNOWN)
        return Section("path", _TITLE, lead, ())
    score = (card.path_score or "score").replace("_", " ")
    return Section("path", _TITLE, given + _CHOSEN, tuple(_content(card.path, score)))


def _content(points: Sequence[PathPoint], score: str) -> Iterator[Html]:
    known = [own for own in points if own.mean is not None]
    if known:
        yield _figure(known, score)
    rows = [
        (
            f"{own.l2:.4g}",
            _marks(own),
            plain(own.mean),
            plain(own.standard_error, 2),
            _most(own.relative_gap),
            count(max(own.rounds)) if own.rounds else ABSENT,
        )
        for own in points
    ]
    columns = ("λ", "", score, "standard error", "largest gap", "most rounds")
    said = "The largest certified relative gap and the most rounds of any fold."
    yield as_html(Table("", columns, tuple(rows), said))
    yield note(_exactness(points))


def _exactness(points: Sequence[PathPoint]) -> str:
    gaps = [gap for own in points for gap in own.relative_gap if gap is not None]
    largest = f"; the largest here is {plain(max(gaps), 2)}" if gaps else ""
    return (
        f"Fits end when their certified relative gap is at most tol{largest}. "
        "Differences between scores that are, relative to the score, below about the "
        "square root of that may come from where fits ended. Lower tol to tell the λ "
        "apart."
    )


def _marks(point: PathPoint) -> str:
    marks = [("best", point.is_best), ("chosen", point.is_chosen)]
    return ", ".join(word for word, is_so in marks if is_so)


def _most(gaps: Sequence[float | None]) -> str:
    known = [gap for gap in gaps if gap is not None]
    return plain(max(known), 2) if known else ABSENT


def _figure(points: Sequence[PathPoint], score: str) -> Html:
    curve = f.line(
        [own.l2 for own in points], [own.mean for own in points], "mean", f.BLUE
    )
    curve |= {
        "mode": "lines+markers",
        "error_y": {
            "array": [own.standard_error or 0.0 for own in points],
            "color": f.BLUE,
            "thickness": 1.2,
        },
    }
    traces = [curve]
    for word, colour, symbol in (
        ("best", f.AMBER, "star"),
        ("chosen", f.RUST, "circle"),
    ):
        own = [p for p in points if getattr(p, f"is_{word}")]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [p.l2 for p in own],
                "y": [p.mean for p in own],
                "name": word,
                "marker": {
                    "color": "rgba(0, 0, 0, 0)",
                    "size": 18,
                    "symbol": symbol,
                    "line": {"color": colour, "width": 2.5},
                },
            }
        )
    layout = {
        "xaxis": {"title": f.title("λ"), "type": "log", "exponentformat": "power"},
        "yaxis": {"title": f.title(f.label(score))},
    }
    caption = "Mean over the folds, with one standard error."
    return f.figure("path", caption, traces, layout)
