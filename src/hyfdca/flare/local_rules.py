"""What a site lets NVFlare do, written anew at every start.

By the site's own program, whatever the kit brought: a kit comes from the coordinator,
who must not be the one to say what it may run on the organisations' machines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hyfdca.flare.kits import Kit

# Jobs name classes; of these alone one is made of them.
_ALLOWED = ["hyfdca.flare.controller.", "hyfdca.flare.executor."]

# Of NVFlare's rights all that a study needs: to start, follow and end jobs. No code in
# jobs, no looking into folders, no switching on and off.
_RIGHTS = {
    "submit_job": "any",
    "clone_job": "none",
    "manage_job": "any",
    "download_job": "none",
    "view": "any",
    "operate": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}
_ROLES = ("project_admin", "org_admin", "lead", "member")

_HEARTBEAT_TIMEOUT = 30  # seconds; NVFlare's own is ten minutes
_MOST_CLIENTS = 10_000


def write_local_rules(kit: Kit, kind: str) -> None:
    """Write the settings in ``flare/local`` that NVFlare reads."""
    resources = _server(kit.flare) if kind == "server" else _client()
    # On the server its operator is the one who submits.
    rights = {**_RIGHTS, "operate": "any"} if kind == "server" else _RIGHTS
    permissions = dict.fromkeys(_ROLES, rights)
    _write(kit, "resources", {"format_version": 2, **_COMMON, **resources})
    _write(kit, "authorization", {"format_version": "1.0", "permissions": permissions})


_COMMON: dict[str, Any] = {
    "class_list_enforcement_mode": "enforce",
    "class_allow_list": _ALLOWED,
    "allow_log_streaming": False,
}


def _client() -> dict[str, Any]:
    managers = "nvflare.app_common.resource_managers.gpu_resource_manager"
    consumers = "nvflare.app_common.resource_consumers.gpu_resource_consumer"
    no_gpu = {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0}
    return {
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            _component("resource_manager", f"{managers}.GPUResourceManager", no_gpu),
            _component("resource_consumer", f"{consumers}.GPUResourceConsumer"),
            _component("process_launcher", "hyfdca.flare.launcher.ClientLauncher"),
            _component("visitor", "hyfdca.flare.doorman.Visitor"),
        ],
    }


def _server(flare: Path) -> dict[str, Any]:
    # NVFlare's defaults keep jobs and snapshots of all servers of a machine in one
    # folder under /tmp, and start what they find there.
    store = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    persistor = "nvflare.app_common.state_persistors.storage_state_persistor"
    scheduler = "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler"
    manager = "nvflare.apis.impl.job_def_manager.SimpleJobDefManager"
    jobs = {"uri_root": str(flare / "jobs"), "job_store_id": "job_store"}
    snapshots = {"root_dir": str(flare / "snapshots"), "uri_root": "/"}
    return {
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": _MOST_CLIENTS,
                "heart_beat_timeout": _HEARTBEAT_TIMEOUT,
                "download_job_url": "http://localhost/",
                "admin_timeout": 10.0,
            }
        ],
        "snapshot_persistor": {
            "path": f"{persistor}.StorageStatePersistor",
            "args": {"uri_root": "/", "storage": {"path": store, "args": snapshots}},
        },
        "components": [
            _component("job_scheduler", scheduler, {"max_jobs": 1}),
            _component("job_manager", manager, jobs),
            {"id": "job_store", "path": store},
            _component("process_launcher", "hyfdca.flare.launcher.ServerLauncher"),
            _component("doorman", "hyfdca.flare.doorman.Doorman"),
        ],
    }


def _component(
    name: str, path: str, arguments: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments or {}}


def _write(kit: Kit, name: str, content: dict[str, Any]) -> None:
    path = kit.flare / "local" / f"{name}.json"
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
