"""A kit on disk: where its parts are, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from hyfdca.crypto.identity import Identity, PublicIdentity
from hyfdca.key_files import read_identity
from hyfdca.kits import tls
from hyfdca.kits.folders import read_limited
from hyfdca.study import Client, StudyFile, parse
from hyfdca.study_error import StudyError
from hyfdca.study_identity import public_identities

STUDY, KEYS, FLARE, ADMIN = "study.toml", "keys", "flare", "admin"
STATE, LOG, OUT = "state", "log", "out"

_MOST_BYTES = 1_000_000
_REMEDY = "give the folder that hyfdca kit install wrote"
_SERVER_REMEDY = "give the folder server that hyfdca provision wrote"


@dataclass(frozen=True)
class ClientKit:
    """An organisation's kit: its study, its own entry there and its keys."""

    folder: Path
    file: StudyFile
    content: bytes
    client: Client
    identity: Identity

    @property
    def flare(self) -> Path:
        """NVFlare's startup kit."""
        return self.folder / FLARE

    @property
    def state(self) -> Path:
        """Where the organisation keeps what it must remember."""
        return self.folder / STATE

    @property
    def log(self) -> Path:
        """Where it writes what happened."""
        return self.folder / LOG

    @property
    def org(self) -> str:
        """What NVFlare calls the organisation, for its command line."""
        return tls.organisation(read_certificate(self.flare, "client"))


@dataclass(frozen=True)
class ServerKit:
    """The coordinator's kit."""

    folder: Path
    file: StudyFile
    content: bytes

    @property
    def flare(self) -> Path:
        """NVFlare's startup kit."""
        return self.folder / FLARE

    @property
    def admin(self) -> Path:
        """The startup kit that submits jobs."""
        return self.folder / ADMIN

    @property
    def state(self) -> Path:
        """Where the server keeps what it must remember, and NVFlare its jobs."""
        return self.folder / STATE

    @property
    def log(self) -> Path:
        """Where it writes what happened."""
        return self.folder / LOG

    @property
    def out(self) -> Path:
        """Where the model goes."""
        return self.folder / OUT

    @property
    def org(self) -> str:
        """What NVFlare calls the coordinator, for its command line."""
        return tls.organisation(read_certificate(self.flare, "server"))

    @property
    def admin_name(self) -> str:
        """Who submits jobs."""
        return tls.common_name(read_certificate(self.admin, "client"))


def read_server_kit(folder: Path) -> ServerKit:
    """Return the coordinator's kit.

    Raises
    ------
    StudyError
        If parts are missing.
    """
    content = read_limited(folder / STUDY, _MOST_BYTES, _SERVER_REMEDY)
    for path in (folder / FLARE, folder / ADMIN):
        if not (path / "startup").is_dir():
            raise StudyError(f"There is no startup kit {path}; {_SERVER_REMEDY}.")
    return ServerKit(folder, parse(content, folder / STUDY), content)


def read_client_kit(folder: Path) -> ClientKit:
    """Return an organisation's kit; its public key says which organisation's.

    Raises
    ------
    StudyError
        If parts are missing or do not belong together.
    """
    path = folder / STUDY
    content = read_limited(path, _MOST_BYTES, _REMEDY)
    file = parse(content, path)
    identity = read_identity(folder / KEYS)
    return ClientKit(folder, file, content, own_entry(file, identity.public), identity)


def own_entry(file: StudyFile, public: PublicIdentity) -> Client:
    """Return the organisation of a study that has these keys.

    Raises
    ------
    StudyError
    """
    known = public_identities({c.name: c.public_key for c in file.clients})
    for client in file.clients:
        if known.get(client.name) == public:
            return client
    raise StudyError(
        f"No organisation of the study {file.study.name!r} has the public key with the "
        f"fingerprint {public.fingerprint}; have its line put into the study file, or "
        "use the keys that belong to it."
    )


def read_certificate(flare: Path, base: str) -> x509.Certificate:
    """Return a startup kit's certificate, "client", "server" or "rootCA".

    Raises
    ------
    StudyError
    """
    ending = "pem" if base == "rootCA" else "crt"
    path = flare / "startup" / f"{base}.{ending}"
    content = read_limited(path, _MOST_BYTES, _REMEDY)
    return tls.load_certificate(content.decode("ascii", errors="replace"), str(path))
