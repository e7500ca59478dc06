"""The report of a study: one list of sections, as Markdown and as a page."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from hyfdca.pages.elements import Html, element, folded, joined
from hyfdca.pages.page import page_html
from hyfdca.pages.tables import Table, as_html, as_markdown
from hyfdca.reproduction.comparisons import CLOCKS, counts_by_clock
from hyfdca.reproduction.paper import DATA_SETS, SETTINGS, WON_IN_ALL
from hyfdca.reproduction.report import paper_tables as tables
from hyfdca.reproduction.report.charts import Chart
from hyfdca.reproduction.report.curves import (
    TITLES,
    WHOSE,
    against_bytes,
    against_rounds,
    against_time,
    by_setting,
)
from hyfdca.reproduction.report.drawing import chart_files
from hyfdca.reproduction.report.interactive import interactive
from hyfdca.reproduction.report.notes import (
    bundle_clock,
    by_set,
    final_values,
    same_draws,
    shares_below_one,
)
from hyfdca.reproduction.report.times import time_bars, time_table
from hyfdca.reproduction.report.verdict import (
    comparisons_of,
    count_table,
    final_table,
    lost_table,
)
from hyfdca.reproduction.views import Study

PAGE, TEXT, SUMMARY = "report.html", "report.md", "summary.json"
FIGURES = "figures"


@dataclass(frozen=True)
class Section:
    """A heading, a sentence or two, tables and charts; all but one table are folded."""

    title: str
    text: str
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()


def sections_of(study: Study) -> list[Section]:
    """Return the report's sections, what matters most first."""
    with_paper = "paper" in study.sources
    return [
        _verdict(study),
        _optima(study),
        *_curves(study),
        *([_times(study)] if with_paper else []),
        _all_settings(study),
        _bundle(study),
        _choices(study),
    ]


def report_files(study: Study) -> dict[str, bytes]:
    """Return the report's files by name: texts, a summary, and every figure twice."""
    sections = sections_of(study)
    files = {
        f"{FIGURES}/{name}": content
        for section in sections
        for chart in section.charts
        for name, content in chart_files(chart).items()
    }
    files[SUMMARY] = (json.dumps(summary_of(study), indent=2) + "\n").encode()
    files[TEXT] = _as_markdown(study, sections).encode()
    files[PAGE] = _as_page(study, sections).encode()
    return files


def facts_of(study: Study) -> list[tuple[str, str]]:
    """Describe the study in a few pairs."""
    plan = study.plan
    names = study.data_sets
    rounds = by_set({n: f"{plan.n_rounds(n):,}" for n in names})
    seconds = by_set({n: f"{plan.seconds(n):,.0f} s" for n in names})
    scales = by_set({n: f"{plan.efforts[n].scale:g}" for n in names})
    trials = by_set({n: f"{plan.efforts[n].n_trials}" for n in names})
    n_all = sum(setting.data_set in plan.l2 for setting in SETTINGS)
    return [
        ("hyfdca", study.version),
        ("settings and methods", f"{n_all} x 3"),
        ("share of the paper's rounds and time", scales),
        ("equal rounds", rounds),
        ("equal simulated time", seconds),
        ("trials of our own tuning, per setting and method", trials),
        ("seed", str(plan.seed)),
        ("command", study.command),
    ]


def _verdict(study: Study) -> Section:
    table = count_table(study)
    lost = [
        lost_table(study, source, scheme)
        for source in study.sources
        for scheme in (study.schemes[0], study.schemes[-1])
    ]
    won, made = WON_IN_ALL
    text = (
        f"The paper counts {won} of {made} comparisons won. Here is the same count, "
        "with its hyperparameters and with ours, under three prices of encryption."
    )
    shares = shares_below_one(study)
    if shares:
        text += (
            f" This study has {shares} of the paper's rounds and of its "
            "time: there, methods are not near their end, and a count can be another "
            "in the whole study."
        )
    return Section("Is HyFDCA ahead?", text, (table, *lost))


def _optima(study: Study) -> Section:
    below = [
        TITLES[name]
        for name in study.data_sets
        if DATA_SETS[name].optimum < study.published_optima[name].dual
    ]
    text = "All relative losses refer to certified optima of the pooled training rows."
    if below:
        text += (
            f" For {' and '.join(below)} no model reaches what the paper gives as the "
            "lowest central loss: the lower bound D is above it."
        )
    return Section("Certified optima", text, (tables.central_table(study),))


def _curves(study: Study) -> Iterator[Section]:
    for source in study.sources:
        ends = (study.schemes[0], study.schemes[-1])
        yield Section(
            f"Equal rounds, equal time and bytes: {WHOSE[source]} hyperparameters",
            "Easy settings at the left, hard ones at the right.",
            charts=(
                against_rounds(study, source),
                *(against_time(study, source, scheme) for scheme in ends),
                against_bytes(study, source),
            ),
        )


def _times(study: Study) -> Section:
    return Section(
        "What a round takes",
        "A compiled client computes faster than the paper's, so that latency and "
        "encryption are what a round consists of.",
        tuple(time_table(study, name) for name in study.data_sets),
        (time_bars(study),),
    )


def _all_settings(study: Study) -> Section:
    charts = [
        by_setting(study, name, number)
        for number, name in enumerate(DATA_SETS, start=2)
        if name in study.plan.l2 and "paper" in study.sources
    ]
    finals = [
        final_table(study, source, study.schemes[-1], clock)
        for source in study.sources
        for clock in CLOCKS
    ]
    return Section(
        "All settings",
        " ".join(
            text
            for text in (
                "More clients and fewer of them present make it harder.",
                final_values(study),
                same_draws(study),
            )
            if text
        ),
        tuple(finals),
        tuple(charts),
    )


def _bundle(study: Study) -> Section:
    return Section(
        "Our default method",
        "The bundle method has no hyperparameters, and ends when its certified gap is "
        f"small enough, or with the study. {bundle_clock(study)}",
        (tables.bundle_table(study),),
    )


def _choices(study: Study) -> Section:
    hyperparameters = (tables.hyperparameter_table(study, n) for n in study.data_sets)
    fits = (tables.fits_table(study, n) for n in study.data_sets if study.fits.get(n))
    return Section(
        "Data, λ and hyperparameters",
        "What the paper leaves open, and how it is answered here, is in "
        "docs/reproduce.md.",
        (tables.data_table(study), *hyperparameters, *fits),
    )


def _as_markdown(study: Study, sections: list[Section]) -> str:
    facts = "".join(f"- {name}: {text}\n" for name, text in facts_of(study))
    parts = ["# The paper's computational study, run again\n", facts]
    for section in sections:
        parts.append(f"## {section.title}\n\n{section.text}\n")
        parts += [
            f"**{own.title}**\n\n{as_markdown(own)}" for own in section.tables[:1]
        ]
        parts += [
            f"![{chart.title}]({FIGURES}/{chart.name}.png)\n\n{chart.caption}\n"
            for chart in section.charts
        ]
        parts += [_folded(own.title, as_markdown(own)) for own in section.tables[1:]]
    return "\n".join(parts)


def _as_page(study: Study, sections: list[Section]) -> str:
    facts = [
        joined([element("dt", name), element("dd", text)])
        for name, text in facts_of(study)
    ]
    links = [
        element("li", element("a", own.title, href=f"#s{i}"))
        for i, own in enumerate(sections)
    ]
    title = "The paper's computational study, run again"
    return page_html(
        title,
        element("h1", title),
        element("dl", *facts),
        element("nav", element("ol", *links)),
        *(_section_html(i, own) for i, own in enumerate(sections)),
    )


def _section_html(number: int, section: Section) -> Html:
    charts = [
        element(
            "figure",
            element("h3", chart.title),
            interactive(chart),
            element("figcaption", chart.caption),
        )
        for chart in section.charts
    ]
    first = [joined([element("h3", t.title), as_html(t)]) for t in section.tables[:1]]
    rest = [folded(own.title, as_html(own)) for own in section.tables[1:]]
    heading = (element("h2", section.title), element("p", section.text))
    return element("section", *heading, *first, *charts, *rest, id=f"s{number}")


def _folded(title: str, content: str) -> str:
    """Return a folded table, of which only the title shows at first."""
    # Markdown resumes after an empty line.
    summary = f"<summary>{html.escape(title)}</summary>"
    return f"<details>{summary}\n\n{content}\n</details>\n"


def summary_of(study: Study) -> dict[str, Any]:
    """Return the counts and optima, for programs."""
    counts = [
        {
            "hyperparameters": source,
            "encryption": scheme.name,
            **{clock: asdict(own) for clock, own in counts_by_clock(made).items()},
        }
        for source in study.sources
        for scheme in study.schemes
        for made in [comparisons_of(study, source, scheme, study.plan.shown)]
    ]
    return {
        "version": study.version,
        "scale": {name: own.scale for name, own in study.plan.efforts.items()},
        "shown": counts,
        "optima": {
            name: {"l2": DATA_SETS[name].l2, "primal": own.primal, "dual": own.dual}
            for name, own in study.published_optima.items()
        },
    }
