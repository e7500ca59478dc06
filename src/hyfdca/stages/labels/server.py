"""Labels and weights, the server's half: it passes them on, and reads nothing.

It comes after the alignment, for clients with labels, and only if there is something
to do: labels that some holders lack and others have, or weights.

| phase         | down                            | up                              |
|---------------|---------------------------------|---------------------------------|
| arrange       | schemes, owner groups of rows   | -                               |
| give labels   | rows whose label others lack    | labels, weights and offsets     |
| take labels   | those that the client lacks     | -                               |
| weight bound  | -                               | a power of two above its total  |
| weigh rows    | a grid                          | sums of weights, by class       |
| weight totals | these sums over all clients     | -                               |

Labels travel as a sum by sample to which exactly one holder contributes: the first that
has the label. The bound is asked for only if the study has weights; of counts, the
number of rows is one.
"""

from __future__ import annotations

import numpy as np

from hyfdca.crypto.schemes.arrangement import Arrangement, opaque_groups
from hyfdca.crypto.schemes.fixedpoint import grid_for
from hyfdca.crypto.schemes.registry import Adders, Use
from hyfdca.data.targets import TargetSettings
from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.federation.sums import RunningSum, layout_for, sum_of
from hyfdca.holdings.axis import owner_groups
from hyfdca.protocol.codec import pack_indices
from hyfdca.protocol.messages import GridSpec, Message, Part
from hyfdca.protocol.sessions import Conversation, ServerSession
from hyfdca.stages.alignment.server import Alignment
from hyfdca.stages.labels import messages as m
from hyfdca.stages.labels.whole_numbers import width_of


class LabelServer:
    """Has every client with labels learn what it lacks."""

    def __init__(
        self,
        alignment: Alignment,
        settings: TargetSettings,
        adders: Adders,
        session: ServerSession,
    ) -> None:
        self._samples, self._blanks = alignment.layout.samples, alignment.blanks
        self._settings, self._adders, self._session = settings, adders, session
        labelled = np.flatnonzero(alignment.layout.labelled)
        self._clients: list[int] = labelled.tolist()
        self._width = width_of(settings.n_columns)
        n_classes = len(alignment.classes)
        self._n_totals = n_classes if settings.is_balanced else 1
        self._groups = opaque_groups(
            owner_groups(self._samples), adders.group_secret, "labelled samples"
        )

    def run(self) -> Conversation[None]:
        """Exchange what is needed; every client then knows its labels and weights."""
        if not self._blanks and not self._settings.needs_totals:
            return
        self._pick()
        notices = {client: self._arrangements(client) for client in self._clients}
        yield from self._session.tell("arrange", notices)
        if self._blanks:
            yield from self._fill()
        if self._settings.needs_totals:
            yield from self._weigh()

    def _pick(self) -> None:
        """Choose the schemes."""
        n_given = sum(len(own) for own in self._blanks.giving)
        share = n_given / max(self._samples.n_items, 1)
        by_sample = Use(Arrangement(self._groups), self._width, share)
        n_summands = len(self._clients)
        totals = Use(Arrangement.together(1), self._n_totals, n_summands=n_summands)
        self._sample_scheme = self._adders.pick(by_sample)
        self._total_scheme = self._adders.pick(totals)

    def _arrangements(self, client: int) -> Arrangements:
        groups = pack_indices(self._groups[self._samples.items[client]])
        samples, totals = self._sample_scheme, self._total_scheme
        return Arrangements(samples, totals, totals, groups, None)

    def _fill(self) -> Conversation[None]:
        """Bring labels from the clients that have them to those that lack them."""
        giving, lacking = self._blanks.giving, self._blanks.lacking
        requests = {
            client: m.GiveRequest(pack_indices(giving[client]))
            for client in self._clients
            if len(giving[client])
        }
        parts = yield from self._session.ask("give labels", requests, Part)
        adder = self._adders.named(self._sample_scheme)
        layout = layout_for(self._samples, self._groups, self._width, adder)
        given = RunningSum(layout)
        for client, part in parts.items():
            given.add(client, part.vector, giving[client])
        notices = {
            client: m.LabelsNotice(given.take(client, lacking[client]))
            for client in self._clients
            if len(lacking[client])
        }
        yield from self._session.tell("take labels", notices)

    def _weigh(self) -> Conversation[None]:
        """Add up the weights of all rows."""
        bound = float(self._samples.n_items)
        everyone = dict.fromkeys(self._clients, Message())
        if self._settings.has_weights:
            replies = yield from self._session.ask(
                "weight bound", everyone, m.WeightBound
            )
            bound = max(reply.total for reply in replies.values())
        n_summands, bits = len(self._clients), self._adders.encryption.sum_bits
        grid = grid_for(bound, n_summands, bits)
        request = GridRequest(GridSpec(grid.fraction_bits, grid.limit_bits))
        parts = yield from self._session.ask(
            "weigh rows", dict.fromkeys(self._clients, request), Part
        )
        vectors = [part.vector for part in parts.values()]
        adder = self._adders.named(self._total_scheme)
        totals = sum_of(vectors, self._n_totals, adder)
        notices = dict.fromkeys(self._clients, m.TotalsNotice(totals))
        yield from self._session.tell("weight totals", notices)
