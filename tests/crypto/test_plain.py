import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.plain import PlainAdder, PlainSealer

TABLES = arrays(
    np.int64,
    array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.integers(-(2**57), 2**57),
)


def _sealed(numbers):
    anywhere = Arrangement.together(len(numbers))
    return memoryview(bytes(PlainSealer().seal(numbers, anywhere)))


def _opened(payload, shape):
    anywhere = Arrangement.together(shape[0])
    return PlainSealer().open(payload, shape[1], anywhere)


@given(TABLES)
def test_opening_what_was_sealed_gives_it_back(numbers):
    """Seal and open are inverses."""
    np.testing.assert_array_equal(_opened(_sealed(numbers), numbers.shape), numbers)


@given(TABLES)
def test_the_bytes_are_little_endian_words(numbers):
    """The wire form has eight little-endian bytes per number, row by row."""
    expected = b"".join(
        int(n).to_bytes(8, "little", signed=True) for row in numbers for n in row
    )
    assert bytes(_sealed(numbers)) == expected


@given(TABLES)
def test_loading_and_dumping_are_inverses(numbers):
    """A sealed vector goes through the server unchanged, a column of it too."""
    adder = PlainAdder()
    payload = _sealed(numbers)
    assert bytes(adder.dump(adder.load(payload, numbers.shape))) == bytes(payload)
    part = adder.take(adder.load(payload, numbers.shape), slice(None, None, 2))
    assert bytes(adder.dump(part)) == bytes(_sealed(numbers[::2].copy()))


@given(TABLES, st.data())
def test_adding_sealed_vectors_opens_to_the_sum(numbers, data):
    """The adder adds at the places named and nowhere else."""
    n_items, n_outputs = numbers.shape
    places = data.draw(st.lists(st.sampled_from(range(n_items)), unique=True))
    where = np.array(sorted(places), dtype=np.int64)
    adder = PlainAdder()
    total = adder.zeros(numbers.shape)
    adder.add(total, slice(None), adder.load(_sealed(numbers), numbers.shape))
    part = numbers[where]
    adder.add(total, where, adder.load(_sealed(part), (len(where), n_outputs)))
    doubled = np.isin(np.arange(n_items), where)[:, None]
    expected = np.where(doubled, 2 * numbers, numbers)
    opened = _opened(adder.dump(total), numbers.shape)
    np.testing.assert_array_equal(opened, expected)


@given(TABLES, st.data())
def test_putting_replaces_and_taking_reads(numbers, data):
    """Put sets the places named, take returns them, other places keep their value."""
    n_items, n_outputs = numbers.shape
    places = data.draw(st.lists(st.sampled_from(range(n_items)), unique=True))
    where = np.array(sorted(places), dtype=np.int64)
    adder = PlainAdder()
    total = adder.zeros(numbers.shape)
    adder.add(total, slice(None), numbers)
    fresh = np.full((len(where), n_outputs), 5, dtype=np.int64)
    adder.put(total, where, adder.load(_sealed(fresh), fresh.shape))
    np.testing.assert_array_equal(adder.take(total, where), fresh)
    others = np.setdiff1d(np.arange(n_items), where)
    np.testing.assert_array_equal(adder.take(total, others), numbers[others])


@pytest.mark.parametrize("shape", [(2, 2), (2, 4), (0, 3), (3, 3), (6, 2)])
@pytest.mark.parametrize("reader", [_opened, PlainAdder().load])
def test_a_payload_of_another_size_is_refused(shape, reader):
    """Bytes that do not fill the shape raise, and tell what was expected."""
    payload = _sealed(np.arange(6).reshape(2, 3))
    count = shape[0] * shape[1]
    with pytest.raises(ValueError, match=f"expected {count} numbers .* got 48 bytes"):
        reader(payload, shape)


@pytest.mark.parametrize("reader", [_opened, PlainAdder().load])
def test_a_cut_payload_is_refused(reader):
    """Half a number is refused."""
    payload = _sealed(np.arange(6).reshape(2, 3))
    with pytest.raises(ValueError, match="got 47 bytes"):
        reader(payload[:-1], (2, 3))


def test_a_loaded_vector_cannot_be_changed_by_mistake():
    """What came off the wire as bytes is read-only."""
    loaded = PlainAdder().load(_sealed(np.arange(4).reshape(4, 1)), (4, 1))
    with pytest.raises(ValueError, match="read-only"):
        loaded[0] = 1
