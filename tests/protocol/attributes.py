"""All attributes of two objects, compared one by one: what differs, and where."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection, Iterable
from enum import Enum
from functools import cached_property, partial
from types import CellType, FunctionType, MethodType
from typing import Any

import msgspec
import numpy as np
from gmpy2 import mpz

_PLAIN = (type(None), bool, int, str, bytes, slice, range, mpz, Enum, type, np.dtype)
_BYTES = (bytearray, memoryview)
_VALUES = (*_PLAIN, *_BYTES, set, frozenset, float, np.generic)
_MISSING = object()


def differences(one: Any, other: Any, transient: Collection[str] = ()) -> list[str]:
    """Return where two objects of the same class differ, as paths of attributes.

    All that can be reached from them is compared, arrays bit for bit. What is one
    object for two attributes of the one must be one object for the other, too.

    Parameters
    ----------
    transient : collection of str
        Attributes that may differ, each as "Class.attribute".
    """
    comparison = _Comparison(transient)
    comparison.compare(type(one).__name__, one, other)
    return comparison.found


class _Comparison:
    """Compares, and notes what differs; each pair of objects once."""

    def __init__(self, transient: Collection[str]) -> None:
        self.found: list[str] = []
        self._transient = transient
        self._twins: dict[int, Any] = {}  # by the id of the one: the other
        self._seen: list[Any] = []  # so that no other object gets their ids

    def compare(self, where: str, one: Any, other: Any) -> None:
        """Note what differs between two values, and all that is in them."""
        if one is other:
            return
        if type(one) is not type(other):
            names = type(one).__name__, type(other).__name__
            self.found.append(f"{where}: a {names[0]} and a {names[1]}")
        elif isinstance(one, _VALUES):
            self._expect(where, _bits(one) == _bits(other))
        elif isinstance(one, tuple):
            self._items(where, one, other)
        elif isinstance(one, msgspec.Struct):
            self._attributes(where, one, other)
        elif self._is_new(where, one, other):
            self._inside(where, one, other)

    def _expect(self, where: str, is_same: bool) -> None:
        if not is_same:
            self.found.append(where)

    def _is_new(self, where: str, one: Any, other: Any) -> bool:
        """Note that these two belong together; return whether that was not known."""
        for left, right in ((one, other), (other, one)):
            if id(left) in self._twins:
                self._expect(f"{where}: another one", self._twins[id(left)] is right)
                return False
        self._twins |= {id(one): other, id(other): one}
        self._seen += [one, other]
        return True

    def _inside(self, where: str, one: Any, other: Any) -> None:
        if isinstance(one, np.ndarray):
            self._arrays(where, one, other)
        elif isinstance(one, list | deque):
            self._expect(
                f"{where}: maxlen",
                getattr(one, "maxlen", 0) == getattr(other, "maxlen", 0),
            )
            self._items(where, one, other)
        elif isinstance(one, dict):
            # In order: sums are taken in the order of their parts.
            self._items(f"{where}: keys", list(one), list(other))
            for key in one.keys() & other.keys():
                self.compare(f"{where}[{key!r}]", one[key], other[key])
        elif isinstance(one, np.random.Generator):
            states = (g.bit_generator.state for g in (one, other))
            self.compare(where, *states)
        elif isinstance(one, CellType):
            self.compare(where, one.cell_contents, other.cell_contents)
        else:
            self._objects(where, one, other)

    def _items(self, where: str, one: Iterable[Any], other: Iterable[Any]) -> None:
        ones, others = list(one), list(other)
        self._expect(f"{where}: length", len(ones) == len(others))
        for place, pair in enumerate(zip(ones, others, strict=False)):
            self.compare(f"{where}[{place}]", *pair)

    def _arrays(self, where: str, one: Any, other: Any) -> None:
        self._expect(f"{where}: dtype", one.dtype == other.dtype)
        self._expect(f"{where}: shape", one.shape == other.shape)
        # In which order sums of it are taken
        self._expect(f"{where}: order", _axes(one) == _axes(other))
        if one.dtype == object:
            self._items(where, one.ravel().tolist(), other.ravel().tolist())
        else:
            self._expect(where, one.tobytes() == other.tobytes())

    def _objects(self, where: str, one: Any, other: Any) -> None:
        """Compare functions by their code and what is bound, others by attributes."""
        if isinstance(one, MethodType):
            self._expect(f"{where}: function", one.__func__ is other.__func__)
            self.compare(where, one.__self__, other.__self__)
            return
        if isinstance(one, FunctionType):
            self._expect(f"{where}: function", one.__code__ is other.__code__)
            self._items(where, one.__closure__ or (), other.__closure__ or ())
            return
        if isinstance(one, partial):
            parts = ((p.func, p.args, p.keywords) for p in (one, other))
            self.compare(where, *parts)
            return
        self._expect(f"{where}: cannot be compared", hasattr(one, "__dict__"))
        self._attributes(where, one, other)

    def _attributes(self, where: str, one: Any, other: Any) -> None:
        kind = type(one)
        for name in sorted(_names(one) | _names(other)):
            if f"{kind.__name__}.{name}" in self._transient:
                continue
            values = [_value(thing, name) for thing in (one, other)]
            self.compare(f"{where}.{name}", *values)


def _value(thing: Any, name: str) -> Any:
    """Return an attribute, which is made if it is one that is made on first use."""
    if isinstance(getattr(type(thing), name, None), cached_property):
        return getattr(thing, name)
    if isinstance(thing, msgspec.Struct):
        return getattr(thing, name)
    return vars(thing).get(name, _MISSING)


def _names(thing: Any) -> set[str]:
    if isinstance(thing, msgspec.Struct):
        return set(thing.__struct_fields__)
    return set(getattr(thing, "__dict__", ()))


def _bits(value: Any) -> Any:
    """Return what is equal for values that are the same."""
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, float):
        return struct.pack("<d", value)
    return bytes(value) if isinstance(value, _BYTES) else value


def _axes(array: Any) -> list[int]:
    """Return the axes that count in the order in which they are in memory."""
    if array.size < 2:
        return []
    sides = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    return sorted(sides, key=lambda axis: -abs(array.strides[axis]))
