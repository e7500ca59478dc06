"""Tables that make no study: one sentence with organisations and counts, no ID."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.messages import (
    MOST_CLASSES,
    AlignmentSettings,
)
from tests.stages.alignments import (
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
    assert "'org1' has 2 rows that repeat the ID" in sentence


def test_labels_that_disagree():
    """Every pair of organisations with other labels is named, with its count."""
    tables = [make_table(rows, [0]) for rows in (ALL, [3, 2, 1], [0, 1])]
    tables[1] = relabelled(tables[1], "other", "other")
    tables[2] = relabelled(tables[2], "other")
    sentence = refused(tables)
    assert "'org0' and 'org1' in 2 rows" in sentence
    assert "'org0' and 'org2' in 1 rows" in sentence


def test_labels_are_compared_with_the_designated_holder():
    """Holders without labels before it are passed over."""
    tables = [make_table(ALL, [0], has_labels=False), make_table(ALL, [1])]
    tables.append(relabelled(tables[1], "other"))
    assert "'org1' and 'org2' in 1 rows" in refused(tables)


def test_many_disagreements_are_cut_short():
    """Of many pairs the largest are named, the others counted."""
    tables = [make_table(ALL, [0])]
    tables += [relabelled(tables[0], *["other"] * n) for n in (1, 2, 3, 4, 4)]
    sentence = refused(tables)
    assert "'org5' in 4 rows, 'org0' and 'org3' in 3 rows, 2 more;" in sentence


def test_samples_without_a_label():
    """Rows that nobody has a label of are counted, by organisation."""
    tables = [make_table([0, 1], [0]), make_table(ALL, [1], has_labels=False)]
    sentence = refused(tables)
    assert sentence.startswith("2 of 4 rows have no organisation with a label (2 of")
    assert "'org1'" in sentence


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
    assert "'org0' has 2 rows with a label that is no number" in refused(
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
    """A name that nobody could show is refused by whoever has it."""
    table = replace(make_table(ALL, [0]), features=("x" * 1001,))
    assert "'org0' has 1 names of features, classes" in refused([table])
