"""How often an algorithm asks its clients: never more than its table of phases says.

Clients count, and refuse what comes more often. A method that asks more has to say so,
by ``Phase.most`` or ``Algorithm.most_asked``.
"""

from __future__ import annotations

import pytest

from hyfdca.algorithms.registry import ALGORITHMS, make_algorithm
from hyfdca.federation.path import auto_path
from hyfdca.holdings.participation import complete, cyclic
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import TooLarge
from hyfdca.study.client.asked import AskedPhases
from tests.algorithms.bundle.test_path import PATH, path_run
from tests.contract.cases import CASES, FEW, Case
from tests.contract.test_algorithms import sessions
from tests.contract.test_variants import VARIANTS, run_of
from tests.support.wrong_requests import state_of

TURNS = cyclic([[0, 1, 2], [1, 2, 3], [0, 3], [0, 1, 2, 3]])
HYFDCA = {
    "drawn": {"step": "paper", "local_steps": 3, "refresh": "drawn"},
    "safe": {"step": "safe", "local_steps": 3},
    "search": {"step": "line_search", "local_fraction": 0.5},
    "twice": {"step": "paper", "second_inner_product": True},
}


class Counting:
    """The clients of a run that count what they are asked, as a study's do."""

    def __init__(self, run):
        """Count from the start on."""
        self.run, self.is_at_start, self.asked = run, True, []
        self.algorithm = run.runner.algorithm.algorithm
        for session in sessions(run):
            self._listen(session)

    def _listen(self, session):
        asked = AskedPhases()
        self.asked.append(asked)

        def listen(_, phase, request):
            asked.take(phase, session.phases[phase], request, self._most(phase))

        session._listener = listen

    def _most(self, phase):
        known = self.algorithm.all_phases()[phase]
        if self.is_at_start and known.most_at_start is not None:
            return known.most_at_start
        if phase == "release":
            return None
        return self.algorithm.most_asked(phase, len(self.asked))

    def saved(self):
        """Count again."""
        self.is_at_start = False
        for asked in self.asked:
            asked.clear()

    def finish(self):
        """Run all rounds, after each of which all save; return how many there were.

        A request too many is refused, which ends the run with an error.
        """
        self.run.runner.start()
        self.saved()
        for _ in self.run.rounds():
            self.saved()
        return len(self.run.history)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", [*CASES, *FEW], ids=str)
def test_no_round_asks_more_than_its_table_says(case):
    """Neither do set-up and the measurement of the start."""
    assert Counting(case.run()).finish() > 0


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_variant_asks_more_than_its_table_says(variant):
    """It also holds where clients take turns."""
    assert Counting(run_of(variant)).finish() > 0


@pytest.mark.parametrize(
    ("way", "participation"),
    [
        *(("drawn", participation) for participation in (None, TURNS)),
        *(("safe", participation) for participation in (None, TURNS)),
        ("twice", TURNS),
    ],
)
def test_no_way_of_hyfdca_asks_more_than_its_table_says(way, participation):
    """The probe belongs to the start; clients that return begin with more."""
    run = Case("hyfdca", "grid").run(
        algorithm=make_algorithm("hyfdca", HYFDCA[way]),
        participation=participation or complete(4),
    )
    assert Counting(run).finish() > 0


def test_a_line_search_asks_no_more_than_its_table_says():
    """A line search needs everybody."""
    algorithm = make_algorithm("hyfdca", HYFDCA["search"])
    assert Counting(Case("hyfdca", "grid").run(algorithm=algorithm)).finish() > 0


@pytest.mark.parametrize("profile", ["open", "sealed"])
@pytest.mark.parametrize("path", [PATH, auto_path(3, 1e-3)], ids=["listed", "auto"])
def test_a_path_asks_no_more_than_its_table_says(path, profile):
    """All fits have their points in the same exchanges."""
    assert Counting(path_run(path=path, profile=profile)).finish() > 0


def refuse_once(session, is_due):
    """Let a client say that its values do not fit, once in each phase."""
    for name, handle in session.handlers.items():
        if TooLarge in session.phases[name].reply:
            session.handlers = {
                **session.handlers,
                name: _too_large_once(handle, is_due),
            }


def _too_large_once(handle, is_due):
    left = [1]

    def answer(request):
        if is_due() and left:
            left.pop()
            return TooLarge()
        return handle(request)

    return answer


@pytest.mark.parametrize("case", FEW, ids=str)
def test_the_same_request_with_other_grids_counts_once(case):
    """All are asked again where the values of one do not fit."""
    run = case.run()
    counting = Counting(run)
    refuse_once(sessions(run)[0], lambda: len(run.history) >= 2)
    assert counting.finish() > 0


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "pooled"])
def test_a_second_round_is_refused_before_the_first_is_saved(name):
    """Whatever the method is, a server that never saves gets no further."""
    case = next(case for case in FEW if case.algorithm == name)
    run = case.run()
    counting = Counting(run)
    run.runner.start()
    counting.saved()
    with pytest.raises(RemoteProtocolError, match="since the state was last saved"):
        for _ in run.rounds():
            pass
    assert len(run.history) < 2


@pytest.mark.parametrize("case", FEW, ids=str)
def test_a_release_changes_nothing(case):
    """A client that refuses to give its weights away has them as before."""
    run = case.run(max_rounds=4)
    for _ in run.rounds():
        before = [state_of(half) for half in run.clients]
        run.release()
        assert [state_of(half) for half in run.clients] == before
