"""How NVFlare's parents start job processes: guarded, and with any path.

NVFlare's own launchers build the command without quotes, so a job in a folder with a
space in its name never starts.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.app_common.job_launcher.client_process_launcher import (
    ClientProcessJobLauncher,
)
from nvflare.app_common.job_launcher.server_process_launcher import (
    ServerProcessJobLauncher,
)
from nvflare.utils.job_launcher_utils import get_client_job_args, get_server_job_args


class ClientLauncher(ClientProcessJobLauncher):
    """Starts the job processes of an organisation."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """Return the command line, quoted."""
        return _command(fl_ctx, get_client_job_args(include_exe_module=False))


class ServerLauncher(ServerProcessJobLauncher):
    """Starts the job processes of the server."""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """Return the command line, quoted."""
        return _command(fl_ctx, get_server_job_args(include_exe_module=False))


def _command(fl_ctx: Any, names: Sequence[str]) -> str:
    given: Mapping[str, tuple[str, Any]] = fl_ctx.get_prop(
        FLContextKey.JOB_PROCESS_ARGS
    )
    _, module = given[JobProcessArgs.EXE_MODULE]
    guard = [sys.executable, "-P", "-m", "hyfdca.flare.guarded", str(os.getpid())]
    command = [*guard, module]
    for name in names:
        if name not in given:
            continue
        option, value = given[name]
        # Settings are several words, all other values one.
        words = shlex.split(value) if name == JobProcessArgs.OPTIONS else [str(value)]
        command += [option, *words]
    return shlex.join(command)
