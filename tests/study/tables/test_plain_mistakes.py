"""Mistakes that newcomers make with tables, and the sentences that help them."""

from __future__ import annotations

import pytest

from hyfdca.errors import StudyError
from hyfdca.study.local.training import train_file
from tests.support.consortia import make_files


def refusal(path):
    with pytest.raises(StudyError) as caught:
        train_file(path, path.parent / "out", lambda *_: None)
    return str(caught.value)


@pytest.mark.parametrize("cells", [("", ""), ("0", "0")])
def test_no_line_of_column_names(tmp_path, cells):
    """What is repeated looks like cells rather than like names."""
    path = make_files().write(tmp_path)
    (tmp_path / "north.csv").write_text(f"P1,{','.join(cells)},ill\nP2,1,2,well\n")
    said = refusal(path)
    assert f"has 1 column name more than once, such as {cells[0]!r}" in said
    assert "or add a line of column names if the file has none" in said


def test_labels_in_dollars(tmp_path):
    """The sentence says how to write them, as that on features does."""
    labels = [f"${1000 + row:,}.50" for row in range(60)]
    path = make_files(labels=labels, loss='"squared"').write(tmp_path)
    said = refusal(path)
    assert "40 rows with a label that is a number with signs or separators" in said
    assert "write them as in 4738.44" in said
