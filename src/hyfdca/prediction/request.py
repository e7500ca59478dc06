"""What an asker signs, so that no server can forge or change its request."""

from __future__ import annotations

import hashlib

from hyfdca.arrays import TokenArray
from hyfdca.crypto.keys.encoding import pack_fields
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster
from hyfdca.prediction import messages as p
from hyfdca.protocol.codec import RemoteProtocolError, pack_tokens, unpack_tokens

_STATEMENT = b"hyfdca prediction 1"


def signed_request(
    identity: Identity,
    roster: Roster,
    model: bytes,
    nonce: bytes,
    rows: tuple[int, TokenArray],
) -> p.Asked:
    """Return a signed request; ``rows`` are outputs per row and pseudonyms."""
    n_outputs, pseudonyms = rows
    packed = pack_tokens(pseudonyms)
    rank = roster.rank_of(identity.public)
    statement = _statement(roster, rank, (model, nonce, packed), n_outputs)
    return p.Asked(model, nonce, n_outputs, packed, identity.sign(statement))


def checked_pseudonyms(request: p.ConsiderRequest, roster: Roster) -> TokenArray:
    """Return the pseudonyms of the requested rows, (n, 2), if the asker signed them.

    Raises
    ------
    RemoteProtocolError
        If it did not: the server has forged or changed the request.
    """
    if request.asker >= len(roster.entries):
        raise RemoteProtocolError(
            f"Rank {request.asker} is not on this client's roster of "
            f"{len(roster.entries)} organisations."
        )
    name, public = roster.entries[request.asker]
    said = (request.model, request.nonce, request.pseudonyms)
    statement = _statement(roster, request.asker, said, request.n_outputs)
    if not public.has_signed(request.signature, statement):
        raise RemoteProtocolError(
            f"Organisation {name!r} did not sign this request for predictions; the "
            "server may have changed it, so it is refused."
        )
    tokens = unpack_tokens(request.pseudonyms)
    if len(tokens) % 2:
        raise RemoteProtocolError("a pseudonym is truncated")
    return tokens.reshape(-1, 2)


def _statement(
    roster: Roster,
    asker: int,
    said: tuple[bytes, bytes, memoryview],
    n_outputs: int,
) -> bytes:
    """Return what is signed: who asks whom, in which study, for what, with a nonce."""
    model, nonce, pseudonyms = said
    return pack_fields(
        _STATEMENT,
        roster.study_hash,
        roster.hash,
        b"%d" % roster.epoch,
        roster.entries[asker].name.encode(),
        model,
        nonce,
        b"%d" % n_outputs,
        hashlib.sha256(pseudonyms).digest(),
    )
