"""A server that tries candidates for IDs: it asks for sample after sample of them.

It has no key. Which samples an ID is in would name it, if a server could compute the
same of a candidate: so it asks members of its own making, who have other keys.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from hyfdca.maths.seeds import stream
from hyfdca.protocol.client_session import frame
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.stages.alignment.messages import AlignmentSettings, IdFormsRequest
from tests.stages.alignment.alignments import (
    KEYS,
    OTHER_KEYS,
    TOKEN,
    Meeting,
    make_table,
)
from tests.support.liars import unframed

WATCHFUL = AlignmentSettings("classification", similar_ids="refuse")
SAMPLES = range(2, 120)
N_CANDIDATES, N_OWN = 60, 20


class Asked:
    """A member that a server asks for forms of its IDs."""

    def __init__(self, ids, keys):
        table = replace(make_table(list(range(len(ids))), [0]), ids=tuple(ids))
        self._tables, self._keys = [table], keys
        self.begin()

    def begin(self):
        """Begin the run again, which a server may do at any time."""
        self._wire = Meeting(self._tables, WATCHFUL, self._keys).wires[0]
        self._wire.handle("rows", frame(TOKEN, 1, Message()))
        self._number = 1

    def shown(self, every, *forms):
        """Return the pseudonyms of its IDs in each form."""
        self._number += 1
        request = frame(TOKEN, self._number, IdFormsRequest(every, list(forms)))
        [shown] = unframed(self._wire.handle("id forms", request))[2]
        return [{own[i : i + 16] for i in range(0, len(own), 16)} for own in shown]

    def samples(self):
        """Return in which samples each ID is, by its pseudonym."""
        found = defaultdict(set)
        for every in SAMPLES:
            self.begin()
            for pseudonym in self.shown(every, "as it is")[0]:
                found[pseudonym].add(every)
        self.begin()
        return {frozenset(found[one]) for one in self.shown(1, "as it is")[0]}


def test_samples_do_not_name_ids():
    """What samples an ID is in is another matter under keys that the server has."""
    letters = stream(3, "candidates").choice([*"abcdefghij"], (N_CANDIDATES, 9))
    candidates = ["".join(letters[row]) for row in range(N_CANDIDATES)]
    found = Asked(candidates[:N_OWN], KEYS).samples()
    named = [i for i in candidates if Asked([i], OTHER_KEYS).samples() <= found]
    n_right = len({*named} & {*candidates[:N_OWN]})
    assert n_right < N_OWN / 2  # as many as there are at random


@pytest.mark.parametrize(
    ("every", "form"), [(2, "leading zeros"), (3, "capitals"), (3, "any")]
)
def test_one_sample_is_shown_and_each_form_once(every, form):
    """An honest server asks for two forms, and then for the others of that sample."""
    asked = Asked([f"id-{row}" for row in range(40)], KEYS)
    with pytest.raises(RemoteProtocolError, match="twice, or of another sample"):
        asked.shown(3, "blanks or punctuation", "blanks or punctuation")
    asked.shown(3, "as it is", "any")
    asked.shown(3, "capitals")
    with pytest.raises(RemoteProtocolError, match="twice, or of another sample"):
        asked.shown(every, form)
    assert len(asked.shown(3, "leading zeros")) == 1
