"""What the study cost: time and bytes, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyfdca.pages.elements import Html
from hyfdca.pages.tables import Table, as_html
from hyfdca.report import figures as f
from hyfdca.report.card import Card
from hyfdca.report.numbers import ABSENT, count, seconds
from hyfdca.report.sections import UNKNOWN, Section, note, pair
from hyfdca.study.about import Cost
from hyfdca.training.progress_line import readable_size

_LEAD = (
    "Seconds are those of the whole consortium, as the server waits for it; bytes are "
    "of messages before the network adds its own."
)
# In plain words; a stage without an entry keeps its name.
_STAGES = {
    "keys": "agree on keys",
    "alignment": "match rows and columns",
    "held-out rows": "match held-out rows",
    "groups": "share secrets of holders",
    "labels": "pass on labels and weights",
    "levels": "agree on levels",
    "scaling": "scale columns",
    "set-up": "prepare the rounds",
    "rounds": "rounds",
    "measuring": "measure the certificate",
    "release": "release the model",
    "evaluation": "test the model",
}
# Without a step of 1, names of stages without room would be left out.
_STAGE_AXIS = {"autorange": "reversed", "dtick": 1}
_FRAME, _PER_STAGE = 110, 17  # pixels: axis and legend, and a bar with its name
_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def costs(card: Card) -> Section:
    """Return seconds, bytes and round trips by stage."""
    return Section("costs", "Time and bytes", _LEAD, tuple(_content(card)))


def _content(card: Card) -> Iterator[Html]:
    every = card.about.costs if card.about else ()
    spent = [own for own in every if own.round_trips]
    if spent:
        yield pair(_times(spent), _bytes(spent))
    training = card.training
    rows = [
        (
            _name(own),
            seconds(own.seconds),
            readable_size(own.bytes_up),
            readable_size(own.bytes_down),
            count(own.round_trips),
        )
        for own in spent
    ]
    if training.bytes_up is not None and training.bytes_down is not None:
        total = all_seconds(card) or training.seconds
        up, down = map(readable_size, (training.bytes_up, training.bytes_down))
        rows.append(
            ("all stages", seconds(total), up, down, count(training.round_trips))
        )
    if rows:
        columns = ("stage", "time", "to the server", "to organisations", "round trips")
        yield as_html(Table("", columns, tuple(rows)))
    else:
        yield note(UNKNOWN)
    if any(own.seconds is None for own in spent):
        yield note(f"{ABSENT}: not timed. A server that is restarted forgets times.")


def all_seconds(card: Card) -> float | None:
    """Return the seconds of all stages that were timed."""
    costs = card.about.costs if card.about else ()
    known = [own.seconds for own in costs if own.round_trips and own.seconds]
    return sum(known) if known else None


def _name(cost: Cost) -> str:
    return _STAGES.get(cost.stage, cost.stage)


def _bars(spent: Sequence[Cost], values: Sequence[float], **more: object) -> f.Trace:
    names = [f.label(_name(own)) for own in spent]
    bars = {"type": "bar", "orientation": "h", "x": list(values), "y": names}
    return {**bars, **more}


def _times(spent: Sequence[Cost]) -> Html:
    values = [own.seconds or 0.0 for own in spent]
    bars = _bars(spent, values, marker={"color": f.INK}, showlegend=False)
    layout = {
        "xaxis": {"title": f.title("seconds")},
        "yaxis": _STAGE_AXIS,
        "bargap": 0.4,
    }
    return f.figure("times", "Time by stage.", [bars], layout, least=_least(spent))


def _least(spent: Sequence[Cost]) -> int:
    """Return the height at which each stage's bar has room for its name."""
    return _FRAME + _PER_STAGE * len(spent)


def _bytes(spent: Sequence[Cost]) -> Html:
    largest = max(own.bytes_up + own.bytes_down for own in spent)
    unit, size = next((own for own in _UNITS if largest >= own[1]), _UNITS[-1])
    up = _bars(
        spent,
        [own.bytes_up / size for own in spent],
        name="to the server",
        marker={"color": f.BLUE},
    )
    down = _bars(
        spent,
        [own.bytes_down / size for own in spent],
        name="to organisations",
        marker={"color": f.AMBER},
    )
    layout = {
        "xaxis": {"title": f.title(unit)},
        "yaxis": _STAGE_AXIS,
        "barmode": "stack",
        "legend": {
            "orientation": "h",
            "y": 1.02,
            "yanchor": "bottom",
            "x": 0,
            "traceorder": "normal",
        },
        "bargap": 0.4,
    }
    caption = "Bytes by stage."
    return f.figure("bytes", caption, [up, down], layout, least=_least(spent))
