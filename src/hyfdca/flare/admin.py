"""NVFlare's server as seen by the administrator, who submits jobs."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hyfdca.errors import StudyError
from hyfdca.kits.kit import ServerKit

_COMMAND_TIMEOUT = 10.0  # seconds


class NoAnswerError(Exception):
    """The server neither admits nor refuses its administrator."""


class Admin:
    """A session with the server; see ``admin_session``."""

    def __init__(self, session: Any, kit: ServerKit) -> None:
        self._session, self._kit = session, kit

    def sites(self) -> set[str]:
        """Return the names of the connected sites."""
        return {client.name for client in self._session.get_system_info().client_info}

    def submit(self, sites: Sequence[str], min_sites: int, wait: float) -> str:
        """Submit a job for some sites; return its ID."""
        with TemporaryDirectory(dir=self._kit.state) as folder:
            job = Path(folder) / "job"
            write_job(job, sites, min_sites, wait)
            return str(self._session.submit_job(str(job)))

    def status(self, job: str) -> str:
        """Return NVFlare's status of a job."""
        return str(self._session.get_job_status(job) or "")

    def jobs_by_site(self) -> dict[str, set[str]]:
        """Return which jobs each site reports as running; silent sites are omitted."""
        # Imported here because it takes a second and has side effects.
        from nvflare.fuel.flare_api.api_spec import NoClientsAvailable  # noqa: PLC0415

        try:
            entries = self._session.get_client_job_status() or []
        except NoClientsAvailable:
            return {}
        return _jobs(entries)

    def abort(self, job: str) -> None:
        """End a job."""
        self._session.abort_job(job)


def _jobs(entries: Iterable[Mapping[str, str]]) -> dict[str, set[str]]:
    jobs: dict[str, set[str]] = {}
    for entry in entries:
        if "job_id" in entry:
            jobs.setdefault(entry["client_name"], set()).add(entry["job_id"])
        elif entry.get("status") == "no_jobs":
            jobs[entry["client_name"]] = set()
    return jobs


@contextlib.contextmanager
def admin_session(kit: ServerKit, timeout: float) -> Iterator[Admin]:
    """Open a session with the server of a kit.

    Raises
    ------
    StudyError
        If the server refuses us.
    NoAnswerError
        If it does not answer in time.
    """
    session = _connected(kit, timeout)
    try:
        yield Admin(session, kit)
    finally:
        # Closing waits for a reply, and the server may be gone.
        with _silence(), contextlib.suppress(Exception):
            session.close()


def _connected(kit: ServerKit, timeout: float) -> Any:
    from nvflare.fuel.flare_api import api_spec  # noqa: PLC0415
    from nvflare.fuel.flare_api.flare_api import new_secure_session  # noqa: PLC0415

    refusals = api_spec.AuthenticationError, api_spec.AuthorizationError
    deadline = time.monotonic() + timeout
    while True:
        try:
            with _silence():
                return new_secure_session(
                    kit.admin_name,
                    str(kit.admin),
                    timeout=_COMMAND_TIMEOUT,
                    command_timeout=_COMMAND_TIMEOUT,
                    # A connection that loses replies keeps losing them: make a new one.
                    auto_login_max_tries=1,
                )
        except Exception as error:
            if time.monotonic() > deadline:
                if isinstance(error, refusals):
                    raise StudyError(
                        "The server refuses its own administrator "
                        f"({error}); see its log."
                    ) from None
                raise NoAnswerError(str(error)) from None
            time.sleep(0.5)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep NVFlare's output off the terminal."""
    logging.getLogger().addHandler(logging.NullHandler())
    with contextlib.redirect_stdout(io.StringIO()):
        yield


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
