"""Tables that are split into blocks, and put together again."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from hyfdca.holdings.axis import Axis
from hyfdca.holdings.block import pooled_cells, split_blocks
from hyfdca.holdings.layout import layout_of
from hyfdca.holdings.partition import from_holdings
from hyfdca.maths.seeds import stream


def test_pooling_undoes_splitting(seed):
    """Own cells of overlapping blocks are the whole table, each cell once."""
    X = sp.csr_array(stream(seed, "table").normal(size=(7, 5)))
    holdings = [(range(5), range(3)), (range(2, 7), range(5)), (range(7), [0, 4])]
    partition = from_holdings(7, 5, holdings)
    layout = layout_of(partition, [True] * 3)
    blocks = split_blocks(X, np.ones((7, 1)), partition, layout)
    pooled = pooled_cells([b.X for b in blocks], layout.samples, layout.features)
    expected = np.zeros((7, 5))
    for rows, columns in holdings:
        expected[np.ix_(rows, columns)] = X.toarray()[np.ix_(rows, columns)]
    np.testing.assert_array_equal(pooled.toarray(), expected)


def test_stored_zeros_stay_stored():
    """A zero that was observed is not a cell that nobody holds."""
    part = sp.csr_array((np.array([0.0, 2.0]), [0, 1], [0, 2]), shape=(1, 2))
    rows, columns = Axis(3, (np.array([1]),)), Axis(4, (np.array([0, 3]),))
    pooled = pooled_cells([part], rows, columns)
    assert pooled.nnz == 2
    assert pooled[1, 3] == 2.0
