"""Simpler forms of IDs: what each of them ignores, and nothing else."""

from __future__ import annotations

import tracemalloc

import pytest

from hyfdca.data.id_forms import ID_FORMS, sampled

KEY = b"k" * 32


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("leading zeros", "0017", "17"),
        ("leading zeros", "0", "0"),
        ("leading zeros", "000", "0"),
        ("leading zeros", "P-0017", "P-17"),
        ("leading zeros", "100", "100"),
        ("leading zeros", "3.01", "3.01"),
        ("zeros after a decimal point", "17.0", "17"),
        ("zeros after a decimal point", "17.00", "17"),
        ("zeros after a decimal point", "17.50", "17.50"),
        ("zeros after a decimal point", "10", "10"),
        ("capitals", "aB-Straße", "ab-strasse"),
        ("blanks or punctuation", "a b_c-1/2é", "abc12é"),
        ("any", "P-0017.0", "p17"),
        ("any", " p 17", "p17"),
        ("any", "P_00-17", "p17"),
    ],
)
def test_forms(form, text, expected):
    """Each form changes an ID as listed."""
    assert ID_FORMS[form](text) == expected


@pytest.mark.parametrize("form", ID_FORMS)
@pytest.mark.parametrize("text", ["0017.0", "A-0 1", "x.00", "Ⅷ 008", ""])
def test_a_form_of_a_form_is_itself(form, text):
    """Nothing is left to ignore."""
    simple = ID_FORMS[form](text)
    assert ID_FORMS[form](simple) == simple


def test_a_sample_has_all_forms_of_an_id():
    """IDs that differ in how they are written are all in a sample, or all not."""
    ids = [f"Pa-{row:06d}" for row in range(5000)]
    chosen = set(sampled(ids, 16, KEY))
    assert 5000 / 32 < len(chosen) < 5000 / 8
    for change in (str.upper, "{}.0".format, ID_FORMS["any"], "0{}".format):
        changed = set(sampled([change(own) for own in ids], 16, KEY))
        assert changed == {change(own) for own in chosen}


def test_capitals_of_any_script_change_no_sample():
    """A letter that has other capitals in ASCII is in a sample with them."""
    ids = [f"stra\u00dfe-{row}" for row in range(500)]
    chosen = set(sampled(ids, 8, KEY))
    assert set(sampled(map(str.upper, ids), 8, KEY)) == {own.upper() for own in chosen}


def test_another_key_is_another_sample():
    """Without the key nobody can tell which IDs are in a sample."""
    ids = [f"Pa-{row:06d}" for row in range(5000)]
    both = set(sampled(ids, 8, KEY)) & set(sampled(ids, 8, b"K" * 32))
    assert 0 < len(both) < 5000 / 32


def test_a_sample_of_one_in_one_is_all():
    """Small tables are compared whole."""
    assert list(sampled(["a", "0", "-"], 1, KEY)) == ["a", "0", "-"]
    assert list(sampled(["", "0", "-é"], 4, KEY)) == [
        "",
        "0",
        "-é",
    ]  # nothing to choose by


def test_a_long_id_costs_its_own_length():
    """One very long ID among many does not make them all as long."""
    ids = [f"Pa-{row:06d}" for row in range(5000)]
    tracemalloc.start()
    with_long = set(sampled([*ids, "x" * 100_000], 16, KEY))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert with_long - {"x" * 100_000} == set(sampled(ids, 16, KEY))
    assert peak < 40 * (100_000 + sum(map(len, ids)))  # bytes per character
