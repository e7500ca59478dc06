"""Tables that make no study: one sentence with organisations and counts, no ID."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from hyfdca.data.targets import TargetSettings
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.messages import (
    MOST_CLASSES,
    AlignmentSettings,
)
from tests.stages.alignment.alignments import (
    ANYHOW,
    CLASSIFICATION,
    Meeting,
    make_table,
)

ALL = [0, 1, 2, 3]
REGRESSION = AlignmentSettings("regression")


def refused(tables, settings=CLASSIFICATION):
    """Return the sentence with which tables are refused."""
    with pytest.raises(AlignmentError) as caught:
        Meeting(tables, settings).run()
    sentence = str(caught.value)
    assert re.fullmatch(r"[A-Z0-9][^.!?]*\.", sentence)
    assert "patient" not in sentence
    return sentence


def relabelled(table, *labels):
    return replace(table, labels=(*labels, *table.labels[len(labels) :]))


# Tables that make no study


def test_repeated_ids():
    """A client that has an ID twice says so itself, with the count."""
    table = make_table([0, 1, 1, 2, 1], [0])
    sentence = refused([make_table(ALL, [0]), table])
    assert "'org1' has 2 rows with the ID of another" in sentence


def test_labels_that_disagree():
    """Every pair of organisations with other labels is named, with its count."""
    tables = [make_table(rows, [0]) for rows in (ALL, [3, 2, 1], [0, 1])]
    tables[1] = relabelled(tables[1], "other", "other")
    tables[2] = relabelled(tables[2], "other")
    sentence = refused(tables)
    assert "'org0' and 'org1' in 2 rows" in sentence
    assert "'org0' and 'org2' in 1 row" in sentence


def test_labels_are_compared_with_the_designated_holder():
    """Holders without labels before it are passed over."""
    tables = [make_table(ALL, [0], has_labels=False), make_table(ALL, [1])]
    tables.append(relabelled(tables[1], "other"))
    assert "'org1' and 'org2' in 1 row" in refused(tables)


def test_many_disagreements_are_cut_short():
    """The pairs with the most rows are named, the others counted."""
    tables = [make_table(ALL, [0])]
    tables += [relabelled(tables[0], *["other"] * n) for n in (1, 2, 3, 4, 4)]
    sentence = refused(tables)
    assert "'org5' in 4 rows, 'org0' and 'org3' in 3 rows, 2 more;" in sentence


def test_no_label_anywhere():
    """A study needs rows with labels, and every organisation some of them."""
    without = make_table(ALL, [1], has_labels=False)
    assert "None of the 4 rows has a label" in refused([without, without])
    blank = relabelled(make_table(ALL, [0]), "", "", "", "")
    assert "None of the 4 rows has a label" in refused([blank, without])
    apart = replace(make_table([5, 6], [0, 1]), labels=("", ""))
    sentence = refused([make_table(ALL, [0, 1]), apart])
    assert "None of the 2 rows of organisation 'org1' has a label" in sentence
    weightless = replace(make_table(ALL, [0]), weights=np.zeros(4))
    weighted = replace(CLASSIFICATION, targets=TargetSettings(has_weights=True))
    assert "a weight above 0" in refused([weightless], weighted)


def test_labels_that_holders_may_not_learn():
    """Blank labels that others have need the consent of the study."""
    tables = [make_table(ALL, [0]), relabelled(make_table(ALL, [1]), "", "", "")]
    tables.append(relabelled(make_table(ALL, [2]), ""))
    sentence = refused(tables)
    assert "blank in 3 rows of 'org1' and 1 row of 'org2'" in sentence
    assert "labels_visible_to_holders = true" in sentence


@pytest.mark.parametrize("column", ["weights", "offsets"])
def test_weights_and_offsets_that_disagree(column):
    """Holders agree on everything that belongs to a label; 0.0 and -0.0 are one."""
    numbers = np.array([1.0, 2.0, 0.5, 1.5])
    settings = replace(
        CLASSIFICATION, targets=TargetSettings(**{f"has_{column}": True})
    )
    tables = [replace(make_table(ALL, [k]), **{column: numbers}) for k in (0, 1)]
    Meeting(tables, settings).run()
    tables[1] = replace(tables[1], **{column: np.array([1.0, 2.0, 0.25, 3.0])})
    sentence = refused(tables, settings)
    assert f"different {column} for rows that they share" in sentence
    assert "'org0' and 'org1' in 2 rows; correct them, raise cell_toler" in sentence
    zeros = [replace(make_table(ALL, [0]), offsets=np.full(4, z)) for z in (0.0, -0.0)]
    offsets = TargetSettings(has_offsets=True)
    Meeting(zeros, replace(CLASSIFICATION, targets=offsets)).run()


def test_differing_columns_are_named():
    """Labels, weights or offsets that differ are named by the study's columns."""
    names = {"label_column": "died", "weight_column": "w", "offset_column": "o"}
    targets = TargetSettings(has_weights=True, has_offsets=True, names=names)
    settings = replace(CLASSIFICATION, targets=targets, cell_tolerance=1e-6)
    numbers = np.array([1.0, 2.0, 0.5, 1.5])
    one = replace(make_table(ALL, [0]), weights=numbers, offsets=numbers)
    other = replace(relabelled(one, "other"), offsets=numbers[::-1])
    sentence = refused([one, other], settings)
    assert "different labels (label_column 'died') and offsets (offset_" in sentence
    assert (
        "column 'o') for rows that they share: 'org0' and 'org1' in 4 row" in sentence
    )
    assert "weight_column" not in sentence
    assert "cell_tolerance" not in sentence


def test_a_weight_of_0_is_no_blank_label():
    """A row that one holder leaves out and another trains on is a disagreement."""
    settings = replace(CLASSIFICATION, targets=TargetSettings(has_weights=True))
    tables = [
        replace(make_table(ALL, [k]), weights=np.array([w, 1.0, 1.0, 1.0]))
        for k, w in enumerate((0.0, 2.0))
    ]
    assert "'org0' and 'org1' in 1 row" in refused(tables, settings)


def test_class_weights_of_no_class():
    """The class_weight names classes of the study, and leaves some weight."""
    for given, message in (
        ({"healthy": 2.0, "ill": 1.0}, "names 'ill', but the classes are 'healthy'"),
        ({"healthy": 0.0, "unwell": 0.0}, "class_weight of every class is 0"),
    ):
        targets = TargetSettings(class_weight=given)
        settings = replace(CLASSIFICATION, targets=targets)
        assert message in refused([make_table(ALL, [0])], settings)


def test_no_common_id():
    """Split features without a common ID are an empty intersection."""
    tables = [make_table([0, 1], [0, 1]), make_table([2, 3], [1, 2])]
    sentence = refused(tables)
    assert "No two of the 2 organisations 'org0' and 'org1' share any" in sentence
    assert "of their 4 IDs" in sentence
    assert "allow_unshared" in sentence
    assert Meeting(tables, ANYHOW).run().layout.samples.n_items == 4


def test_a_horizontal_study_has_no_common_id():
    """With the same features nobody needs to share an ID."""
    tables = [make_table([0, 1], [0, 1]), make_table([2, 3], [1, 0])]
    assert Meeting(tables).run().layout.is_horizontal


def test_one_that_shares_nothing():
    """An organisation apart from the others, with other features, is named."""
    tables = [make_table(ALL, [0]), make_table(ALL, [1]), make_table([5, 6], [1, 2])]
    sentence = refused(tables)
    assert "'org2' shares none of its 2 IDs with the others" in sentence
    assert "lacks 1 of 3 features" in sentence
    Meeting(tables, ANYHOW).run()
    tables.append(make_table([5, 6], [3]))
    sentence = refused(tables)
    assert "'org0' and 'org1' share none of their 4 IDs with the others" in sentence
    assert "lack 2 of 4 features" in sentence


def test_one_that_shares_nothing_but_has_all_features():
    """Rows that are complete by themselves need no others."""
    tables = [make_table(ALL, [0]), make_table(ALL, [1]), make_table([5, 6], [1, 0])]
    assert Meeting(tables).run().layout.samples.n_items == 6


def test_ids_shared_through_others():
    """Organisations may share IDs with each other through a third one."""
    tables = [make_table(rows, [k]) for k, rows in enumerate(([0, 1], [1, 2], [2, 3]))]
    assert Meeting(tables).run().layout.samples.n_items == 4


def test_labels_that_are_no_numbers():
    """A loss for numbers refuses other labels where they are."""
    table = relabelled(make_table(ALL, [0]), "1", "2.5", "inf")
    assert "'org0' has 2 rows with a label that is not a number" in refused(
        [table], REGRESSION
    )


@pytest.mark.parametrize(
    ("labels", "positive", "message"),
    [
        (["a"] * 4, None, "All 4 rows have the same label"),
        (["a", "b", "c", "d"], "e", "No row has the positive_label 'e'"),
        (["a"] * 4, "a", "All 4 rows have the same label"),
    ],
)
def test_classes_that_make_no_task(labels, positive, message):
    """Fewer than two classes, or none that is positive, are refused."""
    table = relabelled(make_table(ALL, [0]), *labels)
    settings = AlignmentSettings("classification", positive)
    assert message in refused([table, table], settings)


UNWELL = AlignmentSettings("classification", "yes")


def labelled_tables(*labels):
    """Return tables of different rows with the same columns, with these labels."""
    starts = [4 * place for place in range(len(labels))]
    each = zip(starts, labels, strict=True)
    return [
        relabelled(make_table(range(start, start + 4), [0, 1]), *(own * 2)[:4])
        for start, own in each
    ]


@pytest.mark.parametrize(
    "labels",
    [
        (["yes", "no"], ["1", "0"]),
        (["yes", "no"], ["1", "1"]),
        (["yes", "no", "maybe", "no"], ["True", "False"]),
        (["yes", "no"], ["yes", "no", "maybe", "no"], ["1", "0"]),
    ],
)
def test_other_words_for_the_positive_label(labels):
    """Rows are not negatives because their organisation writes 1 for another's yes."""
    said = refused(labelled_tables(*labels), UNWELL)
    last = f"org{len(labels) - 1}"
    assert f"The labels of 'org0' and those of '{last}' have none in common" in said
    assert f"'{last}' has no row with the positive_label 'yes'" in said
    assert "set max_classes = " in said
    allowed = replace(UNWELL, max_classes=9)
    classes = Meeting(labelled_tables(*labels), allowed).run().classes
    assert classes[-1] == "yes"


@pytest.mark.parametrize("twin", ["Yes", "YES", "y es"])
def test_positive_labels_written_differently(twin):
    """A client itself reports labels that equal the positive one except in capitals."""
    said = refused(labelled_tables(["yes", "no"], [twin, "no"]), UNWELL)
    assert "'org1' has 2 rows with a label that differs from the positive_label" in said


@pytest.mark.parametrize(
    "labels",
    [
        (["yes", "no"], ["no", "no"]),
        (["yes", "yes"], ["no", "no"]),
        (["yes", "yes"], ["cold", "flu"]),
        (["yes", "cold"], ["cold", "flu"]),
        (["yes", "cold"], ["cold", "flu"], ["flu", "flu"]),
        (["yes", "cold"], ["yes", "flu"]),
    ],
)
def test_organisations_without_the_positive_label(labels):
    """They are welcome if others have their classes too, or there is no telling."""
    assert Meeting(labelled_tables(*labels), UNWELL).run().classes[1] == "yes"


def test_many_other_classes_are_not_compared():
    """Labels of many values are not 1 and 0 for yes and no."""
    labels = [str(n) for n in range(40)]
    many = relabelled(make_table(range(40), [0]), *labels)
    few = relabelled(make_table([50, 51], [0]), "yes", "no")
    assert Meeting([few, many], UNWELL).run().classes == ("rest", "yes")
    assert "have none in common" in refused(
        [few, relabelled(make_table(range(40), [0]), *["a", *["b"] * 39])], UNWELL
    )


@pytest.mark.parametrize("limit", [None, 3, MOST_CLASSES])
def test_too_many_classes(limit):
    """Nobody may have too many classes, nor all together."""
    settings = AlignmentSettings("classification", max_classes=limit)
    n_allowed = limit or 20
    rows = list(range(n_allowed + 1))
    table = relabelled(make_table(rows, [0]), *map(str, rows))
    said = refused([table], settings)
    assert f"'org0' has {n_allowed + 1} classes, more than {n_allowed}; " in said
    assert "raise max_classes" in said
    halves = [
        relabelled(make_table(own, [0]), *map(str, own))
        for own in (rows[: n_allowed // 2], rows[n_allowed // 2 :])
    ]
    assert f"{n_allowed + 1} classes together" in refused(halves, settings)


def test_labels_that_are_fractions():
    """They are numbers of a regression, unless the study says that they are classes."""
    table = relabelled(make_table(ALL, [0]), "1", "2.5", "2.5", "3")
    assert "'org0' has 2 rows whose label is a fraction" in refused([table])
    for settings in (
        AlignmentSettings("classification", max_classes=3),
        AlignmentSettings("classification", "2.5"),
    ):
        assert Meeting([table], settings).run().classes


def test_labels_beside_blank_ones():
    """Blanks hide neither fractions nor too many classes, nor are they any."""
    rows = list(range(24))
    table = relabelled(make_table(ALL, [0]), "", "2.5", "", "3")
    assert "has 1 row whose label is a fraction" in refused([table])
    table = relabelled(make_table(rows, [0]), "", "", "", *map(str, range(21)))
    assert "has 21 classes, more than 20" in refused([table])
    table = relabelled(make_table(rows, [0]), "", "", "", "", *map(str, range(20)))
    assert len(Meeting([table]).run().classes) == 20
    table = relabelled(make_table(ALL, [0]), "", "no number", "1")
    assert "has 2 rows with a label that is not a number" in refused(
        [table], REGRESSION
    )


def test_labels_of_weight_0():
    """A row that is left out makes no class, whatever its label."""
    table = relabelled(make_table(ALL, [0]), "0.5", "2", "3", "3")
    table = replace(table, weights=np.array([0.0, 1.0, 1.0, 1.0]))
    settings = replace(CLASSIFICATION, targets=TargetSettings(has_weights=True))
    assert Meeting([table], settings).run().classes == ("2", "3")


@pytest.mark.parametrize("other", ["fconc1", "f conc1"])
def test_names_that_are_hardly_two(other):
    """Two organisations spell a column in two ways: it would become two features."""
    tables = [
        replace(make_table(ALL, [k]), features=(name,))
        for k, name in enumerate(["fConc1", other])
    ]
    assert f"'fConc1' of 'org0' and '{other}' of 'org1' differ" in refused(tables)
    hidden = AlignmentSettings("classification", hide_feature_names=True)
    assert Meeting(tables, hidden).run().layout.features.n_items == 2


def test_names_that_are_too_long():
    """An organisation refuses its own names if they could not be shown."""
    table = replace(make_table(ALL, [0]), features=("x" * 1001,))
    assert "'org0' has 1 name of features, classes" in refused([table])
