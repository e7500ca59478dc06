"""Organisations brought together in one process: aligned, then scaled.

Each organisation's block is made from its own table and what it was told; nothing is
pooled. They talk as they would between machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from hyfdca.algorithms.cells import owned_cells
from hyfdca.algorithms.problem import Block
from hyfdca.algorithms.scaling import (
    Missing,
    Scale,
    Scaling,
    ScalingClient,
    ScalingServer,
)
from hyfdca.layout import Layout, append_bias, with_bias
from hyfdca.losses import FloatArray
from hyfdca.partition import Holding, Partition
from hyfdca.protocol.aligned_table import AlignedTable
from hyfdca.protocol.alignment import Alignment, AlignmentServer
from hyfdca.protocol.alignment_checks import AlignmentError
from hyfdca.protocol.alignment_client import AlignmentClient
from hyfdca.protocol.alignment_messages import AlignmentSettings
from hyfdca.protocol.client import ClientSession
from hyfdca.protocol.server import ServerSession
from hyfdca.runtimes.driver import Traffic
from hyfdca.runtimes.inprocess import InProcess
from hyfdca.secrecy import Secrecy
from hyfdca.tables import Table

# The conversations before training have their own sessions.
_ALIGNING, _SCALING = b"aligning", b"scaling:"


class StudyError(ValueError):
    """A study that cannot be run; the message is one plain sentence."""


@dataclass(frozen=True)
class Member:
    """An organisation and its table."""

    name: str
    table: Table


@dataclass(frozen=True)
class Consortium:
    """Who holds what of which problem.

    Parameters
    ----------
    alignment : Alignment
        What the server knows.
    tables : tuple of AlignedTable
        What each organisation knows: its own table, in the study's order.
    """

    names: tuple[str, ...]
    alignment: Alignment = field(repr=False)
    tables: tuple[AlignedTable, ...] = field(repr=False)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, in the order of the partition."""
        return self.alignment.features

    @property
    def classes(self) -> tuple[str, ...]:
        """Empty for regression; negative and positive class where there are two."""
        return self.alignment.classes

    @property
    def labelled(self) -> tuple[bool, ...]:
        """Which organisations have labels."""
        return self.alignment.layout.labelled

    @property
    def labels(self) -> tuple[FloatArray | None, ...]:
        """Labels of the samples held, (samples held, n_outputs), by organisation."""
        return tuple(table.labels for table in self.tables)

    @cached_property
    def partition(self) -> Partition:
        """Each organisation's samples and features."""
        samples, features = (
            self.alignment.layout.samples,
            self.alignment.layout.features,
        )
        holdings = map(Holding, samples.items, features.items)
        return Partition(samples.n_items, features.n_items, tuple(holdings))

    def layout(self, bias: bool) -> Layout:
        """Return the layout, with the bias as last feature if there is one."""
        return with_bias(self.alignment.layout) if bias else self.alignment.layout


def align(
    members: Sequence[Member],
    settings: AlignmentSettings,
    secrecy: Secrecy,
    traffic: Traffic,
) -> Consortium:
    """Match rows by ID and columns by name; adds the cost to ``traffic``.

    The outcome does not depend on the keys.

    Raises
    ------
    StudyError
        If the tables make no study; ``protocol.alignment_checks`` has all reasons.
    """
    names = tuple(member.name for member in members)
    clients = [
        AlignmentClient(member.table, secrecy.alignment_keys(k), settings)
        for k, member in enumerate(members)
    ]
    driver = InProcess(
        {k: ClientSession(_ALIGNING, c.phases) for k, c in enumerate(clients)}
    )
    server = AlignmentServer(names, settings, ServerSession(_ALIGNING))
    try:
        alignment = driver.run(server.run(), traffic)
    except AlignmentError as error:
        raise StudyError(str(error)) from None
    return Consortium(names, alignment, tuple(client.aligned for client in clients))


def scaled_blocks(
    consortium: Consortium,
    scale: Scale,
    missing: Missing,
    bias: float | None,
    secrecy: Secrecy,
    traffic: Traffic,
) -> tuple[list[Block], Scaling]:
    """Scale each organisation's own cells, after the exchange of sums that needs.

    Adds the cost of the exchange to ``traffic``.
    """
    cells = [owned_cells(table.own, table.cells) for table in consortium.tables]
    for name, own in zip(consortium.names, cells, strict=True):
        if scale == "standard" and not own.is_dense:
            raise StudyError(
                f'Organisation {name!r} has a sparse table, which scale = "standard" '
                'would fill because it centres features; use scale = "maxabs".'
            )
    clients = [
        ScalingClient(own, scale, missing, secrecy.sealers(k))
        for k, own in enumerate(cells)
    ]
    sessions = {k: ClientSession(_SCALING, c.phases) for k, c in enumerate(clients)}
    driver, session = InProcess(sessions), ServerSession(_SCALING)
    layout = consortium.alignment.layout
    n_samples = layout.samples.n_items
    server = ScalingServer(layout.features, n_samples, secrecy.adders(), session)
    driver.run(server.run(scale, missing), traffic)
    blocks = [
        _block(table, client.scaling.apply(own.stored), bias)
        for table, client, own in zip(consortium.tables, clients, cells, strict=True)
    ]
    return blocks, driver.run(server.release(), traffic)


def _block(table: AlignedTable, X: sp.csr_array, bias: float | None) -> Block:
    """Return an organisation's block, from what it knows itself."""
    counted = table.counts_feature
    if bias is not None and table.counts_sample.any():
        X = append_bias(X, table.counts_sample, bias)
        counted = np.append(counted, table.counts_bias)
    return Block(X, table.labels, table.counts_sample, counted)
