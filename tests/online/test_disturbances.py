"""Studies whose disks, clocks and certificates fail: they end at the same numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from hyfdca.cli.exit_codes import MAY_PASS, NOT_CONVERGED
from hyfdca.kits import authority as authority_module
from hyfdca.kits import tls
from hyfdca.kits.authority import read_authority
from hyfdca.kits.kit import certificate_path, read_client_kit, read_server_kit
from hyfdca.kits.package import package_content
from hyfdca.kits.renewal import renew_client, renew_package, renew_server
from tests.chaos import Chaos, files_of
from tests.flare.flare_kits import Site, compare, site
from tests.flare.flare_parties import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.usefixtures("small_tls")]

N_ROUNDS = 60
_DAY = 24 * 3600
_EXPLAINING = 15.0  # seconds
_SHIM = Path(__file__).parents[1] / "flare" / "moved_clock.c"


@contextmanager
def study(folder: Path, before: tuple[str, ...] = ()) -> Iterator[Site]:
    """Yield a study of many cheap rounds that must end at the undisturbed numbers."""
    with site(folder, files_of(None, max_rounds=str(N_ROUNDS)), before) as made:
        yield made
        compare(made, replays=False)


def in_rounds(made: Site) -> Chaos:
    """Start a study and wait until it is in its rounds."""
    chaos = Chaos.started(made, 0, N_ROUNDS)
    reach(chaos, 5)
    return chaos


def reach(chaos: Chaos, number: int) -> None:
    wait_until(lambda: chaos.site.round() >= number, 180.0, chaos.server.said)


def restart(chaos: Chaos, spoil: Callable[[], None]) -> None:
    """Stop all commands, spoil something, and start them again."""
    commands = {"server": chaos.server, **chaos.clients}
    for command in commands.values():
        command.interrupt()
    for command in commands.values():
        command.ends(60)
    spoil()
    chaos.server = chaos.site.server("--resume")
    chaos.clients = {name: chaos.site.client(name) for name in chaos.site.names}


# Files


def kept(made: Site, party: str) -> list[Path]:
    """Return the rounds that a party has kept, the last one last."""
    rounds = (made.kit(party) / "state" / "kept").glob("round-*")
    return sorted(rounds, key=lambda path: int(path.name.removeprefix("round-")))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("party", ["server", "coast"])
def test_one_wrong_bit_in_the_last_round(tmp_path: Path, party: str) -> None:
    """Everybody returns to the round before."""
    with study(tmp_path) as made:
        chaos = in_rounds(made)
        restart(chaos, lambda: flip(kept(made, party)[-1]))
        chaos.ends()


def test_stray_and_spoilt_files(tmp_path: Path) -> None:
    """Strays are ignored with a warning; notes are moved aside and rebuilt."""

    def spoil() -> None:
        for party in ("server", "coast"):
            last, state = kept(made, party)[-1], made.kit(party) / "state"
            shutil.copy(last, last.with_name("round-9.bak"))
            for name in ("job.json", "holder", "holders.json", "status.json"):
                (state / name).write_bytes(b"\xff{[")

    with study(tmp_path) as made:
        chaos = in_rounds(made)
        restart(chaos, spoil)
        chaos.ends()
        for command in (chaos.server, chaos.clients["coast"]):
            assert "round-9.bak is not part of the study's state" in command.said


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a disk of some megabytes on a folder, with what is in it."""
    if os.geteuid():
        pytest.skip("mounting a small disk needs root")
    aside = folder.with_name(f"{folder.name}-before")
    folder.rename(aside)
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:  # noqa: S603
        pytest.skip("this system lets nobody mount a small disk")
    shutil.copytree(aside, folder, dirs_exist_ok=True)
    try:
        yield
    finally:
        left = folder.with_name(f"{folder.name}-after")
        shutil.copytree(folder, left)
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607
        folder.rmdir()
        left.rename(folder)


def test_a_full_disk_of_a_client(tmp_path: Path) -> None:
    """The study waits, and continues once there is room."""
    with study(tmp_path) as made:
        (made.kit("coast") / "state").mkdir(mode=0o700)
        with small_disk(made.kit("coast") / "state"):
            chaos = in_rounds(made)
            filler = made.kit("coast") / "state" / "filler"
            fill(filler)
            chaos.server.says("No space left on device", 60.0)
            filler.unlink()
            start_again(chaos, "coast")
            chaos.ends()


def start_again(chaos: Chaos, name: str) -> None:
    """Start a client that cannot take part; it may explain itself for seconds first."""
    time.sleep(_EXPLAINING)
    if chaos.clients[name].process.poll() is not None:
        chaos.clients[name] = chaos.site.client(name)


def fill(path: Path) -> None:
    """Write until there is no room left."""
    with path.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                return


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write to a folder, not even root, who runs these tests."""
    if os.geteuid():
        pytest.skip("making a folder read-only for its owner needs root")
    for how in (["--bind", str(folder)], ["-o", "remount,bind,ro"]):
        words = ["mount", *how, str(folder)]
        if subprocess.run(words, capture_output=True, check=False).returncode:  # noqa: S603
            pytest.skip("this system lets nobody mount a folder read-only")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607


def test_a_folder_of_checkpoints_that_becomes_read_only(tmp_path: Path) -> None:
    """The server says whose; once it can be written to, the study continues."""
    with study(tmp_path) as made:
        chaos = in_rounds(made)
        with read_only(made.kit("coast") / "state" / "kept"):
            chaos.server.says("Read-only file system", 90.0)
        start_again(chaos, "coast")
        chaos.ends()


# Clocks


class MovedClock:
    """A clock that can be moved while processes run."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("moving the clock of a process needs a C compiler (cc)")
        self._file, library = folder / "ahead", folder / "moved_clock.so"
        self._file.write_bytes(bytes(8))
        words = [compiler, "-shared", "-fPIC", "-o", str(library), str(_SHIM), "-ldl"]
        subprocess.run(words, check=True)  # noqa: S603
        self.before = (
            "env",
            f"LD_PRELOAD={library}",
            f"MOVED_CLOCK={self._file}",
        )

    def move(self, days: int) -> None:
        """Make all processes see a clock that is ahead."""
        with self._file.open("r+b") as file:
            file.write((days * _DAY).to_bytes(8, "little", signed=True))


@pytest.mark.parametrize(("days", "seconds"), [(30, 10.0), (3 * 366, 40.0)])
def test_a_clock_that_jumps_for_a_moment(
    tmp_path: Path, days: int, seconds: float
) -> None:
    """The study resumes by itself, even after a time beyond all certificates."""
    clock = MovedClock(tmp_path)
    with study(tmp_path, clock.before) as made:
        chaos = in_rounds(made)
        clock.move(days)
        time.sleep(seconds)
        clock.move(0)
        chaos.ends()


# Certificates


def expire(made: Site) -> None:
    """Give the server and coast certificates that ended yesterday."""
    ca = read_authority(made.kits / "ca")
    server = read_server_kit(made.kit("server"))
    client = read_client_kit(made.kit("coast"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authority_module, "_LEAF_DAYS", -1)
        patch.setattr(authority_module, "_CLOCKS_DIFFER", timedelta(days=9))
        for flare, base in ((server.flare, "server"), (client.flare, "client")):
            path = certificate_path(flare, base)
            old = tls.load_certificate(path.read_text("ascii"), str(path))
            role, key = ("server" if base == "server" else "client"), old.public_key()
            host = server.file.server.host if base == "server" else None
            new = ca.issue(tls.common_name(old), role, key, host)  # type: ignore[arg-type]
            path.write_text(tls.certificate_pem(new), "ascii")


def test_expired_certificates_are_renewed(tmp_path: Path) -> None:
    """Commands end with a code that says try again; renewed, the study resumes."""
    with study(tmp_path) as made:
        chaos = in_rounds(made)
        restart(chaos, lambda: expire(made))
        assert chaos.server.ends(60) == MAY_PASS
        assert chaos.clients["coast"].ends(60) == MAY_PASS
        assert "has expired" in chaos.clients["coast"].said
        renew(made)
        chaos.server = made.server("--resume")
        chaos.clients["coast"] = made.client("coast")
        chaos.ends()
        assert chaos.server.ends() == NOT_CONVERGED


def renew(made: Site) -> None:
    """Renew the server's certificate and that of coast, by way of its package."""
    ca, kit = made.kits / "ca", read_client_kit(made.kit("coast"))
    path = certificate_path(kit.flare, "client")
    old = tls.load_certificate(path.read_text("ascii"), str(path))
    package, new = made.folder / "old.json", made.folder / "new.json"
    content = package_content(read_authority(ca), "coast", kit.content, old)
    package.write_bytes(content)
    renew_server(made.kit("server"), ca)
    renew_package(package, ca, new)
    renew_client(made.kit("coast"), new)
