"""Names with characters that terminals obey: shown without them, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hyfdca.study.file import load, parse
from tests.model.models import random_cells
from tests.prediction.predictions import frame_of, model_at
from tests.support.consortia import assert_one_sentence, make_files

HOSTILE = "a\x1b]0;title\x07\x1b[31mred\u202eb"


def assert_harmless(shown):
    """Check that a text has no control characters but the ends of lines."""
    assert all(c.isprintable() or c == "\n" for c in shown)


@pytest.mark.parametrize("is_study", [True, False])
def test_a_study_file_has_names_that_can_be_printed(is_study, tmp_path, hyfdca):
    """One sentence refuses other names, and shows them escaped."""
    path = make_files().write(tmp_path)
    name = "test" if is_study else "city"
    text = path.read_text()
    assert f'name = "{name}"' in text
    path.write_text(text.replace(f'name = "{name}"', f"name = {json.dumps(HOSTILE)}"))
    code, output, errors = hyfdca("train", path, "--out", tmp_path / "out")
    assert (code, output) == (2, "")
    assert_one_sentence(errors)
    assert_harmless(errors)
    assert "cannot be printed" in errors


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f", "\u3000", "\u00e9"])
def test_other_names_are_taken_as_they_are(blank):
    """Blanks of every width are in ordinary names, and harmless."""
    name = f"Centre{blank}1"
    content = f'[study]\nname = "{name}"\n[[clients]]\nname = "{name}"\n'
    file = parse(content.encode(), Path("study.toml"))
    assert (file.study.name, file.clients[0].name) == (name, name)


def test_a_draft_has_names_that_can_be_printed(tmp_path, hyfdca):
    """Whatever its file and the tables are called."""
    table, out = tmp_path / "north\u202e.csv", tmp_path / "a\u200bb.toml"
    table.write_text("id,x,y\na,1.5,0\nb,2.5,1\nc,0.5,0\n")
    code, _, errors = hyfdca("study", "new", table, "--out", out)
    assert (code, errors) == (0, "")
    file = load(out)
    assert (file.study.name, file.clients[0].name) == ("a b", "north ")


def test_names_in_a_model_are_shown_without_control_characters(tmp_path, hyfdca):
    """A model comes from somewhere else: its study and its classes are named."""
    model = model_at(tmp_path, study=HOSTILE, classes=(f"no{HOSTILE}", "yes"))
    data, out = tmp_path / "a.csv", tmp_path / "out.csv"
    frame_of(random_cells()).to_csv(data, index=False)
    code, output, _ = hyfdca("predict", "--model", model, "--data", data, "--out", out)
    assert code == 0
    assert_harmless(output)
    assert "]0;title" in output
