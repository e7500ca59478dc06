"""Categories become the features that scikit-learn makes of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

from hyfdca.data.expansion import NOWHERE, Expansion, expansion_of_numbers
from hyfdca.data.tables import stored_densely

CODES = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), min_size=1)


@given(CODES)
def test_one_hot_columns_are_those_of_scikit_learn(codes):
    """Numbers stay between the levels of the columns before and after them."""
    first, second = np.array(codes, dtype=float).T
    number = np.arange(len(first)) - 1.0
    cells = np.column_stack([first, number, second])
    encoder = OneHotEncoder(
        categories=[[1.0, 2.0, 3.0], [1.0, 2.0]], drop=[2.0, 1.0], sparse_output=False
    )
    levels = encoder.fit_transform(cells[:, [0, 2]])
    expansion = Expansion(
        np.array([2, 1, 1]),
        {
            0: np.array([NOWHERE, 0, NOWHERE, 1]),
            2: np.array([NOWHERE, NOWHERE, 0]),
        },
    )
    found = expansion.features(stored_densely(cells))
    expected = np.column_stack([levels[:, :2], number, levels[:, 2]])
    np.testing.assert_array_equal(found.toarray(), expected)
    assert found.has_sorted_indices
    assert found.nnz == len(number) + np.count_nonzero(levels)


def test_blank_cells_have_code_zero():
    """NaN is looked up there; a cell that is not stored is nobody's."""
    cells = sp.csr_array(np.array([[np.nan], [1.0], [0.0]]))
    expansion = Expansion(np.array([2]), {0: np.array([1, 0])})
    expected = [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]
    np.testing.assert_array_equal(expansion.features(cells).toarray(), expected)


def test_columns_without_a_feature():
    """A category may have no feature."""
    expansion = Expansion(np.array([0, 1]), {0: np.array([NOWHERE, NOWHERE])})
    cells = stored_densely(np.array([[1.0, 5.0], [1.0, 0.0]]))
    found = expansion.features(cells)
    assert found.toarray().tolist() == [[5.0], [0.0]]
    assert expansion.is_number.tolist() == [False, True]


def test_numbers_stay_as_they_are():
    """Without categories nothing is copied."""
    cells = stored_densely(np.eye(2))
    assert expansion_of_numbers(2).features(cells) is cells
