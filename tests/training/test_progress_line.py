"""The line that shows how far a long training is."""

import io

import pytest
from sklearn.datasets import load_breast_cancer

from hyfdca import HyFDCAClassifier
from hyfdca.maths.objective import Measurement
from hyfdca.runtime.driver import Traffic
from hyfdca.training import progress_line
from hyfdca.training.progress_line import ProgressLine
from hyfdca.training.reports import RoundReport


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        """Return that it is."""
        return True


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self):
        """Return the time it was set to."""
        return self.now


def shown(stream, seconds, measured=True):
    """Return what is written if rounds end at these seconds."""
    clock = Clock()
    line = ProgressLine(stream, clock)
    for number, clock.now in enumerate(seconds, start=1):
        cost = Traffic(bytes_up=700, bytes_down=300)
        report = RoundReport(number, (), 0.1, cost, Traffic(bytes_up=500), None)
        line.show(report, Measurement(0.5, 0.4) if measured else None)
    line.close()
    return stream.getvalue()


def test_a_short_training_is_silent():
    """Nothing appears within two seconds."""
    assert shown(io.StringIO(), [0.5, 1.0, 1.9]) == ""
    assert shown(Terminal(), [0.5, 1.0, 1.9]) == ""


def test_a_file_gets_a_line_every_ten_seconds():
    """Each is whole, with round, P, certified gap and all bytes so far."""
    text = shown(io.StringIO(), [1.0, 2.0, 5.0, 11.9, 12.0, 21.0, 22.5])
    assert text.splitlines() == [
        "round 2: P 0.5, certified gap 2.0e-01, 3.0 kB exchanged",
        "round 5: P 0.5, certified gap 2.0e-01, 7.5 kB exchanged",
        "round 7: P 0.5, certified gap 2.0e-01, 10.5 kB exchanged",
    ]


def test_a_terminal_gets_one_line_that_changes():
    """It is rewritten at most every half second, and ends with the last state."""
    text = shown(Terminal(), [2.0, 2.1, 2.4, 2.5, 2.9, 3.1])
    assert text.count("\r") == 3
    assert text.count("\n") == 1
    assert text.endswith("9.0 kB exchanged\n")
    assert [part.partition(":")[0] for part in text.split("\r")[1:]] == [
        "round 1",
        "round 4",
        "round 6",
    ]


def test_a_shorter_line_covers_a_longer_one():
    """Blanks overwrite what would be left of it."""
    stream = Terminal()
    line = ProgressLine(stream)
    line._write("a long text")
    line._write("short")
    assert stream.getvalue() == "\ra long text\rshort      "


def test_nothing_is_shown_before_the_first_measurement():
    """There is no P to show yet."""
    assert shown(Terminal(), [2.0, 9.0], measured=False) == ""


@pytest.mark.parametrize("verbose", [0, 1])
def test_verbose_estimators_show_it(verbose, monkeypatch, capsys):
    """They write to standard error, and only if asked to."""
    monkeypatch.setattr(progress_line, "_FIRST", 0.0)
    X, y = load_breast_cancer(return_X_y=True)
    HyFDCAClassifier(l2=1.0, verbose=verbose, random_state=0).fit(X / X.max(axis=0), y)
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("round 1: P ") if verbose else errors == ""


def test_a_wrong_verbosity_is_refused():
    """The message names the setting."""
    with pytest.raises(ValueError, match="verbose must be a whole number from 0"):
        HyFDCAClassifier(verbose=-1).fit([[0.0], [1.0]], [0, 1])
