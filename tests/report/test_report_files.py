"""Which files a report takes, and what it says of those that it does not."""

import json
import shutil

import pytest

from hyfdca.report.card import card_of
from hyfdca.report.report import page_of, write_report
from hyfdca.report.result_files import read_result_folder
from tests.pages.reading import Parsed
from tests.report.made_results import changed
from tests.support.consortia import assert_one_sentence, make_files

pytestmark = pytest.mark.usefixtures("no_figure")


# Which files it takes


def test_a_folder_from_elsewhere_gives_the_same_files(out, tmp_path, hyfdca):
    """They are the same byte for byte, wherever and whenever they are made."""
    write_report(out)
    moved = shutil.copytree(out, tmp_path / "else" / "where")
    for name in ("report.html", "model-card.json"):
        (moved / name).unlink()
    code, output, errors = hyfdca("report", moved)
    assert (code, errors) == (0, "")
    assert str(moved / "report.html") in output.replace("\n", "")
    for name in ("report.html", "model-card.json"):
        assert (moved / name).read_bytes() == (out / name).read_bytes()


def spoil(name, content):
    """Return what writes something else to a file."""
    return lambda out: (out / name).write_bytes(content)


def replaced(name, **values):
    """Return what changes keys of a JSON file."""
    return lambda out: changed(out, name, lambda content: content.update(values))


def as_folder(out):
    """Put a folder where a file should be."""
    (out / "result.json").unlink()
    (out / "result.json").mkdir()


def in_the_way(out):
    """Put a folder where the page should be."""
    (out / "report.html").mkdir()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (shutil.rmtree, "There is no folder"),
        (lambda out: (out / "model.json").unlink(), "has no model.json"),
        (spoil("model.json", b"{"), "model.json has a mistake"),
        (spoil("result.json", b"\xff\xfe"), "result.json has a mistake"),
        (spoil("result.json", b"[" * 100_000), "result.json has a mistake"),
        (spoil("result.json", b"[]"), "result.json has a mistake"),
        (spoil("history.json", b'[{"round": -1}]'), "history.json has a mistake"),
        (replaced("result.json", evaluation={"auc": 7}), "at evaluation.auc"),
        (replaced("result.json", about={"hyfdca": 1}), "at about"),
        (replaced("result.json", path=[{}]), "at path[0]"),
        (as_folder, "result.json is not a file"),
        (in_the_way, "report.html is a folder"),
    ],
)
def test_damaged_folders(change, said, out, hyfdca):
    """They yield one sentence and exit code 2."""
    change(out)
    code, output, errors = hyfdca("report", out)
    assert (code, output) == (2, "")
    assert_one_sentence(errors)
    assert said in errors


def test_organisations_without_plotly(out, hyfdca, monkeypatch, tmp_path):
    """They can train, and have the card; the page says what it lacks."""

    def absent():
        raise ImportError("plotly")

    monkeypatch.setattr("hyfdca.pages.page.plotly_script", absent)
    code, output, errors = hyfdca("report", out)
    assert (code, output) == (2, "")
    assert_one_sentence(errors)
    assert "needs plotly" in errors
    path = make_files(encryption='"none"').write(tmp_path)
    code, _, errors = hyfdca("train", path, "--out", tmp_path / "new")
    assert code == 0
    assert "needs plotly" in errors
    written = {path.name for path in (tmp_path / "new").iterdir()}
    assert "model-card.json" in written
    assert "report.html" not in written


def test_many_rounds_and_features_stay_small(out):
    """A page has as many points as it has room for, whatever the study."""
    rounds = json.loads((out / "history.json").read_text())
    long = [{**rounds[-1], "round": n} for n in range(1, 30_001)]
    (out / "history.json").write_text(json.dumps(long))
    found = read_result_folder(out)
    page = Parsed(page_of(card_of(found), found.history))
    assert len(page.rows) < 200
    write_report(out)
    assert (out / "report.html").stat().st_size < 6_000_000
