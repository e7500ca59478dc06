"""What NVFlare's processes have to pass at a site of hyfdca.

Authorisation alone would not do. NVFlare lets a submitter with the role "super" do
everything, and the role stands in a certificate that the coordinator can issue. And a
client looks at rights only if the server's message says that it should: without that,
a server could have it print any file of the organisation.
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

# What a client answers to: all that jobs need. Not among them are shell commands, new
# settings of logs, which can name any class, deleting jobs, which deletes any folder of
# the startup kit, and being stopped from elsewhere.
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
    """Has the client that it is made in answer to nothing but what jobs need.

    NVFlare makes it, as a component of the site, before the client connects.
    """

    def __init__(self) -> None:
        # In place, because NVFlare has taken this very list already.
        ClientRequestProcessors.request_processors[:] = [
            processor
            for processor in ClientRequestProcessors.request_processors
            if type(processor).__name__ in _ANSWERED
        ]


class SettingsOnly(AppValidator):
    """Refuses a job that has any file but the two of its settings."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, bool]]:
        """Return what is wrong with a job, or "", and no special properties."""
        root = Path(app_folder)
        for path in sorted(root.rglob("*")):
            place = path.relative_to(root).as_posix()
            if path.is_symlink() or not _is_allowed(path, place):
                return f"hyfdca takes jobs without code alone, but this has {place}", {}
        return "", {}


def _is_allowed(path: Path, place: str) -> bool:
    if path.is_dir():
        return place == "config"
    is_known = place in _ALLOWED or path.name in _SIGNATURES
    return is_known and path.stat().st_size <= _MOST_BYTES
