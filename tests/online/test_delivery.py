"""The end of a study between processes, for an organisation that was away."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyfdca.flare.status import note_over, without_model
from hyfdca.kits.kit import Kit
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.flare.flare_kits import site
from tests.support.consortia import make_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.usefixtures("small_tls"),
    pytest.mark.xdist_group("online 2"),
]


def test_an_organisation_that_was_away_at_the_end_gets_the_model_later(
    tmp_path: Path,
) -> None:
    """From the server alone; once it has the model, it does not wait for a server."""
    with site(tmp_path, make_files()) as made:
        kit = Kit(made.kit("server"))
        kit.state.mkdir()
        train(prepare(load(made.study), made.folder), lambda *_: None).write(kit.out)
        note_over(kit, ["city"])
        refused = made.server()
        assert refused.ends() == 2
        assert "give it to city with --resume" in refused.said
        server, client = made.server("--resume"), made.client("city")
        assert server.ends(120) == 0, server.said
        assert client.ends(60) == 0, client.said
        assert without_model(kit) == []
        model = (kit.out / "model.json").read_bytes()
        assert (made.kit("city") / "out" / "model.json").read_bytes() == model
        again, later = made.client("city"), made.server("--resume")
        assert later.ends() == 0
        assert "This study is finished" in later.said
        assert again.ends(60) == 0, again.said
        assert "The study is finished." in again.said
