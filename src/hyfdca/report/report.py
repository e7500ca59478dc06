"""The report of a result folder: a page for people, and a card for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hyfdca.errors import StudyError
from hyfdca.pages.elements import Html, element
from hyfdca.pages.page import page_html
from hyfdca.report.auc import is_wide
from hyfdca.report.card import Card, card_of
from hyfdca.report.numbers import between, count, plain, seconds, share
from hyfdca.report.result_files import Round, read_result_folder
from hyfdca.report.sections import Section
from hyfdca.report.sections.asked import asked
from hyfdca.report.sections.coefficients import coefficients
from hyfdca.report.sections.convergence import convergence
from hyfdca.report.sections.costs import all_seconds, costs
from hyfdca.report.sections.evaluation import evaluation
from hyfdca.report.sections.holdings import holdings
from hyfdca.report.sections.limits import limits
from hyfdca.report.sections.path import path
from hyfdca.report.sections.seen import seen
from hyfdca.report.style import STYLE, page_footer
from hyfdca.study.outcome import write_files
from hyfdca.training.progress_line import readable_size

PAGE, CARD = "report.html", "model-card.json"


class NoPlotlyError(StudyError):
    """The page cannot be written, because plotly is not installed."""


def write_report(folder: Path) -> None:
    """Write ``report.html`` and ``model-card.json`` beside the files of a result.

    Raises
    ------
    StudyError
        If it is a ``NoPlotlyError``, the card has been written.
    """
    found = read_result_folder(folder)
    card = card_of(found)
    write_files(folder, {CARD: card.as_json()})
    try:
        page = page_of(card, found.history)
    except ImportError:
        raise NoPlotlyError(
            f"There is no {PAGE}, because it needs plotly; install it with pip install "
            f"plotly and run hyfdca report {folder}."
        ) from None
    write_files(folder, {PAGE: page.encode("utf-8", "replace")})


def page_of(card: Card, history: Sequence[Round]) -> str:
    """Return the page of a card.

    Raises
    ------
    ImportError
        If plotly is not installed.
    """
    sections = sections_of(card, history)
    links = [element("a", own.title, href=f"#{own.key}") for own in sections]
    return page_html(
        f"{card.study}: model report",
        element("header", *_headline(card)),
        element("nav", *links),
        *(own.as_html() for own in sections),
        element("footer", element("p", _footer(card))),
        style=STYLE + page_footer(_named(card)),
    )


def sections_of(card: Card, history: Sequence[Round]) -> list[Section]:
    """Return all sections; those about what a study lacks say how to get it.

    What readers must know before they use the model comes first.
    """
    return [
        limits(card),
        evaluation(card),
        convergence(card, history),
        coefficients(card),
        path(card),
        asked(card),
        holdings(card),
        seen(card),
        costs(card),
    ]


def _headline(card: Card) -> Iterator[Html]:
    run = card.about.run if card.about is not None else 1
    kind = "Model report" if run == 1 else f"Model report, run {run} of the study"
    yield element("p", kind, class_="kind")
    yield element("h1", card.study)
    yield element("p", card.summary, class_="summary")
    is_good = (
        card.training.is_converged and card.certificate.most_above_best is not None
    )
    yield element(
        "p", card.certificate.sentence, class_="claim" if is_good else "claim doubt"
    )
    tiles = [
        element("div", element("b", value), element("span", name))
        for name, value in _tiles(card)
    ]
    yield element("div", *tiles, class_="tiles")


def _tiles(card: Card) -> Iterator[tuple[str, str]]:
    about = card.about
    if about is not None:
        yield "organisations", count(len(about.organisations))
        yield "rows", count(about.rows)
    yield "features", count(card.coefficients.n_features)
    yield from _scores(card)
    yield "rounds", count(card.training.rounds)
    if card.training.bytes_up is not None:
        n_bytes = card.training.bytes_up + (card.training.bytes_down or 0)
        yield "exchanged", readable_size(n_bytes)
    if (spent := all_seconds(card)) is not None:
        yield "all stages", seconds(spent)
    elif card.training.seconds is not None:
        yield "from the first round to the last", seconds(card.training.seconds)


def _scores(card: Card) -> Iterator[tuple[str, str]]:
    """Yield the most telling number: on held-out rows, or on training rows."""
    found, training = card.evaluation, card.training
    if found is not None and found.auc_low is not None:
        interval = between(found.auc_low, found.auc_high, 3)
        if found.auc is None or is_wide(found):
            yield "AUC, held-out rows, by bins", interval
        else:
            # Not next to the number, where it would pass for a confidence interval.
            yield f"AUC, held-out rows (bins: {interval})", f"{found.auc:.3f}"
    elif found is not None and found.accuracy is not None:
        yield "accuracy, held-out rows", share(found.accuracy)
    elif found is not None and found.quantile_loss is not None:
        yield "quantile loss, held-out rows", plain(found.quantile_loss, 3)
    elif found is not None and found.r2 is not None:
        yield "R², held-out rows", plain(found.r2, 3)
    elif training.accuracy is not None:
        yield "accuracy, training rows", share(training.accuracy)
    elif training.r_squared is not None:
        yield "R², training rows", plain(training.r_squared, 3)


def _named(card: Card) -> str:
    """Return what identifies the model, for the foot of every printed page."""
    about = card.about
    if about is None or about.fingerprint is None:
        return card.study
    run = f", run {about.run}" if about.run > 1 else ""
    return f"{card.study}{run}, study file {about.fingerprint}"


def _footer(card: Card) -> str:
    text = f"The same facts for programs are in {CARD}."
    if card.missing_files:
        text += f" The folder had no {' and no '.join(card.missing_files)}."
    return text
