import numpy as np
import pytest

from hyfdca.holdings.participation import (
    bernoulli,
    complete,
    cyclic,
    random_fraction,
    schedule,
)

N_ROUNDS = 400


def _rounds(participation, n_rounds=N_ROUNDS):
    return [tuple(participation.of_round(t)) for t in range(1, n_rounds + 1)]


def test_complete_names_everybody_in_every_round():
    """Complete participation includes every client in every round, and says so."""
    participation = complete(5)
    assert participation.is_complete
    assert set(_rounds(participation)) == {(0, 1, 2, 3, 4)}


@pytest.mark.parametrize(
    ("n_clients", "fraction", "size"),
    [(10, 0.3, 3), (10, 0.05, 1), (10, 0.99, 10), (7, 0.5, 4), (3, 1e-9, 1), (1, 1, 1)],
)
def test_a_fraction_draws_a_fixed_number(seed, n_clients, fraction, size):
    """Each round has the nearest whole number of distinct clients, but at least one."""
    participation = random_fraction(n_clients, fraction, seed)
    assert participation.is_complete == (size == n_clients)
    for members in _rounds(participation, 50):
        assert len(members) == size
        assert sorted(set(members)) == list(members)
        assert all(0 <= client < n_clients for client in members)


def test_a_fraction_draws_every_client_equally_often(seed):
    """No client is favoured."""
    counts = np.bincount(np.ravel(_rounds(random_fraction(10, 0.3, seed))))
    # Each count is binomial(400, 0.3): mean 120, deviation 9.2; five of them.
    assert np.all(np.abs(counts - 120) < 46)


@pytest.mark.parametrize("probability", [0.2, 0.7])
def test_bernoulli_has_the_mean_share(seed, probability):
    """Each client takes part independently in the requested share of rounds."""
    rounds = _rounds(bernoulli(12, probability, seed))
    took_part = np.array([np.isin(np.arange(12), members) for members in rounds])
    deviation = np.sqrt(probability * (1 - probability) / N_ROUNDS)
    assert np.all(np.abs(took_part.mean(axis=0) - probability) < 5 * deviation)
    # Independent clients: the variance of the size is the sum of the variances.
    variance = took_part.sum(axis=1).var()
    assert 0.7 < variance / (12 * probability * (1 - probability)) < 1.4


def test_bernoulli_rounds_may_be_empty_or_full(seed):
    """An unlucky round may be empty; probability 1 includes every client."""
    assert () in _rounds(bernoulli(2, 0.2, seed))
    assert set(_rounds(bernoulli(4, 1.0, seed), 20)) == {(0, 1, 2, 3)}


@pytest.mark.parametrize("make", [random_fraction, bernoulli])
def test_draws_follow_from_seed_and_round_alone(seed, make):
    """The same seed draws the same rounds in any order; another seed draws others."""
    one, other = make(20, 0.4, seed), make(20, 0.4, seed)
    forwards = _rounds(one, 30)
    backwards = [tuple(other.of_round(t)) for t in range(30, 0, -1)]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) > 25
    assert _rounds(make(20, 0.4, seed + 1), 30) != forwards


@pytest.mark.parametrize("make", [random_fraction, bernoulli])
@pytest.mark.parametrize("share", [0.0, -0.1, 1.0001, float("nan"), float("inf")])
def test_bad_shares_are_refused(make, share):
    """A share must be above 0 and at most 1."""
    with pytest.raises(ValueError, match="must be above 0 and at most 1"):
        make(5, share, 0)


@pytest.mark.parametrize("make", [cyclic, schedule])
def test_sets_come_in_turn(make):
    """Round t has the t-th set, sorted; the first follows the last."""
    participation = make([[2, 0], [1], []])
    assert not participation.is_complete
    assert _rounds(participation, 7) == [(0, 2), (1,), (), (0, 2), (1,), (), (0, 2)]


def test_an_empty_cycle_is_refused():
    """A cycle without sets names nobody for any round."""
    with pytest.raises(ValueError, match="at least one set"):
        cyclic([])
