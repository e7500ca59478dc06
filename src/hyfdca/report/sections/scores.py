"""The scores on held-out rows, as tables and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hyfdca.pages.elements import Html, element
from hyfdca.pages.tables import Table, as_html
from hyfdca.report.auc import auc_text
from hyfdca.report.baseline import (
    Baseline,
    baseline,
    mean_prediction,
    predictive_values,
)
from hyfdca.report.card import Card
from hyfdca.report.class_counts import class_counts
from hyfdca.report.limits import has_weighted_classes
from hyfdca.report.numbers import ABSENT, between, count, plain, share
from hyfdca.report.result_files import Evaluation, Scores
from hyfdca.report.sections import note

_WEIGHTED_CLASSES = (
    "Classes were weighted: probabilities are not risks, and calibration, log loss and "
    "Brier score show by how much. All classes count alike here."
)
_WEIGHTED_ROWS = (
    "Rows count by their weight in all scores, so these are not shares of rows."
)

Line = tuple[str, str, str]


def scores(card: Card, found: Evaluation) -> Iterator[Html]:
    """Yield the table of all scores, and what readers must know of them."""
    counts = _counts(card, found)
    without = baseline(counts)
    lines = _lines(card, found, counts, without)
    known = [(what, said, number) for what, number, said in lines if number != ABSENT]
    if known:
        columns = ("measure", "", "held-out rows")
        table = as_html(Table("", columns, tuple(known), n_words=2))
        yield element("div", table, class_="scores")
    yield from map(note, _notes(card, found, without))
    if found.classes:
        yield _class_table(found.classes)


def has_weights(card: Card) -> bool:
    """Return whether rows have weights."""
    if card.about is None:
        return False
    # Older files have the settings alone.
    has_column = card.about.settings.get("weight_column") is not None
    return card.about.has_weights or has_column


def _counts(card: Card, found: Evaluation) -> dict[str, int]:
    """Return the rows of each class, or nothing where weights of rows hide them."""
    if card.about is None or has_weights(card):
        return {}
    return class_counts(found, card.model.classes) or {}


def _notes(card: Card, found: Evaluation, without: Baseline | None) -> Iterator[str]:
    if found.accuracy is not None and card.model.classes:
        yield _threshold(card)
        if without is not None and found.accuracy <= without.accuracy:
            yield (
                "At this threshold the model is right no more often than without a "
                f"model, which takes every row as {without.most_frequent}. AUC and "
                "calibration say more of it."
            )
    if has_weights(card):
        yield _WEIGHTED_ROWS
    if has_weighted_classes(card.model.loss == "logistic", card.about):
        yield _WEIGHTED_CLASSES


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


def _lines(
    card: Card, found: Evaluation, counts: Mapping[str, int], without: Baseline | None
) -> Iterator[Line]:
    """Yield measures, their numbers and what these mean."""
    yield from _of_quantile(found)
    for name, n_rows in counts.items():
        part = share(n_rows / max(sum(counts.values()), 1))
        yield f"rows of {name}", count(n_rows), f"{part} of the held-out rows"
    yield "AUC", auc_text(found), "0.5 is guessing, 1 is perfect order"
    ks = between(found.ks_low, found.ks_high)
    yield "Kolmogorov–Smirnov", ks, "largest distance between the classes' scores"
    yield "accuracy", share(found.accuracy), "rows classified correctly"
    if without is not None:
        always = share(without.accuracy)
        said = f"if every row were taken as {without.most_frequent}"
        yield "accuracy without a model", always, said
    yield from _at_threshold(found, card.model.classes, counts)
    yield from _of_probabilities(card.model.classes, found, counts, without)
    yield from _of_errors(found)


def _at_threshold(
    found: Evaluation, classes: Sequence[str], counts: Mapping[str, int]
) -> Iterator[Line]:
    first, second = classes if len(classes) == 2 else ("", "")
    yield "sensitivity", share(found.sensitivity), f"of the rows of {second}"
    yield "specificity", share(found.specificity), f"of the rows of {first}"
    positive, negative = predictive_values(found, counts)
    said = "right, of the rows classified as"
    yield "positive predictive value", share(positive), f"{said} {second}"
    yield "negative predictive value", share(negative), f"{said} {first}"


def _of_probabilities(
    classes: Sequence[str],
    found: Evaluation,
    counts: Mapping[str, int],
    without: Baseline | None,
) -> Iterator[Line]:
    loss = "lower is better"
    what = "mean squared error of probabilities"
    if len(classes) > 2:
        what = "squared errors of probabilities, added up over the classes; mean"
    if without is not None:
        loss += f"; {plain(without.log_loss)} if all had the classes' shares"
        what += f"; {plain(without.brier)} if all had the classes' shares"
    yield "log loss", plain(found.log_loss), loss
    yield "Brier score", plain(found.brier), what
    if len(counts) == 2:
        second = list(counts)[1]
        observed = share(counts[second] / sum(counts.values()))
        mean = share(mean_prediction(found))
        yield "mean prediction", mean, f"{observed} of the rows are {second}"
    if found.calibration is not None:
        yield "calibration slope", plain(found.calibration.slope, 3), "1 is ideal"
        start = plain(found.calibration.intercept, 3)
        yield "calibration intercept", start, "0 is ideal"


def _of_quantile(found: Evaluation) -> Iterator[Line]:
    said = "in units of the target; lower is better"
    yield "quantile loss", plain(found.quantile_loss), said


def _of_errors(found: Evaluation) -> Iterator[Line]:
    is_quantile = found.quantile_loss is not None
    of_mean = "; not what a model of a quantile is for" if is_quantile else ""
    yield "R²", plain(found.r2), f"share of the variance explained{of_mean}"
    yield "mean absolute error", plain(found.mae), "in units of the target"
    yield "root mean squared error", plain(found.rmse), "in units of the target"


def _class_table(classes: dict[str, Scores]) -> Html:
    columns = ("class", "AUC", "KS", "sensitivity", "specificity", "calibration slope")
    rows = [
        (
            name,
            auc_text(own),
            between(own.ks_low, own.ks_high),
            share(own.sensitivity),
            share(own.specificity),
            plain(own.calibration.slope if own.calibration else None, 3),
        )
        for name, own in classes.items()
    ]
    said = (
        "Each class against all others. Sensitivity and specificity are those of the "
        "class with the highest score."
    )
    return as_html(Table("", columns, tuple(rows), said))
