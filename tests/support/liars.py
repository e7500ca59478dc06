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
