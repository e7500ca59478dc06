"""Who is not let into a study: told why on both sides, while the others wait and train.

All strangers come while one organisation is still missing, then the study runs: so they
find a server however fast the machine is.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hyfdca.crypto.keys.identity import Identity
from hyfdca.kits import tls
from hyfdca.kits.all_local import provision_all
from hyfdca.kits.authority import read_authority
from hyfdca.kits.writing import credentials_of, write_client_kit
from hyfdca.study.file import load
from tests.flare.flare_kits import Site, compare, site
from tests.flare.flare_parties import Command
from tests.support.consortia import assert_one_sentence, make_files

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_tls")]

_SOON = 150.0  # seconds; a client is refused within thirty of a machine's own


def of_another_authority(made: Site) -> Path:
    """Return a kit of the same study file that another coordinator made."""
    others = made.folder / "others"
    provision_all(made.study, others)
    return others / "coast"


def with_other_keys(made: Site) -> Path:
    """Return a kit with keys that are not in its study file."""
    kit = made.folder / "other-keys"
    shutil.copytree(made.kit("coast"), kit)
    shutil.rmtree(kit / "keys")
    shutil.copytree(made.folder / "others" / "coast" / "keys", kit / "keys")
    return kit


def not_of_the_study(made: Site) -> Path:
    """Return a kit that its own coordinator certified, with a study file of its own."""
    authority = read_authority(made.kits / "ca")
    identity, key = Identity.generate(), tls.new_key()
    entry = f'[[clients]]\nname = "harbour"\npublic_key = "{identity.public.text}"\n'
    study = entry.encode() + (made.kits / "study.toml").read_bytes()
    shown = authority.issue("harbour", "client", key.public_key())
    credentials = credentials_of(key, shown, authority.root)
    kit, server = made.folder / "harbour", load(made.study).server
    write_client_kit(kit, study, "harbour", identity, server, credentials)
    return kit


def second_of(made: Site, name: str) -> Path:
    """Return a copy of a kit that is in use."""
    kit = made.folder / "second"
    shutil.copytree(made.kit(name), kit, ignore=shutil.ignore_patterns("said-*"))
    return kit


def assert_refused(stranger: Command, why: str) -> None:
    """Check that a command ended with a sentence of its own as the last line."""
    assert stranger.ends(_SOON) == 2, stranger.said
    assert_one_sentence(stranger.said.splitlines(keepends=True)[-1])
    assert why in stranger.said.splitlines()[-1]
    assert "Traceback" not in stranger.said


def test_strangers_are_refused_and_the_study_is_that_of_its_members(
    tmp_path: Path,
) -> None:
    """Other authorities, other keys, other names, second clients, other study files."""
    with site(tmp_path, make_files(algorithm='"hyfdca"', step='"safe"')) as made:
        server = made.server()
        clients = {name: made.client(name) for name in ("north", "city")}
        server.says("Waiting for coast.", _SOON)
        foreign = made.client("coast", of_another_authority(made))
        keyless = made.client("coast", with_other_keys(made))
        assert_refused(foreign, "was not made by the authority of this kit")
        assert_refused(keyless, "No organisation of the study 'test' has the public")
        unknown = made.client("north", not_of_the_study(made))
        second = made.client("north", second_of(made, "north"))
        assert_refused(unknown, "or its study has no such organisation")
        assert_refused(second, "another one with the identity 'north' is connected")
        server.says("calls itself 'harbour': the study has no such organisation.")
        server.says("calls itself 'north': it is connected already.")
        refuse_another_study_file(made, server)
        clients["coast"] = made.client("coast")
        assert server.ends(2 * _SOON) == 0, server.said
        assert [client.ends(60) for client in clients.values()] == [0, 0, 0]
        compare(made, replays=False)


def refuse_another_study_file(made: Site, server: Command) -> None:
    """Have an organisation come with one byte more in its study file."""
    path = made.kit("coast") / "study.toml"
    agreed = path.read_bytes()
    path.write_bytes(agreed + b"\n")
    other = made.client("coast")
    assert_refused(other, "This organisation cannot take part: its study file (")
    server.says("Organisation 'coast' is not there: refused: its study file (")
    path.write_bytes(agreed)
