"""Labels and weights, the server's half: it passes them on, and reads nothing.

It comes after the alignment, and only if there is something to do: labels that some
holders lack and others have, weights, or targets that are to be scaled. Each sum over
targets has the three phases bound, parts and total.

| phase         | who        | down                          | up                    |
|---------------|------------|-------------------------------|-----------------------|
| arrange       | all below  | schemes, owner groups of rows | -                     |
| give labels   | labelled   | rows whose label others lack  | labels, weights and   |
|               |            |                               | offsets of these rows |
| take labels   | labelled   | those that the client lacks   | -                     |
| weight bound  | labelled   | -                             | a power of two above  |
|               |            |                               | its total             |
| weigh rows    | labelled   | a grid                        | sums of weights, by   |
|               |            |                               | class                 |
| weight totals | labelled   | these sums over all clients   | -                     |
| target ...,   | labelled   | -; a grid; the sum over all   | a bound, its sum      |
| square ...    |            | clients                       |                       |
| target scaling| the first  | -                             | centre and scale, open|
| give weights  | labelled   | rows that clients without     | their weights         |
|               |            | labels hold                   |                       |
| take weights  | unlabelled | weights of all its rows       | -                     |

What is given travels as a sum by sample to which exactly one holder contributes: the
first that has the label, and for weights the one that is designated to count the loss.
The bound is requested only if the study has weights; for counts, the number of rows is
the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.crypto.schemes.fixedpoint import grid_for
from hyfdca.crypto.schemes.plain import PlainAdder
from hyfdca.crypto.schemes.registry import Adders, Use
from hyfdca.data.targets import TargetSettings
from hyfdca.federation.messages import Arrangements, GridRequest
from hyfdca.federation.owner_groups import OwnerGroups, by_sample
from hyfdca.federation.sums import RunningSum, check_grid, layout_for
from hyfdca.federation.totals import sum_of
from hyfdca.model.scaling import TargetScaling
from hyfdca.protocol.codec import pack_indices
from hyfdca.protocol.messages import GridSpec, Message, Part, Sums
from hyfdca.protocol.server_session import BadReplyError, Conversation, ServerSession
from hyfdca.stages.alignment.server import Alignment
from hyfdca.stages.labels import messages as m
from hyfdca.stages.labels.transfer import WHOLE_NUMBERS, width_of


class LabelServer:
    """Lets every client learn the labels and weights that it lacks."""

    def __init__(
        self,
        alignment: Alignment,
        settings: TargetSettings,
        adders: Adders,
        session: ServerSession,
    ) -> None:
        self._layout, self._blanks = alignment.layout, alignment.blanks
        self._samples = alignment.layout.samples
        self._settings, self._adders, self._session = settings, adders, session
        labelled = np.array(self._layout.labelled)
        self._labelled: list[int] = np.flatnonzero(labelled).tolist()
        self._lacking_weights = self._without_weights(
            np.flatnonzero(~labelled).tolist()
        )
        n_classes = len(alignment.classes)
        self._n_totals = n_classes if settings.is_balanced else 1

    @cached_property
    def _groups(self) -> OwnerGroups:
        secret = self._adders.group_secret
        return OwnerGroups(self._samples, secret, "labelled samples")

    def _without_weights(self, unlabelled: list[int]) -> list[int]:
        """Return the clients that must be sent the weights of their samples."""
        if not self._settings.is_weighted:
            return []
        return [client for client in unlabelled if len(self._samples.items[client])]

    def run(self) -> Conversation[TargetScaling]:
        """Exchange what is needed; every client then knows its labels and weights.

        Returns how targets are scaled.
        """
        needs_totals = self._settings.needs_totals
        is_scaled, target = self._settings.scaling != "none", TargetScaling()
        if not (self._blanks or needs_totals or self._lacking_weights or is_scaled):
            return target
        self._pick()
        everyone = sorted([*self._labelled, *self._lacking_weights])
        notices = {client: self._arrangements(client) for client in everyone}
        yield from self._session.tell("arrange", notices)
        if self._blanks:
            yield from self._bring_labels()
        if needs_totals:
            yield from self._weigh()
        if is_scaled:
            target = yield from self._scale_targets()
        if self._lacking_weights:
            yield from self._bring_weights()
        return target

    def _pick(self) -> None:
        """Choose the scheme of vectors by sample."""
        width = width_of(self._settings.n_columns)
        self._sample_scheme = self._adders.pick(Use(self._groups.arrangement, width))

    def _arrangements(self, client: int) -> Arrangements:
        notice = by_sample(self._sample_scheme, self._groups, client)
        if client not in self._labelled:
            return notice
        return msgspec.structs.replace(notice, totals_owners=tuple(self._labelled))

    def _bring_labels(self) -> Conversation[None]:
        """Pass labels from the clients that have them to those that lack them."""
        giving, lacking = self._blanks.giving, self._blanks.lacking
        n_columns = self._settings.n_columns
        given = yield from self._gather("give labels", giving, n_columns)
        notices = {
            client: m.LabelsNotice(given.take(client, lacking[client]))
            for client in self._labelled
            if len(lacking[client])
        }
        yield from self._session.tell("take labels", notices)

    def _bring_weights(self) -> Conversation[None]:
        """Pass the weights of samples to holders without labels."""
        is_wanted = self._samples.counts_among(self._lacking_weights) > 0
        giving = [
            np.flatnonzero(self._layout.counts_samples(client) & is_wanted[items])
            for client, items in enumerate(self._samples.items)
        ]
        given = yield from self._gather("give weights", giving, 1)
        notices = {
            client: m.WeightsNotice(given.take(client, None))
            for client in self._lacking_weights
        }
        yield from self._session.tell("take weights", notices)

    def _gather(
        self, phase: str, giving: Sequence[IntArray], n_columns: int
    ) -> Conversation[RunningSum]:
        """Ask clients for some of their rows; return the sum over all holders."""
        requests = {
            client: m.GiveRequest(pack_indices(rows))
            for client, rows in enumerate(giving)
            if len(rows)
        }
        parts = yield from self._session.ask(phase, requests, Part)
        adder = self._adders.named(self._sample_scheme)
        n_checks = 0 if isinstance(adder, PlainAdder) else 1  # in each row
        width = width_of(n_columns) + n_checks
        given = RunningSum(
            layout_for(self._samples, self._groups.numbers, width, adder)
        )
        for client, part in parts.items():
            check_grid(client, part.vector, WHOLE_NUMBERS.fraction_bits)
            given.add(client, part.vector, giving[client])
        return given

    def _weigh(self) -> Conversation[None]:
        """Add up the weights of all rows."""
        bound = yield from self._bound()
        totals = yield from self._sum("weigh rows", bound, self._n_totals)
        notice = m.TotalsNotice(totals)
        yield from self._session.tell("weight totals", self._ask_all(notice))

    def _bound(self) -> Conversation[float]:
        """Return a bound on the sum of any client's weights."""
        if not self._settings.has_weights:
            return float(self._samples.n_items)
        replies = yield from self._session.ask(
            "weight bound", self._ask_all(Message()), m.SumBound
        )
        return max(reply.total for reply in replies.values())

    def _scale_targets(self) -> Conversation[TargetScaling]:
        """Let clients find mean and deviation of all targets; return the scaling."""
        if self._settings.scaling == "centre":
            yield from self._add_up("target")
        yield from self._add_up("square")
        first = self._labelled[0]
        replies = yield from self._session.ask(
            "target scaling", {first: Message()}, m.TargetReleased
        )
        released = replies[first]
        if not released.scale > 0.0:
            raise BadReplyError("target scaling", first, "its scale is not positive")
        return TargetScaling(released.centre, released.scale)

    def _add_up(self, name: str) -> Conversation[None]:
        """Let clients learn a sum over the targets of all rows."""
        replies = yield from self._session.ask(
            f"{name} bound", self._ask_all(Message()), m.SumBound
        )
        bound = max(reply.total for reply in replies.values())
        total = m.TargetTotal((yield from self._sum(f"{name} parts", bound, 1)))
        yield from self._session.tell(f"{name} total", self._ask_all(total))

    def _sum(self, phase: str, bound: float, width: int) -> Conversation[Sums]:
        """Ask all clients with labels for their parts of a sum, which stays sealed."""
        n_summands, bits = len(self._labelled), self._adders.encryption.sum_bits
        grid = grid_for(bound, n_summands, bits)
        request = GridRequest(GridSpec(grid.fraction_bits, grid.limit_bits))
        parts = yield from self._session.ask(phase, self._ask_all(request), Part)
        vectors = {client: part.vector for client, part in parts.items()}
        for client, vector in vectors.items():
            check_grid(client, vector, grid.fraction_bits)
        return sum_of(vectors, width, self._adders)

    def _ask_all(self, message: Message) -> dict[int, Message]:
        return dict.fromkeys(self._labelled, message)
