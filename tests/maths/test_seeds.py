from itertools import pairwise

import pytest

from hyfdca.maths.seeds import stream


def _numbers(base_seed, *names):
    return stream(base_seed, *names).integers(2**62, size=8).tolist()


@pytest.mark.parametrize("names", [(), ("draw",), ("draw", 3), ("draw", 3, 1)])
def test_the_same_name_gives_the_same_stream(seed, names):
    """A stream is a function of its seed and its name."""
    assert _numbers(seed, *names) == _numbers(seed, *names)


def test_different_names_give_different_streams(seed):
    """Names that differ in a word, a number, their order or length share nothing."""
    names = [
        (),
        (0,),
        ("a",),
        ("b",),
        ("a", 0),
        ("a", 0, 0),
        ("a", 1),
        (0, "a"),
        ("a", "b"),
        ("b", "a"),
        ("ab",),
    ]
    drawn = [number for name in names for number in _numbers(seed, *name)]
    assert len(set(drawn)) == len(drawn)


def test_different_seeds_give_different_streams(seed):
    """The same name under another seed draws other numbers."""
    assert not set(_numbers(seed, "draw")) & set(_numbers(seed + 1, "draw"))


def test_streams_of_neighbouring_numbers_are_uncorrelated(seed):
    """Streams of consecutive rounds look independent."""
    rounds = [stream(seed, "round", t).normal(size=2000) for t in range(20)]
    for before, after in pairwise(rounds):
        # The correlation of independent streams has deviation 1/sqrt(2000) = 0.022.
        assert abs(before @ after) / 2000 < 0.12


def test_the_order_of_creation_does_not_matter(seed):
    """A stream draws the same whatever was made or drawn before it."""
    alone = _numbers(seed, "wanted")
    for other in range(3):
        stream(seed, "other", other).normal(size=5)
    first, second = stream(seed, "wanted"), stream(seed, "other")
    second.normal(size=3)
    assert first.integers(2**62, size=8).tolist() == alone


def test_a_negative_seed_is_refused():
    """A seed below zero is an error, not another stream."""
    with pytest.raises(ValueError, match="non-negative"):
        stream(-1, "draw")
