import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.crypto.schemes.fixedpoint import (
    COARSER_BITS,
    SUM_BITS,
    Grid,
    GridOverflowError,
    decode,
    grid_for,
)

BOUNDS = st.floats(1e-30, 1e30)
SHARES = st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=12)


def _steps(value: float, grid: Grid) -> Fraction:
    """Return a real as an exact number of grid steps."""
    return Fraction(value) * Fraction(2) ** grid.fraction_bits


def _encode(grid, values, **options):
    return grid.encode(np.array(values, dtype=np.float64), **options)


@given(bound=BOUNDS, shares=SHARES)
def test_decoding_a_sum_is_the_sum_of_what_was_decoded(bound, shares):
    """Sums on the grid are exact; only turning the total into a float rounds."""
    grid = grid_for(bound, len(shares))
    numbers = [_encode(grid, [bound * share]) for share in shares]
    decoded = [Fraction(int(n[0])) / Fraction(2) ** grid.fraction_bits for n in numbers]
    total = np.sum(numbers, axis=0)
    assert decode(total, grid.fraction_bits)[0] == float(sum(decoded))


@given(bound=BOUNDS, shares=SHARES)
def test_sums_of_values_on_the_grid_are_exact(bound, shares):
    """Values that are multiples of the step come back as their exact sum."""
    # 40 bits: room for 12 summands below the 53 bits of a float.
    grid = grid_for(bound, len(shares), bits=40)
    step = Fraction(2) ** -grid.fraction_bits
    whole = [int(_steps(bound * share, grid)) for share in shares]
    values = [float(n * step) for n in whole]
    numbers = [_encode(grid, [value]) for value in values]
    assert [int(n[0]) for n in numbers] == whole
    total = decode(np.sum(numbers, axis=0), grid.fraction_bits)
    assert Fraction(float(total[0])) == sum(whole) * step


@given(bound=BOUNDS, shares=SHARES)
def test_rounding_is_to_the_nearest_step(bound, shares):
    """Encoding moves a value by at most half a step."""
    grid = grid_for(bound, len(shares), bits=30)
    values = [bound * share for share in shares]
    for value, number in zip(values, _encode(grid, values), strict=True):
        assert abs(_steps(value, grid) - int(number)) <= Fraction(1, 2)


@given(bound=BOUNDS, shares=SHARES)
def test_truncation_never_moves_away_from_zero(bound, shares):
    """Truncated values are less than a step nearer to zero and keep their sign."""
    grid = grid_for(bound, len(shares), bits=30)
    values = [bound * share for share in shares]
    truncated = _encode(grid, values, rounding="to zero")
    for value, number in zip(values, truncated, strict=True):
        lost = abs(_steps(value, grid)) - abs(int(number))
        assert 0 <= lost < 1
        assert int(number) * value >= 0


@given(
    bound=st.floats(1e-200, 1e200), n=st.integers(0, 10**9), bits=st.integers(40, 58)
)
def test_a_grid_holds_what_it_was_made_for(bound, n, bits):
    """The sum of n values up to the bound stays within 2**bits steps."""
    grid = grid_for(bound, n, bits)
    largest = int(_encode(grid, [bound, -bound])[0])
    assert largest == round(_steps(bound, grid))  # ties to even, as rint does
    assert max(n, 1) * largest <= 2**bits
    assert max(n, 1) * 2**grid.limit_bits <= 2**bits


@given(bound=st.floats(1e-200, 1e200), n=st.integers(1, 10**9))
def test_a_grid_is_the_finest_of_its_kind(bound, n):
    """With half the step, or double the contributions, the bound would not fit."""
    grid = grid_for(bound, n)
    assert 2 * _steps(bound, grid) >= 2**grid.limit_bits
    assert 2 * n * 2**grid.limit_bits > 2**SUM_BITS


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, -1e300])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_no_number_of_the_grid_is_refused(bad, place):
    """NaN, infinities and huge values raise, wherever in the vector they are."""
    values = [1.0, -1.0]
    values.insert(place, bad)
    for rounding in ("nearest", "to zero", "up"):
        with pytest.raises(GridOverflowError, match="exceeds"):
            _encode(grid_for(4.0, 3), values, rounding=rounding)


@given(excess=st.integers(1, 2**40), fraction=st.integers(-300, 300))
def test_the_limit_is_sharp(excess, fraction):
    """A value of exactly the limit fits, the next larger whole number does not."""
    grid = Grid(fraction, 50)
    step = math.ldexp(1.0, -fraction)
    limit = 2**50
    assert _encode(grid, [limit * step, -limit * step]).tolist() == [limit, -limit]
    for sign in (1, -1):
        with pytest.raises(GridOverflowError):
            _encode(grid, [sign * (limit + excess) * step])


@given(value=st.floats(allow_nan=False), fraction=st.integers(-900, 900))
def test_nothing_wraps(value, fraction):
    """A number comes back near itself or is refused; its sign never changes."""
    grid = Grid(fraction, 58)
    try:
        number = int(_encode(grid, [value])[0])
    except GridOverflowError:
        assert math.isinf(value) or abs(_steps(value, grid)) > 2**57
        return
    assert abs(_steps(value, grid) - number) <= Fraction(1, 2)


def test_an_empty_vector_encodes_to_an_empty_vector():
    """Nothing to check is nothing to refuse."""
    numbers = _encode(grid_for(1.0, 2), [])
    assert numbers.dtype == np.int64
    assert numbers.shape == (0,)


def test_the_shape_of_a_table_is_kept():
    """Encoding and decoding work elementwise on tables."""
    values = np.array([[0.5, -1.0, 0.25], [2.0, 0.0, -0.125]])
    grid = grid_for(2.0, 3)
    np.testing.assert_array_equal(
        decode(grid.encode(values), grid.fraction_bits), values
    )


@given(bound=BOUNDS, n=st.integers(1, 1000))
def test_a_coarser_grid_holds_larger_values(bound, n):
    """One step coarser keeps the limit and fits values 2**COARSER_BITS as large."""
    grid = grid_for(bound, n)
    coarser = grid.coarser()
    assert coarser.limit_bits == grid.limit_bits
    assert coarser.fraction_bits < grid.fraction_bits
    larger = math.ldexp(bound, COARSER_BITS)
    with pytest.raises(GridOverflowError):
        _encode(grid, [larger])
    assert abs(_steps(larger, coarser) - int(_encode(coarser, [larger])[0])) <= 1


def test_a_bound_of_zero_gives_a_grid_that_holds_zero():
    """Where nothing is expected, zero still fits."""
    grid = grid_for(0.0, 5)
    assert _encode(grid, [0.0]).tolist() == [0]


def test_a_tiny_bound_has_a_grid():
    """Any bound that is a number gives a grid that encodes; others are refused."""
    assert grid_for(1e-300, 1).encode(np.array([0.0])).tolist() == [0]
    assert grid_for(0.0, 1).encode(np.array([0.0])).tolist() == [0]
    for bound in (math.nan, math.inf):
        with pytest.raises(ValueError, match="no grid"):
            grid_for(bound, 1)
    with pytest.raises(ValueError, match="summands"):
        grid_for(1.0, 2**60)
