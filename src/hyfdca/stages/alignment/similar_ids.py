"""IDs that differ only in how they are written: counted before rows are placed.

If two clients share fewer rows than they could, they are asked for pseudonyms of their
IDs in a form without leading zeros, capitals, blanks and the like. If many more of
these are equal, the tables were meant to match but did not. Both clients are then asked
for single forms, which gives the reason. The server sees how many IDs would match, but
not to which rows they belong. For large tables, a sample of the IDs is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import IntArray, TokenArray
from hyfdca.crypto.keys.pseudonyms import AlignmentKeys, form_pseudonyms
from hyfdca.data.id_forms import ID_FORMS, IdForm, sampled
from hyfdca.holdings.axis import Axis, shared_counts
from hyfdca.protocol.codec import RemoteProtocolError, pack_tokens
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.matching import match, unpack_pseudonyms

_MANY = 0.05  # of the rows of the smaller table: more matches than that are suspicious
_ENOUGH = 1 << 13  # IDs of the smallest table that are compared
_NUMBERS = {form: number for number, form in enumerate(ID_FORMS)}
_PLAIN: IdForm = "as it is"
_ANY: IdForm = "any"
_SINGLE_FORMS: list[IdForm] = [form for form in ID_FORMS if form not in (_PLAIN, _ANY)]


@dataclass(frozen=True)
class SimilarIds:
    """Two clients whose IDs would match if they were written alike.

    Parameters
    ----------
    pair : tuple of int
    n_rows : int
        Rows of the smaller table.
    n_shared : int
        Rows that they share.
    n_similar : int
        Further rows that they would share; an estimate if ``is_estimate``.
    reasons : tuple of str
        The forms in which many IDs match; empty if several forms are needed at once.
    """

    pair: tuple[int, int]
    n_rows: int
    n_shared: int
    n_similar: int
    is_estimate: bool
    reasons: tuple[IdForm, ...]


class ShownForms:
    """What a client has shown of its IDs in simpler forms.

    A server asks for one sample, and for each form once. Further samples would say
    more about each ID than that it is in one.
    """

    def __init__(self) -> None:
        self._every: int | None = None
        self._forms: set[IdForm] = set()

    def answer(
        self, ids: Sequence[str], request: m.IdFormsRequest, keys: AlignmentKeys
    ) -> m.IdForms:
        """Return a client's answer: its IDs in each form, as pseudonyms.

        Raises
        ------
        RemoteProtocolError
            If it was asked for another sample before, or for one of the forms.
        """
        forms = [*self._forms, *request.forms]
        if self._every not in (None, request.every) or len(set(forms)) < len(forms):
            raise RemoteProtocolError(
                "IDs in a simpler form are asked for twice, or of another sample"
            )
        self._every, self._forms = request.every, set(forms)
        chosen = list(sampled(ids, request.every, keys.samples))
        shown = (
            form_pseudonyms(map(ID_FORMS[form], chosen), _NUMBERS[form], keys)
            for form in request.forms
        )
        return m.IdForms(list(map(pack_tokens, shown)))


def find_similar_ids(
    rows: Axis, session: ServerSession
) -> Conversation[SimilarIds | None]:
    """Return the pair of clients with the most similar IDs, if there are many."""
    shared = shared_counts(rows)
    suspects = _suspects(shared)
    if not len(suspects):
        return None
    ask = _Asking(session, np.diag(shared), _every(np.diag(shared)[suspects]))
    plain, simple = yield from ask.counts(suspects, [_PLAIN, _ANY])
    places, n_similar = _most_similar(plain, simple)
    if not n_similar:
        return None
    pair = suspects[list(places)]
    singles = yield from ask.counts(pair, _SINGLE_FORMS)
    found = [int(count[0, 1] - plain[places]) for count in singles]
    many = int(_many(np.diag(plain))[places])
    a, b = pair.tolist()
    return SimilarIds(
        pair=(a, b),
        n_rows=int(min(shared[a, a], shared[b, b])),
        n_shared=int(shared[a, b]),
        n_similar=n_similar * ask.every,
        is_estimate=ask.every > 1,
        reasons=_reasons(found, n_similar, many),
    )


def _most_similar(plain: IntArray, simple: IntArray) -> tuple[tuple[int, int], int]:
    """Return a pair of clients and how many more IDs match; 0 if no pair has many.

    Parameters
    ----------
    plain, simple : arrays (clients, clients)
        Matches of IDs as they are and in a simpler form.
    """
    similar = np.triu(simple - plain, 1)
    similar[similar < _many(np.diag(plain))] = 0
    first, second = divmod(int(similar.argmax()), len(similar))
    return (first, second), int(similar[first, second])


def _many(sizes: IntArray) -> IntArray:
    """Return how many further matches of two tables are suspicious, by their sizes."""
    share = np.ceil(_MANY * np.minimum.outer(sizes, sizes))
    return np.asarray(np.maximum(share, 1), dtype=np.int64)


def _suspects(shared: IntArray) -> IntArray:
    """Return the clients that could share many more rows with another one."""
    sizes = np.diag(shared)
    is_open = shared + _many(sizes) <= np.minimum.outer(sizes, sizes)
    np.fill_diagonal(is_open, val=False)
    return np.flatnonzero(is_open.any(axis=0))


def _every(sizes: IntArray) -> int:
    """Return the sampling rate, one in this many IDs; a power of two."""
    return 1 << max((int(sizes.min()) // _ENOUGH).bit_length() - 1, 0)


def _reasons(found: Sequence[int], n_similar: int, many: int) -> tuple[IdForm, ...]:
    """Return the one form that makes all similar IDs match, or those that match many.

    Parameters
    ----------
    found : sequence of int
        Further matches in each single form.
    """
    each = list(zip(_SINGLE_FORMS, found, strict=True))
    complete = [form for form, count in each if count >= n_similar]
    return tuple(complete[:1] or [form for form, count in each if count >= many])


@dataclass(frozen=True)
class _Asking:
    """Asks clients for forms of their IDs.

    Parameters
    ----------
    sizes : array (clients,)
        How many rows each client has.
    every : int
        One in this many IDs is compared.
    """

    session: ServerSession
    sizes: IntArray
    every: int

    def counts(
        self, clients: IntArray, forms: list[IdForm]
    ) -> Conversation[list[IntArray]]:
        """Return how many IDs match in each form, (clients, clients)."""
        asked = dict.fromkeys(clients.tolist(), m.IdFormsRequest(self.every, forms))
        replies = yield from self.session.ask("id forms", asked, m.IdForms)
        shown: dict[int, list[TokenArray]] = {}
        for client, reply in replies.items():
            with reply_of(client):
                shown[client] = self._checked(client, reply, len(forms))
        return [
            shared_counts(match({c: own[place] for c, own in shown.items()}).axis)
            for place in range(len(forms))
        ]

    def _checked(self, client: int, reply: m.IdForms, n_forms: int) -> list[TokenArray]:
        """Return a client's pseudonyms in each form."""
        if len(reply.pseudonyms) != n_forms:
            raise RemoteProtocolError("it left out a form of its IDs")
        if any(len(own) > 16 * self.sizes[client] for own in reply.pseudonyms):
            raise RemoteProtocolError("it has more IDs than rows")
        return list(map(unpack_pseudonyms, reply.pseudonyms))
