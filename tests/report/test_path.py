"""What the report says of the choice of λ."""

import pytest

from hyfdca.report.card import card_of
from hyfdca.report.result_files import read_result_folder
from hyfdca.report.sections.path import path
from tests.report.made_results import changed, path_of

pytestmark = pytest.mark.usefixtures("no_figure")


def said_of(folder, points, choice):
    """Return the text of the section for these scores by λ."""

    def change(result):
        result["about"]["evaluation"] = {"choice": choice}
        result["path"], result["path_score"] = points, "log_loss"

    changed(folder, "result.json", change)
    section = path(card_of(read_result_folder(folder)))
    return " ".join(section.content)


@pytest.mark.parametrize("choice", ["best", "one_standard_error"])
def test_the_rule_is_explained(choice, out):
    """Whoever reads "chosen" and "best" can tell why they differ."""
    points = path_of()
    for own in points if choice == "best" else ():
        own["is_chosen"] = own["is_best"]
    text = said_of(out, points, choice)
    is_simpler = choice == "one_standard_error"
    assert ("one standard error above it" in text) is is_simpler
    assert ("It was chosen." in text) is not is_simpler


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (0, "is the largest of the list, so a larger one"),
        (4, None),
        (8, "is the smallest of the list, so a smaller one"),
    ],
)
def test_the_best_at_an_end_of_the_list_is_pointed_out(place, said, out):
    """The list may have to go on."""
    points = path_of()
    for own in points:
        own["is_best"] = own["is_chosen"] = own is points[place]
    text = said_of(out, points, "best")
    assert ("may be better still" in text) is (said is not None)
    assert said is None or said in text
