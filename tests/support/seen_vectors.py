"""The sealed vectors in a request, and of which of a client's items they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.algorithms.hyfdca.messages import (
    DirectionRequest,
    LossesRequest,
    ProbeRequest,
    ProbeSharesRequest,
    ResealRequest,
    SharesRequest,
    StepRequest,
)
from hyfdca.federation.sealing.kinds import VectorKind
from hyfdca.protocol import messages as m
from tests.protocol.wires import Said
from tests.support.small_runs import Run


class Vector(NamedTuple):
    """A sealed vector as a client got it: of which of its items, how wide."""

    kind: VectorKind
    rows: list[int]  # positions among the client's samples or features
    is_apart: bool  # the rows are a vector of their own
    width: int
    sealed: m.Sealed


# The fields of requests that have sealed vectors, and what these are by.
_KINDS = {
    "norms": VectorKind("samples", "row norms"),
    "margins": VectorKind("samples", "margins"),
    "duals": VectorKind("samples", "duals"),
    "direction": VectorKind("samples", "dual changes"),
    "sums": VectorKind("samples", "duals"),
    "weights": VectorKind("features", "weights"),
    "image": VectorKind("features", "images"),
    "slopes": VectorKind("features", "slopes"),
}


def sealed_in(value: Any) -> Iterator[m.Sealed]:
    """Return every sealed vector inside of a message, wherever it is."""
    if isinstance(value, m.Sealed):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from sealed_in(part)
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from sealed_in(getattr(value, name))


def vectors_in(run: Run, said: Said) -> Iterator[Vector]:
    """Return the vectors by sample and by feature of a request."""
    request, layout = said.request, run.layout
    sizes = {
        "samples": len(layout.samples.items[said.client]),
        "features": len(layout.features.items[said.client]),
    }
    for name in request.__struct_fields__:
        value = getattr(request, name)
        sealed = list(sealed_in(value))
        if not sealed or name == "totals":
            continue
        kind = _KINDS[name]  # or it has vectors that this does not look at
        if isinstance(request, ProbeRequest | ProbeSharesRequest):
            kind = kind._replace(name=f"probe {kind.name}")
        if _is_drawn(request) and kind.name in ("margins", "duals"):
            kind = kind._replace(name=f"drawn {kind.name}")
        rows = list(range(sizes[kind.axis]))
        width = 1 if name == "norms" else run.parties[0].problem.n_outputs
        width *= getattr(request, "n_planes", 1)
        if isinstance(request, b.VisitPlanesRequest | b.ForwardedVisit):
            yield from _of_buckets(run, said, kind, value)
            continue
        rows = rows_asked(run, said, rows) if kind.axis == "samples" else rows
        for vector in sealed:
            yield Vector(kind, rows, False, width, vector)


def _is_drawn(request: Any) -> bool:
    """Return whether rows of a request's vectors by sample may be replaced."""
    if isinstance(request, LossesRequest):
        return request.is_current
    drawn = DirectionRequest | ResealRequest | SharesRequest | StepRequest
    return isinstance(request, drawn)


def _of_buckets(
    run: Run, said: Said, kind: VectorKind, value: list[m.Sums]
) -> Iterator[Vector]:
    """Return the vectors by sample of some buckets."""
    half, problem = run.clients[said.client], run.parties[said.client].problem
    width = problem.n_outputs * getattr(said.request, "n_planes", 1)
    buckets = np.frombuffer(said.request.buckets, np.uint32)
    for bucket, sums in zip(buckets, value, strict=True):
        rows = np.flatnonzero(half.buckets == bucket).tolist()
        for vector in sums:
            yield Vector(kind, rows, True, width, vector)


def rows_asked(run: Run, said: Said, rows: list[int]) -> list[int]:
    """Return the positions of the samples that a request is about."""
    request = said.request
    for name in ("positions", "drawn"):
        if getattr(request, name, None) is not None:
            return np.frombuffer(getattr(request, name), np.uint32).tolist()
    if isinstance(request, LossesRequest):
        held = [set(items.tolist()) for items in run.layout.samples.items]
        own = run.layout.samples.items[said.client].tolist()
        ranks = [k for k, labelled in enumerate(run.layout.labelled) if labelled]
        counts = [min(k for k in ranks if i in held[k]) == said.client for i in own]
        return [row for row, is_counted in zip(rows, counts, strict=True) if is_counted]
    return rows
