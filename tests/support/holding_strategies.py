"""Who has which samples and features: some partitions, and drawn by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from hyfdca.holdings.partition import from_holdings, grid, horizontal, vertical

N_SAMPLES, N_FEATURES = 40, 6

OVERLAPPING = from_holdings(
    N_SAMPLES,
    N_FEATURES,
    [
        (range(25), [0, 1, 2, 3]),
        (range(10, 40), [2, 3, 4, 5]),
        (range(5, 40), [0, 1, 4]),
        (range(5), [4, 5]),
    ],
)
PARTITIONS = {
    "horizontal": horizontal(N_SAMPLES, N_FEATURES, 3, 0),
    "vertical": vertical(N_SAMPLES, N_FEATURES, 3, 0),
    "grid": grid(N_SAMPLES, N_FEATURES, (2, 3), 0),
    "overlapping": OVERLAPPING,
}


def subsets(size: int, min_size: int = 0) -> st.SearchStrategy[list[int]]:
    """Return a strategy for sorted lists of distinct numbers below ``size``."""
    if not size:
        return st.just([])
    numbers = st.sampled_from(range(size))
    return st.lists(numbers, unique=True, min_size=min_size).map(sorted)


@st.composite
def overlapping_holdings(draw, n_samples=7, n_features=5, max_clients=4):
    """Draw overlapping holdings; the last client has the samples left over."""
    pairs = st.tuples(subsets(n_samples), subsets(n_features))
    holdings = draw(st.lists(pairs, max_size=max_clients))
    held = {sample for samples, _ in holdings for sample in samples}
    left = [sample for sample in range(n_samples) if sample not in held]
    return [*holdings, (left, draw(subsets(n_features)))]
