"""How exact the model is: the certificate, and how training reached it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyfdca.errors import counted
from hyfdca.pages.elements import Html
from hyfdca.report import figures as f
from hyfdca.report.card import Card
from hyfdca.report.numbers import plain, share
from hyfdca.report.result_files import Round
from hyfdca.report.sections import Section, facts, note, pair, warning
from hyfdca.stages.validation.sums import LINEAR

_MOST_POINTS = 400
_SCALED = (
    "P and D are of the target in units of its standard deviation, as training scales "
    "it. They cannot be compared with losses of held-out rows, which are in units of "
    "the target or of its square."
)


def convergence(card: Card, history: Sequence[Round]) -> Section:
    """Return the certificate, and P and D by round."""
    return Section(
        "certificate",
        "How exact the model is",
        "Training lowers the loss P. At the same time it raises D, which no model's "
        "loss can be below. The best possible loss lies between the two, so their "
        "distance is a proof of how close the model is.",
        tuple(_content(card, history)),
    )


def _content(card: Card, history: Sequence[Round]) -> Iterator[Html]:
    certificate, training = card.certificate, card.training
    if training.warning is not None:
        yield warning(training.warning)
    yield facts(
        ("Loss with penalty, P", plain(certificate.primal, 6)),
        ("Lower bound, D", plain(certificate.dual, 6)),
        ("Relative gap, (P − D) / P", plain(certificate.relative_gap, 2)),
        ("Stopped", f"{_reason(card)} after {counted(training.rounds, 'round')}"),
        ("Above the pooled optimum", _above(training.above_pooled_optimum)),
        *_fit(card),
    )
    if card.model.is_target_scaled:
        yield note(_SCALED)
    measured = _thinned([own for own in history if own.primal is not None])
    if len(measured) > 1:
        yield pair(_objectives(card, measured), _gap(card, measured))
    if len(measured) > 1 and card.n_fits > 1:
        yield note(_sums(card))
    if any(own.validation_loss is not None for own in history):
        yield _validation(card, history)


_REASONS = {
    "tolerance": "at the tolerance",
    "round limit": "at the limit of rounds",
    "time limit": "at the limit of time",
    "stalled": "because the loss fell no further",
    "diverged": "because the loss rose",
    "interrupted": "by its user",
}


def _reason(card: Card) -> str:
    return _REASONS.get(card.training.stop_reason, card.training.stop_reason)


def _above(share_above: float | None) -> str | None:
    return None if share_above is None else share(share_above, 3)


def _fit(card: Card) -> Iterator[tuple[str, str]]:
    """Yield how the model fits the rows it was trained on, where that is known."""
    training = card.training
    if training.accuracy is not None:
        yield "Accuracy on the training rows", share(training.accuracy)
    if training.r_squared is not None:
        yield "R² on the training rows", plain(training.r_squared)
    if training.mean_absolute_error is not None:
        error = plain(training.mean_absolute_error)
        yield "Mean absolute error, training rows", error


def _thinned(history: Sequence[Round]) -> list[Round]:
    """Return no more rounds than a chart has room for, including the last one."""
    step = max(len(history) // _MOST_POINTS, 1)
    return [*history[:-1:step], *history[-1:]]


def _sums(card: Card) -> str:
    """Return why the charts show other numbers than the model's."""
    return (
        f"All {card.n_fits:,} fits that chose λ were trained in the same rounds, and "
        "the rounds were recorded for all of them together. So the charts are not of "
        "this model alone; its own P and D are in the list above. The largest gap is 1 "
        "for as long as any fit has no bound yet."
    )


def _objectives(card: Card, history: Sequence[Round]) -> Html:
    rounds = [own.round for own in history]
    primal = [own.primal for own in history if own.primal is not None]
    lower = f.line(rounds, [own.dual for own in history], "D, lower bound", f.BLUE)
    upper = f.line(rounds, primal, "P, loss", f.RUST)
    upper |= {"fill": "tonexty", "fillcolor": "rgba(181, 69, 44, 0.10)"}
    last = primal[-1]
    # What matters is where the curves end, not how high they began.
    high = min(max(primal), max(3 * last, sorted(primal)[len(primal) * 9 // 10]))
    caption = "The best possible loss lies in the shaded area."
    what = "loss"
    if card.n_fits > 1:
        what = f"sum of {card.n_fits:,} losses"
        caption = (
            f"P and D added up over all {card.n_fits:,} fits that chose λ, not this "
            "model's. The lowest possible sum lies in the shaded area."
        )
    return f.figure(
        "objectives",
        caption,
        [lower, upper],
        {
            "xaxis": f.round_axis(rounds[-1]),
            "yaxis": {"title": f.title(what), "range": [0, 1.05 * high]},
        },
    )


def _gap(card: Card, history: Sequence[Round]) -> Html:
    shown = [own for own in history if own.relative_gap and own.relative_gap > 0]
    gap = f.line(
        [own.round for own in shown],
        [own.relative_gap for own in shown],
        "relative gap",
        f.INK,
    )
    traces = [gap]
    tolerance = card.about.settings.get("tol") if card.about else None
    if isinstance(tolerance, float) and tolerance > 0 and shown:
        ends = [shown[0].round, shown[-1].round]
        traces.append(f.dashed(f.line(ends, [tolerance] * 2, "tolerance", f.RUST)))
    caption = "The certified relative gap, (P − D) / P."
    if card.n_fits > 1:
        caption = f"The largest certified relative gap of all {card.n_fits:,} fits."
    return f.figure(
        "gap",
        caption,
        traces,
        {
            "xaxis": f.round_axis(history[-1].round),
            "yaxis": {
                "title": f.title("relative gap"),
                "type": "log",
                "exponentformat": "power",
                "dtick": 1,
            },
        },
    )


def _validation(card: Card, history: Sequence[Round]) -> Html:
    shown = _thinned([own for own in history if own.validation_loss is not None])
    curve = f.line(
        [own.round for own in shown],
        [own.validation_loss for own in shown],
        "held-out rows",
        f.BLUE,
    )
    curve["mode"] = "lines+markers"  # points may be far apart, or one alone
    return f.figure(
        "validation",
        f"The mean loss of held-out rows{_units(card)}, by round.",
        [curve],
        {
            "xaxis": f.round_axis(shown[-1].round),
            "yaxis": {"title": f.title("mean loss")},
        },
        height=280,
    )


def _units(card: Card) -> str:
    """Return the units of held-out losses, which have no penalty."""
    if card.model.classes:
        return ", without the penalty"
    of = "the target" if card.model.loss in LINEAR else "the square of the target"
    return f", without the penalty and in units of {of}"
