"""Spoilt tables: one sentence and nothing written, or the model of the table as meant.

Three organisations have parts of one table. One or two of the files are spoilt, as
people and programs spoil files. Whatever happens, there is no third outcome.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from tests.study.tables.spoilers import SPOILERS, is_still_meant
from tests.study.tables.spoilt_table import (
    FEATURES,
    ORGANISATIONS,
    POSITIVE,
    Spoilt,
    part_of,
    pooled,
)
from tests.support.command_line import run_command
from tests.support.consortia import assert_one_sentence
from tests.support.thoroughness import examples

pytestmark = pytest.mark.usefixtures("no_figure")

L2 = 0.05
STUDY = f"""\
[study]
name = "spoilt"
l2 = {L2}
scale = "standard"
encryption = "none"
fit_intercept = false
tol = 1e-4
id_column = "id"
label_column = "y"
positive_label = "{POSITIVE}"
"""


def write_study(folder, files):
    """Write the study file of these tables; return its path."""
    lines = [STUDY]
    for name, file in files.items():
        lines.append(f'[[clients]]\nname = "{name}"\ndata = "{file}"\n')
    path = folder / "study.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def loss(weights, X, labels):
    """Return the regularised logistic loss, by its textbook formula."""
    margins = labels * (X @ weights)
    return np.mean(np.logaddexp(0.0, -margins)) + L2 / 2 * weights @ weights


def assert_pooled_model(folder):
    """Check that the model is as good as its certificate on the table as meant."""
    model = json.loads((folder / "model.json").read_text())
    assert set(model["weights"]) == set(FEATURES)
    weights = np.array([model["weights"][name][0] for name in FEATURES])
    frame = pooled()
    X = frame[FEATURES].to_numpy()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = np.where(frame["y"] == POSITIVE, 1.0, -1.0)
    oracle = LogisticRegression(C=1 / (L2 * len(X)), fit_intercept=False, tol=1e-10)
    best = loss(oracle.fit(X, labels).coef_[0], X, labels)
    assert best - 1e-7 <= loss(weights, X, labels)
    assert loss(weights, X, labels) <= best + model["certificate"]["gap"] + 1e-6
    scales = [model["scaling"]["scales"][name] for name in FEATURES]
    np.testing.assert_allclose(scales, frame[FEATURES].std(ddof=0), rtol=1e-5)


def train(folder, spoilt):
    """Train a study in which some organisations' tables are spoilt."""
    files = {}
    for name in ORGANISATIONS:
        spoiler, number = spoilt.get(name, (lambda own: own.write_csv(), 0))
        own = Spoilt(folder, name, part_of(name), number)
        spoiler(own)
        files[name] = own.path.name
    return run_command("train", write_study(folder, files), "--out", folder / "out")


def assert_one_of_two(folder, spoilt):
    """Check that there is one sentence and no file, or the model as meant."""
    code, _, errors = train(folder, spoilt)
    if code == 2:
        assert_one_sentence(errors)
        assert not (folder / "out").exists()
    else:
        assert code in (0, 3), errors
        assert errors == ""
        assert_pooled_model(folder / "out")
    return code


@pytest.mark.sampled(4)
@pytest.mark.parametrize("organisation", ORGANISATIONS)
@pytest.mark.parametrize("name", SPOILERS)
def test_every_way_to_spoil_a_table(tmp_path, name, organisation):
    """Each way of its own, at each organisation."""
    spoiler, may_pass, may_fail = SPOILERS[name]
    code = assert_one_of_two(tmp_path, {organisation: (spoiler, 7)})
    assert (code == 2 and may_fail) or (code != 2 and may_pass)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(list(ORGANISATIONS)),
        st.tuples(st.sampled_from(sorted(SPOILERS)), st.integers(0, 10_000)),
        min_size=1,
        max_size=2,
    )
)
def test_spoilt_tables(chosen):
    """One or two spoilt tables: one sentence, or the model of the table as meant."""
    assume(is_still_meant(chosen))
    spoilt = {name: (SPOILERS[how][0], n) for name, (how, n) in chosen.items()}
    with tempfile.TemporaryDirectory() as folder:
        code = assert_one_of_two(Path(folder), spoilt)
    for how, _ in chosen.values():
        event(f"{how}: {'refused' if code == 2 else 'trained'}")
