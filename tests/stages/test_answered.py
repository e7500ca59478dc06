"""What a client answers about rows set aside: the same again, and few other things."""

from __future__ import annotations

import pytest

from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.stages.evaluation.answered import Answered, AnsweredRecord


class Kept:
    """A record that outlives the object that writes it."""

    def __init__(self):
        self._record = AnsweredRecord()

    def answered(self, is_rehearsal=False):
        """Return what a client has answered, as after a restart."""
        return Answered(lambda: self._record, self._write, is_rehearsal)

    def _write(self, record):
        self._record = record


def test_the_same_question_is_always_answered():
    """Others are counted, by phase, over restarts and tests."""
    kept = Kept()
    for _ in range(20):
        answered = kept.answered()
        answered.begin_test()
        for edges in ([b"a"], [b"ab"], [b"a", b"b"]):
            answered.take("score bins", edges)
        answered.take("calibration bins", [b"a"])
    with pytest.raises(RemoteProtocolError, match="answered 1 times in this run"):
        kept.answered().take("calibration bins", [b"b"])
    for number in range(3):
        kept.answered().take("score bins", [number])
    with pytest.raises(RemoteProtocolError, match="answered 6 times in this run"):
        kept.answered().take("score bins", [3])


@pytest.mark.parametrize("what", ["check_owners", "check_scores"])
def test_rows_and_scores_are_those_of_the_first_test(what):
    """A server that adds to one score would learn of that row by the difference."""
    kept = Kept()
    for _ in range(3):
        answered = kept.answered()
        answered.begin_test()
        getattr(answered, what)(b"first")
        with pytest.raises(RemoteProtocolError, match="--restart if that is right"):
            getattr(answered, what)(b"second")


def test_in_a_rehearsal_several_models_are_tested():
    """Label holders stay the same all the same."""
    answered = Kept().answered(is_rehearsal=True)
    answered.check_owners(b"first")
    for model in (b"a", b"b", b"c"):
        answered.begin_test()
        answered.check_scores(model)
        answered.take("calibration bins", [model])
        with pytest.raises(RemoteProtocolError, match="answered 1 times"):
            answered.take("calibration bins", [model + model])
    with pytest.raises(RemoteProtocolError, match="other label holders"):
        answered.check_owners(b"second")
