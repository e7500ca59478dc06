from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hyfdca.flare.kits import Kit, client_names, open_kit
from hyfdca.flare.local_rules import write_local_rules
from hyfdca.flare.lock import only_one
from hyfdca.flare.notes import Note, forget_note, progress, read_note, write_note
from hyfdca.flare.supervisor import require_free
from hyfdca.study_error import StudyError


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    for folder in ("flare/startup", "flare/local", "admin/startup", "state"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "flare/startup/fed_client.json").write_text("{}")
    (tmp_path / "study.toml").write_text('[[clients]]\nname = "north"\n')
    return Kit(tmp_path)


def test_importing_the_package_imports_no_nvflare() -> None:
    """NVFlare is an extra: only its own processes need it."""
    modules = "hyfdca, hyfdca.cli, hyfdca.flare.supervisor, hyfdca.flare.client"
    check = f"import sys, {modules}; sys.exit('nvflare' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)  # noqa: S603


def test_a_folder_that_is_no_kit_is_refused(kit: Kit) -> None:
    """The sentence names what is missing."""
    assert open_kit(kit.folder, "client").log.is_dir()
    with pytest.raises(StudyError, match=r"no kit of a server.*fed_server\.json"):
        open_kit(kit.folder, "server")


@pytest.mark.parametrize("name", ["Söder", "a b", "", "server", "x@y"])
def test_names_that_nvflare_does_not_take_are_refused(kit: Kit, name: str) -> None:
    """An organisation is a site of NVFlare."""
    kit.study.write_text(f'[[clients]]\nname = "{name}"\n', encoding="utf-8")
    with pytest.raises(StudyError, match="cannot take part between machines"):
        client_names(kit)


def test_names_come_from_the_study_file_by_rank(kit: Kit) -> None:
    """A study file that cannot be read is a sentence too."""
    assert client_names(kit) == ("north",)
    kit.study.write_text("[[clients")
    with pytest.raises(StudyError, match="no study file that can be read"):
        client_names(kit)


@pytest.mark.parametrize("kind", ["server", "client"])
def test_a_site_runs_no_code_of_jobs_and_shows_no_files(kit: Kit, kind: str) -> None:
    """Whatever the kit brought, a site's rules are its own program's."""
    local = kit.flare / "local"
    (local / "resources.json").write_text('{"class_allow_list": ["*"]}')
    write_local_rules(kit, kind)
    resources = json.loads((local / "resources.json").read_text())
    assert all(
        path.startswith("hyfdca.flare.") for path in resources["class_allow_list"]
    )
    assert resources["class_list_enforcement_mode"] == "enforce"
    assert resources["allow_log_streaming"] is False
    roles = json.loads((local / "authorization.json").read_text())["permissions"]
    for rights in roles.values():
        assert rights["byoc"] == rights["shell_commands"] == "none"
        assert rights["operate"] == ("any" if kind == "server" else "none")


def test_nothing_of_a_server_is_kept_outside_its_kit(kit: Kit) -> None:
    """NVFlare's defaults share a folder among all servers of a machine."""
    write_local_rules(kit, "server")
    rules = (kit.flare / "local" / "resources.json").read_text()
    assert "/tmp/nvflare" not in rules  # noqa: S108  # NVFlare's, not ours
    assert str(kit.flare / "jobs") in rules


def test_a_note_is_read_as_it_was_written(kit: Kit) -> None:
    """And is gone when it is forgotten."""
    assert read_note(kit) is None
    note = Note("job", "failed", "It broke.")
    write_note(kit, note)
    assert read_note(kit) == note
    forget_note(kit)
    assert read_note(kit) is None


def test_a_study_without_progress_has_none(kit: Kit) -> None:
    """Progress is whatever the study writes."""
    assert progress(kit) == b""
    (kit.state / "progress.json").write_text("7")
    assert progress(kit) == b"7"


def test_a_kit_is_held_by_one_at_a_time(kit: Kit) -> None:
    """The second is told so, and may have it afterwards."""
    with (
        only_one(kit),
        pytest.raises(StudyError, match="Another hyfdca"),
        only_one(kit),
    ):
        pass
    with only_one(kit):
        pass


def test_a_port_that_is_taken_is_refused() -> None:
    """GRPC would share it and get half of the clients."""
    with socket.socket() as other:
        if hasattr(socket, "SO_REUSEPORT"):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StudyError, match=f"Port {port}"):
            require_free(port)
    require_free(port)
