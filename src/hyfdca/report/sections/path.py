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
    "To have it chosen by cross-validation over all "
    'organisations in one run, write l2 = "auto" or a list of values, and folds = 5 in '
    "the table [evaluation]."
)
_CHOSEN = (
    "λ is how strongly the model is kept simple. For every value, models were trained "
    "on parts of the rows and scored on the rest. Then the final model was trained on "
    "all training rows with the value chosen."
)
_BEST = "Best is the λ with the lowest mean. It was chosen."
_SIMPLER = (
    "Best is the λ with the lowest mean. Chosen is the largest λ whose mean is at most "
    'one standard error above it (choice = "one_standard_error"): of models that '
    "differ by less than the noise between folds, the simplest."
)
_SCALED = (
    "The mean loss is that of training, in which targets are scaled. So it is not in "
    "units of the target, as errors on held-out rows are."
)


def path(card: Card) -> Section:
    """Return the scores by λ, or advice on how to get them."""
    given = f"λ = {card.model.l2:.4g}. "
    if not card.path:
        lead = given + (_given(card) if card.has_result else UNKNOWN)
        return Section("path", _TITLE, lead, ())
    score = (card.path_score or "score").replace("_", " ")
    content = [*_content(card.path, score), note(_choice(card))]
    content += map(note, _at_an_end(card.path))
    if card.model.is_target_scaled:
        content.append(note(_SCALED))
    return Section("path", _TITLE, given + _CHOSEN, tuple(content))


def _given(card: Card) -> str:
    """Return who gave λ, and how to have it chosen."""
    about = card.about
    for own in about.changes if about is not None else ():
        if own.setting == "l2" and about is not None:
            return (
                f"The coordinator gave it for run {about.run} of the study, within "
                f"{own.least:g} to {own.most:g}, which the study file leaves open; the "
                f"file itself has {own.study_file:g}. {_FIXED}"
            )
    return f"The study file gave it. {_FIXED}"


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


def _choice(card: Card) -> str:
    """Return the rule that chose λ."""
    rule = card.about.evaluation.get("choice") if card.about is not None else None
    is_best = all(own.is_best for own in card.path or () if own.is_chosen)
    return _BEST if is_best and rule != "one_standard_error" else _SIMPLER


def _at_an_end(points: Sequence[PathPoint]) -> Iterator[str]:
    """Yield a warning if λ beyond the list may be better than any in it."""
    all_l2 = sorted(own.l2 for own in points)
    for best in (own.l2 for own in points if own.is_best and len(points) > 1):
        if best not in (all_l2[0], all_l2[-1]):
            continue
        words = ("smallest", "smaller") if best == all_l2[0] else ("largest", "larger")
        yield (
            f"The best λ is the {words[0]} of the list, so a {words[1]} one may be "
            f"better still. Train again with a list that has {words[1]} ones too."
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
