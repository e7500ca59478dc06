"""NVFlare's startup kits, written by NVFlare itself on the machine that uses them.

The coordinator sends organisations certificates, but no scripts and no settings: those
come from the NVFlare installed at the organisation.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from hyfdca.errors import StudyError
from hyfdca.files import write_secret
from hyfdca.study.file import Server

# The same for all: certificates and the study file determine who may do what.
PROJECT, ORG = "hyfdca", "hyfdca"
ADMIN = "admin@hyfdca.local"
LOCALHOST = "localhost"

Part = Literal["client", "server", "admin"]

_SCHEME = "grpc"


@dataclass(frozen=True)
class Credentials:
    """What one end of a connection presents and verifies, in PEM."""

    key: bytes = field(repr=False)
    certificate: str
    root: str


def require_nvflare() -> None:
    """Refuse to continue without the optional dependency.

    Raises
    ------
    StudyError
    """
    if find_spec("nvflare") is None:
        raise StudyError(
            "This needs NVFlare, which is not installed; install hyfdca[nvflare]."
        )


def write_startup(
    folder: Path, part: Part, name: str, server: Server, credentials: Credentials
) -> None:
    """Write the startup kit of one party to a new folder.

    Raises
    ------
    StudyError
    """
    require_nvflare()
    draft = folder.with_name(f".{folder.name}.nvflare")
    made = _built(draft, part, name, server)
    startup = made / "startup"
    base = "server" if part == "server" else "client"
    write_secret(startup / f"{base}.key", credentials.key)
    (startup / f"{base}.crt").write_text(credentials.certificate)
    (startup / "rootCA.pem").write_text(credentials.root)
    (made / "transfer").mkdir(exist_ok=True)
    made.rename(folder)
    shutil.rmtree(draft)


def _built(workspace: Path, part: Part, name: str, server: Server) -> Path:
    """Let NVFlare write a startup kit without credentials; return its path."""
    # Imported here: nvflare is an extra and takes a second.
    from nvflare.lighter.constants import CtxKey  # noqa: PLC0415
    from nvflare.lighter.impl.static_file import StaticFileBuilder  # noqa: PLC0415
    from nvflare.lighter.impl.workspace import WorkspaceBuilder  # noqa: PLC0415
    from nvflare.lighter.provisioner import Provisioner  # noqa: PLC0415

    static = StaticFileBuilder(
        config_folder="config", scheme=_SCHEME, require_signed_jobs=True
    )
    provisioner = Provisioner(str(workspace), [WorkspaceBuilder(), static])
    quiet = logging.getLogger(f"{__name__}.quiet")
    quiet.disabled = True
    context = provisioner.provision(_project(part, name, server), logger=quiet)
    if context.get(CtxKey.BUILD_ERROR):
        raise StudyError(f"NVFlare could not make a startup kit for {name!r}.")
    return Path(context[CtxKey.CURRENT_PROD_DIR]) / name


def _project(part: Part, name: str, server: Server) -> Any:
    from nvflare.lighter.entity import Project  # noqa: PLC0415

    project = Project(PROJECT, "")
    properties = {
        "fed_learn_port": server.port,
        "admin_port": server.port,
        "default_host": server.host,
        "connection_security": "mtls",
    }
    project.set_server(server.name, ORG, properties)
    if part == "client":
        project.add_client(name, ORG, {"connection_security": "mtls"})
    elif part == "admin":
        project.add_admin(name, ORG, {"role": "project_admin"})
    return project
