from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hyfdca.errors import StudyError
from hyfdca.flare.job_environment import JobEnvironment
from hyfdca.flare.lock import only_one
from hyfdca.flare.processes import Parent, require_free
from hyfdca.flare.status import Note, forget_note, progress, read_note, write_note
from hyfdca.kits.kit import Kit, Side, read_client_kit, read_server_kit
from hyfdca.kits.policy import policy
from tests.kits.kit_makers import Parties


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    (tmp_path / "flare").mkdir()
    kit = Kit(tmp_path)
    kit.make_folders()
    return kit


def test_importing_the_package_imports_no_nvflare() -> None:
    """NVFlare is an optional dependency: only its own processes need it."""
    modules = "hyfdca, hyfdca.cli.main, hyfdca.flare.supervisor, hyfdca.flare.client"
    check = (
        f"import sys, {modules}; "
        "sys.exit(any(name.split('.')[0] == 'nvflare' for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", check], check=False)  # noqa: S603
    assert run.returncode == 0


def test_a_folder_that_is_not_a_kit_is_refused(installed: Parties) -> None:
    """Both sides refuse it, and the error names what is missing."""
    with pytest.raises(StudyError, match=r"no startup kit .* with fed_server"):
        read_server_kit(installed.kit("north"))
    with pytest.raises(StudyError, match=r"hyfdca kit install"):
        read_client_kit(installed.root)


@pytest.mark.parametrize("name", ["Söder", "a b", "", "server", "ALL", "x@y", "-a"])
def test_names_that_nvflare_does_not_take_are_refused(
    installed: Parties, name: str
) -> None:
    """An organisation is a site of NVFlare, also in kits made by others."""
    study = installed.kits / "server" / "study.toml"
    text = study.read_text("utf-8").replace('name = "coast"', f'name = "{name}"')
    study.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match="Between machines the name"):
        read_server_kit(installed.kits / "server")


@pytest.mark.parametrize("side", ["server", "client"])
def test_a_start_makes_a_kit_strict_again(
    installed: Parties, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edited policy files are replaced by the program's own."""
    folder = installed.kits / "server" if side == "server" else installed.kit("north")
    read = read_server_kit if side == "server" else read_client_kit
    kit = read(folder)
    strict = policy(side, kit.flare)
    for name in strict:
        (kit.flare / "local" / name).write_text('{"class_allow_list": ["*"]}')
    kit.make_folders()
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: None)
    Parent(kit, JobEnvironment(kit.folder))
    for name, content in strict.items():
        assert json.loads((kit.flare / "local" / name).read_bytes()) == content


def test_a_note_is_read_as_it_was_written(kit: Kit) -> None:
    """Once deleted, it is gone."""
    assert read_note(kit) is None
    note = Note("job", "failed", "It broke.")
    write_note(kit, note)
    assert read_note(kit) == note
    forget_note(kit)
    assert read_note(kit) is None


def test_a_study_without_progress_has_none(kit: Kit) -> None:
    """Progress is the content that the study writes."""
    assert progress(kit) == b""
    (kit.state / "progress.json").write_text("7")
    assert progress(kit) == b"7"


def test_a_kit_is_held_by_one_at_a_time(kit: Kit) -> None:
    """A second one is refused, and may have it afterwards."""
    with (
        only_one(kit),
        pytest.raises(StudyError, match="Another hyfdca"),
        only_one(kit),
    ):
        pass
    with only_one(kit):
        pass


def test_a_port_that_is_taken_is_refused() -> None:
    """Two servers would share it in gRPC, each with half of the clients."""
    with socket.socket() as other:
        if hasattr(socket, "SO_REUSEPORT"):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StudyError, match=f"Port {port}"):
            require_free(port)
    require_free(port)
