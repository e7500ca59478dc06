"""What a site lets the server's jobs do: run hyfdca with settings, and nothing else.

All of it is in the kit's own ``local`` folder, which no job can write to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hyfdca.study_error import StudyError

# A prefix ends with its dot, or "hyfdca.flare_evil" would pass. Not all of hyfdca:
# NVFlare calls whatever it finds at a path, functions too, with arguments of the job.
CLASS_ALLOW_LIST = (
    "hyfdca.flare.",
    "nvflare.app_common.logging.",
    "nvflare.app_common.widgets.",
)

_VALIDATOR = {"path": "hyfdca.kits.guard.SettingsOnly", "args": {}}
_COMPONENT = {"id": "hyfdca_guard", "path": "hyfdca.kits.guard.JobsOnly", "args": {}}

_RIGHTS = {
    "submit_job": "any",
    "manage_job": "any",
    "download_job": "any",
    "view": "any",
    "clone_job": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}


def secure_client(flare: Path) -> None:
    """Write the strict settings of a client's startup kit, whatever they were.

    Raises
    ------
    StudyError
    """
    # An organisation decides itself when its client stops or starts anew.
    _secure(flare / "local", _client_resources(flare), operate="none")


def secure_server(flare: Path, state: Path) -> None:
    """Write the strict settings of the server's startup kit, whatever they were.

    Its jobs are stored below ``state``, which NVFlare wants as an absolute path: call
    this again where a kit was moved to.

    Raises
    ------
    StudyError
    """
    resources = _strict_resources(flare)
    _store_below(resources, state.absolute())
    _secure(flare / "local", resources, operate="any")


def is_strict_client(flare: Path) -> bool:
    """Return whether a client's settings are as strict as they were written."""
    return _client_resources(flare) == _read_json(flare / "local" / "resources.json")


def _client_resources(flare: Path) -> dict[str, Any]:
    resources = _strict_resources(flare)
    others = [c for c in resources["components"] if c["id"] != _COMPONENT["id"]]
    return resources | {"components": [*others, _COMPONENT]}


def _strict_resources(flare: Path) -> dict[str, Any]:
    return _read_json(flare / "local" / "resources.json") | {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(CLASS_ALLOW_LIST),
        "app_validator": _VALIDATOR,
        "allow_log_streaming": False,
    }


def _secure(local: Path, resources: dict[str, Any], operate: str) -> None:
    rights = {"project_admin": {**_RIGHTS, "operate": operate}}
    policy = {"format_version": "1.0", "permissions": rights}
    _write_json(local / "resources.json", resources)
    _write_json(local / "authorization.json", policy)


def _store_below(resources: dict[str, Any], state: Path) -> None:
    """Keep jobs and snapshots in the kit; NVFlare's own choice is shared by all."""
    storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
    storage["root_dir"] = str(state / "snapshots")
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(state / "jobs")


def _read_json(path: Path) -> dict[str, Any]:
    """Return the settings of a file, or of NVFlare's own where there is none."""
    default = path.with_name(f"{path.name}.default")
    chosen = path if path.exists() else default
    try:
        content = json.loads(chosen.read_bytes())
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise StudyError(f"Cannot read {chosen}; make the startup kit anew.")
    return content


def _write_json(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_name(f".{path.name}.part")
    draft.write_text(json.dumps(content, indent=2) + "\n")
    draft.chmod(0o600)
    draft.replace(path)
