"""Seeded mutations of a good file: bits, lengths, pieces, and values of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from hyfdca.maths.seeds import stream
from tests.support.thoroughness import examples

_DEEP = 100_000  # brackets in each other, far beyond any limit of recursion
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 1e400, "", "\0", "x" * 5000, "\ud800"),
    *([], {}, [[]], ["a"], {"a": 1}, "2020-01-01T00:00:00", "2020-01-01T00:00:00Z"),
)


def spoilt(content: bytes, n_cases: int, *names: str) -> Iterator[bytes]:
    """Yield spoilt copies of a file, the same for the same names.

    A fifth of the cases, or all with ``make thorough``.
    """
    yield from _always(content)
    random = stream(0, "spoilt", *names)
    kinds = [_flipped, _cut, _pieced, _filled, _revalued]
    for case in range(examples(n_cases)):
        yield kinds[case % len(kinds)](content, random)


def _always(content: bytes) -> Iterator[bytes]:
    """Yield files that are worth trying whatever is drawn."""
    yield from (
        b"",
        b"\0",
        b"\xff" * 64,
        content + content,
        content[: len(content) // 2],
    )
    yield b"[" * _DEEP
    yield b'{"a":' * _DEEP
    yield b"\x91" * _DEEP  # lists of one, in MessagePack


def _flipped(content: bytes, random: np.random.Generator) -> bytes:
    bits = bytearray(content)
    for place in random.integers(8 * len(content), size=random.integers(1, 4)):
        bits[place // 8] ^= 1 << place % 8
    return bytes(bits)


def _cut(content: bytes, random: np.random.Generator) -> bytes:
    return content[: random.integers(len(content))]


def _pieced(content: bytes, random: np.random.Generator) -> bytes:
    """Return a file with a piece of it somewhere else."""
    start, stop, place = sorted(random.integers(len(content) + 1, size=3))
    return content[:start] + content[stop:place] + content[start:]


def _filled(content: bytes, random: np.random.Generator) -> bytes:
    start, n_lost, n_new = random.integers((len(content), 9, 9))
    return content[:start] + random.bytes(n_new) + content[start + n_lost :]


def _revalued(content: bytes, random: np.random.Generator) -> bytes:
    """Return a JSON file with another value somewhere; others lose their end."""
    try:
        tree = json.loads(content)
    except ValueError:
        return _cut(content, random)
    places = list(_places(tree))
    new = _VALUES[random.integers(len(_VALUES))]
    if not places:
        return json.dumps(new).encode()
    node, key = places[random.integers(len(places))]
    if random.random() < 0.2:
        del node[key]
    else:
        node[key] = new
    return json.dumps(tree).encode()


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = ()
    if isinstance(tree, dict):
        keys = list(tree)
    elif isinstance(tree, list):
        keys = range(len(tree))
    for key in keys:
        yield tree, key
        yield from _places(tree[key])
