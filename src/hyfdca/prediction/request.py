"""What parties of a prediction sign, so that no server can forge or change it."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from hyfdca.arrays import TokenArray
from hyfdca.crypto.keys.encoding import pack_fields
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.prediction import messages as p
from hyfdca.protocol.codec import RemoteProtocolError, pack_tokens, unpack_tokens


class Kind(NamedTuple):
    """A kind of signed statement: the bytes that begin it, and words for messages."""

    tag: bytes
    what: str


_REQUEST = Kind(b"hyfdca prediction 2", "this request for predictions")


def signed_request(
    identity: Identity,
    roster: Roster,
    model: bytes,
    nonce: bytes,
    rows: tuple[int, TokenArray],
    public: bytes = b"",
) -> p.Asked:
    """Return a signed request.

    Parameters
    ----------
    rows : (int, array)
        Outputs per row, and pseudonyms.
    public : bytes
        The public half of the key of the pseudonyms, if that key is the asker's alone.
    """
    n_outputs, pseudonyms = rows
    packed = pack_tokens(pseudonyms)
    rank = roster.rank_of(identity.public)
    said = _request_fields(model, nonce, n_outputs, packed, public)
    signature = identity.sign(statement(roster, rank, _REQUEST, *said))
    return p.Asked(model, nonce, n_outputs, packed, public, signature)


def checked_pseudonyms(request: p.ConsiderRequest, roster: Roster) -> TokenArray:
    """Return the pseudonyms of the requested rows, (n, 2), if the asker signed them.

    Raises
    ------
    RemoteProtocolError
        If it did not: the server has forged or changed the request.
    """
    said = _request_fields(
        request.model,
        request.nonce,
        request.n_outputs,
        request.pseudonyms,
        request.public,
    )
    check_signed(roster, request.asker, request.signature, _REQUEST, *said)
    tokens = unpack_tokens(request.pseudonyms)
    if len(tokens) % 2:
        raise RemoteProtocolError("a pseudonym is truncated")
    return tokens.reshape(-1, 2)


def _request_fields(
    model: bytes, nonce: bytes, n_outputs: int, pseudonyms: memoryview, public: bytes
) -> tuple[bytes, ...]:
    return model, nonce, b"%d" % n_outputs, digest(pseudonyms), public


def statement(roster: Roster, signer: int, kind: Kind, *said: bytes) -> bytes:
    """Return the bytes to sign: kind of statement, context, signer and content."""
    return pack_fields(
        kind.tag,
        roster.study_hash,
        roster.hash,
        b"%d" % roster.epoch,
        roster.entries[signer].name.encode(),
        *said,
    )


def check_signed(
    roster: Roster, signer: int, signature: bytes, kind: Kind, *said: bytes
) -> None:
    """Check that an organisation of the roster signed a statement.

    Raises
    ------
    RemoteProtocolError
        If it did not.
    """
    name, public = entry_of(roster, signer)
    if not public.has_signed(signature, statement(roster, signer, kind, *said)):
        raise RemoteProtocolError(
            f"Organisation {name!r} did not sign {kind.what}; the server may have "
            "changed it, so it is refused."
        )


def entry_of(roster: Roster, rank: int) -> RosterEntry:
    """Return an organisation of the roster by a rank that the server sent.

    Raises
    ------
    RemoteProtocolError
    """
    if rank >= len(roster.entries):
        raise RemoteProtocolError(
            f"Rank {rank} is not on this client's roster of "
            f"{len(roster.entries)} organisations."
        )
    return roster.entries[rank]


def digest(content: memoryview) -> bytes:
    """Return a short substitute for long contents in a statement."""
    return hashlib.sha256(content).digest()
