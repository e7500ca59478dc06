"""Ctrl-C in ``fit``: the first ends it in order, the second at once."""

import signal
import threading

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hyfdca import HyFDCAClassifier
from hyfdca.holdings.participation import Participation
from tests.estimators.findings import found

ROUND = 5


@pytest.fixture(autouse=True)
def _default_handler():
    """Make Ctrl-C raise ``KeyboardInterrupt``, wherever the tests run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupting(n_times=1, round_number=ROUND):
    """Return complete participation that presses Ctrl-C at the start of a round."""

    def of_round(number):
        if number == round_number:
            for _ in range(n_times):
                signal.raise_signal(signal.SIGINT)
        return range(9)

    return Participation(of_round, is_complete=True)


def classifier(participation=1.0, **settings):
    """Return a classifier that takes more rounds than a test waits for."""
    return HyFDCAClassifier(
        tol=1e-12, participation=participation, random_state=0, **settings
    )


@pytest.mark.parametrize("algorithm", ["bundle", "hyfdca", "lbfgs"])
@pytest.mark.parametrize("measure_every", [1, 3, 100])
def test_the_model_so_far_is_certified(algorithm, measure_every, cancer, capsys):
    """It is the model of as many rounds, measured, and a warning says why it ended."""
    settings = {
        "algorithm": algorithm,
        "loss": "logistic",
        "measure_every": measure_every,
    }
    with pytest.warns(ConvergenceWarning, match="round limit"):
        expected = classifier(max_rounds=ROUND, **settings).fit(*cancer)
    with pytest.warns(ConvergenceWarning, match=r"\(interrupted\) after 5 rounds"):
        model = classifier(interrupting(), **settings).fit(*cancer)
    assert model.stop_reason_ == "interrupted"
    model.stop_reason_ = "round limit"
    assert found(model) == found(expected)
    assert "press Ctrl-C again to abort" in capsys.readouterr().err


def test_a_second_one_aborts_at_once(cancer):
    """The round is not finished, and there is no model."""
    model = classifier(interrupting(n_times=2))
    with pytest.raises(KeyboardInterrupt):
        model.fit(*cancer)
    assert not hasattr(model, "coef_")


def test_before_the_start_is_measured_it_is_as_ever(monkeypatch, cancer):
    """There is no model to return yet."""
    press = lambda *_: signal.raise_signal(signal.SIGINT)  # noqa: E731
    monkeypatch.setattr("hyfdca.training.runner.Runner.start", press)
    with pytest.raises(KeyboardInterrupt):
        classifier().fit(*cancer)


def test_reaching_the_tolerance_is_no_interruption(cancer):
    """A Ctrl-C in the round that converges changes nothing."""
    settings = {"l2": 0.1, "random_state": 0}
    expected = HyFDCAClassifier(**settings).fit(*cancer)
    last = interrupting(round_number=expected.n_iter_)
    model = HyFDCAClassifier(participation=last, **settings).fit(*cancer)
    assert model.stop_reason_ == "tolerance"
    assert found(model) == found(expected)


def test_a_handler_of_the_program_stays_in_place(cancer):
    """It is called, and training continues."""
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    settings = {"l2": 0.1, "random_state": 0}
    model = HyFDCAClassifier(participation=interrupting(), **settings).fit(*cancer)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert pressed
    assert model.stop_reason_ == "tolerance"


def test_other_threads_fit_too(cancer):
    """Only the main thread may change what a signal does."""
    model = HyFDCAClassifier(l2=0.1, random_state=0)
    thread = threading.Thread(target=model.fit, args=cancer)
    thread.start()
    thread.join()
    assert np.isfinite(model.coef_).all()
