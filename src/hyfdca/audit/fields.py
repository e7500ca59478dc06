"""Which value each field of each message is, and which messages each phase has.

A message or phase that is not in these tables is one that nobody has thought about:
the audit fails on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.algorithms.bundle import messages as b
from hyfdca.prediction import messages as p
from hyfdca.protocol import messages as m
from hyfdca.stages.alignment import messages as a
from hyfdca.stages.keys import messages as k
from hyfdca.study import messages as s

# A field whose value depends on the phase: what ``Exchange.part`` says.
BY_PHASE = "by phase"

Fields = dict[str, str]

_GRID = {"grid": "grids"}
_POSITIONS = {"positions": "positions"}
_DRAWN = {"drawn": "positions"}
_ASKED = {
    "model": "model digest",
    "nonce": "prediction request",
    "n_outputs": "numbers",
    "pseudonyms": "asked pseudonyms",
    "signature": "prediction request",
}

# What stands inside other messages and brings no value of its own.
INSIDE: dict[type[m.Message], Fields] = {
    m.Sealed: {"fraction_bits": "grids", "payload": BY_PHASE},
    m.GridSpec: {"fraction_bits": "grids", "limit_bits": "grids"},
    b.Move: {"number": "numbers", "steps": "steps"},
    b.Candidate: {"place": "steps", "curvature": "steps"},
    b.Mixture: {"deliveries": "numbers", "weights": "plane weights"},
}

MESSAGES: dict[type[m.Message], Fields] = {
    m.Message: {},
    m.TooLarge: {},
    m.Part: {"vector": BY_PHASE},
    m.Parts: {"vectors": BY_PHASE},
    m.Arrangements: {
        "samples": "schemes",
        "features": "schemes",
        "totals": "schemes",
        "sample_groups": "group numbers",
        "feature_groups": "group numbers",
    },
    m.ResealRequest: {"sums": "duals", **_POSITIONS},
    m.Resealed: {"vectors": "duals"},
    m.Bounds: dict.fromkeys(
        ("row_norm", "column_sum", "slope_at_zero", "loss_at_zero"), "bounds"
    ),
    m.GridRequest: _GRID,
    m.Prepare: {
        "norms": "row norms",
        "sample_holders": "holder counts",
        "label_holders": "holder counts",
        "feature_holders": "holder counts",
    },
    m.MarginsRequest: {"weights": "weights", **_POSITIONS, **_GRID},
    m.SharesRequest: {"duals": "duals", **_POSITIONS, **_GRID},
    m.WeightsNotice: {"weights": "weights"},
    m.FactorsNotice: {"factors": "factors"},
    m.StepRequest: {
        **_DRAWN,
        "margins": "margins",
        "weights": "weights",
        "divisors": "holder counts",
        "is_alone": "numbers",
        "factor": "factors",
        "aggregation_step": "steps",
        "cap": "factors",
        **_GRID,
    },
    m.DirectionRequest: {
        **_DRAWN,
        "margins": "margins",
        "trial_steps": "steps",
        **_GRID,
        "totals_grid": "grids",
        "duals_grid": "grids",
        "is_lent": "numbers",
    },
    m.AdoptRequest: {**_DRAWN, "direction": "dual changes", **_GRID},
    m.Image: {"vector": BY_PHASE, "totals": "losses", "direction": "dual changes"},
    m.ProductsRequest: {"image": "weights", **_GRID},
    m.MoveRequest: {"steps": "steps", "duals_grid": "grids", **_GRID},
    b.BucketsNotice: {"numbers": "bucket numbers", "buckets": "bucket numbers"},
    b.PlanesRequest: {
        "number": "numbers",
        "move": "steps",
        "places": "steps",
        "candidates": "steps",
        "mixture": "plane weights",
        **_GRID,
        "offsets_grid": "grids",
        "duals_grid": "grids",
        "is_lent": "numbers",
    },
    b.Planes: {"slopes": "slopes", "offsets": "offsets", "duals": "duals"},
    b.AdoptPlanesRequest: {"duals": "duals", "n_planes": "numbers", **_GRID},
    b.GramRequest: {
        "kept": "numbers",
        "first": "numbers",
        "slopes": "slopes",
        "n_planes": "numbers",
        "units": "plane lengths",
        **_GRID,
    },
    b.TrialRequest: {
        "move": "steps",
        "weights": "trial weights",
        "plane_weights": "plane weights",
        **_GRID,
    },
    b.SearchRequest: {"margins": "margins", "steps": "steps", **_GRID},
    b.VisitRequest: {
        "points": "trial weights",
        "buckets": "bucket numbers",
        "point_of": "numbers",
        **_GRID,
    },
    b.VisitPlanesRequest: {
        "buckets": "bucket numbers",
        "numbers": "numbers",
        "margins": "margins",
        "places": "steps",
        **_GRID,
        "offsets_grid": "grids",
        "duals_grid": "grids",
        "is_lent": "numbers",
    },
    b.AdoptVisitRequest: {
        "buckets": "bucket numbers",
        "duals": "duals",
        "n_planes": "numbers",
        **_GRID,
    },
    b.MovedRelease: {"move": "steps"},
    m.ProbeRequest: {
        "start": "random start",
        "weights": "probe shares",
        "scale": "steps",
        **_GRID,
    },
    m.ProbeSharesRequest: {
        "margins": "probe margins",
        **_GRID,
        "totals_grid": "grids",
    },
    m.LossesRequest: {
        "margins": "margins",
        "is_current": "numbers",
        "number": "numbers",
        **_GRID,
    },
    m.OpenRequest: {"totals": "grand totals", "shapes": "numbers"},
    m.Opened: {"values": BY_PHASE},
    m.ReleaseRequest: {"number": "numbers"},
    m.Released: {"weights": "released weights"},
    m.StatisticsRequest: {"known": "statistics", **_GRID},
    m.ScalingNotice: {"known": "statistics"},
    m.Statistics: dict.fromkeys(("offset", "scale", "filling"), "released scaling"),
    k.Confirmation: {"tag": "key tags"},
    k.MadeKeys: {
        "envelopes": "keys",
        "tag": "key tags",
        "public": "scheme parameters",
    },
    k.Parameters: {"public": "scheme parameters"},
    k.TakeKeys: {"sender": "numbers", "envelope": "keys"},
    k.SealKeys: {"recipient": "numbers"},
    k.SealedKeys: {"envelope": "keys", "tag": "key tags"},
    k.CompareKeys: {"tags": "key tags"},
    a.Rows: {
        "pseudonyms": "pseudonyms",
        "features": "feature names",
        "hidden_features": "feature names",
        "label_tokens": "label tokens",
        "classes": "class names",
        "has_rest": "numbers",
    },
    a.Refused: {"reason": "numbers", "count": "numbers"},
    a.PlacementNotice: {
        "n_samples": "numbers",
        **dict.fromkeys(
            (
                "rows",
                "columns",
                "owns",
                "counts_rows",
                "counts_columns",
                "counts_bias",
            ),
            "placement",
        ),
        "row_groups": "group numbers",
        "column_groups": "group numbers",
        "classes": "class names",
    },
    a.CellsRequest: {"columns": "group numbers", "rows": "group numbers"},
    a.CellTokens: {"tokens": "cell tokens"},
    s.Hello: {"study_hash": "study", "protocol": "numbers"},
    s.Present: {
        "study_hash": "study",
        "protocol": "numbers",
        "has_keys": "numbers",
        "kept": "numbers",
    },
    s.BeginRequest: {"after": "numbers"},
    s.StartNotice: {"algorithm": "algorithm"},
    s.KeepRequest: {
        "round": "numbers",
        "relative_gap": "certificate",
        "present": "numbers",
    },
    s.ReturnRequest: {"round": "numbers", "after": "numbers"},
    s.FinishNotice: {"model": "model"},
    p.Introduction: {"n_rows": "prediction request"},
    p.Asked: _ASKED,
    p.ConsiderRequest: {**_ASKED, "asker": "prediction request"},
    p.Consent: {},
    p.Declined: {"reason": "prediction refusal", "count": "prediction refusal"},
    p.PartBound: {"bound": "bounds"},
    p.PartsRequest: {**_GRID, "cells_grid": "grids"},
    p.ScoreParts: {"margins": "score parts", "cells": "cell counts"},
    p.ScoresNotice: {"margins": "scores", "cells": "cell counts"},
    p.RefusedNotice: {"reason": "prediction refusal"},
}


@dataclass(frozen=True)
class Exchange:
    """What a phase says: down one of ``request``, up one of ``reply`` or nothing.

    ``part`` is the value of those fields of the reply that depend on the phase.
    """

    request: tuple[type[m.Message], ...]
    reply: tuple[type[m.Message], ...] = ()
    part: str = ""


def _sum(request: type[m.Message], part: str) -> Exchange:
    return Exchange((request,), (m.Part, m.TooLarge), part)


def _parts(request: type[m.Message], part: str) -> Exchange:
    return Exchange((request,), (m.Parts, m.TooLarge), part)


def _image(request: type[m.Message], part: str) -> Exchange:
    return Exchange((request,), (m.Image, m.TooLarge), part)


def _planes(request: type[m.Message]) -> Exchange:
    return Exchange((request,), (b.Planes, m.TooLarge))


def _opening(part: str) -> Exchange:
    return Exchange((m.OpenRequest,), (m.Opened,), part)


PHASES: dict[str, Exchange] = {
    # Set-up
    "arrange": Exchange((m.Arrangements,)),
    "bounds": Exchange((m.Message,), (m.Bounds,)),
    "norms": _sum(m.GridRequest, "row norms"),
    "prepare": Exchange((m.Prepare,)),
    "open": _opening("P and D"),
    "probe margins": _sum(m.ProbeRequest, "probe margins"),
    "probe shares": _image(m.ProbeSharesRequest, "probe shares"),
    "factors": Exchange((m.FactorsNotice,)),
    # HyFDCA
    "shares": _sum(m.SharesRequest, "shares"),
    "margins": _sum(m.MarginsRequest, "margins"),
    "weights": Exchange((m.WeightsNotice,)),
    "step": _sum(m.StepRequest, "dual changes"),
    "reseal": Exchange((m.ResealRequest,), (m.Resealed,)),
    "direction": _image(m.DirectionRequest, "shares"),
    "adopt": _sum(m.AdoptRequest, "shares"),
    "products": _sum(m.ProductsRequest, "products"),
    "open step": _opening("step totals"),
    "move": _sum(m.MoveRequest, "shares"),
    # Measuring
    "measure shares": _sum(m.SharesRequest, "shares"),
    "measure margins": _sum(m.MarginsRequest, "margins"),
    "losses": _sum(m.LossesRequest, "losses"),
    "release": Exchange((m.ReleaseRequest, b.MovedRelease), (m.Released,)),
    # Bundle
    "buckets": Exchange((b.BucketsNotice,)),
    "planes": _planes(b.PlanesRequest),
    "adopt planes": _parts(b.AdoptPlanesRequest, "slopes"),
    "gram": _sum(b.GramRequest, "products"),
    "open planes": _opening("Gram and offsets"),
    "trial": _sum(b.TrialRequest, "margins"),
    "search": _sum(b.SearchRequest, "losses"),
    "open search": _opening("search totals"),
    "visit": _parts(b.VisitRequest, "margins"),
    "visit planes": _planes(b.VisitPlanesRequest),
    "adopt visit": _parts(b.AdoptVisitRequest, "slopes"),
    # Alignment
    "rows": Exchange((m.Message,), (a.Rows, a.Refused)),
    "placement": Exchange((a.PlacementNotice,)),
    "cells": Exchange((a.CellsRequest,), (a.CellTokens,)),
    # Scaling
    **dict.fromkeys(
        ("digits", "means", "spread", "deviations"),
        _sum(m.StatisticsRequest, "statistics"),
    ),
    "scaling": Exchange((m.ScalingNotice,)),
    "statistics": Exchange((m.Message,), (m.Statistics,)),
    # Predictions of split rows
    "introduce": Exchange((m.Message,), (p.Introduction,)),
    "request": Exchange((m.Message,), (p.Asked,)),
    "consider": Exchange((p.ConsiderRequest,), (p.Consent, p.Declined)),
    "part bound": Exchange((m.Message,), (p.PartBound,)),
    "parts": Exchange((p.PartsRequest,), (p.ScoreParts,)),
    "scores": Exchange((p.ScoresNotice,)),
    "refused": Exchange((p.RefusedNotice,)),
    # Keys
    "make keys": Exchange((m.Message,), (k.MadeKeys,)),
    "take keys": Exchange((k.TakeKeys,), (k.Confirmation,)),
    "key tag": Exchange((m.Message,), (k.Confirmation,)),
    "seal keys": Exchange((k.SealKeys,), (k.SealedKeys,)),
    "compare keys": Exchange((k.CompareKeys,), (m.Message,)),
    "parameters": Exchange((m.Message,), (k.Parameters,)),
    # The study as a whole
    "hello": Exchange((s.Hello,), (s.Present,)),
    "begin": Exchange((s.BeginRequest,), (m.Message,)),
    "start": Exchange((s.StartNotice,)),
    "keep": Exchange((s.KeepRequest,), (m.Message,)),
    "return": Exchange((s.ReturnRequest,), (m.Message,)),
    "finish": Exchange((s.FinishNotice,), (m.Message,)),
}
