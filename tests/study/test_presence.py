"""Who is present, as reported to people."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hyfdca.errors import StudyError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.server_session import ClientsFailedError
from hyfdca.study import messages as m
from hyfdca.study.own_model import MISFIT, NO_RECORD
from hyfdca.study.plan import PROTOCOL
from hyfdca.study.presence import MisfitError, Presence

HASH = bytes(32)
HERE = m.Present(HASH, PROTOCOL, True, [])


class Scripted(Presence):
    """Members with scripted replies, one phase after another."""

    def __init__(self, *answers: tuple[dict[int, Any], dict[int, str]]) -> None:
        self.said: list[str] = []
        plan: Any = SimpleNamespace(
            names=("north", "city"), study_hash=HASH, quorum=1, phase_timeout=1.0
        )
        network: Any = None
        super().__init__(plan, network, self.said.append)
        self._answers = list(answers)

    def _run(self, conversation: Any) -> Any:
        return self._answers.pop(0)


COMES = ({1: HERE}, {})
FAILS: tuple[dict[int, Any], dict[int, str]] = ({}, {1: "refused: it is full."})
LACKS = "Organisation 'city' is unavailable: refused: it is full."
AGAIN = "Organisation 'city' is available again."


def test_a_member_that_fails_repeatedly_is_reported_once() -> None:
    """Once it has taken part in a round, its failure is news again."""
    one = Scripted(COMES, *[FAILS, COMES] * 5, ({1: Message()}, {}), FAILS, COMES)
    one.call([1])
    for _ in range(5):
        assert one.finish(b"model", [1]) == []
        assert one.call([1]) == [1]
    assert one.said == [LACKS, AGAIN]
    assert one.finish(b"model", [1]) == [1]
    one.forgive()
    one.finish(b"model", [1])
    one.call([1])
    assert one.said == [LACKS, AGAIN] * 2


def test_a_member_that_stays_away_is_not_reported_in_every_round() -> None:
    """The number of calls in the meantime does not matter."""
    one = Scripted(*[FAILS] * 3)
    for _ in range(3):
        assert one.call([1]) == []
        one.forgive()
    assert one.said == [LACKS]


@pytest.mark.parametrize(("missing", "n_said"), [([0, 1], 1), ([], 0)])
def test_whom_a_study_waits_for_is_said(missing: list[int], n_said: int) -> None:
    """The sentence gives names and the reason."""
    one = Scripted()
    one.present = {c: HERE for c in (0, 1) if c not in missing}
    one.say_who_is_needed("it is their turn")
    sentence = "Waiting for 'north', 'city', because it is their turn."
    assert one.said == [sentence] * n_said


def test_a_model_that_one_member_refuses_is_accepted_by_the_others() -> None:
    """Who accepted it is part of the error."""
    one = Scripted(({1: Message()}, {0: f"refused: {MISFIT}: the intercept differs."}))
    one.present = {0: HERE, 1: HERE}
    with pytest.raises(MisfitError, match=r"'north' .* the intercept differs") as error:
        one.finish(b"model", [0, 1])
    assert error.value.accepted == [1]


def test_a_member_without_a_record_of_its_weights_is_not_sent_the_model_again() -> None:
    """It could never accept it; a sentence says what its user can do."""
    one = Scripted(({1: Message()}, {0: f"refused: {NO_RECORD}; copy it."}))
    one.present = {0: HERE, 1: HERE}
    assert one.finish(b"model", [0, 1]) == [0, 1]
    [said] = one.said
    assert said.startswith("Organisation 'north' does not take the model: the model")
    assert said.endswith("copy it.")


def test_a_refusal_after_many_network_failures_is_only_one_refusal() -> None:
    """Each kind has a limit of its own."""
    one = Scripted()
    for _ in range(20):
        one.lose(ClientsFailedError("step", {1: "did not answer within 1 s"}))
    for _ in range(3):
        one.lose(ClientsFailedError("step", {1: "refused: it is full"}))
    with pytest.raises(StudyError, match="failed more than 3 times"):
        one.lose(ClientsFailedError("step", {1: "refused: it is full"}))
