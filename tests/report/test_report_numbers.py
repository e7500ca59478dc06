"""Numbers of the report, against independent ones."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hyfdca.model.file import CertificateEntry
from hyfdca.report.card import card_of
from hyfdca.report.certificate import in_words, rounded_up
from hyfdca.report.figures import ratio_ticks
from hyfdca.report.numbers import plain, ratio, seconds
from hyfdca.report.report import write_report
from hyfdca.report.result_files import read_result_folder
from hyfdca.report.sections.evaluation import wilson
from tests.pages.reading import Parsed
from tests.report.made_results import changed, trained
from tests.support.consortia import NAMES, make_files, pooled_table, scores
from tests.support.mixed_tables import MixedStudy, mixed_frame, with_others

pytestmark = pytest.mark.usefixtures("no_figure")

L2 = 0.02
COMPLETE = {"encryption": '"none"', "tol": "1e-10", "l2": str(L2)}


def complete(labels=None, **settings):
    """Return files of organisations that hold all columns, each some of the rows."""
    files = make_files(labels=labels, **{**COMPLETE, **settings})
    del files.organisations["coast"]
    for place, organisation in enumerate(files.organisations.values()):
        rows = list(range(30 * place, 30 * place + 30))
        organisation.rows, organisation.columns = rows, NAMES
        organisation.__post_init__()
    return files


def reported(study, folder):
    """Train and report; return the card as JSON and the page."""
    out = trained(study.write(folder), folder / "out")
    write_report(out)
    page = Parsed((out / "report.html").read_text())
    return json.loads((out / "model-card.json").read_text()), page


@pytest.mark.parametrize("scale", ["standard", "none", "maxabs"])
def test_odds_ratios_are_those_of_unscaled_data(scale, tmp_path):
    """One unit more in the raw table multiplies scikit-learn's odds by the ratio."""
    card, page = reported(complete(scale=f'"{scale}"'), tmp_path)
    X, y = pooled_table(), scores() <= 0  # "well" is the second class
    model = LogisticRegression(C=1 / (len(y) * L2), tol=1e-10, max_iter=10_000)
    if scale == "standard":
        model = make_pipeline(StandardScaler(), model)
    factor = np.abs(X).max(axis=0) if scale == "maxabs" else 1.0
    model.fit(X / factor, y)
    found = {own["feature"]: own for own in card["coefficients"]["largest"]}
    for place, name in enumerate(NAMES):
        more = X + np.eye(len(NAMES))[place]
        odds = [
            p[:, 1] / p[:, 0]
            for p in (model.predict_proba(own / factor) for own in (more, X))
        ]
        expected = np.median(odds[0] / odds[1])
        (value,), (coefficient,) = found[name]["ratio"], found[name]["per_unit"]
        assert value == pytest.approx(expected, rel=1e-3)
        assert value == math.exp(coefficient)
        assert ratio(value) in page.row(name)
    (intercept,) = card["coefficients"]["intercept"]
    zero = model.decision_function(np.zeros((1, len(NAMES))))
    assert intercept == pytest.approx(zero[0], rel=1e-3, abs=1e-3)
    steps = [own["step"] for own in found.values()]
    if scale == "standard":
        assert sorted(steps) == pytest.approx(sorted(X.std(axis=0)))
    assert (steps[0] is None) == (scale == "none")


def test_features_are_sorted_by_what_a_step_does(tmp_path):
    """They are not sorted by units: x4 varies 300 times as much as x2."""
    card, _ = reported(complete(), tmp_path)
    found = card["coefficients"]["largest"]
    steps = [abs(own["per_scale"][0]) for own in found]
    assert steps == sorted(steps, reverse=True)
    units = [abs(own["per_unit"][0]) for own in found]
    assert units != sorted(units, reverse=True)
    for own in found:
        assert own["ratio_per_scale"][0] == pytest.approx(
            own["ratio"][0] ** own["step"], rel=1e-9
        )


def test_levels_are_compared_with_their_reference(tmp_path):
    """The odds ratio of a level is what changing only this cell does."""
    settings = {"l2": str(L2), "tol": "1e-10", "fit_intercept": "true"}
    card, page = reported(MixedStudy(settings=settings), tmp_path)
    frame = mixed_frame()
    numbers = frame[["age", "pressure"]].assign(
        admitted=(frame["admitted"] - pd.Timestamp("2000-01-01")).dt.days,
        smoker=frame["smoker"].astype(float),
    )
    levels = frame[["ward", "code"]].apply(with_others)
    dummies = pd.get_dummies(levels, prefix_sep="=").astype(float)
    dummies = dummies.drop(columns=["ward=ICU", f"code={_reference(card)}"])
    standard = (numbers - numbers.mean()) / numbers.std(ddof=0)
    X = pd.concat([standard, dummies], axis=1)
    model = LogisticRegression(C=1 / (len(X) * L2), tol=1e-10, max_iter=10_000)
    model.fit(X, frame["y"])
    expected = dict(zip(X, model.coef_[0], strict=True))
    found = {own["feature"]: own for own in card["coefficients"]["largest"]}
    assert set(found) == set(expected)
    for name, own in found.items():
        change = own["change"]
        if name in dummies:
            column = name.partition("=")[0]
            against = "ICU" if column == "ward" else _reference(card)
            assert change == f"instead of {column}={against}"
            assert own["ratio"][0] == pytest.approx(np.exp(expected[name]), rel=1e-3)
            assert own["per_scale"] is None
        else:
            of = expected[name] / numbers[name].std(ddof=0)
            assert own["ratio"][0] == pytest.approx(np.exp(of), rel=1e-3)
            changes = {"admitted": "one day more", "smoker": "1 instead of 0"}
            assert change == changes.get(name, "one unit more")
            assert (own["per_scale"] is None) is (name == "smoker")
        assert page.row(name, change)


def test_levels_are_not_said_to_be_of_a_step(tmp_path):
    """A level is there or not; a deviation more of it means nothing."""
    page = reported(MixedStudy(), tmp_path)[1]
    assert "of levels (name=level), against the reference level" in page.text
    assert '"text":"odds ratio"' in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("effects", "shown"),
    [
        ([-0.35, 0.41], ["0.6", "0.8", "1", "1.2", "1.4", "1.6"]),
        ([0.02], ["1", "1.005", "1.01", "1.015", "1.02", "1.025"]),
        ([-0.5, 0.6], ["0.5", "1", "1.5", "2"]),
        ([-2.0, 2.0], ["0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50"]),
        ([700.0], ["1", "1e51", "1e102", "1e153", "1e204", "1e255", "1e306"]),
    ],
)
def test_ticks_are_round(effects, shown):
    """They stand where their odds ratios are, 1 among them, around all bars."""
    ticks = ratio_ticks(effects)
    assert ticks["ticktext"] == shown
    places = ticks["tickvals"]
    known = [(p, t) for p, t in zip(places, shown, strict=True) if "e" not in t]
    for place, text in known:
        assert place == pytest.approx(np.log(float(text)), abs=1e-12)
    assert places[0] <= min(*effects, 0.0)
    assert places[-1] >= max(*effects, 0.0)
    assert "1" in shown


@pytest.mark.parametrize("size", 10.0 ** np.linspace(-9, 3, 60))
def test_ticks_are_few(size):
    """There are few for effects of any size."""
    for effects in ([size], [-size], [-size, size], []):
        ticks = ratio_ticks(effects)
        assert 1 <= len(ticks["ticktext"]) <= 20
        assert len(set(ticks["ticktext"])) == len(ticks["ticktext"])


def _reference(card):
    return next(
        own["change"].partition("=")[2]
        for own in card["coefficients"]["largest"]
        if own["change"].startswith("instead of code")
    )


def test_coefficients_of_numbers_are_in_units_of_the_target(tmp_path):
    """They are those of scikit-learn's ridge regression; there are no odds."""
    labels = [1000 + 100 * float(score) for score in scores()]
    settings = {"loss": '"half_squared"', "scale_target": "true"}
    card, page = reported(complete(labels=labels, **settings), tmp_path)
    X = pooled_table()
    Z, y = (X - X.mean(axis=0)) / X.std(axis=0), np.array(labels)
    gram = Z.T @ Z / len(y) + L2 * np.eye(len(NAMES))
    expected = np.linalg.solve(gram, Z.T @ (y - y.mean()) / len(y)) / X.std(axis=0)
    found = {own["feature"]: own for own in card["coefficients"]["largest"]}
    own = [found[name]["per_unit"][0] for name in NAMES]
    assert own == pytest.approx(expected, rel=1e-3)
    assert {one["ratio"] for one in found.values()} == {None}
    assert "odds" not in page.text
    assert plain(own[0]) in page.row(NAMES[0])


def test_coefficients_beyond_any_number_are_drawn(tmp_path):
    """Finite ones: a figure has no place for others."""
    made = make_files(**COMPLETE)
    study = made.write(tmp_path)
    folder = trained(study, tmp_path / "out")

    def enlarge(model):
        name = next(iter(model["weights"]))
        model["weights"][name] = [1e300]
        model["scaling"]["scales"][name] = 1e-100

    changed(folder, "model.json", enlarge)
    write_report(folder)
    card = json.loads((folder / "model-card.json").read_text())
    largest = card["coefficients"]["largest"][0]["per_unit"]
    assert largest == [1e300]


def test_several_classes_have_a_column_each(tmp_path):
    """One number per class, with the class's name above it."""
    names = [f"{'low' if s < -1 else 'high' if s > 1 else 'mid'}" for s in scores()]
    card, page = reported(make_files(labels=names, **COMPLETE), tmp_path)
    assert card["coefficients"]["outputs"] == ["high", "low", "mid"]
    first = card["coefficients"]["largest"][0]
    steps = first["ratio_per_scale"]
    assert len(first["ratio"]) == len(steps) == 3
    assert page.row("feature", "a step is", "high", "low", "mid")
    assert page.row(first["feature"])[2:] == [ratio(own) for own in steps]


@given(st.floats(1e-12, 1e8))
def test_what_is_rounded_up_is_no_smaller(value):
    """It is at most a tenth larger."""
    assert value <= float(rounded_up(value).replace(",", "")) <= 1.1 * value


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1.0))
def test_the_certificate_s_sentence_is_true(primal, part):
    """For any optimum between D and P, the loss is no further above it."""
    dual = primal * part
    entry = CertificateEntry(primal=primal, dual=dual, gap=None, relative_gap=None)
    found = in_words(entry, 0)
    for optimum in (dual, (dual + primal) / 2, primal):
        excess = (primal - optimum) / optimum
        assert excess <= found.most_above_best * (1 + 1e-12)
    if " at most " in found.sentence:
        number = found.sentence.partition(" at most ")[2].partition(" %")[0]
        shown = float(number.replace(",", ""))
        assert shown >= 100 * found.most_above_best * (1 - 1e-12)
    else:
        assert primal == dual or found.most_above_best > 100


@pytest.mark.parametrize("dual", [None, 0.0, -1.0])
def test_nothing_is_claimed_without_a_bound(dual):
    """A bound of zero bounds no ratio."""
    entry = CertificateEntry(primal=1.0, dual=dual, gap=None, relative_gap=None)
    assert in_words(entry, 0).sentence.startswith("Nothing is proven")


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_an_interval_holds_the_share(n_rows, share):
    """It is within 0 and 1, up to rounding, and becomes shorter with more rows."""
    observed = round(share * n_rows) / n_rows
    low, high = wilson(observed, n_rows)
    assert -1e-12 <= low <= observed <= high <= 1 + 1e-12
    more = wilson(observed, 4 * n_rows)
    assert more[1] - more[0] < high - low
    # Its ends are where the normal test has its limit: |p - share| = 1.96 sd(p).
    for end in (low, high):
        if 1e-9 < end < 1 - 1e-9:
            deviation = math.sqrt(end * (1 - end) / n_rows)
            assert abs(end - observed) == pytest.approx(1.96 * deviation, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234567.0, "1.235e+06"),
        (123456.0, "123,456"),
        (-0.5, "-0.5000"),
        (2.5e-5, "2.500e-05"),
        (math.inf, "beyond all bounds"),
        (None, "–"),
    ],
)
def test_numbers_are_short(value, text):
    """Four digits, powers only where they help."""
    assert plain(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.00"), (1.0021, "1.0021"), (0.99998, "0.999980"), (3.25e16, "3.25e+16")],
)
def test_odds_ratios_near_one_keep_their_digits(value, text):
    """Otherwise small units would all show 1.00."""
    assert ratio(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "12 ms"), (7.04, "7.0 s"), (125.0, "2 min 5 s"), (7260.0, "2 h 1 min")],
)
def test_times_have_a_suitable_unit(value, text):
    """Units range from milliseconds to hours."""
    assert seconds(value) == text


def test_the_largest_are_kept(tmp_path, monkeypatch):
    """With many features, the card has those with the largest effect."""
    out = trained(complete().write(tmp_path), tmp_path / "out")
    whole = card_of(read_result_folder(out)).coefficients
    monkeypatch.setattr("hyfdca.report.coefficients.MOST", 2)
    found = card_of(read_result_folder(out)).coefficients
    assert found.largest == whole.largest[:2]
    assert found.n_features == 5
