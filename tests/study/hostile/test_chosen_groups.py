"""A server that divides rows or features which have the same holders.

A server can leave an owner group out of a sealed sum, with its check row. If it chose
the groups, it would leave out all but one row, whose score and class the sums of a test
then tell, or all but one feature, whose slope the Gram matrix then tells.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from hyfdca.protocol.codec import RemoteProtocolError
from tests.support.durable_runs import Consortium, write
from tests.support.liars import framed, unframed

VICTIM, ITEM = 1, 2
STUDY = {"encryption": '"stream"', "tol": "1e-2", "algorithm": '"bundle"'}
HOLDOUT = {"holdout": "0.4", "salt": '"b"', "min_bin": "2"}


class EndedError(Exception):
    """The server has what it wanted, or was refused."""


def alone(part, n_items, width=1):
    """Return a sum of ``stream`` with one item of a member's part, and its check row.

    Each item is a group, so that as many check rows follow.
    """
    is_there = np.isin(np.arange(2 * n_items), [ITEM, n_items + ITEM])
    words = np.frombuffer(part[24:], "<u8").reshape(2 * n_items, width)
    lists = np.ones(2 * n_items, "u1").tobytes() + is_there.astype("u1").tobytes()
    head = struct.pack("<IIIBB", 1, 2 * n_items, 1, 1, 1) + bytes(part[:24])
    return head + lists + (words * is_there[:, None].astype("<u8")).tobytes()


class Divided:
    """A member whose items are divided, each a group."""

    def __init__(self, member):
        self.member, self.refusal = member, ""

    def __getattr__(self, name):
        return getattr(self.member, name)

    def handle(self, stage, phase, payload):
        """Answer a request; ask for groups of the server's choice."""
        token, number, content = unframed(payload)
        if phase == "arrange held-out":
            return self._arranged(stage, phase, token, number, rows_apart(content))
        if (stage, phase) == ("training", "arrange"):
            return self._arranged(stage, phase, token, number, features_apart(content))
        reply = self.member.handle(stage, phase, payload)
        if phase == "held-out parts":
            owners, vectors = unframed(reply)[2]
            bits, part = vectors[owners.index(VICTIM)]
            n_rows = (len(part) - 24) // 16
            asked = framed(token, number + 1, [[[bits, alone(part, n_rows)]]])
            self.member.handle(stage, "held-out scores", asked)
            raise EndedError
        return reply

    def _arranged(self, stage, phase, token, number, changed):
        try:
            return self.member.handle(stage, phase, framed(token, number, changed))
        except RemoteProtocolError as error:
            self.refusal = str(error)
            raise EndedError from None


def numbers(size):
    """Return as many different groups, as they travel."""
    return np.arange(size, dtype="<u4").tobytes()


def rows_apart(content):
    """Return an arrangement of rows set aside, each a group."""
    return [*content[:2], numbers(len(content[2]) // 4), *content[3:]]


def features_apart(content):
    """Return an arrangement of features, each a group with the holders it has."""
    groups = np.frombuffer(content[3], "<u4")
    holders = dict(zip(np.unique(groups).tolist(), content[5], strict=True))
    owners = [holders[group] for group in groups.tolist()]
    return [*content[:3], numbers(len(groups)), content[4], owners, *content[6:]]


@pytest.mark.parametrize(("what", "more"), [("features", {}), ("rows", HOLDOUT)])
def test_items_with_the_same_holders_stay_together(what, more, tmp_path, monkeypatch):
    """Their groups are those of the alignment."""
    consortium = Consortium(write(tmp_path, **STUDY, **more))
    members = consortium.network._members
    divided = members[VICTIM] = Divided(members[VICTIM])
    if what == "rows":  # so that the study gets that far
        monkeypatch.setitem(globals(), "features_apart", lambda content: content)
    with pytest.raises(EndedError):
        consortium.tested()
    assert divided.refusal == f"{what} have other groups than when aligned"
