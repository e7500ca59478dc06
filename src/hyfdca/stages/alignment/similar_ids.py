"""IDs that differ only in how they are written: counted before rows are placed.

If two clients share fewer rows than they could, they are asked for pseudonyms of their
IDs in a form without leading zeros, capitals, blanks and the like. If many more of
these are equal, the tables were meant to meet and did not. Both clients are then asked
for single forms, which gives the reason. The server sees how many IDs would match, but
not of which rows they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.crypto.keys.pseudonyms import AlignmentKeys, form_pseudonyms
from hyfdca.data.id_forms import ID_FORMS, IdForm
from hyfdca.holdings.axis import Axis, shared_counts
from hyfdca.protocol.codec import RemoteProtocolError, pack_tokens
from hyfdca.protocol.sessions import Conversation, ServerSession
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.matching import match, unpack_pseudonyms

_MANY = 0.05  # of the rows of the smaller table: more matches than that are suspicious
_NUMBERS = {form: number for number, form in enumerate(ID_FORMS)}
_SINGLE_FORMS: list[IdForm] = [form for form in ID_FORMS if form != "any"]


@dataclass(frozen=True)
class SimilarIds:
    """Two clients whose IDs would match if they were written alike.

    Parameters
    ----------
    pair : tuple of int
    n_rows : int
        Of the smaller table.
    n_shared : int
        Rows that they share.
    n_similar : int
        Further rows that they would share.
    reasons : tuple of str
        The forms in which many IDs match; empty if it takes several of them at once.
    """

    pair: tuple[int, int]
    n_rows: int
    n_shared: int
    n_similar: int
    reasons: tuple[IdForm, ...]


def answer_id_forms(
    ids: Sequence[str], request: m.IdFormsRequest, keys: AlignmentKeys
) -> m.IdForms:
    """Return a client's answer: its IDs in each form, as pseudonyms."""
    return m.IdForms(
        [
            pack_tokens(form_pseudonyms(map(ID_FORMS[f], ids), _NUMBERS[f], keys))
            for f in request.forms
        ]
    )


def find_similar_ids(
    rows: Axis, session: ServerSession
) -> Conversation[SimilarIds | None]:
    """Return the pair of clients with the most similar IDs, if it has many."""
    sharing = _Sharing(shared_counts(rows))
    clients = sharing.suspects
    if not len(clients):
        return None
    (counts,) = yield from _counts(clients, sharing.sizes, ["any"], session)
    pair, n_similar = sharing.most_similar(clients, counts)
    if not n_similar:
        return None
    singles = yield from _counts(np.array(pair), sharing.sizes, _SINGLE_FORMS, session)
    n_shared = int(sharing.shared[pair])
    found: dict[IdForm, int] = {
        form: int(count[0, 1]) - n_shared
        for form, count in zip(_SINGLE_FORMS, singles, strict=True)
    }
    reasons = _reasons(found, n_similar, int(sharing.many[pair]))
    return SimilarIds(pair, int(sharing.fewer[pair]), n_shared, n_similar, reasons)


@dataclass(frozen=True)
class _Sharing:
    """How many rows each two clients share; all arrays are (clients, clients)."""

    shared: IntArray

    @property
    def sizes(self) -> IntArray:
        """How many rows each client has, (clients,)."""
        return np.diag(self.shared)

    @property
    def fewer(self) -> IntArray:
        """The rows of the smaller of two tables."""
        return np.asarray(np.minimum.outer(self.sizes, self.sizes))

    @property
    def many(self) -> IntArray:
        """How many further matches would be suspicious."""
        return np.asarray(np.maximum(np.ceil(_MANY * self.fewer), 1), dtype=np.int64)

    @property
    def is_open(self) -> BoolArray:
        """Whether two clients could share many more rows; each pair once."""
        return np.asarray(np.triu(self.shared + self.many <= self.fewer, 1))

    @property
    def suspects(self) -> IntArray:
        """The clients of such pairs."""
        is_open = self.is_open
        return np.flatnonzero((is_open | is_open.T).any(axis=0))

    def most_similar(
        self, clients: IntArray, counts: IntArray
    ) -> tuple[tuple[int, int], int]:
        """Return a pair and its further matches; 0 if no pair has many.

        Parameters
        ----------
        counts : array (some clients, some clients)
            Matches in a simpler form, of ``clients`` only.
        """
        among = np.ix_(clients, clients)
        similar = np.where(self.is_open[among], counts - self.shared[among], 0)
        similar[similar < self.many[among]] = 0
        first, second = divmod(int(similar.argmax()), len(clients))
        pair = int(clients[first]), int(clients[second])
        return pair, int(similar[first, second])


def _reasons(found: dict[IdForm, int], n_similar: int, many: int) -> tuple[IdForm, ...]:
    """Return the form that alone makes all similar IDs match, or those with many."""
    complete = [form for form, count in found.items() if count >= n_similar]
    return tuple(
        complete[:1] or [form for form, count in found.items() if count >= many]
    )


def _counts(
    clients: IntArray, sizes: IntArray, forms: list[IdForm], session: ServerSession
) -> Conversation[list[IntArray]]:
    """Return how many IDs match in each form, (clients, clients)."""
    asked = dict.fromkeys(clients.tolist(), m.IdFormsRequest(forms))
    replies = yield from session.ask("id forms", asked, m.IdForms)
    for client, reply in replies.items():
        if len(reply.pseudonyms) != len(forms):
            raise RemoteProtocolError(f"client {client} left out a form of its IDs")
        if any(len(own) > 16 * sizes[client] for own in reply.pseudonyms):
            raise RemoteProtocolError(f"client {client} has more IDs than rows")
    each = zip(*(reply.pseudonyms for reply in replies.values()), strict=True)
    return [
        shared_counts(match(list(map(unpack_pseudonyms, own))).axis) for own in each
    ]
