"""Checks that the model to test is the one for which a client gave its weights.

Each client compares what it knows about the model. All clients are sent the same model
(``stages/evaluation/client.py``), so together they know all of it.
"""

from __future__ import annotations

from pathlib import Path

from hyfdca.model.file import parse_model_file
from hyfdca.model.model import Model, ModelError
from hyfdca.protocol.codec import RefusedError, RemoteProtocolError
from hyfdca.study.own_model import OwnModel, check_model


def tested_model(content: bytes, own: OwnModel) -> Model:
    """Return the model of a file, if the client released its part of it.

    Raises
    ------
    RemoteProtocolError
    """
    try:
        model = Model.of(parse_model_file(content, Path("model.json")))
        model.inputs.check_named()
        check_model(content, own)
    except (ModelError, RefusedError) as error:
        raise RemoteProtocolError(f"the model to test: {error}") from None
    return model
