"""A kit on disk: its parts, its owner and its server's address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
from cryptography import x509

from hyfdca.crypto.keys.identity import Identity, PublicIdentity
from hyfdca.errors import StudyError, reading
from hyfdca.files import read_limited
from hyfdca.kits import tls
from hyfdca.kits.key_files import read_identity
from hyfdca.kits.names import check_names
from hyfdca.study.client.policy import MemberPolicy, read_policy_of
from hyfdca.study.file import Client, StudyFile, parse
from hyfdca.study.identity import public_identities

STUDY, KEYS, FLARE, ADMIN = "study.toml", "keys", "flare", "admin"
STATE, LOG, OUT = "state", "log", "out"

Side = Literal["client", "server"]

_MOST_BYTES = 1_000_000
_REMEDY = "give the folder that hyfdca kit install wrote"
_SERVER_REMEDY = "give the folder server that hyfdca provision wrote"


@dataclass(frozen=True)
class Kit:
    """The paths of a kit; the folder may be moved between runs."""

    folder: Path

    @property
    def flare(self) -> Path:
        """NVFlare's startup kit and working folder."""
        return self.folder / FLARE

    @property
    def admin(self) -> Path:
        """NVFlare's startup kit of the admin who submits jobs; a server's only."""
        return self.folder / ADMIN

    @property
    def state(self) -> Path:
        """The folder of checkpoints, from which the study resumes."""
        return self.folder / STATE

    @property
    def log(self) -> Path:
        """The folder of logs, with the output of NVFlare's processes."""
        return self.folder / LOG

    @property
    def out(self) -> Path:
        """The folder that the model is written to."""
        return self.folder / OUT

    def make_folders(self) -> None:
        """Make the folders that a run needs, for the owner only."""
        for own in (
            self.state,
            self.log,
            self.flare / "local",
            self.flare / "transfer",
        ):
            own.mkdir(mode=0o700, exist_ok=True)


@dataclass(frozen=True)
class Owner:
    """A startup kit's owner and the server's address, according to NVFlare."""

    name: str
    organisation: str
    address: str  # host:port

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True)
class StudyKit(Kit):
    """A kit whose study file was read.

    Parameters
    ----------
    content : bytes
        The exact bytes of the study file, which everybody compares.
    """

    side: ClassVar[Side]

    file: StudyFile
    content: bytes

    @property
    def names(self) -> tuple[str, ...]:
        """The study's organisations by rank; each is an NVFlare site."""
        return tuple(client.name for client in self.file.clients)

    @property
    def owner(self) -> Owner:
        """The owner according to NVFlare.

        Raises
        ------
        StudyError
        """
        certificate = read_certificate(self.flare, self.side)
        path = self.flare / "startup" / f"fed_{self.side}.json"
        with reading(_unreadable(path)):
            address = read_settings(path)["servers"][0]["service"]["target"]
            host, port = address.rsplit(":", 1)
            address = f"{host}:{int(port)}"
        return Owner(
            tls.common_name(certificate), tls.organisation(certificate), address
        )


@dataclass(frozen=True)
class ClientKit(StudyKit):
    """An organisation's kit: its study, its own entry there, its keys and policy."""

    side = "client"

    client: Client
    identity: Identity
    policy: MemberPolicy


@dataclass(frozen=True)
class ServerKit(StudyKit):
    """The coordinator's kit."""

    side = "server"

    @property
    def admin_name(self) -> str:
        """The name of the admin who submits jobs."""
        return tls.common_name(read_certificate(self.admin, "client"))


def read_server_kit(folder: Path) -> ServerKit:
    """Return the coordinator's kit.

    Raises
    ------
    StudyError
        If parts are missing, or organisations have names that NVFlare rejects.
    """
    file, content = _read_study(folder, _SERVER_REMEDY)
    for place in (
        f"{FLARE}/startup/fed_server.json",
        f"{ADMIN}/startup/fed_admin.json",
    ):
        _require(folder / place, _SERVER_REMEDY)
    return ServerKit(folder.resolve(), file, content)


def read_client_kit(folder: Path) -> ClientKit:
    """Return an organisation's kit; its public key identifies the organisation.

    Raises
    ------
    StudyError
        If parts are missing or do not match.
    """
    if (folder / FLARE / "startup" / "fed_server.json").is_file():
        raise StudyError(
            f"{folder} is the server's kit; an organisation's kit is made by hyfdca "
            "kit install."
        )
    file, content = _read_study(folder, _REMEDY)
    identity = read_identity(folder / KEYS)
    _require(folder / FLARE / "startup" / "fed_client.json", _REMEDY)
    own = own_entry(file, identity.public)
    policy = read_policy_of(folder)
    policy.accepted_askers(own.name, [client.name for client in file.clients])
    return ClientKit(folder.resolve(), file, content, own, identity, policy)


def _read_study(folder: Path, remedy: str) -> tuple[StudyFile, bytes]:
    path = folder / STUDY
    content = read_limited(path, _MOST_BYTES, remedy)
    file = parse(content, path)
    check_names(file)
    return file, content


def _require(path: Path, remedy: str) -> None:
    if not path.is_file():
        raise StudyError(
            f"There is no startup kit {path.parents[1]} with {path.name}; {remedy}."
        )


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
        f"fingerprint {public.fingerprint}; add its line to the study file, or "
        "use the keys that belong to the study."
    )


def certificate_path(flare: Path, base: str) -> Path:
    """Return the path of a startup kit's "client", "server" or "rootCA"."""
    ending = "pem" if base == "rootCA" else "crt"
    return flare / "startup" / f"{base}.{ending}"


def read_certificate(flare: Path, base: str) -> x509.Certificate:
    """Return a startup kit's certificate, "client", "server" or "rootCA".

    Raises
    ------
    StudyError
    """
    path = certificate_path(flare, base)
    content = read_limited(path, _MOST_BYTES, _REMEDY)
    return tls.load_certificate(content.decode("ascii", errors="replace"), str(path))


def read_settings(path: Path) -> Any:
    """Return the settings that NVFlare wrote to a file of a startup kit.

    Raises
    ------
    StudyError
    """
    content = read_limited(path, _MOST_BYTES, _REMEDY)
    with reading(_unreadable(path)):
        return msgspec.json.decode(content)


def _unreadable(path: Path) -> StudyError:
    return StudyError(f"The file {path} is damaged; make a new startup kit.")
