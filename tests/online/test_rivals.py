"""Studies of rival methods between processes: the model of one process, bit for bit."""

from __future__ import annotations

import pytest

from hyfdca.cli.exit_codes import NOT_CONVERGED
from hyfdca.model.file import as_bytes
from hyfdca.study.file import load
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import train
from tests.flare.flare_kits import numbers, site
from tests.support.consortia import make_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("online 2"),
    pytest.mark.usefixtures("small_tls"),
]


@pytest.mark.sampled(2)  # both are one exchange
@pytest.mark.parametrize("algorithm", ["fedavg", "hyfem"])
def test_a_rival_between_processes_is_that_of_one_process(algorithm, tmp_path):
    """Model at every party, history and round trips, with vectors sealed."""
    files = make_files(algorithm=f'"{algorithm}"', max_rounds="3", tol="1e-9")
    with site(tmp_path, files) as made:
        server = made.server()
        clients = [made.client(name) for name in made.names]
        assert server.ends(300) == NOT_CONVERGED, server.said
        assert [client.ends(60) for client in clients] == [NOT_CONVERGED] * 3
        expected = train(prepare(load(made.study), made.folder), lambda *_: None)
        assert expected.model().certificate is not None
        for party in ("server", *made.names):
            written = (made.kit(party) / "out" / "model.json").read_bytes()
            assert written == as_bytes(expected.model())
        history = made.result("history.json")
        assert numbers(history) == numbers(expected.history())
        assert [record["round_trips"] for record in history] == [1.0] * 3
