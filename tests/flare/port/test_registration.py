from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.private.defs import ClientType

from hyfdca.flare.job_environment import JobEnvironment
from hyfdca.flare.port.registration import RegistrationGuard
from hyfdca.flare.status import holders
from hyfdca.kits.kit import Kit, ServerKit


@pytest.fixture(autouse=True)
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir()
    for part, settings in {"flare": "fed_server", "admin": "fed_admin"}.items():
        (tmp_path / part / "startup").mkdir(parents=True)
        (tmp_path / part / "startup" / f"{settings}.json").touch()
    study = '[study]\nname = "test"\n'
    names = '[[clients]]\nname = "north"\n[[clients]]\nname = "city"\n'
    (tmp_path / "study.toml").write_text(study + names, encoding="utf-8")
    for name, value in JobEnvironment(tmp_path).environment().items():
        monkeypatch.setenv(name, value)


def knock(
    guard: RegistrationGuard, name: str, run: str, alive: bool = True, kind: str = ""
) -> None:
    """Register with a server that knows a client of that name, alive or not."""
    seen = time.time() - (0.0 if alive else 60.0)
    peer = SimpleNamespace(get_identity_name=lambda: name, get_prop=lambda *_: run)
    engine = SimpleNamespace(
        get_client_from_name=lambda _: SimpleNamespace(last_connect_time=seen)
    )
    context: Any = SimpleNamespace(
        get_peer_context=lambda: peer,
        get_engine=lambda: engine,
        get_prop=lambda *_: kind or ClientType.REGULAR,
    )
    guard.handle_event(EventType.CLIENT_REGISTER_RECEIVED, context)


def test_a_restarted_client_is_let_in_at_once(tmp_path: Path) -> None:
    """A server that was restarted in between admits it too."""
    knock(RegistrationGuard(), "north", "a")
    knock(RegistrationGuard(), "north", "a")
    assert holders(Kit(tmp_path)) == {"north": "a"}


def test_a_second_one_is_refused_while_the_first_is_alive() -> None:
    """A server that was restarted refuses it too."""
    knock(RegistrationGuard(), "north", "a")
    for _ in range(2):
        with pytest.raises(NotAuthenticated):
            knock(RegistrationGuard(), "north", "b")
    knock(RegistrationGuard(), "city", "b")
    knock(RegistrationGuard(), "north", "b", alive=False)
    with pytest.raises(NotAuthenticated):
        knock(RegistrationGuard(), "north", "a")


def test_a_name_that_is_not_in_the_study_is_refused() -> None:
    """Its certificate does not matter."""
    with pytest.raises(NotAuthenticated):
        knock(RegistrationGuard(), "harbour", "a", alive=False)


@pytest.mark.parametrize("kind", [ClientType.ADMIN, ClientType.RELAY, "another"])
def test_roles_are_those_of_the_study(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The admin is that of the server's kit; organisations have no other role."""
    monkeypatch.setattr(ServerKit, "admin_name", "admin")
    with pytest.raises(NotAuthenticated):
        knock(RegistrationGuard(), "north", "a", kind=kind)
    knock(RegistrationGuard(), "admin", "", kind=ClientType.ADMIN)
