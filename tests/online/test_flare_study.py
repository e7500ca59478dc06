"""A whole study between processes: the model and its history of one process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from hyfdca.model.file import as_bytes
from hyfdca.study.file import load
from hyfdca.study.local import prepare
from hyfdca.study.outcome import Outcome, train
from tests.flare.flare_kits import NAMES, Site, four_organisations, numbers, site

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_tls")]

# Makes the loopback of a new network work (SIOCSIFFLAGS; up and running), then waits.
_ALONE = """
import fcntl, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x41))
print("alone", flush=True)
sys.stdin.read()
"""


@contextmanager
def no_network() -> Iterator[list[str]]:
    """Give what a command line begins with whose process reaches nothing outside.

    A namespace of the kernel, which also holds for what is no Python, such as gRPC;
    nothing on systems that do not let us make one.
    """
    if not shutil.which("unshare"):
        yield []
        return
    command = ["unshare", "--map-root-user", "--net", sys.executable, "-c", _ALONE]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:  # noqa: S603
        assert holder.stdout is not None
        is_alone = holder.stdout.readline() == "alone\n"
        enter = ["nsenter", "-t", str(holder.pid), "--user", "--net"]
        try:
            yield enter if is_alone else []
        finally:
            holder.kill()


def test_without_a_network_there_is_nothing_but_this_machine() -> None:
    """What the next test relies on, where the system allows it."""
    with no_network() as alone:
        if not alone:
            pytest.skip("This system lets us make no network of our own.")
        words = [*alone, "cat", "/proc/net/dev"]
        listed = subprocess.check_output(words, text=True)  # noqa: S603
    interfaces = [line.split(":")[0].strip() for line in listed.splitlines()[2:]]
    assert interfaces == ["lo"]


def as_parquet(made: Site, name: str) -> None:
    """Have an organisation keep its table as Parquet."""
    for path in (made.folder / f"{name}.csv", made.data[name]):
        pyarrow.parquet.write_table(
            pyarrow.csv.read_csv(path), path.with_suffix(".parquet")
        )
        path.unlink()
    made.data[name] = made.data[name].with_suffix(".parquet")


def test_a_study_between_processes_is_that_of_one_process(tmp_path: Path) -> None:
    """Four organisations, their vectors in BFV, with no network but this machine's."""
    files = four_organisations(small_vectors='"same"', tol="1e-2")
    files.organisations["city"].extra = 'data = "city.parquet"'
    with no_network() as alone, site(tmp_path, files, alone) as made:
        as_parquet(made, "city")
        server, clients = made.start()
        assert server.ends(300) == 0, server.said
        for client in clients.values():
            assert client.ends(60) == 0, client.said
        expected = train(prepare(load(made.study), made.folder), lambda *_: None)
        check_models(made, expected)
        check_history(made, expected)
        check_sealing(made)
        check_tables(made)


def check_models(made: Site, expected: Outcome) -> None:
    """Weights, scaling and certificate, byte for byte, at the server and at all."""
    for party in ("server", *NAMES):
        path = made.kit(party) / "out" / "model.json"
        assert path.read_bytes() == as_bytes(expected.model())


def check_history(made: Site, expected: Outcome) -> None:
    """Objectives and participants bit for bit; round trips too."""
    history, records = made.result("history.json"), expected.history()
    assert len(history) >= 3
    assert numbers(history) == numbers(records)
    for name in ("round_trips", "search_round_trips"):
        assert [r[name] for r in history] == [r[name] for r in records]


def check_sealing(made: Site) -> None:
    """Vectors were sealed with BFV, not with what is smaller."""
    sealed_with = made.result("result.json")["sealed_with"].values()
    assert all(scheme.startswith("bfv") for scheme in sealed_with)


def check_tables(made: Site) -> None:
    """No kit has a number of an organisation's table in it."""
    rows = made.data["north"].read_text("utf-8").splitlines()[1:]
    cells = {row.split(",")[1].encode() for row in rows}
    for path in made.kits.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [cell for cell in cells if cell in content], path
