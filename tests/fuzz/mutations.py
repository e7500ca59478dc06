"""Changes to bytes, to texts, and to the structure of messages and files."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

INTEGERS = (0, 1, -1, 2, 255, 2**16, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1)
REALS = (
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 5e-324, 2.0**-900, 2.0**900),
    *(1e20, -1e20, 1e100, 1e150, -1e150, 1e300, -1e300, 1.7976931348623157e308),
)
_OTHERS = (None, True, False, "", "x", b"", [], [[]], {}, {"a": 1}, 7, -1.5, [0] * 9)
_LONG = 3000  # characters or items of something long
_SHORT = 300  # characters of something that may become long

# Beginnings of MessagePack that promise more than there is, or nest.
_PROMISES = (
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"),
    *(b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\x91" * 1200),
)


# Bytes


def changed_bytes(content: bytes, random: Random) -> bytes:
    """Return bytes with one change, or a few."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        content = random.choice(_BYTE_CHANGES)(content, random)
    return content


def _place(content: bytes, random: Random) -> int:
    # The beginning says what follows, so it is changed more often.
    end = random.choice((8, 32, len(content) + 1))
    return random.randrange(min(end, len(content) + 1))


def _flip(content: bytes, random: Random) -> bytes:
    if not content:
        return content
    place = min(_place(content, random), len(content) - 1)
    flipped = content[place] ^ (1 << random.randrange(8))
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def _overwrite(content: bytes, random: Random) -> bytes:
    number = random.choice(INTEGERS)
    form, new = random.choice(("<I", "<Q", ">I", ">Q", "<d")), b""
    if form == "<d":
        new = struct.pack(form, random.choice(REALS))
    else:
        new = struct.pack(form, number % 2 ** (32 if form[1] == "I" else 64))
    place = _place(content, random) // len(new) * len(new)
    return content[:place] + new + content[place + len(new) :]


def _cut(content: bytes, random: Random) -> bytes:
    place = _place(content, random)
    return random.choice((content[:place], content[place:]))


def _remove(content: bytes, random: Random) -> bytes:
    place, size = _place(content, random), random.choice((1, 4, 8, 24))
    return content[:place] + content[place + size :]


def _insert(content: bytes, random: Random) -> bytes:
    place = _place(content, random)
    size = random.choice((1, 3, 4, 8, 24, 1000))
    return content[:place] + random.randbytes(size) + content[place:]


def _repeat(content: bytes, random: Random) -> bytes:
    place, size = _place(content, random), random.choice((1, 8, 24, len(content)))
    return content[:place] + content[place : place + size] * 2 + content[place:]


def _empty(content: bytes, random: Random) -> bytes:
    return b""


def _zeros(content: bytes, random: Random) -> bytes:
    return bytes(len(content))


_BYTE_CHANGES: Sequence[Callable[[bytes, Random], bytes]] = (
    *(_flip, _flip, _overwrite, _overwrite, _cut, _remove, _insert, _repeat),
    *(_empty, _zeros),
)


# Structure


def changed_tree(tree: Any, random: Random) -> Any:
    """Return a tree of lists, dictionaries and values with something changed in it."""
    return _changed_at(tree, list(_paths(tree)), random)


def _changed_at(tree: Any, paths: Sequence[tuple[Any, ...]], random: Random) -> Any:
    """Return a tree changed at one of its paths or at a few."""
    for more in reversed(range(random.choice((1, 1, 1, 2, 3)))):
        tree = _with(tree, random.choice(paths), lambda old: _changed(old, random))
        paths = list(_paths(tree)) if more else paths
    return tree


@lru_cache(maxsize=16)
def _parsed(body: bytes) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return the tree of a message and its paths; many cases change the same one."""
    tree = msgspec.msgpack.decode(body)
    return tree, list(_paths(tree))


def _paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = tree.items() if isinstance(tree, dict) else ()
    inner = enumerate(tree) if isinstance(tree, list) else inner
    for key, part in inner:
        yield from _paths(part, (*path, key))


def _with(tree: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(tree)
    copy = tree.copy()
    copy[path[0]] = _with(tree[path[0]], path[1:], change)
    return copy


def _changed(value: Any, random: Random) -> Any:
    if random.random() < 0.1:
        return random.choice(_OTHERS)
    if isinstance(value, bytes):
        return changed_bytes(value, random)
    if isinstance(value, list | dict):
        return _changed_parts(value, random)
    if isinstance(value, str):
        return changed_text(value, random)
    return _changed_number(value, random)


def _changed_number(value: Any, random: Random) -> Any:
    numbers = [*INTEGERS, 2**64 - 1, -(2**31), -(2**63)]
    if isinstance(value, float):
        numbers = [*REALS, value * 2, -value, value + 1]
    elif isinstance(value, int):
        numbers += [value + 1, value - 1, -value, not value]
    return random.choice(numbers)


def _changed_parts(value: Any, random: Random) -> Any:
    """Drop, repeat, add or swap parts of a list or a dictionary."""
    if isinstance(value, dict):
        pairs = _changed_parts(list(value.items()), random)
        return dict(pair for pair in pairs if isinstance(pair, tuple))
    how = random.randrange(6)
    place = random.randrange(len(value) + 1)
    if how == 0:
        return value[:place] + value[place + 1 :]
    if how == 1:
        return value[:place] + value[place : place + 1] * 2 + value[place + 1 :]
    if how == 2:
        return [*value[:place], random.choice(_OTHERS), *value[place:]]
    if how == 3:
        return random.sample(value, len(value))
    is_short = len(repr(value)) < _SHORT
    return [] if how == 4 else value * (random.choice((2, _LONG)) if is_short else 2)


def changed_text(text: str, random: Random) -> str:
    """Return a text with something changed in it."""
    place = random.randrange(len(text) + 1)
    piece = random.choice(
        ("\0", "\n", '"', "'", ",", ";", "=", "{", "[", "../", "é", "\ud7ff", "1e999")
    )
    options = (
        text[:place],
        text[:place] + piece + text[place:],
        text[:place] + piece + text[place + 1 :],
        text + text,
        text * (_LONG // (len(text) + 1) + 1),
        str(random.choice((*INTEGERS, *REALS))),
    )
    return random.choice(options)


# Messages and files


def changed_message(body: bytes, random: Random) -> bytes:
    """Return the body of a message with its structure or its bytes changed."""
    how = random.random()
    if how < 0.25:
        return changed_bytes(body, random)
    if how < 0.28:
        place = _place(body, random)
        return body[:place] + random.choice(_PROMISES) + body[place:]
    tree = _changed_at(*_parsed(body), random)
    try:
        return msgspec.msgpack.encode(tree)
    except (OverflowError, msgspec.MsgspecError):  # no MessagePack has this number
        return changed_bytes(body, random)
