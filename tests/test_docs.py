"""README.md and docs/: links lead somewhere, examples run, study files are valid."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from hyfdca import HyFDCAClassifier
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.pseudonyms import folds_of
from hyfdca.data.held_out import is_drawn
from hyfdca.data.sources import VARIABLE
from hyfdca.data.tables import normalised
from hyfdca.maths.seeds import stream
from hyfdca.study.file import load
from tests.support.data_sets import write_sets

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md")]
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _blocks(page: Path, language: str) -> list[str]:
    found = _FENCE.findall(page.read_text("utf-8"))
    return [code for kind, code in found if kind == language]


def _pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if _blocks(page, language)]


def _prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        if link.startswith(("https:", "http:", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{_name(page)} links to {link}"
        if anchor:
            assert anchor in _anchors(target), f"{_name(page)} links to {link}"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    for page in ROOT.glob("docs/*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page.name


def _frames() -> dict[str, Any]:
    """Return what the examples call your own frames."""
    random = stream(0, "frames")
    df = pd.DataFrame(
        random.normal([50, 25, 6], [25, 4, 1], (120, 3)),
        columns=["age", "bmi", "hba1c"],
    )
    outcome = np.where(df["bmi"] + random.normal(size=120) > 25, 1, 0)
    north = df.iloc[:80][["age", "bmi"]].assign(outcome=outcome[:80])
    city = df.iloc[:80][["age", "hba1c"]].assign(outcome=outcome[:80])
    df["site"] = np.where(np.arange(120) % 2, "north", "city")
    return {"df": df, "north": north, "city": city, "own_labels": outcome}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Put the files that examples read into the current folder."""
    monkeypatch.chdir(tmp_path)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :4]
    (tmp_path / "result").mkdir()
    HyFDCAClassifier("logistic").fit(X, y).to_model().save("result/model.json")
    X.to_csv("new-patients.csv", index=False)


def _run(page: Path) -> dict[str, Any]:
    """Run the examples of a page, one after the other; return what they define."""
    names = _frames()
    for code in _blocks(page, "python"):
        before = names.get("y")
        if "df, y)" in code:  # y is then that of the reader's own frame
            names["y"] = names["own_labels"]
        exec(compile(code, _name(page), "exec"), names)  # noqa: S102  # our own page
        if "df, y)" in code:
            names["y"] = before
    return names


# tests/test_contributing.py runs those of contributing.md, a test below that of
# data-sets.md; protocol.md quotes a line of the source.
_ELSEWHERE = {"docs/contributing.md", "docs/data-sets.md", "docs/protocol.md"}


@pytest.mark.parametrize(
    "page", [p for p in _pages_with("python") if _name(p) not in _ELSEWHERE], ids=_name
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_python_examples_run(page, files):
    _run(page)


@pytest.mark.parametrize("salt", ["", "2026", "Zürich ⟨1⟩", "s" * 200])
def test_an_auditor_s_rows_are_those_of_hyfdca(salt):
    """The example of evaluation.md, on IDs as organisations write them."""
    names = _run(ROOT / "docs" / "evaluation.md")
    raw = [f"P{number}" for number in range(500)]
    raw += ["", " 007 ", 7, "Müller", "Mu\u0308ller", "患者"]
    ids = [normalised(own) for own in raw]
    for share in (0.2, 0.999):
        mine = [names["is_set_aside"](own, share, salt) for own in raw]
        assert mine == is_drawn(ids, share, salt).tolist()
        assert any(mine)
    for n_folds in (2, 5, 100):
        mine = [names["fold_of"](own, n_folds, salt) for own in raw]
        assert mine == folds_of(ids, n_folds, salt).tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_readme_says_what_its_example_prints(files, capsys):
    _run(ROOT / "README.md")
    accuracy, rounds, gap = capsys.readouterr().out.split()
    text = (ROOT / "README.md").read_text("utf-8")
    said = (
        f"# accuracy {float(accuracy):.3f} on these rows, after {rounds} rounds, with"
    )
    assert f"{said} a certified relative gap of {float(gap):.4f}" in text


def test_the_example_of_data_sets_runs(small_sets, tmp_path, monkeypatch):
    """It loads the set in miniature, and splits it."""
    monkeypatch.setenv(VARIABLE, str(write_sets(tmp_path / "data")))
    [code] = _blocks(ROOT / "docs" / "data-sets.md", "python")
    names: dict[str, Any] = {}
    exec(compile(code, "data-sets.md", "exec"), names)  # noqa: S102  # our own page
    together = np.concatenate([names["train"], names["validation"]])
    assert sorted(together) == list(range(len(names["data"].y)))


_WHOLE = """
[[clients]]
name = "north"
data = "north.csv"

[[clients]]
name = "city"
data = "city.csv"
"""


def _completed(text: str) -> str:
    """Return an excerpt of a study file with what a study needs besides."""
    text = text.replace("hyfdca1:...", Identity.generate().public.text)
    given = tomllib.loads(text)
    if "study" not in given:
        text += "\n[study]\n"
    needed = {"name": "a", "id_column": "patient", "label_column": "outcome"}
    lines = [
        f'{key} = "{value}"'
        for key, value in needed.items()
        if key not in given.get("study", {})
    ]
    text = text.replace("[study]\n", "\n".join(["[study]", *lines, ""]), 1)
    return text if "clients" in given else text + _WHOLE


@pytest.mark.parametrize(
    ("page", "text"),
    [
        pytest.param(page, text, id=f"{_name(page)}-{number}")
        for page in _pages_with("toml")
        for number, text in enumerate(_blocks(page, "toml"))
    ],
)
def test_study_files_are_valid(page, text, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(_completed(text), "utf-8")
    load(path)
