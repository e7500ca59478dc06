"""Checkpoints: typed states as bytes and back, exact to the bit.

An object with a state returns it from ``state()`` as a frozen dataclass and takes one
in ``restore()``. The fields of such a dataclass define the content of a state: plain
values, arrays, messages, states of parts. Whatever follows from settings and set-up is
not part of a state: restore into an object with the same settings and set-up.

The bytes begin with the version of hyfdca that wrote them; another version refuses
them. Arrays keep their dtype, shape and order in memory, and two fields that share an
array share it again afterwards.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import Any, Protocol, TypeVar, get_args, get_origin

import msgspec
import numpy as np
import xxhash
from gmpy2 import mpz

from hyfdca import __version__
from hyfdca.arrays import AnyArray

_MAGIC = b"hyfdca checkpoint\n"
_DIGEST_BYTES = 16
_PLAIN = frozenset({type(None), bool, float, str, bytes})
_LEAST, _MOST = -(2**63), 2**64 - 1  # integers that msgpack can express
_ARRAY_KINDS = "biuf"  # booleans, integers, reals

S = TypeVar("S")
State = TypeVar("State")


class Checkpointed(Protocol[State]):
    """An object whose state can be saved and restored."""

    def state(self) -> State:
        """Return what rounds change; encode it before the next round."""
        ...

    def restore(self, state: State) -> None:
        """Take a state of an object with the same settings and set-up."""
        ...


class CheckpointError(ValueError):
    """Bytes that cannot be restored; the message is one plain sentence."""


def save(thing: Checkpointed[Any]) -> bytes:
    """Return the bytes of an object's state."""
    return encode(thing.state())


def load(thing: Checkpointed[Any], content: bytes | bytearray | memoryview) -> None:
    """Restore an object with the same settings and set-up.

    Raises
    ------
    CheckpointError
        If the bytes are damaged, of another version, or a state of another object.
        Nothing has changed in that case.
    """
    kind = typing.get_type_hints(type(thing).state)["return"]
    thing.restore(decode(kind, content))


def encode(state: object) -> bytes:
    """Return the bytes of a state."""
    body = msgspec.msgpack.encode(_Writer().node(state))
    version = __version__.encode()
    return _MAGIC + version + b"\n" + _digest(version + body) + body


def decode(kind: type[S], content: bytes | bytearray | memoryview) -> S:
    """Return the state of that kind from its bytes.

    Raises
    ------
    CheckpointError
        If the bytes are damaged, of another version, or a state of another kind.
    """
    body = _checked_body(bytes(content))
    try:
        classes = _classes_of(typing.cast(Hashable, kind))
        state = _Reader(classes).value(msgspec.msgpack.decode(body))
    except Exception as error:  # numpy alone raises half a dozen kinds
        raise CheckpointError(f"The checkpoint cannot be read: {error}.") from error
    if not isinstance(state, kind):
        raise CheckpointError(
            f"The checkpoint is a {type(state).__name__}, not a {kind.__name__}."
        )
    return state


def _checked_body(content: bytes) -> bytes:
    if not content.startswith(_MAGIC):
        raise CheckpointError("These bytes are not a checkpoint of hyfdca.")
    version, newline, rest = content[len(_MAGIC) :].partition(b"\n")
    digest, body = rest[:_DIGEST_BYTES], rest[_DIGEST_BYTES:]
    if not newline or digest != _digest(version + body):
        raise CheckpointError("The checkpoint is damaged or incomplete.")
    written_by = version.decode(errors="replace")
    if written_by != __version__:
        raise CheckpointError(
            f"The checkpoint was written by hyfdca {written_by}, and this is "
            f"{__version__}; finish the study with that version, or restart it."
        )
    return body


def _digest(body: bytes) -> bytes:
    return xxhash.xxh3_128_digest(body)


# Values that msgpack does not support, taken apart and put together


def _pairs(items: dict[Any, Any]) -> Iterable[Any]:
    for pair in items.items():
        yield from pair


def _dict(*parts: Any) -> dict[Any, Any]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _number_bytes(number: Any) -> tuple[bytes]:
    number = int(number)
    size = number.bit_length() // 8 + 1
    return (number.to_bytes(size, "little", signed=True),)


def _number(content: bytes) -> int:
    return int.from_bytes(content, "little", signed=True)


def _scalar(kind: type[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (
        lambda scalar: (scalar.tobytes(),),
        lambda content: np.frombuffer(content, kind)[0],
    )


_FORMS: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {
    int: (_number_bytes, _number),
    mpz: (_number_bytes, lambda content: mpz(_number(content))),
    list: (iter, lambda *items: list(items)),
    tuple: (iter, lambda *items: items),
    set: (iter, lambda *items: set(items)),
    frozenset: (iter, lambda *items: frozenset(items)),
    dict: (_pairs, _dict),
    deque: (lambda d: (d.maxlen, *d), lambda most, *items: deque(items, most)),
    slice: (lambda s: (s.start, s.stop, s.step), slice),
    **{kind: _scalar(kind) for kind in (np.bool_, np.int64, np.float64)},
}
_BY_NAME = {kind.__name__: form[1] for kind, form in _FORMS.items()}


def _fields(kind: type) -> list[str]:
    """Return the fields of a dataclass or message, in order."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    names: tuple[str, ...] = getattr(kind, "__struct_fields__")  # noqa: B009
    return list(names)


def _is_record(kind: Any) -> bool:
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return is_struct or (isinstance(kind, type) and dataclasses.is_dataclass(kind))


class _Writer:
    """Writes values as lists that begin with the name of their kind."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._arrays: list[AnyArray] = []  # seen ones, so that no id is reused

    def node(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN or (kind is int and _LEAST <= value <= _MOST):
            return value
        if kind is np.ndarray:
            return self._array(value)
        if kind in _FORMS:
            return [kind.__name__, *map(self.node, _FORMS[kind][0](value))]
        if _is_record(kind):
            members = (getattr(value, name) for name in _fields(kind))
            return [kind.__name__, *map(self.node, members)]
        raise TypeError(f"no checkpoint can have a {kind.__name__} in it")

    def _array(self, array: AnyArray) -> list[Any]:
        if id(array) in self._seen:
            return ["same", self._seen[id(array)]]
        self._seen[id(array)] = len(self._arrays)
        self._arrays.append(array)
        if _is_repeated(array):
            return ["repeated", len(array), *self._content(array[:1])]
        return ["array", *self._content(array)]

    def _content(self, array: AnyArray) -> list[Any]:
        """Return dtype, shape, order of the axes in memory, and content.

        Sums and products of reals depend on the order in memory, in their last bits.
        """
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        flat = np.ascontiguousarray(array.transpose(axes)).reshape(-1)
        facts = [array.dtype.str, list(array.shape), axes]
        if array.dtype.hasobject:
            return [*facts, list(map(self.node, flat.tolist()))]
        if array.dtype.kind not in _ARRAY_KINDS:
            raise TypeError(f"no checkpoint can have an array of {array.dtype} in it")
        return [*facts, flat.view(np.uint8).data]


def _is_repeated(array: AnyArray) -> bool:
    """Whether one row in memory represents all rows, so that it cannot be changed."""
    if array.ndim == 0 or array.flags.writeable or len(array) < 2:
        return False
    return array.strides[0] == 0


class _Reader:
    """Reads what a writer wrote; raises some exception on anything else.

    Nothing is made larger than the bytes available.
    """

    def __init__(self, classes: dict[str, type]) -> None:
        self._classes = classes
        self._arrays: list[AnyArray] = []

    def value(self, node: Any) -> Any:
        kind = type(node)
        if kind in _PLAIN or kind is int:
            return node
        if kind is not list:
            raise ValueError(f"no value is written as a {kind.__name__}")
        name, *parts = node
        if name == "same":
            return self._arrays[parts[0]]
        if name in ("array", "repeated"):
            return self._array(name, parts)
        if name in _BY_NAME:
            return _BY_NAME[name](*map(self.value, parts))
        return self._record(self._classes[name], [self.value(part) for part in parts])

    def _record(self, kind: type, members: list[Any]) -> Any:
        hints = _hints(kind)
        for name, member in zip(_fields(kind), members, strict=True):
            if not _fits(member, hints[name]):
                raise ValueError(f"{name} of {kind.__name__} has the wrong type")
        return kind(*members)

    def _array(self, name: str, parts: list[Any]) -> AnyArray:
        place = len(self._arrays)
        self._arrays.append(_NOTHING)  # arrays inside it come after it
        if name == "repeated":
            n_rows, *parts = parts
            row = self._content(*parts)
            array = np.broadcast_to(row, (n_rows, *row.shape[1:]))
        else:
            array = self._content(*parts)
        self._arrays[place] = array
        return array

    def _content(
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
            raise ValueError(f"no checkpoint has an array of {dtype} in it")
        if min(shape, default=0) < 0 or math.prod(shape) != len(flat):
            raise ValueError(f"{len(flat)} numbers do not fill the shape {shape}")
        in_memory = flat.reshape([shape[axis] for axis in axes])
        return in_memory.transpose(np.argsort(axes))


_NOTHING = np.empty(0)


# Types: the classes that a state may contain, and whether a value has its type


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@lru_cache
def _classes_of(kind: Hashable) -> dict[str, type]:
    """Return a state's class and all dataclasses and messages in its fields."""
    found: dict[str, type] = {}
    waiting: list[Any] = [kind]
    while waiting:
        hint = waiting.pop()
        if _is_record(hint):
            if found.setdefault(hint.__name__, hint) is not hint:
                raise TypeError(f"two classes of a state are named {hint.__name__}")
            waiting += [h for h in _hints(hint).values() if h not in found.values()]
        elif get_origin(hint) is not np.ndarray:
            waiting += get_args(hint)
    return found


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of the type that a field is annotated with."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _fits_dtype(value, arguments[1])
    if not isinstance(value, origin or hint):
        return False
    if origin in (list, set, frozenset, deque):
        return all(_fits(one, arguments[0]) for one in value)
    if origin is dict:
        key, item = arguments
        return all(_fits(k, key) and _fits(v, item) for k, v in value.items())
    return origin is not tuple or _fits_tuple(value, arguments)


def _fits_dtype(array: AnyArray, hint: Any) -> bool:
    [scalar] = get_args(hint)
    return scalar is Any or array.dtype == np.dtype(scalar)


def _fits_tuple(value: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 2 and hints[1] is Ellipsis:
        return all(_fits(one, hints[0]) for one in value)
    return len(value) == len(hints) and all(map(_fits, value, hints))
