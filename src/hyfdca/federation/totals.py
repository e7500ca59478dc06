"""The server's totals: who opens them, who vouches, and whether the two agree."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import numpy as np

from hyfdca.arrays import FloatArray, IntArray
from hyfdca.crypto.schemes.fixedpoint import decode
from hyfdca.crypto.schemes.registry import Adders, Encryption
from hyfdca.crypto.schemes.stream_sums import NONCE_BYTES, parse_sum
from hyfdca.federation import messages as m
from hyfdca.federation.sealing.vouching import N_TAGS, SEED_BYTES, combinations
from hyfdca.federation.sums import UNREADABLE, unreadable
from hyfdca.protocol.codec import RemoteProtocolError, pack_indices, unpack_numbers
from hyfdca.protocol.messages import Message, Sealed, SealedTotals, Sums
from hyfdca.protocol.server_session import INVALID, BadReplyError, blaming

T = TypeVar("T")
_ONE_ROW = slice(0, 1)


@dataclass(frozen=True)
class Openers:
    """Who opens the next totals, and who vouches for that.

    Parameters
    ----------
    witness : int or None
        None where there is nobody else, or nothing is sealed.
    seed : bytes
        The seed, which the opener is not sent.
    """

    opener: int
    witness: int | None = None
    seed: bytes = b""

    @property
    def known(self) -> tuple[int, ...]:
        """The clients to blame if they contradict each other."""
        return (self.opener,) if self.witness is None else (self.opener, self.witness)


def openers_among(present: Sequence[int], adders: Adders, number: int) -> Openers:
    """Return the lowest-ranked of the clients present, and the next as its witness.

    The seed follows from the server's secret and the number of the last request, so
    that a server which repeats replies that it has saved checks them alike.
    """
    opener, *others = sorted(present)
    if not others or adders.encryption.totals == "none":
        return Openers(opener)
    drawn = hashlib.blake2b(
        number.to_bytes(8, "little"),
        key=adders.group_secret,
        digest_size=SEED_BYTES,
        person=b"hyfdca vouching",
    )
    return Openers(opener, others[0], drawn.digest())


@dataclass(frozen=True)
class Total:
    """A sum of totals that is about to be opened.

    Parameters
    ----------
    sums : Sums
        Sealed to the opener.
    shape : (int, int)
        The shape of the numbers as they are returned.
    rows : (int, int)
        Rows that were summed separately, and the numbers in each.
    tags : Sums
        Sealed to the witness.
    nonce : bytes
        The nonce of the opener's own part; empty if it has none.
    senders : tuple of int
        The clients whose parts are in it.
    own_rows : array of int or None
        The rows of that part; None for the only one.
    """

    sums: Sums
    shape: tuple[int, int]
    rows: tuple[int, int]
    tags: Sums
    nonce: bytes
    senders: tuple[int, ...]
    own_rows: IntArray | None = None

    @property
    def size(self) -> int:
        """How many numbers are opened: those of all grids of the sum."""
        return len(self.sums) * self.rows[0] * self.rows[1]

    def numbers(self, opened: IntArray) -> list[IntArray]:
        """Return opened numbers by grid, (rows, numbers)."""
        return list(opened.reshape(len(self.sums), *self.rows))

    def reals(self, opened: IntArray) -> FloatArray:
        """Return the reals that opened numbers represent."""
        each = zip(self.sums, self.numbers(opened), strict=True)
        parts = [decode(numbers, vector.fraction_bits) for vector, numbers in each]
        return reduce(np.add, parts).reshape(self.shape)

    def check_range(self, opened: IntArray, sum_bits: int) -> None:
        """Refuse numbers that no sum can be."""
        if np.any(opened > 2**sum_bits) or np.any(opened < -(2**sum_bits)):
            raise RemoteProtocolError(
                "a total that it opened is beyond the range of its sum, so the "
                "total or a part is wrong"
            )

    def is_vouched_for(self, opened: IntArray, tags: IntArray, seed: bytes) -> bool:
        """Return whether sealed and opened numbers differ by the pads vouched for."""
        n_rows, width = self.rows
        [vector], [numbers] = self.sums, self.numbers(opened)
        words, _ = parse_sum(vector.payload, n_rows, width + 1)
        pads = words[:, :width] - numbers.view(np.uint64)
        return np.array_equal(combinations(pads, np.arange(n_rows), seed)[0], tags)


def summed(
    parts: Mapping[int, SealedTotals],
    shape: tuple[int, int],
    openers: Openers,
    adders: Adders,
    sums: Sums | None = None,
) -> Total:
    """Return the total of all clients' parts, which are one row each.

    Parameters
    ----------
    sums : Sums, optional
        The sums of the parts, where not every client has all numbers.
    """
    if sums is None:
        sums = sum_of(parts, math.prod(shape), adders)
    tags: Sums = []
    nonce = b""
    if openers.witness is not None:
        own = parts.get(openers.opener)
        nonce = b"" if own is None else bytes(own.payload[:NONCE_BYTES])
        others = {c: p for c, p in parts.items() if c != openers.opener}
        tags = _tags_of(others, adders)
    rows = (1, shape[0] * shape[1])
    return Total(sums, shape, rows, tags, nonce, tuple(parts))


def _tags_of(parts: Mapping[int, SealedTotals], adders: Adders) -> Sums:
    for client, part in parts.items():
        if part.tags is None:
            raise BadReplyError("", client, "its totals have no tags")
    tags = {c: Sealed(0, p.tags) for c, p in parts.items() if p.tags is not None}
    return sum_of(tags, N_TAGS, adders) if tags else []


def sum_of(parts: Mapping[int, Sealed], count: int, adders: Adders) -> Sums:
    """Add up vectors of ``count`` numbers, by client, that each has in full: totals."""
    if len({part.fraction_bits for part in parts.values()}) != 1:
        raise BadReplyError("", parts, "parts of one sum are on different grids")
    width, adder = count + adders.n_checks, adders.totals_adder
    total = adder.zeros((1, width))
    for client, part in parts.items():
        try:
            vector = adder.load(part.payload, (1, width))
        except UNREADABLE as error:
            raise unreadable(client, error) from None
        adder.add(total, _ONE_ROW, vector)
    return [Sealed(part.fraction_bits, adder.dump(total))]


def senders_of(totals: Sequence[Total]) -> set[int]:
    """Return the clients whose parts are in some of the totals."""
    return {client for total in totals for client in total.senders}


def requests_to_open(
    totals: Sequence[Total], openers: Openers, present: Set[int] | None
) -> dict[int, m.OpenRequest]:
    """Return the requests to the opener and the witness.

    It does not wait for an absent witness.
    """
    witness = openers.witness
    requests = {openers.opener: open_request(totals, openers)}
    if witness is not None and (present is None or witness in present):
        requests[witness] = vouch_request(totals, openers)
    return requests


def opened_totals(
    replies: Mapping[int, Message],
    totals: Sequence[Total],
    openers: Openers,
    encryption: Encryption,
) -> list[FloatArray]:
    """Return what totals were opened to, checked."""
    try:
        reply = of_kind(replies[openers.opener], m.Opened)
        opened = opened_by(reply, totals, encryption.sum_bits)
        if encryption.totals == "none":
            check_plain(reply, totals)
    except INVALID as error:
        raise blaming(error, openers.opener) from None
    witness = openers.witness
    if witness is not None and witness in replies:
        try:
            vouched = tags_of(of_kind(replies[witness], m.Vouched), totals)
        except INVALID as error:
            raise blaming(error, witness) from None
        check_vouched(vouched, totals, opened, openers)
    return [t.reals(own) for t, own in zip(totals, opened, strict=True)]


def open_request(totals: Sequence[Total], openers: Openers) -> m.OpenRequest:
    """Return the request to the opener."""
    shapes = [total.rows for total in totals]
    sums = [total.sums for total in totals]
    return m.OpenRequest(sums, shapes, openers.opener, openers.witness)


def vouch_request(totals: Sequence[Total], openers: Openers) -> m.OpenRequest:
    """Return the request to the witness."""
    return m.OpenRequest(
        [],
        [total.rows for total in totals],
        openers.opener,
        openers.witness,
        openers.seed,
        tuple(total.tags for total in totals),
        tuple(total.nonce for total in totals),
        tuple(pack_indices(total.own_rows) for total in totals),
    )


def opened_by(
    reply: m.Opened, totals: Sequence[Total], sum_bits: int
) -> list[IntArray]:
    """Return the opened numbers of each total, checked."""
    sizes = [total.size for total in totals]
    numbers = unpack_numbers(reply.values, sum(sizes))
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    for total, part in zip(totals, parts, strict=True):
        total.check_range(part, sum_bits)
    return parts


def check_plain(reply: m.Opened, totals: Sequence[Total]) -> None:
    """Refuse numbers that differ from those of unsealed sums."""
    sent = b"".join(vector.payload for total in totals for vector in total.sums)
    if reply.values != sent:
        raise RemoteProtocolError("it reports other totals than it was sent")


def tags_of(reply: m.Vouched, totals: Sequence[Total]) -> IntArray:
    """Return what the witness vouches for, (totals, N_TAGS)."""
    size = len(totals) * N_TAGS
    return unpack_numbers(reply.tags, size).reshape(len(totals), N_TAGS)


def check_vouched(
    vouched: IntArray,
    totals: Sequence[Total],
    opened: Sequence[IntArray],
    openers: Openers,
) -> None:
    """Compare what the opener reports with what the witness vouches for.

    Raises
    ------
    BadReplyError
        If they contradict each other. It names both first, then all other senders: a
        part or tags that one of these made up look the same.
    """
    for total, numbers, own in zip(totals, opened, vouched, strict=True):
        if not total.is_vouched_for(numbers, own, openers.seed):
            others = sorted(set(total.senders).difference(openers.known))
            raise BadReplyError(
                "",
                (*openers.known, *others),
                "the first opened totals that the second does not vouch for, so one "
                "of these two lies, or a part that was sent is wrong",
                is_final=True,
            )


def of_kind(reply: Message, kind: type[T]) -> T:
    """Return a reply of a kind, or raise ``RemoteProtocolError``."""
    if not isinstance(reply, kind):
        raise RemoteProtocolError(f"it is a {type(reply).__name__}")
    return reply
