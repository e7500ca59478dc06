"""Both ends of a conversation of numbers: a client that doubles them, and the wire."""

from __future__ import annotations

import struct

import msgspec
import xxhash
from hypothesis import strategies as st

from hyfdca.protocol.client_session import ClientSession, decode, frame, unframe
from hyfdca.protocol.messages import Message
from hyfdca.protocol.phases import Phase
from hyfdca.protocol.server_session import ServerSession

TOKEN = b"study--1"


class Numbers(Message, frozen=True):
    """A message of the tests' own."""

    values: list[float]


# In any order: what is refused in these tests is refused for another reason.
PHASES = {"double": Phase(Numbers, (Numbers,)), "note": Phase(Numbers)}


def make_session(**given):
    """Return the server's side."""
    return ServerSession(TOKEN, PHASES, **given)


def forged(body, number=1, token=TOKEN):
    """Return bytes whose digest is right, whatever is in them."""
    header = struct.pack("<8sQ", token, number)
    return header + xxhash.xxh3_128_digest(header + body) + body


def is_numbers(body):
    """Return whether bytes are one list of numbers in a list, by another decoder."""
    try:
        content = msgspec.msgpack.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    is_list = isinstance(content, list) and len(content) == 1
    return is_list and _are_numbers(content[0])


def _are_numbers(values):
    return isinstance(values, list) and all(type(v) in (int, float) for v in values)


def decoded(payload, kind):
    return decode(unframe(payload, TOKEN)[1], kind)


class Client:
    """A client session that doubles numbers, takes notes and counts its calls."""

    def __init__(self, token=TOKEN, after=0):
        self.calls = []
        handlers = {"double": self._double, "note": self._note}
        self.session = ClientSession(token, PHASES, handlers, after)

    def _double(self, request):
        self.calls.append(request.values)
        if not request.values:
            raise RuntimeError("nothing to double")
        if request.values == [0.0]:
            raise ZeroDivisionError("no half of nothing")
        return Numbers([2 * value for value in request.values])

    def _note(self, request):
        self.calls.append(request.values)

    def ask(self, number, *values, phase="double", token=TOKEN):
        """Send one request as bytes and return the bytes of the answer."""
        request = bytes(frame(token, number, Numbers(list(values))))
        return bytes(self.session.handle(phase, request))

    def works(self, number):
        """Answer whether a fresh request is answered as if nothing had happened."""
        reply = self.ask(number, 21.0)
        return decoded(reply, Numbers).values == [42.0] and self.calls[-1] == [21.0]


BODIES = st.binary(max_size=30) | st.builds(
    # Almost a request: a list of anything in a list, or a part of it
    lambda values, cut: msgspec.msgpack.encode([values])[:cut],
    st.lists(st.floats() | st.integers(-9, 9) | st.none(), max_size=3),
    st.integers(1, 40),
)
