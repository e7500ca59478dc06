"""Files of kits, requests and packages that are damaged: one sentence with the path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hyfdca.errors import StudyError
from hyfdca.kits.authority import read_authority
from hyfdca.kits.checking import check_certificate
from hyfdca.kits.enrolment import read_keys, read_request
from hyfdca.kits.kit import read_client_kit, read_server_kit
from hyfdca.kits.package import read_package
from hyfdca.kits.policy import is_strict_client
from tests.kits.kit_makers import Parties
from tests.support.consortia import assert_one_sentence
from tests.support.spoiling import spoilt

pytestmark = pytest.mark.usefixtures("small_tls")


def use_client_kit(folder: Path) -> None:
    kit = read_client_kit(folder)
    assert kit.owner.address
    check_certificate(kit)
    is_strict_client(kit.flare)


def use_server_kit(folder: Path) -> None:
    kit = read_server_kit(folder)
    assert kit.owner.address
    assert kit.admin_name


FILES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "study": ("north/kit", "study.toml", use_client_kit),
    "secret key": ("north/kit", "keys/secret.key", use_client_kit),
    "public key": ("north/kit", "keys/public.key", use_client_kit),
    "settings": ("north/kit", "flare/startup/fed_client.json", use_client_kit),
    "policy": ("north/kit", "flare/local/resources.json", use_client_kit),
    "certificate": ("north/kit", "flare/startup/client.crt", use_client_kit),
    "root": ("north/kit", "flare/startup/rootCA.pem", use_client_kit),
    "server": ("coordinator/kits/server", "flare/startup/server.crt", use_server_kit),
    "admin": ("coordinator/kits/server", "admin/startup/client.crt", use_server_kit),
    "port": (
        "coordinator/kits/server",
        "flare/startup/fed_server.json",
        use_server_kit,
    ),
    "request": (
        "coordinator/requests",
        "north.request.json",
        lambda folder: read_request(folder / "north.request.json"),
    ),
    "package": (
        "north",
        "package.json",
        lambda folder: read_package(folder / "package.json"),
    ),
    "tls key": ("north/keys", "tls.key", read_keys),
    "root key": ("coordinator/kits/ca", "root.key", read_authority),
    "authority": ("coordinator/kits/ca", "root.pem", read_authority),
}


def refusal(use: Callable[[Path], object], home: Path) -> str:
    """Return why files are refused; "" if they can be used."""
    try:
        use(home)
    except StudyError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("what", FILES)
def test_damaged_files_are_used_or_refused(installed: Parties, what: str) -> None:
    """Nothing but the project's own error, in one sentence that says where."""
    folder, name, use = FILES[what]
    home = installed.root / folder
    path = home / name
    use(home)
    n_refused = 0
    for content in spoilt(path.read_bytes(), 50, what):
        path.write_bytes(content)
        said = refusal(use, home)
        n_refused += bool(said)
        if said:
            assert_one_sentence(f"{said}\n")
    assert n_refused or what == "policy"
