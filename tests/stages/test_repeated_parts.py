"""A server that adds the same sealed vector several times, as check rows allow it.

Sums of vectors have the sums of their check rows, however often each vector is in them.
Where every holder gives one vector, as for the counts of levels, that is not enough: a
server that counts each row three times would have names of rare levels released.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.sealing.unopened import UNOPENED
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.stages.levels import messages as m
from tests.stages.level_meetings import LevelMeeting, table_with
from tests.support.liars import first_word, framed, unframed

TABLES = [
    table_with(range(8), ward=["a"] * 3 + ["b"] * 3 + ["c", "d"]),
    table_with(range(6, 14), ward=["c", "d"] + ["e"] * 3 + ["f"] * 3),
]
RARE = {"c", "d"}
HEAD = struct.Struct("<IIIBB")


def within_a_sum(sums):
    """Return each vector of ``stream`` three times, by its words and its lists."""
    return [[bits, _three_times(vector)] for bits, vector in sums]


def _three_times(vector):
    n_nonces, n_runs, depth, of_lengths, of_ids = HEAD.unpack_from(vector)
    start, n_bytes = first_word(vector), n_runs * depth * of_ids
    ids = np.frombuffer(vector[start - n_bytes : start], f"<u{of_ids}")
    listed = np.tile(ids.reshape(n_runs, depth), 3).tobytes()
    words = np.frombuffer(vector[start:], "<u8") * np.uint64(3)
    head = HEAD.pack(n_nonces, n_runs, 3 * depth, of_lengths, of_ids)
    return (
        head + vector[HEAD.size : start - n_bytes] + listed + words.astype("<u8").data
    )


def one_after_the_other(sums):
    """Return a sum of each vector three times."""
    return 3 * sums


def without_one(sums):
    """Return no vector."""
    return 0 * sums


class Repeated:
    """A member whose counts come back several times as large."""

    def __init__(self, wire, way):
        self._wire, self._way = wire, way

    def handle(self, phase, payload):
        """Answer a request."""
        if phase == "keep levels":
            token, number, [sums] = unframed(payload)
            payload = framed(token, number, [self._way(sums)])
        return self._wire.handle(phase, payload)


@pytest.mark.parametrize(
    ("scheme", "way"),
    [
        ("stream", within_a_sum),
        ("stream", one_after_the_other),
        ("stream", without_one),
        ("bfv", one_after_the_other),
    ],
)
def test_names_of_rare_levels_are_not_released(scheme, way):
    """Each holder's counts are in the sum once."""
    encryption = Encryption(scheme, small_vectors="same")
    meeting = LevelMeeting(TABLES, m.LevelSettings(3), encryption=encryption)
    for rank, wire in meeting.wires.items():
        meeting.wires[rank] = Repeated(wire, way)
    with pytest.raises(RemoteProtocolError, match=UNOPENED):
        meeting.run()
