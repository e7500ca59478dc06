"""The report of a result folder: what it says, and what it must not."""

import json
import shutil

import pytest

from hyfdca.audit.recording import train_recorded
from hyfdca.audit.report import audit_folder
from hyfdca.audit.values import VALUES
from hyfdca.report.card import card_of
from hyfdca.report.report import write_report
from hyfdca.report.result_files import read_result_folder
from tests.pages.reading import Parsed
from tests.report.made_results import (
    REGRESSION,
    changed,
    class_scores,
    evaluate,
    held_out,
    scores_of,
    trained,
)
from tests.support.consortia import make_files, scores
from tests.support.mixed_tables import MixedStudy

pytestmark = pytest.mark.usefixtures("no_figure")

HOSTILE = "</script><script>alert(1)</script>"


def page_in(folder):
    """Write the report of a folder; return its page."""
    write_report(folder)
    return Parsed((folder / "report.html").read_text())


def card_in(folder):
    """Return the card that was written."""
    return json.loads((folder / "model-card.json").read_text())


# What it says


def test_the_page_and_the_card_have_the_facts(out):
    """Certificate in words, who asked, who held what, what was seen, time and bytes."""
    page = page_in(out)
    card, result = card_in(out), json.loads((out / "result.json").read_text())
    about = result["about"]
    excess = (result["primal"] - result["dual"]) / result["dual"]
    assert card["certificate"]["most_above_best"] == pytest.approx(excess)
    sentence = card["certificate"]["sentence"]
    assert "This model's training loss with penalty is at most 0.0" in sentence
    assert "above the lowest of any model of this kind on the pooled table" in sentence
    assert card["about"] == about
    for text in (
        card["certificate"]["sentence"],
        card["summary"],
        about["fingerprint"],
        f"hyfdca {about['hyfdca']}",
        *about["exposed"],
        *card["limits"],
    ):
        assert text in page.text
    assert page.row("north", "40") == ["north", "40", "30", "3", "3", "yes"]
    assert sorted(page.row("20 rows")[1:]) == ["city", "north", "north, city"]
    up = sum(cost["bytes_up"] for cost in about["costs"])
    assert card["training"]["bytes_up"] == result["bytes_up"] == up
    assert page.charts == [
        "chart-objectives",
        "chart-gap",
        "chart-coefficients",
        "chart-times",
        "chart-bytes",
    ]
    assert len(page.ids) == len(set(page.ids))
    assert set(page.charts) <= set(page.ids)


def test_settings_of_every_table_are_shown(out):
    """Those that are not the default, with the table that they stand in."""

    def change(result):
        result["about"]["evaluation"] = {"holdout": 0.2, "salt": "", "min_bin": 7}
        result["about"]["algorithm"] = {"name": "bundle", "sub_groups": 3}

    changed(out, "result.json", change)
    page = page_in(out)
    shown = [row for row in page.rows if row[:1] in (["[evaluation]"], ["[algorithm]"])]
    assert shown == [
        ["[algorithm]", "name", '"bundle"'],
        ["[algorithm]", "sub_groups", "3"],
        ["[evaluation]", "holdout", "0.2"],
        ["[evaluation]", "min_bin", "7"],
    ]


def test_times_of_the_headline_and_the_table_agree(out):
    """Both are of all stages; a result without stages says what its seconds are."""

    def spend(result):
        for cost in result["about"]["costs"]:
            cost["seconds"] = 0.0
        result["about"]["costs"][0].update(seconds=28.4, round_trips=1.0)
        result["seconds"] = 17.1

    changed(out, "result.json", spend)
    page = page_in(out)
    assert page.row("all stages")[1] == "28.4 s"
    assert "28.4 sall stages" in page.text
    assert "17.1 s" not in page.text
    changed(out, "result.json", lambda result: result.pop("about"))
    assert "17.1 sfrom the first round to the last" in page_in(out).text


def test_links_lead_to_sections(out):
    """Every section has a link."""
    page = page_in(out)
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert links == [f"#{key}" for key in sections]
    assert len(sections) == 9


def test_held_out_rows_and_the_path_are_shown(out):
    """The page shows intervals, the choice, and curves."""
    evaluate(out)
    page = page_in(out)
    found = json.loads((out / "result.json").read_text())["evaluation"]
    assert page.row("AUC")[-1] == (
        f"{found['auc']:.4f} (bins: {found['auc_low']:.4f} to {found['auc_high']:.4f})"
    )
    assert page.row("accuracy")[-1] == f"{100 * found['accuracy']:.1f} %"
    assert page.row("calibration slope")[-1] == f"{found['calibration']['slope']:.3f}"
    assert "relative gap is at most tol; the largest here is 0.00080." in page.text
    chosen = [row for row in page.rows if len(row) > 1 and "chosen" in row[1]]
    assert len(chosen) == 1
    assert {"chart-roc", "chart-calibration", "chart-path", "chart-validation"} <= set(
        page.charts
    )
    assert "No rows were held out" not in page.text
    assert "They are neither sampling errors" in page.text
    assert card_in(out)["evaluation"]["auc_low"] == found["auc_low"]
    assert len(card_in(out)["path"]) == 9


def test_what_the_study_has_changes_what_is_said(out):
    """Weights make intervals wider, and cells that were blank may have been sent."""
    evaluate(out)
    plain = page_in(out).text

    def change(result):
        settings = {"weight_column": "w", "blank_cells": "share"}
        result["about"]["settings"] |= settings

    changed(out, "result.json", change)
    weighted = page_in(out).text
    for text, is_new in (
        ("with unequal weights they should be wider", True),
        ("no cell but those that another holder had blank", True),
        ("no cell and no ID was sent", False),
    ):
        assert (text in weighted) is is_new
        assert (text in plain) is not is_new


@pytest.mark.parametrize(("given", "is_said"), [(None, True), (False, False)])
def test_losses_of_scaled_targets_are_said_to_be_that(given, is_said, tmp_path):
    """They are not in units of the target, unless the study says so."""
    scale = {} if given is None else {"scale_target": "false"}
    files = make_files(scores().tolist(), loss='"squared"', **scale)
    folder = trained(files.write(tmp_path), tmp_path / "out")
    evaluate(folder)
    text = page_in(folder).text
    assert ("The mean loss is that of training" in text) is is_said


def test_charts_of_a_path_say_that_they_add_up(out):
    """The history of a path is of all fits; the page must not call it the model's."""
    alone = page_in(out)
    assert "The best possible loss lies in the shaded area." in alone.text
    assert "fits" not in alone.text
    evaluate(out)
    page = page_in(out)
    n_fits = 9 * (5 + 1)
    assert f"P and D added up over all {n_fits} fits that chose λ, not" in page.text
    assert f"The largest certified relative gap of all {n_fits} fits." in page.text
    assert "The best possible loss lies in the shaded area." not in page.text


def test_without_held_out_rows_the_page_says_how(out):
    """A key that is missing and one that is null are the same."""
    first = page_in(out)
    changed(out, "result.json", lambda r: r.update(evaluation=None, path=None))
    assert page_in(out).text == first.text
    assert "No rows were held out" in first.text
    assert "holdout = 0.2" in first.text
    assert 'l2 = "auto"' in first.text
    assert card_in(out)["evaluation"] is None


@pytest.mark.parametrize(
    ("found", "shown", "charts"),
    [
        (REGRESSION, ["R²", "mean absolute error"], set()),
        (class_scores(["ill", HOSTILE]), ["ill", HOSTILE], {"chart-roc"}),
        ({"n_rows": 1, "accuracy": 1.0, "auc": 0.5}, ["AUC", "accuracy"], set()),
        (
            {**scores_of(*held_out()), "log_loss": None, "calibration": None},
            ["AUC"],
            {"chart-roc"},
        ),
    ],
    ids=["regression", "classes", "little", "no probabilities"],
)
def test_evaluations_of_every_kind(out, found, shown, charts):
    """What there is not is not shown."""
    changed(out, "result.json", lambda result: result.update(evaluation=found))
    page = page_in(out)
    for name in shown:
        assert page.row(name)
    assert {"chart-roc", "chart-calibration"} & set(page.charts) == charts
    assert all(row[:1] != ["log loss"] for row in page.rows) or found.get("log_loss")


def test_a_model_alone_is_enough(out, tmp_path):
    """An organisation has no more; the page claims nothing that it cannot know."""
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(out / "model.json", alone)
    page = page_in(alone)
    assert card_in(alone)["missing_files"] == ["result.json", "history.json"]
    assert "The folder had no result.json and no history.json." in page.text
    assert "No rows were held out" not in page.text
    assert page.charts == ["chart-coefficients"]
    assert card_in(alone)["certificate"] == card_in_other(out)["certificate"] | {
        "sentence": card_in(alone)["certificate"]["sentence"]
    }


def card_in_other(folder):
    """Return the card of a folder after writing it."""
    write_report(folder)
    return card_in(folder)


def test_a_result_of_an_older_version(out):
    """It has no ``about``; the rest is shown."""
    changed(out, "result.json", lambda result: result.pop("about"))
    page = page_in(out)
    assert "This folder does not say" in page.text
    assert card_in(out)["seen"] is None
    assert page.row("all stages")  # bytes of the whole study


def test_what_did_not_converge_is_said_first(tmp_path):
    """The headline's colour, the certificate and the limits say it."""
    path = make_files(encryption='"none"', max_rounds="2").write(tmp_path)
    out = trained(path, tmp_path / "out")
    page = page_in(out)
    assert ("p", {"class": "claim doubt"}) in page.elements
    limits = card_in(out)["limits"]
    assert limits[0].startswith("Not converged")
    assert any("Nothing was encrypted" in limit for limit in limits)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"encryption": '"none"', "profile": '"open"'},
        {"algorithm": '"hyfdca"', "step": '"safe"', "encryption": '"stream"'},
    ],
    ids=["bundle", "open", "hyfdca"],
)
def test_what_was_seen_is_what_the_audit_sees(settings, tmp_path):
    """Every value that a recorded server saw is listed, in the same form."""
    path = make_files(max_rounds="3", **settings).write(tmp_path)
    train_recorded(path, tmp_path / "out", lambda *_: None, [])
    audit = audit_folder(tmp_path / "out")
    card = card_of(read_result_folder(tmp_path / "out"))
    listed = {(one.what, one.server) for one in card.seen}
    assert {(VALUES[own.value].what, own.form) for own in audit.seen} <= listed
    if not settings:
        assert card.about.exposed == audit.exposed()


def test_levels_are_listed_only_where_there_are_any(once, tmp_path):
    """A study without categories sends no level."""
    study = MixedStudy(settings={"tol": "1e-3"}).write(tmp_path)
    mixed = card_of(read_result_folder(trained(study, tmp_path / "out")))
    plain = card_of(read_result_folder(once))
    what = VALUES["level counts"].what
    assert what in {own.what for own in mixed.seen}
    assert what not in {own.what for own in plain.seen}


# What it must not say


def test_names_are_text(tmp_path):
    """It covers names of the study, organisations, features and levels."""
    name = "The \"best\" <b>study</b> & 'co'"
    labels = [HOSTILE if s > 0 else "<i>well</i>" for s in scores()]
    files = make_files(labels=labels, name=json.dumps(name), encryption='"none"')
    for organisation in files.organisations.values():
        for old in ("x0", "x2"):
            if old in organisation.table:
                table = organisation.table
                organisation.table = {
                    (f"{HOSTILE} {old}" if key == old else key): value
                    for key, value in table.items()
                }
    out = trained(files.write(tmp_path), tmp_path / "out")
    changed(out, "result.json", lambda r: r.update(path_score=HOSTILE, warning=HOSTILE))
    changed(out, "result.json", lambda r: r["about"].update(python=HOSTILE))
    evaluate(out)
    page = page_in(out)
    programs = [a for tag, a in page.elements if tag == "script" and "type" not in a]
    assert len(programs) == 2
    assert not [tag for tag, _ in page.elements if tag in ("i", "img", "iframe")]
    assert name in page.text
    assert page.row(f"{HOSTILE} x0")
    content = (out / "report.html").read_text()
    assert content.count("<script>alert(1)") == 0
    # plotly interprets markup in labels, unless it is escaped twice
    assert "\\u003cscript\\u003ealert" not in content
    assert "\\u0026lt;script\\u0026gt;alert" in content


def test_no_row_and_no_key_is_in_it(tmp_path):
    """No ID, no cell, nothing of a secret key, whatever the file."""
    out = trained(make_files().write(tmp_path), tmp_path / "out")
    evaluate(out)
    write_report(out)
    files = make_files().organisations.values()
    cells = {
        str(cell)
        for organisation in files
        for column, values in organisation.table.items()
        for cell in values
        if column != "y" and cell not in (0.0, 1.0)
    }
    assert len(cells) > 200
    for name in ("report.html", "model-card.json", "result.json"):
        content = (out / name).read_text()
        if name == "report.html":  # except for plotly itself
            content = content[: content.index("<script>")]
        assert not [cell for cell in cells if cell in content]
        assert "secret" not in content.replace("secrets of those who hold", "").replace(
            "share secrets of holders", ""
        )
