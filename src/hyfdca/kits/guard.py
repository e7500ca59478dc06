"""Guards that NVFlare's processes must pass at a site of hyfdca.

Authorisation alone does not suffice. NVFlare lets a submitter with the role "super" do
everything, and the role is in a certificate that the coordinator can issue. Also, a
client checks rights only if the server's message asks it to: without these guards, a
server could have it print any file of the organisation.
"""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.app_validation import AppValidator
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

_MOST_BYTES = 1_000_000
_ALLOWED = {
    "config/config_fed_client.json",
    "config/config_fed_server.json",
}
# NVFlare's own, in every folder of a signed job
_SIGNATURES = {NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE}

# What a client answers: only what jobs need. Excluded are shell commands, log settings
# (they can name any class), job deletion (it can delete any folder of the startup kit)
# and remote shutdown.
_ANSWERED = {
    "AbortAppProcessor",
    "AbortTaskProcessor",
    "CancelResourceProcessor",
    "CheckResourceProcessor",
    "ClientInfoProcessor",
    "ClientStatusProcessor",
    "DeployProcessor",
    "NotifyJobStatusProcessor",
    "ReportResourcesProcessor",
    "ReportVersionProcessor",
    "ScopeInfoProcessor",
    "StartJobProcessor",
}


class JobsOnly:
    """Restricts the client of this process to the requests that jobs need.

    NVFlare creates it, as a component of the site, before the client connects.
    """

    def __init__(self) -> None:
        # In place, because NVFlare already holds this list.
        ClientRequestProcessors.request_processors[:] = [
            processor
            for processor in ClientRequestProcessors.request_processors
            if type(processor).__name__ in _ANSWERED
        ]


class SettingsOnly(AppValidator):
    """Refuses a job with any file other than its two settings files."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, bool]]:
        """Return what is wrong with a job, or "", and no special properties."""
        root = Path(app_folder)
        for path in sorted(root.rglob("*")):
            place = path.relative_to(root).as_posix()
            if path.is_symlink() or not _is_allowed(path, place):
                return f"hyfdca accepts only jobs without code; this has {place}", {}
        return "", {}


def _is_allowed(path: Path, place: str) -> bool:
    if path.is_dir():
        return place == "config"
    is_known = place in _ALLOWED or path.name in _SIGNATURES
    return is_known and path.stat().st_size <= _MOST_BYTES
