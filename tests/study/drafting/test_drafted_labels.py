"""Labels in drafts: text, dates, and spellings that are pointed out."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.study.drafting.drafts import drafted, halves, two_parts, write

pytestmark = pytest.mark.usefixtures("no_figure")


def test_a_label_by_its_two_values(hyfdca, tmp_path):
    """Without a usual name, the only column with two values is the label."""
    frames = two_parts()
    frames["north.csv"] = frames["north.csv"].rename(columns={"outcome": "z"})
    _, file = drafted(hyfdca, tmp_path, write(tmp_path, frames))
    assert file.study.label_column == "z"


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (("ja", "nein"), "ja"),
        (("Yes", "no"), "Yes"),
        (("y", "n"), "y"),
        (("oui", "non"), "oui"),
        (("ill", "well"), None),
        (("ja", "yes"), None),
        ((1, 0), None),
    ],
)
def test_yes_is_the_positive_label(hyfdca, tmp_path, labels, positive):
    """The second in alphabetical order is not; the draft says why."""
    frames = two_parts()
    is_ill = frames["north.csv"]["outcome"] == "ill"
    frames["north.csv"]["outcome"] = np.where(is_ill, *labels)
    text, file = drafted(hyfdca, tmp_path, write(tmp_path, frames))
    assert file.study.positive_label == positive
    assert (f"{positive!r} means yes" in text) == (positive is not None)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ((["yes", "no"], ["1", "0"]), "have none in common; write them alike in all"),
        (
            (["yes", "no"], ["Yes", "no"]),
            "'Yes' of 'city' and 'yes' of 'north' differ only in capitals or blanks",
        ),
    ],
)
def test_labels_written_differently_are_pointed_out(hyfdca, tmp_path, labels, said):
    """The draft uses the words of training, which refuses them."""
    text, file = drafted(hyfdca, tmp_path, write(tmp_path, halves(*labels)))
    assert re.search(f"# Training will be refused: The labels .*{said}", text)
    assert file.study.positive_label is None
    code, _, errors = hyfdca("train", tmp_path / "study.toml")
    assert code == 2
    assert said in " ".join(errors.split())


def test_labels_of_files_with_one_name(hyfdca, tmp_path):
    """Organisations often call their files alike, each in its own folder."""
    paths = []
    for name, frame in halves(["yes", "no"], ["1", "0"]).items():
        (tmp_path / name).mkdir()
        paths += write(tmp_path / name, {"data.csv": frame})
    text, _ = drafted(hyfdca, tmp_path, paths)
    assert re.search("Training will be refused: The labels .*'data-1'", text)


@pytest.mark.parametrize(
    ("labels", "loss"),
    [
        (range(16), "squared"),
        ([0, 1, 2, 3, 4, 5, 9], "squared"),
        ([1, 2, 3, 4, 5], "logistic"),
        ([10, 20, 30, 40, 50, 60, 70], "logistic"),
        (["0", "1", "2", "3", "4", "5", "more"], "logistic"),
    ],
)
def test_counts_are_numbers(hyfdca, tmp_path, labels, loss):
    """Six whole numbers in a row are numbers of something; five may be grades."""
    paths = write(tmp_path, halves(list(labels), list(labels)))
    text, file = drafted(hyfdca, tmp_path, paths, "--label-column", "outcome")
    assert file.study.loss == loss
    assert ("whole numbers in a row: numbers to predict" in text) == (loss == "squared")


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_labels_that_are_dates(hyfdca, tmp_path, loss):
    """No loss is for them; draft and training say so."""
    dates = [
        f"2024-{month:02d}-{day:02d}"
        for month in range(1, 6)
        for day in (1, 9, 17, 25, 28)
    ]
    text, _ = drafted(hyfdca, tmp_path, write(tmp_path, halves(dates, dates)))
    assert "# Training will be refused: the labels are dates. Name a label_col" in text
    study = tmp_path / "study.toml"
    study.write_text(text.replace('loss = "squared"', f'loss = "{loss}"'))
    code, _, errors = hyfdca("train", study)
    assert code == 2
    said = " ".join(errors.split())
    assert "rows with a date as the label; name a label_column of numbers" in said
