"""What a site allows NVFlare to do: run hyfdca with settings, and nothing else.

All of it is in ``local`` of the startup kit, which no job can write to. It is written
when a kit is made and rewritten at every start, whatever it contained: a kit may come
from elsewhere, and nobody else decides what runs on an organisation's machine. Other
files are removed, because NVFlare also reads settings under many other names.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from hyfdca.errors import StudyError
from hyfdca.files import OWNER_ONLY, write_whole
from hyfdca.kits.kit import Side
from hyfdca.kits.startup_settings import (
    refuse_other_settings,
    startup_complaint,
)

# Jobs name classes; only these are instantiated. Not all of hyfdca: NVFlare calls
# whatever it finds at a path, even functions, with arguments from the job.
CLASS_ALLOW_LIST = (
    "hyfdca.flare.controller.StudyController",
    "hyfdca.flare.executor.StudyExecutor",
)

# The NVFlare rights that a study needs: to start, follow and end jobs. No code in jobs,
# no access to folders. Only for the role with which the coordinator submits jobs.
_SUBMITTER = "project_admin"
_RIGHTS = {
    "submit_job": "any",
    "manage_job": "any",
    "view": "any",
    "clone_job": "none",
    "download_job": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
}

# Only to the output, which hyfdca saves and limits; NVFlare's own logging would be five
# files per process, of up to 200 MB each.
_LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
            "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
        }
    },
    "handlers": {
        "output": {
            "class": "logging.StreamHandler",
            "formatter": "plain",
            "stream": "ext://sys.stdout",
        }
    },
    "loggers": {"root": {"level": "INFO", "handlers": ["output"]}},
}

# Strangers who connect and do not complete TLS are cut off after some seconds; by
# default gRPC gives them two minutes. Messages have separate limits.
_HANDSHAKE = 10_000  # milliseconds
# Senders repeat a message for up to a minute, so that receivers need not remember it
# for longer; by default they remember it for five.
_REPEATED = 60.0  # seconds
_CONNECTIONS: dict[str, Any] = {
    "streaming_retry_timeout": _REPEATED,
    "grpc": {
        "options": [
            ["grpc.max_send_message_length", -1],
            ["grpc.max_receive_message_length", -1],
            ["grpc.server_handshake_timeout_ms", _HANDSHAKE],
        ]
    },
}

_HEARTBEAT_TIMEOUT = 30  # seconds; NVFlare's default is ten minutes
_SIGN_TIMEOUT = 10.0  # seconds until an unanswered heartbeat is resent
_MOST_CLIENTS = 10_000


def write_policy(flare: Path, side: Side, home: Path | None = None) -> None:
    """Write the strict settings of a startup kit, and remove all others in ``local``.

    Parameters
    ----------
    home : Path, optional
        Where the startup kit will be used, if not where it is: NVFlare needs absolute
        paths.

    Raises
    ------
    StudyError
        If they cannot be written, or ``startup`` has settings that override them.
    """
    refuse_other_settings(flare, side)
    strict = policy(side, home or flare)
    try:
        for path in (flare / "local").iterdir():
            if path.name not in strict:
                _remove(path)
        for name, content in strict.items():
            text = json.dumps(content, indent=2) + "\n"
            write_whole(flare / "local" / name, text.encode(), OWNER_ONLY)
    except OSError as error:
        raise StudyError(
            f"Cannot write to {flare / 'local'} ({error.strerror}); make a new startup "
            "kit."
        ) from None


def is_strict_client(flare: Path) -> bool:
    """Return whether a client's settings are as written, and there are no others."""
    strict = policy("client", flare)
    try:
        if {path.name for path in (flare / "local").iterdir()} != strict.keys():
            return False
        found = {n: json.loads((flare / "local" / n).read_bytes()) for n in strict}
        return found == strict and startup_complaint(flare, "client") is None
    except (OSError, RecursionError, ValueError):
        return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def policy(side: Side, flare: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of a startup kit used at ``flare``, by file name."""
    return {
        "resources.json": _resources(side, flare),
        "authorization.json": _authorization(side),
        "log_config.json": _LOGGING,
        "comm_config.json": _CONNECTIONS,
    }


def _resources(side: Side, flare: Path) -> dict[str, Any]:
    """Return a site's components, and what it accepts from jobs."""
    own = _server(flare.absolute()) if side == "server" else _client()
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(CLASS_ALLOW_LIST),
        "app_validator": {"path": "hyfdca.kits.guard.SettingsOnly", "args": {}},
        "allow_log_streaming": False,
        **own,
    }


def _authorization(side: Side) -> dict[str, Any]:
    # An organisation decides for itself when its client stops or restarts; on the
    # server the operator is the one who submits jobs.
    operate = "any" if side == "server" else "none"
    rights = {_SUBMITTER: {**_RIGHTS, "operate": operate}}
    return {"format_version": "1.0", "permissions": rights}


def _client() -> dict[str, Any]:
    managers = "nvflare.app_common.resource_managers.gpu_resource_manager"
    consumers = "nvflare.app_common.resource_consumers.gpu_resource_consumer"
    no_gpu = {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0}
    return {
        "client": {
            "retry_timeout": 30,
            "maint_msg_timeout": _SIGN_TIMEOUT,
            "compression": "Gzip",
        },
        "components": [
            _component("resource_manager", f"{managers}.GPUResourceManager", no_gpu),
            _component("resource_consumer", f"{consumers}.GPUResourceConsumer"),
            _component("process_launcher", "hyfdca.flare.launcher.ClientLauncher"),
            _component("visitor", "hyfdca.flare.port.registration.RegistrationToken"),
            _component("hyfdca_guard", "hyfdca.kits.guard.JobsOnly"),
        ],
    }


def _server(flare: Path) -> dict[str, Any]:
    # By default NVFlare keeps jobs and snapshots of all servers of a machine in one
    # folder under /tmp, and starts what it finds there.
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
            _component("doorman", "hyfdca.flare.port.registration.RegistrationGuard"),
        ],
    }


def _component(
    name: str, path: str, arguments: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments or {}}
