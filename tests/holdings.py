"""Holdings drawn by hypothesis: who has which samples and features."""

from __future__ import annotations

from hypothesis import strategies as st


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
