"""The job submitted to NVFlare: two class names and no code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CONTROLLER = "hyfdca.flare.controller.StudyController"
_EXECUTOR = "hyfdca.flare.executor.StudyExecutor"


def write_job(folder: Path, sites: Sequence[str], min_sites: int, wait: float) -> None:
    """Write a job for some sites; it needs ``min_sites`` of them to start."""
    meta = {
        "name": "hyfdca",
        "resource_spec": {},
        "min_clients": min_sites,
        "mandatory_clients": [],
        "deploy_map": {"app": ["server", *sites]},
    }
    workflow = {"id": "study", "path": _CONTROLLER, "args": {"wait": wait}}
    executor = {"tasks": ["*"], "executor": {"path": _EXECUTOR, "args": {}}}
    server = {"workflows": [workflow], "components": []}
    client = {"executors": [executor], "components": []}
    filters: dict[str, Any] = {"task_data_filters": [], "task_result_filters": []}
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    _write(folder / "meta.json", meta)
    for name, content in (("server", server), ("client", client)):
        settings = {"format_version": 2, **content, **filters}
        _write(config / f"config_fed_{name}.json", settings)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
