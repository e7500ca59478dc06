"""A member's own policy between processes: its screen and the server say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flare.flare_kits import site
from tests.support.consortia import assert_one_sentence, make_files

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("online 2")]


@pytest.mark.thorough
@pytest.mark.usefixtures("small_tls")
def test_a_policy_that_rules_the_study_out(tmp_path: Path) -> None:
    """The organisation refuses in the middle of the study, and no model is written."""
    with site(tmp_path, make_files(encryption='"none"')) as made:
        policy = made.kit("city") / "policy.toml"
        assert "# least_rows = 20" in policy.read_text()
        policy.write_text("least_rows = 41\n")
        server, clients = made.start()
        assert server.ends(180) == 2, server.said
        assert clients["city"].ends(60) == 2
        for party in (server, clients["city"]):
            last = party.said.splitlines(keepends=True)[-1]
            assert_one_sentence(last)
            assert "its policy.toml wants at least 41 of its rows" in last
        assert not any("Traceback" in client.said for client in clients.values())
        assert not (made.kit("server") / "out").exists()
