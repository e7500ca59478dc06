"""Organisations with blank labels, weights and offsets, and an oracle that sees all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.utils import compute_class_weight

from hyfdca.crypto.schemes.registry import (
    Adders,
    Encryption,
    public_parameters,
)
from hyfdca.data.tables import Table
from hyfdca.data.targets import SampleLosses, TargetSettings
from hyfdca.protocol.client_session import ClientSession
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from hyfdca.stages.alignment.messages import AlignmentSettings
from hyfdca.stages.labels.client import label_client
from hyfdca.stages.labels.messages import PHASES
from hyfdca.stages.labels.server import LabelServer
from tests.stages.alignment.alignments import (
    TOKEN,
    Meeting,
    Wire,
    label_of,
    make_table,
    numbered,
)
from tests.support.holding_strategies import overlapping_holdings
from tests.support.sealed_runs import keys_of
from tests.support.set_keys import sealers_of

N_SAMPLES, N_FEATURES = 8, 3
PLAIN = Encryption("none")


def weight_of(sample: int) -> float:
    return 0.0 if sample == 3 else 0.1 + sample / 3


def offset_of(sample: int) -> float:
    return math.sin(sample)


def number_of(sample: int) -> float:
    """Return the label of a regression."""
    return math.exp(sample / 7) * (-1) ** sample


@dataclass(frozen=True)
class Labelled:
    """An organisation that knows the labels of some rows; None if it has none."""

    rows: list[int]
    columns: list[int]
    known: list[int] | None

    def table(self, targets: TargetSettings, task: str) -> Table:
        """Return its table, with nonsense where it does not know a label."""
        table = make_table(self.rows, self.columns, self.known is not None)
        if self.known is None:
            return table
        text = label_of if task == "classification" else (lambda s: repr(number_of(s)))
        known = [row in self.known for row in self.rows]
        labels = (text(r) if k else "" for r, k in zip(self.rows, known, strict=True))
        table = replace(table, labels=tuple(labels))
        weights = np.where(known, [weight_of(row) for row in self.rows], np.nan)
        offsets = np.where(known, [offset_of(row) for row in self.rows], np.nan)
        return replace(
            table,
            weights=weights if targets.has_weights else None,
            offsets=offsets if targets.has_offsets else None,
        )


@st.composite
def label_consortia(draw):
    """Draw who holds and knows what; the last two samples are known to the last."""
    holdings = draw(overlapping_holdings(N_SAMPLES, N_FEATURES, max_clients=3))
    ends = [N_SAMPLES - 2, N_SAMPLES - 1]
    held = []
    for rows, columns in holdings:
        every = draw(st.permutations(sorted({*rows, *ends})))
        known = draw(st.none() | st.lists(st.sampled_from(every), unique=True))
        held.append(Labelled(every, columns, known))
    last = held[-1]
    known = sorted({*(last.known or []), *ends})
    return [*held[:-1], replace(last, known=known)]


@dataclass
class LabelMeeting:
    """Organisations that are aligned, and then share labels."""

    held: Sequence[Labelled]
    targets: TargetSettings = field(default_factory=TargetSettings)
    encryption: Encryption = PLAIN
    task: Any = "classification"

    def __post_init__(self) -> None:
        self.targets = replace(self.targets, labels_visible=True)
        settings = AlignmentSettings(
            self.task, allow_unshared=True, targets=self.targets
        )
        tables = [own.table(self.targets, self.task) for own in self.held]
        self.meeting = Meeting(tables, settings)
        self.alignment = self.meeting.run()
        keys = keys_of(self.encryption)
        self.adders = Adders(self.encryption, public_parameters(keys))
        n_clients = len(self.held)
        self.clients = [
            label_client(
                client.aligned,
                self.targets,
                sealers_of(self.encryption, keys, rank, n_clients),
            )
            for rank, client in enumerate(self.meeting.clients)
        ]
        self.wires = [
            Wire(ClientSession(TOKEN, PHASES, client.handlers))
            for client in self.clients
        ]
        self.traffic = Traffic()

    def run(self) -> list[SampleLosses]:
        """Return what the losses of each client's samples are."""
        session = ServerSession(TOKEN, PHASES)
        server = LabelServer(self.alignment, self.targets, self.adders, session)
        InProcess(dict(enumerate(self.wires))).run(server.run(), self.traffic)
        return [client.losses for client in self.clients]

    # The oracle

    @property
    def kept(self) -> list[int]:
        """The samples that remain, in the study's order."""
        known = {row for own in self.held for row in own.known or []}
        if self.targets.has_weights:
            known = {row for row in known if weight_of(row) > 0.0}
        return [
            row for row in numbered([own.rows for own in self.held]) if row in known
        ]

    def rows_of(self, client: int) -> list[int]:
        """Return the samples of a client that remain, in the study's order."""
        own = set(self.held[client].rows)
        return [row for row in self.kept if row in own]

    def weights(self) -> dict[int, float]:
        """Return the wanted weight of each sample."""
        kept, classes = self.kept, ("healthy", "unwell")
        own = [weight_of(row) if self.targets.has_weights else 1.0 for row in kept]
        total = math.fsum(own)
        by_class = dict.fromkeys(classes, 1.0)
        if self.targets.class_weight is not None:
            found = compute_class_weight(
                self.targets.class_weight,
                classes=np.array(classes),
                y=[label_of(row) for row in kept],
                sample_weight=own,
            )
            by_class = dict(zip(classes, found, strict=True))
        return {
            row: by_class[label_of(row)] * weight * len(kept) / total
            for row, weight in zip(kept, own, strict=True)
        }
