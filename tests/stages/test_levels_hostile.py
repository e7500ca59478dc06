"""Levels with parties that break the protocol: refused, and nothing changed."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices
from hyfdca.protocol.messages import GridSpec, Message, Part, Sealed
from hyfdca.stages.levels import messages as m
from tests.stages.level_meetings import LevelMeeting, table_with

TABLES = [
    table_with(range(8), ward=["a"] * 3 + ["b"] * 3 + ["c", "d"], floor=["x"] * 8),
    table_with(range(6, 14), ward=["c", "d"] + ["e"] * 3 + ["f"] * 3),
]
PLAIN = Encryption("none")


def numbers(*values):
    return pack_indices(np.array(values, dtype=np.int64))


def changed(**changes):
    return lambda reply: msgspec.structs.replace(reply, **changes)


def first_token_twice(reply):
    return changed(tokens=bytes(reply.tokens[:16]) * 5)(reply)


def in_the_other_column(reply):
    """Return the tokens of both columns, as if they were of other ones."""
    return changed(n_levels=numbers(4, 3))(reply)


def named(names, reference="b", has_other=True):
    own = m.ColumnLevels(names, reference, has_other)
    return lambda _: m.LevelNames([own])


TOKENS, KEPT, NAMES = (
    ("level tokens", m.LevelTokens),
    ("keep levels", m.KeptLevels),
    ("level names", m.LevelNames),
)
HOSTILE = {
    "fewer columns": (TOKENS, changed(n_levels=numbers())),
    "fewer tokens": (TOKENS, lambda r: changed(tokens=r.tokens[:-16])(r)),
    "cut token": (TOKENS, lambda r: changed(tokens=r.tokens[:-8])(r)),
    "cut word": (TOKENS, lambda r: changed(tokens=r.tokens[:-1])(r)),
    "huge count": (TOKENS, changed(n_levels=numbers(2**32 - 1))),
    "token twice": (TOKENS, first_token_twice),
    "no message": (TOKENS, lambda _: Message()),
    "wrong part": (("level counts", Part), lambda _: Part(Sealed(0, b"\0" * 5))),
    "other width": (KEPT, changed(widths=numbers(1))),
    "too wide": (KEPT, changed(widths=numbers(2**31))),
    "no widths": (KEPT, changed(widths=numbers())),
    "fewer names": (NAMES, named([])),
    "no columns": (NAMES, lambda _: m.LevelNames([])),
    "long name": (NAMES, named(["x" * 1001, None, None])),
    "other names": (NAMES, named(["x", "y", "z"])),
    "no other": (NAMES, named([None, None, None], has_other=False)),
    "nothing named": (NAMES, named([None, None, None], None)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_replies(case):
    """A reply that breaks the protocol, or is not what others find, is refused."""
    (phase, kind), change = HOSTILE[case]
    meeting = LevelMeeting(TABLES, m.LevelSettings(3))
    meeting.wires[1].tamper[phase] = (kind, change)
    with pytest.raises(RemoteProtocolError):
        meeting.run()


def test_tokens_of_another_column():
    """A token stands for one column only."""
    tables = [TABLES[0], table_with(range(8, 16), floor=["x"] * 8, ward=["a", "b"] * 4)]
    meeting = LevelMeeting(tables)
    meeting.wires[0].tamper["level tokens"] = (m.LevelTokens, in_the_other_column)
    with pytest.raises(RemoteProtocolError, match="name different levels"):
        meeting.run()


# Servers that break the protocol

# Of a blank cell and four wards, one after the other, then of a blank cell and a floor
PLACES = numbers(0, 1, 2, 3, 4, 0, 1)


def client_after(*phases):
    """Return the handlers of a client after some phases of a good server."""
    meeting = LevelMeeting(TABLES[:1], m.LevelSettings(3), encryption=PLAIN)
    handlers = meeting.clients[0].handlers
    good = {
        "level tokens": Message(),
        "level union": m.UnionNotice(numbers(6, 2), PLACES),
        "arrange": Arrangements("none", "none", None, numbers(*[0] * 8)),
        "level counts": GridRequest(GridSpec(0, 40)),
    }
    for phase in phases:
        handlers[phase](good[phase])
    return meeting.clients[0], handlers


UNION = ("level tokens",)
COUNTS = ("level tokens", "level union", "arrange")
KEEP = (*COUNTS, "level counts")


def counts(*values):
    payload = np.array(values, "<i8").tobytes()
    return m.CountsNotice([Sealed(0, payload)])


BAD_REQUESTS = {
    "fewer sizes": (UNION, "level union", m.UnionNotice(numbers(6), PLACES)),
    "fewer places": (UNION, "level union", m.UnionNotice(numbers(6, 2), numbers(0))),
    "same place": (
        UNION,
        "level union",
        m.UnionNotice(numbers(6, 2), numbers(0, 0, 1, 2, 3, 0, 1)),
    ),
    "place beyond": (
        UNION,
        "level union",
        m.UnionNotice(numbers(4, 2), PLACES),
    ),
    "too many": (
        UNION,
        "level union",
        m.UnionNotice(numbers(2**22 - 1, 2**22 - 1), PLACES),
    ),
    "arranged first": (
        UNION,
        "arrange",
        Arrangements("none", "none"),
    ),
    "counted first": (UNION, "level counts", GridRequest(GridSpec(0, 40))),
    "other scheme": (
        (*UNION, "level union"),
        "arrange",
        Arrangements("bfv", "bfv", None, numbers(*[0] * 8)),
    ),
    "too fine": (COUNTS, "level counts", GridRequest(GridSpec(60, 61))),
    "fewer counts": (KEEP, "keep levels", counts(9, 9, 9, 9, 9, 9, 9)),
    "below one's own": (KEEP, "keep levels", counts(9, 9, 9, 9, 9, 9, 7, 7)),
    "no counts": (KEEP, "keep levels", m.CountsNotice([])),
    "fractions": (
        KEEP,
        "keep levels",
        m.CountsNotice([Sealed(1, np.full(8, 99, "<i8").tobytes())]),
    ),
    "named first": (KEEP, "level names", Message()),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_bad_requests(case):
    """A client refuses what does not fit its table, and knows no levels then."""
    phases, phase, request = BAD_REQUESTS[case]
    client, handlers = client_after(*phases)
    with pytest.raises(RemoteProtocolError):
        handlers[phase](request)
    with pytest.raises(RemoteProtocolError, match="have not been chosen yet"):
        _ = client.expansion


def test_good_requests():
    """The same client answers requests that do fit."""
    client, handlers = client_after(*KEEP)
    handlers["keep levels"](counts(9, 9, 9, 9, 9, 9, 8, 8))
    assert client.expansion.widths.tolist() == [5, 1]


def test_names_are_not_given_against_the_study():
    """A client whose study does not release names refuses to."""
    meeting = LevelMeeting(TABLES, m.LevelSettings(3, releases_names=False))
    meeting.run()
    with pytest.raises(RemoteProtocolError, match="does not release names"):
        meeting.clients[0].handlers["level names"](Message())
