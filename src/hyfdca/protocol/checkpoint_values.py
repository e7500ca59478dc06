"""Values as bytes and back, exactly: what a state is made of.

What msgpack has a word for stands for itself. Any other value is a list: the name of
its kind, then its parts, which are values again. A kind of value is registered where
it is defined, so this file knows none of the layers above.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from hyfdca.arrays import AnyArray

_PLAIN = frozenset({type(None), bool, float, str, bytes})
_LEAST, _MOST = -(2**63), 2**64 - 1  # whole numbers that msgpack has words for
_ARRAY_KINDS = "biuf"  # truths, whole numbers, reals

T = TypeVar("T")


class Form(NamedTuple):
    """How a kind of value is taken apart into values, and put together of them."""

    name: str
    take_apart: Callable[[Any], Iterable[Any]]
    put_together: Callable[..., Any]


_forms: dict[type, Form] = {}
_by_name: dict[str, Form] = {}


def register(kind: type, form: Form) -> None:
    """Have values of a kind taken apart and put together so."""
    if form.name in _by_name or form.name in _ARRAYS:
        raise ValueError(f"There is a kind of value named {form.name!r} already.")
    _forms[kind] = _by_name[form.name] = form


def value(kind: type[T]) -> type[T]:
    """Have a dataclass, or a message, be a value: its fields, in their order."""
    is_dataclass = dataclasses.is_dataclass(kind)
    listed: Any = dataclasses.fields if is_dataclass else msgspec.structs.fields
    names = [field.name for field in listed(kind)]

    def fields(value: T) -> list[Any]:
        return [getattr(value, name) for name in names]

    register(kind, Form(kind.__name__, fields, kind))
    return kind


class Writer:
    """Writes values; an array that it meets again is said to be the same."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._arrays: list[AnyArray] = []  # all seen, so that no other gets their id

    def node(self, value: Any) -> Any:
        """Return a value as msgpack can say it."""
        kind = type(value)
        if kind in _PLAIN or (kind is int and _LEAST <= value <= _MOST):
            return value
        if kind is np.ndarray:
            return self._array(value)
        if kind not in _forms:
            raise TypeError(f"no state can have a {kind.__name__} in it")
        form = _forms[kind]
        return [form.name, *map(self.node, form.take_apart(value))]

    def _array(self, array: AnyArray) -> list[Any]:
        if id(array) in self._seen:
            return ["same", self._seen[id(array)]]
        self._seen[id(array)] = len(self._arrays)
        self._arrays.append(array)
        if _is_repeated(array):
            return ["repeated", len(array), *self._content(array[:1])]
        return ["array", *self._content(array)]

    def _content(self, array: AnyArray) -> list[Any]:
        """Return dtype, shape, order of the axes in memory, and what is in it.

        Sums and products of reals depend on the order in memory, in their last bits.
        """
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        flat = np.ascontiguousarray(array.transpose(axes)).reshape(-1)
        facts = [array.dtype.str, list(array.shape), axes]
        if array.dtype.hasobject:
            return [*facts, list(map(self.node, flat.tolist()))]
        if array.dtype.kind not in _ARRAY_KINDS:
            raise TypeError(f"no state can have an array of {array.dtype} in it")
        return [*facts, flat.view(np.uint8).data]


def _is_repeated(array: AnyArray) -> bool:
    """Whether one row in memory stands for all, which then cannot be changed."""
    if array.ndim == 0 or array.flags.writeable or len(array) < 2:
        return False
    return array.strides[0] == 0


class Reader:
    """Reads what a writer wrote; raises some exception if it is nothing of the kind.

    Nothing is made larger than the bytes that are there.
    """

    def __init__(self) -> None:
        self._arrays: list[AnyArray] = []

    def value(self, node: Any) -> Any:
        """Return the value of a node; arrays are copies that may be changed."""
        kind = type(node)
        if kind in _PLAIN or kind is int:
            return node
        if kind is not list:
            raise ValueError(f"no value is written as a {kind.__name__}")
        name, *parts = node
        if name in _ARRAYS:
            return _ARRAYS[name](self, *parts)
        return _by_name[name].put_together(*map(self.value, parts))

    def _same(self, place: int) -> AnyArray:
        return self._arrays[place]

    def _array(self, *content: Any) -> AnyArray:
        place = self._room()
        self._arrays[place] = self._of(*content)
        return self._arrays[place]

    def _repeated(self, n_rows: int, *content: Any) -> AnyArray:
        place = self._room()
        row = self._of(*content)
        self._arrays[place] = np.broadcast_to(row, (n_rows, *row.shape[1:]))
        return self._arrays[place]

    def _room(self) -> int:
        """Return the place of an array, which comes before those inside it."""
        self._arrays.append(_NOTHING)
        return len(self._arrays) - 1

    def _of(
        self, code: str, shape: list[int], axes: list[int], content: Any
    ) -> AnyArray:
        dtype = np.dtype(code)
        if dtype.hasobject:
            flat = np.empty(len(content), object)
            for place, node in enumerate(content):
                flat[place] = self.value(node)
        elif dtype.kind in _ARRAY_KINDS:
            flat = np.frombuffer(content, dtype).copy()
        else:
            raise ValueError(f"no state has an array of {dtype} in it")
        if min(shape, default=0) < 0 or math.prod(shape) != len(flat):
            raise ValueError(f"{len(flat)} numbers are no array of shape {shape}")
        in_memory = flat.reshape([shape[axis] for axis in axes])
        return in_memory.transpose(np.argsort(axes))


_NOTHING = np.empty(0)

_ARRAYS: dict[str, Callable[..., AnyArray]] = {
    "same": Reader._same,
    "array": Reader._array,
    "repeated": Reader._repeated,
}


def _long_bytes(number: int) -> tuple[bytes]:
    size = number.bit_length() // 8 + 1
    return (number.to_bytes(size, "little", signed=True),)


def _long(content: bytes) -> int:
    return int.from_bytes(content, "little", signed=True)


def _pairs(items: dict[Any, Any]) -> Iterable[Any]:
    for pair in items.items():
        yield from pair


def _dict(*parts: Any) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


register(int, Form("int", _long_bytes, _long))
register(list, Form("list", iter, lambda *items: list(items)))
register(tuple, Form("tuple", iter, lambda *items: items))
register(set, Form("set", iter, lambda *items: set(items)))
register(frozenset, Form("frozenset", iter, lambda *items: frozenset(items)))
register(dict, Form("dict", _pairs, _dict))
register(
    deque,
    Form("deque", lambda d: (d.maxlen, *d), lambda most, *items: deque(items, most)),
)
for _kind in (np.bool_, np.int64, np.float64):
    register(
        _kind,
        Form(
            _kind.__name__,
            lambda scalar: (scalar.tobytes(),),
            lambda content, kind=_kind: np.frombuffer(content, kind)[0],
        ),
    )
register(slice, Form("slice", lambda s: (s.start, s.stop, s.step), slice))
