"""Organisations brought together: rows aligned by ID, columns by name, cells scaled.

Each organisation's block is made from its own table; nothing is pooled. In one process
IDs are compared as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

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
from hyfdca.axis import IntArray
from hyfdca.crypto.schemes import Adders, Encryption, Keys, Sealers, public_parameters
from hyfdca.layout import Layout, append_bias, layout_of
from hyfdca.losses import FloatArray
from hyfdca.partition import Partition, from_holdings
from hyfdca.protocol.client import ClientSession
from hyfdca.protocol.server import ServerSession
from hyfdca.runtimes.inprocess import InProcess, Traffic
from hyfdca.tables import Table

Task = Literal["classification", "regression"]

_TOKEN = b"scaling:"  # the conversation before training has its own sessions
_REST = "rest"  # what is not the positive label


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
    features : tuple of str
        Names of all features, in the order of the partition.
    tables : tuple of CSR arrays
        Each organisation's cells, in the order of its holding.
    labels : tuple of arrays (samples held, n_outputs), None without labels
    classes : tuple of str
        Empty for regression; negative and positive class where there are two.
    """

    names: tuple[str, ...]
    features: tuple[str, ...]
    partition: Partition = field(repr=False)
    labelled: tuple[bool, ...]
    tables: tuple[sp.csr_array, ...] = field(repr=False)
    labels: tuple[FloatArray | None, ...] = field(repr=False)
    classes: tuple[str, ...]

    def layout(self, bias: bool) -> Layout:
        """Return the layout, with the bias as last feature if there is one."""
        return layout_of(self.partition, self.labelled, bias)


def align(members: Sequence[Member], task: Task, positive: str | None) -> Consortium:
    """Match rows by ID and columns by name.

    Raises
    ------
    StudyError
        If labels disagree, are missing or make no task.
    """
    sample_number = _numbering(member.table.ids for member in members)
    feature_number = _numbering(member.table.features for member in members)
    rows = [_places(member.table.ids, sample_number) for member in members]
    columns = [_places(member.table.features, feature_number) for member in members]
    partition = from_holdings(
        len(sample_number), len(feature_number), zip(rows, columns, strict=True)
    )
    orders = list(zip(map(np.argsort, rows), map(np.argsort, columns), strict=True))
    texts = _agreed_labels(members, rows, len(sample_number))
    encoded, classes = _encode(texts, task, positive)
    labelled = tuple(member.table.labels is not None for member in members)
    held = zip(partition.holdings, labelled, strict=True)
    return Consortium(
        names=tuple(member.name for member in members),
        features=tuple(feature_number),
        partition=partition,
        labelled=labelled,
        tables=tuple(
            member.table.cells[by_row][:, by_column]
            for member, (by_row, by_column) in zip(members, orders, strict=True)
        ),
        labels=tuple(encoded[h.samples] if has else None for h, has in held),
        classes=classes,
    )


def scaled_blocks(
    consortium: Consortium,
    scale: Scale,
    missing: Missing,
    bias: float | None,
    secrecy: tuple[Encryption, Keys],
    traffic: Traffic,
) -> tuple[list[Block], Scaling]:
    """Scale each organisation's own cells, after the exchange of sums that needs.

    Adds the cost of the exchange to ``traffic``.
    """
    partition, (encryption, keys) = consortium.partition, secrecy
    cells = [
        owned_cells(partition.own_cells(k), t) for k, t in enumerate(consortium.tables)
    ]
    for name, own in zip(consortium.names, cells, strict=True):
        if scale == "standard" and not own.is_dense:
            raise StudyError(
                f'Organisation {name!r} has a sparse table, which scale = "standard" '
                'would fill because it centres features; use scale = "maxabs".'
            )
    sealers = Sealers(encryption, keys)
    clients = [ScalingClient(c, scale, missing, sealers) for c in cells]
    sessions = {k: ClientSession(_TOKEN, c.phases) for k, c in enumerate(clients)}
    driver, session = InProcess(sessions), ServerSession(_TOKEN)
    adders = Adders(encryption, public_parameters(keys))
    server = ScalingServer(partition.features, partition.n_samples, adders, session)
    driver.run(server.run(scale, missing), traffic)
    layout = consortium.layout(bias is not None)
    blocks = []
    for k, client in enumerate(clients):
        table, counted = client.scaling.apply(cells[k].stored), layout.counts_samples(k)
        blocks.append(
            Block(
                X=table if bias is None else append_bias(table, counted, bias),
                labels=consortium.labels[k],
                counts_sample=counted,
                counts_feature=layout.counts_features(k),
            )
        )
    return blocks, driver.run(server.release(), traffic)


def _numbering(lists: Iterable[Iterable[str]]) -> dict[str, int]:
    """Number what occurs in the lists, in the order of first occurrence."""
    every = dict.fromkeys(item for items in lists for item in items)
    return {item: number for number, item in enumerate(every)}


def _places(items: Iterable[str], numbers: dict[str, int]) -> IntArray:
    return np.array([numbers[item] for item in items], dtype=np.int64)


def _agreed_labels(
    members: Sequence[Member], rows: Sequence[IntArray], n_samples: int
) -> list[str]:
    """Return the label of every sample, on which all its holders must agree."""
    agreed = np.full(n_samples, "", dtype=object)
    for member, places in zip(members, rows, strict=True):
        if member.table.labels is None:
            continue
        own = np.array(member.table.labels, dtype=object)
        differ = (agreed[places] != "") & (agreed[places] != own)
        if differ.any():
            raise StudyError(
                f"Organisation {member.name!r} has other labels than organisations "
                f"before it for {differ.sum()} shared rows; agree on these labels."
            )
        agreed[places] = own
    n_without = int(np.sum(agreed == ""))
    if n_without:
        raise StudyError(
            f"{n_without} of {n_samples} rows have no organisation with a label; leave "
            "these rows out or give some holder their labels."
        )
    return list(agreed)


def _encode(
    texts: list[str], task: Task, positive: str | None
) -> tuple[FloatArray, tuple[str, ...]]:
    """Return labels as numbers, (n_samples, n_outputs), and the classes."""
    if task == "regression":
        return _targets(texts)[:, None], ()
    classes = _classes(texts, positive)
    targets = classes if len(classes) > 2 else classes[1:]
    own = np.array(texts, dtype=object)
    return np.column_stack([np.where(own == c, 1.0, -1.0) for c in targets]), classes


def _classes(texts: list[str], positive: str | None) -> tuple[str, ...]:
    """Return the classes in order, numbers as numbers; the positive one last."""
    found = sorted(set(texts), key=_as_sortable)
    if len(found) < 2:
        raise StudyError(
            f"All {len(texts)} rows have the same label; give the classifier rows of "
            "two classes at least."
        )
    if positive is None:
        return tuple(found)
    if positive not in found:
        raise StudyError(
            f"No row has the positive_label {positive!r}; correct it in the study file."
        )
    others = [label for label in found if label != positive]
    return (others[0] if len(others) == 1 else _REST, positive)


def _as_sortable(text: str) -> tuple[int, float, str]:
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _targets(texts: list[str]) -> FloatArray:
    sortable = [_as_sortable(text) for text in texts]
    values = np.array([value for _, value, _ in sortable])
    is_bad = np.array([kind for kind, _, _ in sortable], dtype=bool)
    n_bad = int(np.sum(is_bad | ~np.isfinite(values)))
    if n_bad:
        raise StudyError(
            f"{n_bad} of {len(texts)} rows have a label that is no number; correct the "
            "label column or choose a loss for classes."
        )
    return values
