"""The examples of docs/contributing.md, run as they stand there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification

from hyfdca import HyFDCAClassifier
from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.maths.losses import LOSSES, make_loss
from hyfdca.maths.objective import reference_optimum
from tests.contract import test_algorithms as contract
from tests.contract.cases import Case, objective

PAGE = Path(__file__).parents[1] / "docs" / "contributing.md"


def example(name: str) -> dict[str, Any]:
    """Run the example of that name; return what it defines."""
    blocks = re.findall(r"```python\n# (\w+)\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    [code] = [code for title, code in blocks if title == name]
    module = types.ModuleType(f"contributing_{name}")
    sys.modules[module.__name__] = module  # where dataclasses look for names
    compiled = compile(code, f"{PAGE}:{name}", "exec", dont_inherit=True)
    exec(compiled, module.__dict__)  # noqa: S102  # our own page
    return module.__dict__


@pytest.fixture
def tables():
    """Take what examples add to the tables out again."""
    losses, algorithms = dict(LOSSES), dict(ALGORITHMS)
    yield
    for table, before in ((LOSSES, losses), (ALGORITHMS, algorithms)):
        table.clear()
        table.update(before)


def test_a_loss_is_one_entry(tables):
    """The new loss is its formula, and a model trained with it is certified."""
    example("loss")
    loss = make_loss("gentle_hinge")
    margins = np.linspace(-2, 2, 9)[:, None]
    expected = np.maximum(0, 1 - margins) ** 2 / 4
    assert loss.value(margins, np.ones_like(margins)) == pytest.approx(expected)
    X, y = make_classification(80, 6, random_state=0)
    model = HyFDCAClassifier(loss="gentle_hinge", grid=(2, 2), random_state=0).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3


def test_an_algorithm_is_one_file(tables):
    """The new algorithm approaches the optimum, and obeys the contract."""
    example("algorithm")
    case = Case("gradient", "horizontal")
    run = case.run(max_rounds=300)
    run.finish()
    optimum = reference_optimum(objective(), 1e-10).primal
    assert run.measurement.primal == pytest.approx(optimum, rel=1e-3)
    assert run.measurement.dual <= optimum
    for lost_bits in contract.COARSE:
        contract.test_a_certificate_is_never_optimistic(case, lost_bits)
    contract.test_the_same_seed_gives_the_same_history(case)
    contract.test_resumed_equals_undisturbed(case)
    contract.test_encrypted_equals_unencrypted(case, "stream")
    contract.test_what_it_needs_is_asked_for(Case("gradient"))
    contract.test_a_split_it_does_not_apply_to_is_refused(
        Case("gradient", presence="half")
    )


def test_a_scheme_adds_what_it_cannot_read():
    """Opening the sum of sealed vectors gives the sum of the numbers."""
    scheme = example("scheme")
    sealer, adder = scheme["ShiftSealer"](12345, n_summands=2), scheme["ShiftAdder"]()
    together = Arrangement.together(3)
    one, other = np.array([[1], [-2], [3]]), np.array([[10], [20], [-30]])
    total = adder.zeros((3, 1))
    for numbers in (one, other):
        payload = sealer.seal(numbers, together)
        adder.add(total, slice(None), adder.load(payload, (3, 1)))
    assert not np.any(total == one + other)
    opened = sealer.open(adder.dump(total), 1, together)
    assert np.array_equal(opened, one + other)
