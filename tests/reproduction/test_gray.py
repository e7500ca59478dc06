"""The Pareto front and grades, by hand and by their laws."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.reproduction.gray import choose, non_dominated, relational_grades

COST_AND_SCORE = (False, True)  # the first is minimised, the second maximised


def table(*rows):
    return np.array(rows, dtype=float)


@st.composite
def tables(draw, min_rows=1):
    """Draw whole numbers, so that laws hold without rounding, and directions."""
    n_criteria = draw(st.integers(1, 4))
    row = st.lists(st.integers(-4, 4), min_size=n_criteria, max_size=n_criteria)
    rows = draw(st.lists(row, min_size=min_rows, max_size=8))
    directions = st.lists(st.booleans(), min_size=n_criteria, max_size=n_criteria)
    return np.array(rows, dtype=float), draw(directions)


def dominates(row, other, maximised):
    """Compare two rows, criterion by criterion."""
    pairs = [
        (a, b) if up else (-a, -b)
        for a, b, up in zip(row, other, maximised, strict=True)
    ]
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def test_grades_by_hand():
    """Costs 1, 2, 5 and scores 0, 8, 10, each brought to [0, 1]."""
    rows = table((1, 0), (2, 8), (5, 10))
    # cost (5 - f) / 4:    1, 3/4, 0   ->  1 / (2 - F):  1, 4/5, 1/2
    # score f / 10:        0, 4/5, 1   ->  1 / (2 - F):  1/2, 5/6, 1
    expected = [(1 + 1 / 2) / 2, (4 / 5 + 5 / 6) / 2, (1 / 2 + 1) / 2]
    assert relational_grades(rows, COST_AND_SCORE) == pytest.approx(expected, rel=1e-15)
    chosen = choose(rows, COST_AND_SCORE)
    assert chosen.row == 1
    assert chosen.front.tolist() == [0, 1, 2]
    assert chosen.grades == pytest.approx(expected, rel=1e-15)


def test_grades_in_the_other_direction_by_hand():
    """The same numbers, both maximised: the first row is worst in both."""
    rows = table((1, 0), (2, 8), (5, 10))
    # first criterion (f - 1) / 4:  0, 1/4, 1  ->  1/2, 4/7, 1
    expected = [1 / 2, (4 / 7 + 5 / 6) / 2, 1.0]
    assert relational_grades(rows, (True, True)) == pytest.approx(expected, rel=1e-15)
    chosen = choose(rows, (True, True))
    assert (chosen.row, chosen.front.tolist()) == (2, [2])


def test_negative_values_are_not_made_positive():
    """A signed criterion is graded by its order: -3, -1, 1 give 0, 1/2, 1."""
    grades = relational_grades(table((-3,), (-1,), (1,)), (True,))
    assert grades == pytest.approx([1 / 2, 1 / 1.5, 1.0], rel=1e-15)


def test_the_front_by_hand():
    """A row is left out if another is nowhere worse and somewhere better."""
    rows = table((1, 0), (2, 8), (3, 8), (5, 10), (6, 9), (2, 8))
    # (3, 8) costs more than (2, 8); (6, 9) is worse than (5, 10) in both.
    expected = [True, True, False, True, False, True]  # duplicates stay
    assert non_dominated(rows, COST_AND_SCORE).tolist() == expected


def test_dominated_rows_do_not_shift_the_range():
    """The grades are those of the front alone."""
    front = table((1, 0), (2, 8), (5, 10))
    more = np.vstack([table((1000, -1000)), front, table((400, 9))])
    chosen = choose(more, COST_AND_SCORE)
    assert (chosen.row, chosen.front.tolist()) == (2, [1, 2, 3])
    assert np.array_equal(chosen.grades, relational_grades(front, COST_AND_SCORE))


def test_mirrored_rows_have_equal_grades_and_the_first_wins():
    """Neither criterion has a weight, so exchanging them changes nothing."""
    rows = table((3, 1), (1, 3), (0, 4), (4, 0))
    grades = relational_grades(rows, (True, True))
    # 3/4 and 1/4: (4/5 + 4/7) / 2 = 0.686; 0 and 1: (1/2 + 1) / 2 = 0.75
    assert grades[0] == grades[1] == pytest.approx(24 / 35, rel=1e-15)
    assert grades[2] == grades[3] == 0.75
    assert choose(rows, (True, True)).row == 2


def test_rows_with_exchanged_values_tie_to_the_last_bit():
    """The order of criteria does not enter the sum."""
    rows = table(*permutations((0, 1, 2, 3)))
    as_they_come = (1 / (2 - rows / 3)).mean(axis=1)
    assert len(set(as_they_come)) > 1  # by rounding
    assert len(set(relational_grades(rows, 4 * (True,)))) == 1
    assert choose(rows, 4 * (True,)).row == 0


def test_one_row_has_the_best_grade():
    """Alone it is best in every criterion."""
    chosen = choose(table((7, -3)), COST_AND_SCORE)
    assert (chosen.row, chosen.grades.tolist()) == (0, [1.0])


def test_a_constant_criterion_counts_as_reached():
    """It raises all grades alike: (1 + 1/2) / 2 for the worst of the other."""
    grades = relational_grades(table((5, 0), (5, 1)), COST_AND_SCORE)
    assert grades.tolist() == [0.75, 1.0]
    assert relational_grades(table((5, 5), (5, 5)), COST_AND_SCORE).tolist() == [1, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_left_out(value):
    """Not even an infinitely low cost wins, and the others' grades do not change."""
    rows = table((value, 99), (1, 0), (2, 8), (5, 10))
    chosen = choose(rows, COST_AND_SCORE)
    assert (chosen.row, chosen.front.tolist()) == (2, [1, 2, 3])
    assert np.array_equal(chosen.grades, relational_grades(rows[1:], COST_AND_SCORE))


def test_nothing_is_chosen_if_no_row_is_finite():
    """The paper met that too: HyFEM on News20."""
    for rows in (table((np.nan, 1), (0, np.inf)), np.empty((0, 2))):
        chosen = choose(rows, COST_AND_SCORE)
        assert chosen.row is None
        assert len(chosen.front) == len(chosen.grades) == 0


@pytest.mark.parametrize("function", [non_dominated, relational_grades])
def test_wrong_tables_are_refused(function):
    """What is not finite has no grade, and every criterion needs a direction."""
    with pytest.raises(ValueError, match="finite"):
        function(table((np.nan, 1)), COST_AND_SCORE)
    with pytest.raises(ValueError, match="3 criteria"):
        function(table((0, 1)), (True, True, False))
    assert len(function(np.empty((0, 2)), COST_AND_SCORE)) == 0


@given(tables())
def test_grades_are_from_a_half_to_one(drawn):
    """Some row has more than the worst grade, since some value is the best."""
    grades = relational_grades(*drawn)
    assert np.all((grades >= 0.5) & (grades <= 1.0))
    assert grades.max() > 0.5


@given(tables())
def test_the_front_is_what_comparing_all_pairs_gives(drawn):
    """Pairs of rows are compared by the definition."""
    rows, maximised = drawn
    expected = [not any(dominates(o, row, maximised) for o in rows) for row in rows]
    assert non_dominated(rows, maximised).tolist() == expected


@given(tables())
def test_a_dominated_row_never_wins(drawn):
    """The winner has the highest grade of the front, as the first."""
    rows, maximised = drawn
    chosen = choose(rows, maximised)
    assert not any(dominates(row, rows[chosen.row], maximised) for row in rows)
    place = chosen.front.tolist().index(chosen.row)
    assert chosen.grades[place] == chosen.grades.max()
    assert np.all(chosen.grades[:place] < chosen.grades[place])


@given(tables(min_rows=2))
def test_a_row_has_a_lower_grade_than_one_that_dominates_it(drawn):
    """It also holds in a table from which nothing was left out."""
    rows, maximised = drawn
    grades = relational_grades(rows, maximised)
    for place, row in enumerate(rows):
        for other, grade in zip(rows, grades, strict=True):
            if dominates(row, other, maximised):
                assert grades[place] > grade


@given(tables(), st.data())
def test_an_affine_change_of_a_criterion_changes_nothing(drawn, data):
    """Neither the unit nor the zero matters; a negative unit turns the direction."""
    rows, maximised = drawn
    column = data.draw(st.integers(0, rows.shape[1] - 1))
    scale = data.draw(st.integers(-1000, 1000).filter(bool))
    changed, turned = rows.copy(), list(maximised)
    changed[:, column] = scale * rows[:, column] + data.draw(st.integers(-9999, 9999))
    turned[column] ^= scale < 0
    before, after = choose(rows, maximised), choose(changed, turned)
    assert after.row == before.row
    assert np.array_equal(after.front, before.front)
    assert np.array_equal(after.grades, before.grades)


@given(tables(), st.randoms(use_true_random=False))
def test_permuting_rows_permutes_grades(drawn, random):
    """The order of runs does not matter, except for which of equals is first."""
    rows, maximised = drawn
    order = list(range(len(rows)))
    random.shuffle(order)
    grades = relational_grades(rows, maximised)
    assert np.array_equal(relational_grades(rows[order], maximised), grades[order])
    shuffled, chosen = choose(rows[order], maximised), choose(rows, maximised)
    assert sorted(order[place] for place in shuffled.front) == chosen.front.tolist()
    assert shuffled.grades.max() == chosen.grades.max()
