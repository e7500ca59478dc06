"""Refuses study files with keys of earlier versions, or without organisations."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from hyfdca.algorithms.registry import AUTO
from hyfdca.errors import StudyError

# Keys of [study] that moved to [algorithm], with the algorithm they belong to.
_MOVED = {
    **dict.fromkeys(
        ("variant", "step", "local_fraction", "iic", "min_rows", "paper_settings"),
        "hyfdca",
    ),
    "bundle_settings": "bundle",
    "algorithm": AUTO,
}


def refuse_old_keys(raw: Any, path: Path) -> None:
    """Refuse settings of algorithms in [study]; say how to write them now."""
    study: Any = raw.get("study") if isinstance(raw, dict) else None
    old = [key for key in _MOVED if isinstance(study, dict) and key in study]
    if not old:
        return
    settings: dict[str, Any] = {"name": study.get("algorithm", _MOVED[old[0]])}
    for key in old:
        nested = isinstance(study[key], dict)
        settings |= study[key] if nested else {key: study[key]}
    settings.pop("algorithm", None)
    lines = [f"{key} = {_as_toml(value)}" for key, value in settings.items()]
    raise StudyError(
        f"The study file {path} has {', '.join(old)} in [study]; write a table "
        f"[algorithm] with {' and '.join(lines)} instead."
    )


def _as_toml(value: Any) -> str:
    """Return a value as TOML has it, which is as in JSON but for dates and infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, default=str)


def refuse_no_organisations(raw: dict[str, Any], path: Path) -> None:
    """Refuse a file without organisations; say how to add them."""
    if not raw.get("clients"):
        raise StudyError(
            f"The study file {path} names no organisations; add a table [[clients]] "
            "with name and data for each organisation."
        )
