"""Tables that do not fit together: all parties say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flare.flare_kits import site
from tests.online.refusals import assert_told
from tests.support.consortia import assert_one_sentence, make_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.usefixtures("small_tls"),
    pytest.mark.xdist_group("online 2"),
]


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


def test_rows_without_ids(tmp_path: Path) -> None:
    """An organisation with a LIBSVM file is refused, unless the study is by order."""
    files = make_files(encryption='"none"', scale='"maxabs"')
    with site(tmp_path, files) as made:
        made.data["north"] = tmp_path / "north.libsvm"
        made.data["north"].write_text("1 1:1\n-1 2:1\n", "utf-8")
        north = made.client("north")  # there is no server yet, and no need for one
        assert north.ends(180) == 2, north.said
        last = north.said.splitlines(keepends=True)[-1]
        assert_one_sentence(last)
        assert "Organisation 'north'" in last
        assert "north.libsvm has no IDs to match its rows by" in last
        assert 'set rows = "by order" if the same line is the same case' in last
