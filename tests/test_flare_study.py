"""A whole study between processes: the model and its history of one process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.csv
import pyarrow.parquet
import pytest

from hyfdca.local_study import prepare
from hyfdca.model_file import as_bytes
from hyfdca.outcome import Outcome, train
from hyfdca.study import load
from tests.flare_kits import NAMES, Site, four_organisations, numbers, site

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_tls")]

# Prints one line when it is a network with nothing but this machine in it.
_ALONE = "ip link set lo up && echo alone && exec sleep 600"


@contextmanager
def no_network() -> Iterator[list[str]]:
    """Give what a command line begins with whose process reaches nothing outside.

    A namespace of the kernel, which also holds for what is no Python, such as gRPC.
    """
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", _ALONE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:  # noqa: S603
        assert holder.stdout is not None
        if holder.stdout.readline() != "alone\n":
            pytest.skip("this system does not let us make a network namespace")
        try:
            yield ["nsenter", "-t", str(holder.pid), "--user", "--net"]
        finally:
            holder.kill()


@pytest.fixture(scope="module")
def finished(
    small_tls: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Run a study of four to its end, its vectors in BFV, without any network."""
    files = four_organisations(small_vectors='"same"', tol="1e-2")
    files.organisations["city"].extra = 'data = "city.parquet"'
    folder = tmp_path_factory.mktemp("study")
    with no_network() as alone, site(folder, files, alone) as made:
        as_parquet(made, "city")
        server, clients = made.start()
        assert server.ends(300) == 0, server.said
        for client in clients.values():
            assert client.ends(60) == 0, client.said
        yield made


def as_parquet(made: Site, name: str) -> None:
    """Have an organisation keep its table as Parquet."""
    for path in (made.folder / f"{name}.csv", made.data[name]):
        pyarrow.parquet.write_table(
            pyarrow.csv.read_csv(path), path.with_suffix(".parquet")
        )
        path.unlink()
    made.data[name] = made.data[name].with_suffix(".parquet")


@pytest.fixture(scope="module")
def in_process(finished: Site) -> Outcome:
    """Run the same study in this process."""
    run = prepare(load(finished.study), finished.folder)
    return train(run, lambda *_: None)


def test_the_model_is_that_of_one_process(finished: Site, in_process: Outcome) -> None:
    """Weights, scaling and certificate, byte for byte, at the server and at all."""
    expected = as_bytes(in_process.model())
    for party in ("server", *NAMES):
        path = finished.kit(party) / "out" / "model.json"
        assert path.read_bytes() == expected


def test_every_round_is_that_of_one_process(
    finished: Site, in_process: Outcome
) -> None:
    """Objectives and participants bit for bit; its costs too, but for the time."""
    history, expected = finished.result("history.json"), in_process.history()
    assert len(history) >= 3
    assert numbers(history) == numbers(expected)
    for found, record in zip(history, expected, strict=True):
        for name in ("round_trips", "search_round_trips"):
            assert found[name] == record[name]


def test_vectors_were_sealed_with_bfv(finished: Site) -> None:
    """Not with what is smaller."""
    sealed_with = finished.result("result.json")["sealed_with"].values()
    assert all(scheme.startswith("bfv") for scheme in sealed_with)


def test_tables_stay_where_they_are(finished: Site) -> None:
    """No kit has a number of an organisation's table in it."""
    rows = finished.data["north"].read_text("utf-8").splitlines()[1:]
    cells = {row.split(",")[1].encode() for row in rows}
    for path in finished.kits.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [cell for cell in cells if cell in content], path
