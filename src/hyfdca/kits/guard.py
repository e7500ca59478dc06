"""What NVFlare asks before it takes a job at a site: settings pass, code does not.

Authorisation alone would not do: NVFlare lets a submitter with the role "super" do
everything, and the role stands in a certificate that the coordinator can issue.
"""

from __future__ import annotations

from pathlib import Path

from nvflare.apis.app_validation import AppValidator
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE

_MOST_BYTES = 1_000_000
_ALLOWED = {
    "config/config_fed_client.json",
    "config/config_fed_server.json",
}
# NVFlare's own, in every folder of a signed job
_SIGNATURES = {NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE}


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
