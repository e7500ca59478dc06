"""Makers of model files and tables to predict, and their predictions."""

from __future__ import annotations

import pandas as pd
import pyarrow.parquet

from hyfdca.model.file import as_bytes
from hyfdca.prediction.complete_rows import PredictionFiles, predict_file
from tests.model.models import FEATURES, make_file


def model_at(folder, *arguments, **changes):
    """Write a hand-made model; return its path."""
    path = folder / "model.json"
    path.write_bytes(as_bytes(make_file(*arguments, **changes)))
    return path


def frame_of(values, **columns) -> pd.DataFrame:
    frame = pd.DataFrame(values, columns=list(FEATURES))
    return frame.assign(id=[f"r{row}" for row in range(len(values))], **columns)


def predicted(model, data, out=None, **columns):
    """Return the predictions, and the written table."""
    out = out or data.with_name("predictions.parquet")
    predictions = predict_file(PredictionFiles(model, data, out, **columns))
    return predictions, pyarrow.parquet.read_table(out).to_pandas()
