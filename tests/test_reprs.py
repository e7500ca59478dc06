"""Objects with secrets in them do not show these where they are printed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass

import numpy as np
import pytest

import hyfdca
from hyfdca.federation.owner_groups import OwnerGroups
from hyfdca.stages.keys.client import HeldKeys
from hyfdca.study import durable, resume
from hyfdca.study.client import records
from hyfdca.study.own_model import OwnModel

SAVED = [
    HeldKeys,
    OwnModel,
    OwnerGroups,
    records.ClientPreparation,
    records.ClientRound,
    durable.ServerRound,
    resume.ServerPreparation,
]
# Modules of optional packages, and what runs when it is imported
NOT_IMPORTED = ("hyfdca.flare", "hyfdca.__main__", "hyfdca.kits.guard")


def states() -> Iterator[type]:
    """Yield what checkpoints consist of: the classes of states in the package."""
    for module in pkgutil.walk_packages(hyfdca.__path__, "hyfdca."):
        if module.name.startswith(NOT_IMPORTED):
            continue
        try:
            members = vars(importlib.import_module(module.name)).values()
        except ImportError:  # of an extra that is not installed
            continue
        for kind in members:
            is_own = getattr(kind, "__module__", None) == module.name
            is_own = is_own and isinstance(kind, type) and is_dataclass(kind)
            if is_own and kind.__name__.endswith("State"):
                yield kind


@pytest.mark.parametrize("kind", SAVED)
def test_what_is_saved_is_not_shown(kind: type) -> None:
    """Keys, duals, weights and margins have no place in a traceback."""
    assert kind.__repr__ is object.__repr__


def test_no_state_is_shown() -> None:
    """Not one class of states has a generated repr."""
    found = list(states())
    assert len(found) > 40
    assert [k.__name__ for k in found if k.__repr__ is not object.__repr__] == []


def test_scores_are_not_shown() -> None:
    """The result of a prediction is printed without them."""
    pytest.importorskip("nvflare")
    from hyfdca.flare.predictions.asking import AskedOutcome  # noqa: PLC0415

    margins = np.array([0.123456789]).tobytes()
    outcome = AskedOutcome("", margins=margins)
    assert repr(margins)[2:-1] not in f"{outcome!r} {outcome}"
