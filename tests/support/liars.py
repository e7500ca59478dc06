"""Clients that lie on the wire, written from docs/protocol.md alone.

A liar stands between an honest client and the network: it decodes what the client
answers, changes it, and frames it again, with nothing of the library's code.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np
import xxhash

HEADER = struct.Struct("<8sQ")
BODY = HEADER.size + 16


def framed(token, number, content):
    """Return the bytes of a message: header, digest, MessagePack."""
    header, body = HEADER.pack(token, number), msgspec.msgpack.encode(content)
    return header + xxhash.xxh3_128_digest(header + body) + body


def unframed(payload):
    """Return the token, the number and the content of a message."""
    token, number = HEADER.unpack_from(payload)
    return token, number, msgspec.msgpack.decode(bytes(payload)[BODY:])


def times(payload, factor):
    """Return packed reals times a factor."""
    return (factor * np.frombuffer(payload, "<f8")).astype("<f8").tobytes()


def bits(flags):
    """Return flags as they travel."""
    return np.packbits(np.array(flags, bool)).tobytes()


def misplaced(content, rows, counts_all_cells=False, divides=False):
    """Return a placement by which a member counts these of its rows alone.

    Parameters
    ----------
    counts_all_cells : bool
        So that the placement is about labels alone.
    divides : bool
        Whether rows in different groups stay apart.
    """
    n_rows, n_columns = len(content[1]) // 4, len(content[2]) // 4
    is_own = np.isin(np.arange(n_rows), rows)
    divided = 2 * np.frombuffer(content[3], "<u4").astype(int) * divides + is_own
    _, first, groups = np.unique(divided, return_index=True, return_inverse=True)
    groups = np.argsort(np.argsort(first))[groups]  # numbered as they appear
    is_counted = is_own[np.sort(first)].tolist()
    owns = [[counts_all_cells or flag] for flag in is_counted]
    changed = list(content)
    changed[3] = groups.astype("<u4").tobytes()
    changed[4] = np.zeros(n_columns, "<u4").tobytes()
    changed[5:8] = [bits(owns), bits(is_counted), bits([True])]
    changed[8] &= bool(is_own.any())
    return changed


class Liar:
    """A client whose answers are changed before they are sent.

    Parameters
    ----------
    lies : mapping of str to callable
        By phase: what makes of the content of an honest answer a lie.
    blinds : mapping of str to callable
        By phase: what makes of a request one that the honest client does not refuse.
    """

    def __init__(self, honest, lies, blinds=None):
        self.honest, self._lies, self.n_lies = honest, lies, 0
        self._blinds = blinds or {}

    def handle(self, *asked):
        """Answer a request, of a stage or of the only one."""
        *stage, phase, payload = asked
        if phase in self._blinds:
            payload = self._changed(self._blinds[phase], payload)
        reply = self.honest.handle(*stage, phase, payload)
        if phase not in self._lies:
            return reply
        changed = self._changed(self._lies[phase], reply)
        self.n_lies += changed != reply
        return changed

    @staticmethod
    def _changed(change, payload):
        token, number, content = unframed(payload)
        return framed(token, number, change(content))

    def __getattr__(self, name):
        """Be the honest client in everything else."""
        return getattr(self.honest, name)


_SUM = struct.Struct("<IIIBB")  # nonces, runs, summands; bytes of a length, of an id
_NONCE = 24


def as_a_sum(part):
    """Return a client's vector of ``stream`` as a sum that has it alone."""
    n_words = (len(part) - _NONCE) // 8
    head = _SUM.pack(1, 1, 1, 4, 1) + bytes(part[:_NONCE])
    return head + struct.pack("<IB", n_words, 1) + bytes(part[_NONCE:])


def first_word(vector):
    """Return where the numbers of a sum of ``stream`` begin."""
    n_nonces, n_runs, depth, of_lengths, of_ids = _SUM.unpack_from(vector)
    listed = n_nonces * _NONCE + n_runs * (of_lengths + depth * of_ids)
    return _SUM.size + listed


def plus(vector, added):
    """Return a sum of ``stream`` with numbers added to some of its own, by place."""
    start = first_word(vector)
    words = np.frombuffer(vector[start:], "<u8").copy()
    for place, number in added.items():
        words[place] = (int(words[place]) + number) % 2**64
    return bytes(vector[:start]) + words.tobytes()
