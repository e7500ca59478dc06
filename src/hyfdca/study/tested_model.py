"""Whether the model to test is the one that a client gave its weights for.

Each client compares the weights of the features that it counts. All clients are sent
the same model (``stages/evaluation/client.py``), so together they know all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.data.expansion import Expansion
from hyfdca.federation.messages import Released
from hyfdca.model.file import parse_model_file
from hyfdca.model.model import Model, ModelError
from hyfdca.protocol.codec import RemoteProtocolError, unpack_reals
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.score_parts import numbers_of

_REAL_BYTES = 8


@dataclass(frozen=True, repr=False)
class ReleasedPart:
    """What a client knows of the model.

    Parameters
    ----------
    weights : array (features that it counts, n_outputs)
        As released; that of the bias, if the client counts it, comes last.
    """

    table: AlignedTable
    expansion: Expansion
    weights: FloatArray


def released_weights(reply: Released, n_outputs: int) -> FloatArray:
    """Return the weights that a client gave away."""
    n_reals = len(reply.weights) // _REAL_BYTES
    return unpack_reals(reply.weights, n_reals).reshape(-1, n_outputs)


def tested_model(content: bytes, part: ReleasedPart, classes: tuple[str, ...]) -> Model:
    """Return the model of a file, if the client released its part of it.

    Raises
    ------
    RemoteProtocolError
    """
    try:
        model = Model.of(parse_model_file(content, Path("model.json")))
        model.inputs.check_named()
    except ModelError as error:
        raise RemoteProtocolError(f"the model to test: {error}") from None
    if model.classes != classes or not _is_released(model, part):
        raise RemoteProtocolError(
            "the model to test is not the one that it released its weights for"
        )
    return model


def _is_released(model: Model, part: ReleasedPart) -> bool:
    """Return whether the weights of the features that a client counts are its own."""
    table, widths = part.table, part.expansion.widths
    if not set(table.features) <= set(model.inputs.columns):
        return False
    features = numbers_of(model, table.features)
    is_counted = np.repeat(table.counts_feature, widths)
    if len(features) != len(is_counted):
        return False
    counted = features[is_counted]
    own = part.weights[: len(counted)] * model.file.training.target_scale
    return np.array_equal(model.weights[counted], own)
