"""The model itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyfdca.errors import counted
from hyfdca.pages.elements import Html, folded
from hyfdca.pages.tables import Table, as_html
from hyfdca.report import figures as f
from hyfdca.report.card import Card
from hyfdca.report.coefficients import (
    ONE_FOR_ZERO,
    ONE_UNIT,
    Coefficient,
    Coefficients,
)
from hyfdca.report.numbers import ABSENT, plain, ratio
from hyfdca.report.sections import Section, note

_MOST_DRAWN = 25
_MOST_OUTPUTS = 8  # columns of a table
_ONE_STEP = "one step more"


def coefficients(card: Card) -> Section:
    """Return the coefficients in original units, largest effect first."""
    found = card.coefficients
    lead = _meaning(card, found)
    if found.step:
        lead += (
            f" Features are compared by what {found.step} more does, because units "
            "differ; levels of categories, and columns of 0 and 1, by what the whole "
            "change does."
        )
    else:
        lead += " Features are compared per unit, so look at units before sizes."
    return Section("coefficients", "The model", lead, tuple(_content(found)))


def _meaning(card: Card, found: Coefficients) -> str:
    if not found.has_odds:
        what = (
            "the score" if card.model.classes else f"the predicted {found.outputs[0]}"
        )
        return f"A coefficient is what one unit more of a feature adds to {what}."
    if len(found.outputs) > 1:
        return (
            "An odds ratio above 1 means that more of a feature raises the class's own "
            "score against all others, one below 1 that it lowers it. A class's "
            "probability depends on the scores of the other classes too, and may move "
            "the other way."
        )
    return (
        f"An odds ratio above 1 means that more of a feature makes {found.outputs[0]} "
        "more likely, one below 1 less likely."
    )


def _content(found: Coefficients) -> Iterator[Html]:
    largest = found.largest
    drawn = largest[:_MOST_DRAWN]
    yield _bars(found, drawn) if len(found.outputs) == 1 else _heat(found, drawn)
    yield _table(found, drawn)
    yield note(_remark(found))
    if rest := largest[_MOST_DRAWN:]:
        title = f"{counted(len(rest), 'more feature')}, by effect"
        yield folded(title, _table(found, rest), is_printed=True)


def _remark(found: Coefficients) -> str:
    numbers = ", ".join(
        plain(own) if len(found.outputs) == 1 else f"{name}: {plain(own)}"
        for name, own in zip(found.outputs, found.intercept, strict=True)
    )
    text = f"Intercept, of a row whose features are all 0: {numbers}."
    if found.n_zero:
        text += f" {counted(found.n_zero, 'coefficient is', 'coefficients are')} 0."
    if (n_more := found.n_features - len(found.largest)) > 0:
        text += (
            f" {counted(n_more, 'more feature is', 'more features are')} in model.json."
        )
    return text


def _bars(found: Coefficients, drawn: Sequence[Coefficient]) -> Html:
    effects = [own.effect[0] for own in drawn]
    places = list(range(len(drawn)))
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": effects,
        "y": places,
        "text": [_said(found, own) for own in drawn],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": [f.RUST if e > 0 else f.BLUE for e in effects]},
    }
    layout = {
        "xaxis": {
            "title": f.title(_axis(found, drawn)),
            **(f.ratio_ticks(effects) if found.has_odds else {}),
        },
        "yaxis": {
            "tickvals": places,
            "ticktext": [f.label(own.feature) for own in drawn],
            "autorange": "reversed",
            "showgrid": False,
            "zeroline": False,
        },
        "bargap": 0.35,
    }
    caption = f"The {counted(len(drawn), 'largest effect')}"
    if len(drawn) == found.n_features:
        caption = f"All {counted(len(drawn), 'feature')}"
    caption += f": {_of_what(found, drawn)}."
    return f.figure("coefficients", caption, [bars], layout, _height(drawn))


def _axis(found: Coefficients, drawn: Sequence[Coefficient]) -> str:
    """Return the title of the axis: some changes have no steps."""
    if any(own.is_whole for own in drawn):
        return "odds ratio" if found.has_odds else "coefficient"
    return _of_what(found, drawn)


def _of_what(found: Coefficients, drawn: Sequence[Coefficient]) -> str:
    what = "odds ratio" if found.has_odds else "coefficient"
    of = f"{what} of {found.step or 'one unit'} more"
    if all(own.is_level for own in drawn) and drawn:
        return f"{what} of each level against the reference level"
    if any(own.is_level for own in drawn):
        of += "; of levels (name=level), against the reference level"
    if any(own.change == ONE_FOR_ZERO for own in drawn):
        of += "; of columns of 0 and 1, of 1 instead of 0"
    return of


def _said(found: Coefficients, own: Coefficient) -> str:
    number = ratio((own.ratio_per_scale or own.ratio or (None,))[0])
    if not found.has_odds:
        number = plain(own.effect[0])
    return f"{f.label(own.feature)}: {number}"


def _heat(found: Coefficients, drawn: Sequence[Coefficient]) -> Html:
    most = max((abs(e) for own in drawn for e in own.effect), default=1.0) or 1.0
    ticks = f.ratio_ticks([-most, most]) if found.has_odds else {}
    heat = {
        "type": "heatmap",
        "z": [own.effect for own in drawn],
        "zmin": -most,
        "zmax": most,
        "colorscale": [[0, f.BLUE], [0.5, "#ffffff"], [1, f.RUST]],
        "colorbar": {"thickness": 12, "outlinewidth": 0, **ticks},
        "hovertemplate": "%{text}<extra></extra>",
        "text": [[_number(found, e) for e in _effects(own)] for own in drawn],
    }
    layout = {
        "xaxis": {
            "tickvals": list(range(len(found.outputs))),
            "ticktext": [f.label(name) for name in found.outputs],
        },
        "yaxis": {
            "tickvals": list(range(len(drawn))),
            "ticktext": [f.label(own.feature) for own in drawn],
            "autorange": "reversed",
        },
    }
    of = _of_what(found, drawn)
    caption = f"By class, {of}. Red raises the score of a class, blue lowers it."
    return f.figure("coefficients", caption, [heat], layout, _height(drawn))


def _height(drawn: Sequence[Coefficient]) -> int:
    return 90 + 24 * max(len(drawn), 3)


def _table(found: Coefficients, shown: Sequence[Coefficient]) -> Html:
    if len(found.outputs) > 1:
        return _wide_table(found, shown)
    what = "odds ratio" if found.has_odds else "coefficient"
    columns = [f"{what} of a step", "a step is"] if found.step else []
    columns += [what, "its logarithm"] if found.has_odds else [what]
    said = f"A step is {found.step}." if found.step else ""
    rows = [(own.feature, own.change, *_cells(found, own)) for own in shown]
    return _by_feature(columns, rows, said)


def _by_feature(
    columns: Sequence[str], rows: Sequence[tuple[str, ...]], said: str
) -> Html:
    """Return a table of features; it says what changes unless that is the same."""
    changes = {change for _, change, *_ in rows}
    if changes in ({ONE_UNIT}, {_ONE_STEP}):
        said = f"All effects are of {min(changes)}. {said}".rstrip()
        lines = [(feature, *cells) for feature, _, *cells in rows]
        return as_html(Table("", ("feature", *columns), tuple(lines), said))
    heads = ("feature", "change", *columns)
    return as_html(Table("", heads, tuple(rows), said, n_words=2))


def _cells(found: Coefficients, own: Coefficient) -> Iterator[str]:
    if found.step:
        by_step = own.ratio_per_scale or own.per_scale
        yield ABSENT if by_step is None else _number(found, by_step[0])
        yield plain(own.step)
    if own.ratio is not None:
        yield ratio(own.ratio[0])
    yield plain(own.per_unit[0])


def _effects(own: Coefficient) -> tuple[float | None, ...]:
    """Return what features are compared by, as odds ratios if there are any."""
    return own.ratio_per_scale or own.ratio or own.effect


def _number(found: Coefficients, value: float | None) -> str:
    return ratio(value) if found.has_odds else plain(value)


def _wide_table(found: Coefficients, shown: Sequence[Coefficient]) -> Html:
    """Return one column per class: odds ratios, or coefficients without odds.

    They are of a step, as in the chart: by these, features are sorted.
    """
    outputs = found.outputs[:_MOST_OUTPUTS]
    columns = ["a step is"] if found.step else []
    rows = [
        (
            own.feature,
            own.change if own.step is None else _ONE_STEP,
            *([plain(own.step)] if found.step else []),
            *(_number(found, value) for value in _effects(own)[: len(outputs)]),
        )
        for own in shown
    ]
    what = "Odds ratios" if found.has_odds else "Coefficients"
    said = f"{what}, each class against all others."
    said += f" A step is {found.step}." if found.step else ""
    if n_more := len(found.outputs) - len(outputs):
        said += (
            f" {counted(n_more, 'more class is', 'more classes are')} in model.json."
        )
    return _by_feature([*columns, *outputs], rows, said)
