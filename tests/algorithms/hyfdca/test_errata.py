"""The printed formulas fail as ``docs/errata.md`` says, the corrected ones do not.

The printed forms exist only here: the package has the corrected ones.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from hyfdca.holdings import partition as parts
from hyfdca.maths.objective import reference_optimum
from tests.support.small_runs import (
    classification,
    duals_of,
    make_training,
    measure,
    pooled,
    run_round,
    set_up,
)


def ascend(X, y, l2, change, n_rounds=1500, batch=5):
    """Run mini-batch dual ascent with a hinge rule; return P at the end and D."""
    random = np.random.Generator(np.random.PCG64(0))
    objective = pooled(X, y, l2=l2)
    duals = np.zeros_like(y)
    for _ in range(n_rounds):
        rows = random.choice(len(y), batch, replace=False)
        margins = objective.margins(objective.weights_from(duals))
        duals[rows] += change(duals[rows], margins[rows], y[rows], rows)
    return objective.primal(objective.weights_from(duals)), objective.dual(duals)


def corrected_closed_form(objective):
    """Return E2's rule: clip(y a + λN (1 - y x·w) / ||x||², 0, 1)."""

    def change(a, z, y, rows):
        return y * np.clip(y * a + (1 - y * z) / objective.curvatures[rows], 0, 1) - a

    return change


def test_printed_sign_of_u_never_moves():
    """With u in ∂l as printed (E1) every step is infeasible, so s = 0: D stays 0."""
    X, y = classification(60, 10)
    l2 = 0.05
    objective = pooled(X, y, l2=l2)

    def printed(a, z, y, rows):
        u = np.where(y * z < 1, -y, 0.0)  # a subgradient of the hinge itself
        steps = np.linspace(0, 1, 101)[:, None, None]
        moved = a + steps * (u - a)
        conjugate = objective.loss.conjugate(moved, np.broadcast_to(y, moved.shape))
        values = -conjugate - steps * z * (u - a) - (steps * (u - a)) ** 2 / (2 * l2)
        best = steps[np.argmax(values, axis=0), 0]
        return best[:, 0] * (u - a)

    primal, dual = ascend(X, y, l2, printed, n_rounds=50)
    assert dual == 0.0
    assert primal == objective.primal(np.zeros((10, 1)))
    run = set_up(
        make_training(
            X, y, parts.grid(60, 10, (2, 2), 0), l2=l2, variant="theory", cap="one"
        )
    )
    for _ in range(50):
        run_round(run)
    assert measure(run).dual > 0.01


def test_printed_closed_form_without_the_label_gets_stuck():
    """λN(1 - x·w) instead of λN(1 - y x·w) (E2) stops far from the optimum."""
    X, y = classification(120, 24)
    objective = pooled(X, y, l2=0.005)
    optimum = reference_optimum(objective, 1e-9).primal

    def printed(a, z, y, rows):
        return y * np.clip(0.005 * 120 * (1 - z) + y * a, 0, 1) - a

    wrong, _ = ascend(X, y, 0.005, printed)
    right, _ = ascend(X, y, 0.005, corrected_closed_form(objective))
    assert wrong - optimum > 0.1
    assert right - optimum < 1e-3


def test_printed_closed_form_without_the_norm_stalls_on_long_rows():
    """Without ||x||² (E2, E3) rows of norm 10 keep the method from converging."""
    X, y = classification(60, 10)
    X = sp.csr_array(10.0 * X)
    objective = pooled(X, y, l2=2.0)
    optimum = reference_optimum(objective, 1e-12).primal

    def printed(a, z, y, rows):
        return y * np.clip(2.0 * 60 * (1 - y * z) + y * a, 0, 1) - a

    wrong, _ = ascend(X, y, 2.0, printed, n_rounds=6000, batch=1)
    right, _ = ascend(
        X, y, 2.0, corrected_closed_form(objective), n_rounds=6000, batch=1
    )
    assert wrong - optimum > 1e-4
    assert right - optimum < 1e-9


@pytest.mark.parametrize(("step", "converges"), [("paper", False), ("safe", True)])
def test_practical_step_overshoots_and_the_safe_one_does_not(step, converges):
    """With all samples at small λ the printed curvature never settles (E4)."""
    X, y = classification(120, 24)
    objective = pooled(X, y, l2=0.005)
    training = set_up(
        make_training(X, y, parts.grid(120, 24, (3, 3), 1), l2=0.005, step=step)
    )
    duals = []
    for _ in range(400):
        run_round(training)
        duals.append(objective.dual(duals_of(training)))
    falls = np.mean(np.diff(duals) < -1e-12)
    gap = measure(training).relative_gap
    assert (falls == 0.0) if converges else (falls > 0.2)
    assert (gap < 0.1) if converges else (gap > 1.0)


def test_larger_cap_of_e12_is_faster():
    """c_k = N_k / max N_j goes further each round than the printed N_k / N."""
    X, y = classification(60, 10)
    duals = {}
    for cap in ("printed", "largest"):
        run = set_up(
            make_training(
                X, y, parts.grid(60, 10, (4, 2), 0), l2=1.0, variant="theory", cap=cap
            )
        )
        for _ in range(20):
            run_round(run)
        duals[cap] = measure(run).dual
    assert duals["largest"] > duals["printed"]


def test_holders_of_unequal_size_each_have_their_own_cap():
    """Theory variant (E5): a change is the mean of those of all holders, c_k each.

    With so large a λ every coordinate maximiser is beyond its cap.
    """
    X, y = classification(60, 8)
    holdings = [
        (range(60), range(4)),
        (range(20), range(4, 8)),
        (range(20, 60), range(4, 8)),
    ]
    run = make_training(
        X,
        y,
        parts.from_holdings(60, 8, holdings),
        l2=10.0,
        algorithm="hyfdca",
        variant="theory",
        cap="largest",
        max_rounds=1,
    )
    whole, first, second = 1.0, 20 / 60, 40 / 60
    caps = np.where(np.arange(60) < 20, whole + first, whole + second) / 2
    expected = X.T @ (y.ravel() * caps) / (10.0 * 60)
    assert run.finish().ravel() == pytest.approx(expected, rel=1e-12)
