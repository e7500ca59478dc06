"""Tables that do not fit together, and studies that end early: all parties say why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.flare.flare_kits import site
from tests.flare.flare_parties import Command
from tests.support.consortia import (
    N_ROWS,
    NAMES,
    Organisation,
    assert_one_sentence,
    make_files,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("online 2")]


def assert_told(clients: dict[str, Command], sentence: str) -> None:
    """Check that clients ended with the server's sentence, and exit code 2."""
    for client in clients.values():
        assert client.ends(60) == 2, client.said
        last = client.said.splitlines(keepends=True)[-1]
        assert last == f"The server stopped: {sentence}"
        assert "Traceback" not in client.said


@pytest.mark.thorough
@pytest.mark.usefixtures("small_tls")
def test_ids_that_lost_their_zeros(tmp_path: Path) -> None:
    """One organisation's IDs lost leading zeros: refused with counts and the reason."""
    files = make_files(encryption='"none"')
    for name, organisation in files.organisations.items():
        width = 1 if name == "city" else 4
        organisation.table["id"] = [f"{row + 1:0{width}d}" for row in organisation.rows]
    with site(tmp_path, files) as made:
        server, clients = made.start()
        assert server.ends(180) == 2, server.said
        last = server.said.splitlines(keepends=True)[-1]
        assert_one_sentence(last)
        assert (
            "Organisations 'north' and 'city' share 0 of 40 rows, and 20 more" in last
        )
        assert "IDs that differ in leading zeros alone" in last
        assert not (made.kit("server") / "out").exists()
        assert_told(clients, last)


@pytest.mark.thorough
@pytest.mark.usefixtures("small_tls")
def test_rows_without_ids(tmp_path: Path) -> None:
    """An organisation with a LIBSVM file is refused, unless the study is by order."""
    files = make_files(encryption='"none"', scale='"maxabs"')
    with site(tmp_path, files) as made:
        made.data["north"] = tmp_path / "north.libsvm"
        made.data["north"].write_text("1 1:1\n-1 2:1\n", "utf-8")
        server, clients = made.start()
        for party in (clients["north"], server):
            assert party.ends(180) == 2, party.said
            last = party.said.splitlines(keepends=True)[-1]
            assert_one_sentence(last)
            assert "Organisation 'north'" in last
            assert "north.libsvm has no IDs to match its rows by" in last
            assert 'set rows = "by order" if the same line is the same case' in last
        assert_told({n: c for n, c in clients.items() if n != "north"}, last)


@pytest.mark.usefixtures("small_tls")
def test_cells_that_nobody_holds(tmp_path: Path) -> None:
    """They are refused with their share; a table that has them mends the study."""
    files = make_files(encryption='"none"', uncovered='"refuse"', tol="1e-2")
    with site(tmp_path, files) as made:
        server, clients = made.start()
        assert server.ends(180) == 2, server.said
        last = server.said.splitlines(keepends=True)[-1]
        assert_one_sentence(last)
        assert "20.0% of all cells" in last
        assert "set uncovered = " in last
        assert_told(clients, last)
        rows = list(range(N_ROWS))
        whole = Organisation(rows, NAMES, files.organisations["north"].labels)
        files.organisations["coast"] = whole
        files.write(made.folder)  # the kits have their own study file
        shutil.copy(made.folder / "coast.csv", made.data["coast"])
        server, clients = made.start()
        assert server.ends(180) == 0, server.said
        assert [client.ends(60) for client in clients.values()] == [0] * 3


@pytest.mark.usefixtures("small_tls")
def test_every_party_says_that_training_did_not_converge(tmp_path: Path) -> None:
    """The exit code is 3 everywhere, with the gap and what to do about it."""
    files = make_files(encryption='"none"', max_rounds="1", tol="1e-9")
    with site(tmp_path, files) as made:
        server, clients = made.start()
        assert server.ends(180) == 3, server.said
        for party in (server, *clients.values()):
            assert party.ends(60) == 3
            said = " ".join(party.said.split())
            assert "Not converged: stopped (round limit) after 1 rounds" in said
            assert "above tol = 1e-09" in said
