"""Small runs of every kind of method, each in both profiles, with all or some."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.federation.algorithm import Needs
from tests.support.run_cases import AXES, METHODS, MORE_METHODS, Case
from tests.support.sealed_runs import ENCRYPTIONS, keys_of
from tests.support.small_runs import Run

SCHEMES = {
    "none": Encryption(),
    "stream": ENCRYPTIONS["stream"],
    "paillier": ENCRYPTIONS["paillier"],
}

# Algorithms that none of the methods runs
_KNOWN = {given.get("algorithm", "hyfdca") for given in METHODS.values()}
_OTHERS = sorted({*ALGORITHMS} - _KNOWN)

# The pooled optimum in many rounds instead of one
_OWN = {"pooled": {"gap": 1e-30, "max_steps": 2}}

# Every kind of run: a method, and settings besides. The last ones keep what no other
# keeps: rows of a direction, what was held back of shares, how well to solve, and an
# intercept that must come a long way.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, {}) for method in (*METHODS, *MORE_METHODS)},
    **{
        name: ("bundle", {"algorithm": name, "loss": "logistic", **_OWN.get(name, {})})
        for name in _OTHERS
    },
    "drawn search": ("search", {"local_fraction": 0.5}),
    "held back": ("rows", {"min_rows": 12, "local_fraction": 0.1}),
    "little gain": ("bundle", {"l2": 1e-4, "max_rounds": 16}),
    "intercept": (
        "bundle",
        {"free_intercept": True, "offset": -10.0, "max_rounds": 16},
    ),
}

# The split on which a method runs, by what it needs
SHAPE = {
    "any": "overlapping",
    "rows": "horizontal",
    "columns": "vertical",
    "rows or columns": "horizontal",
    "grid": "grid",
}

PLAIN_KINDS = [*METHODS, *_OTHERS]  # without settings besides


def make_run(
    kind: str,
    profile: str,
    presence: str,
    labels: str | None = None,
    scheme: str = "none",
) -> Run | None:
    """Return a run of clients that overlap if they may; none where there is none.

    By default some clients have no labels, where that may be.
    """
    method, given = KINDS[kind]
    needs = ALGORITHMS[kind]().needs if kind in _OTHERS else Needs()
    labels = labels or ("all" if needs.labels == "all" else "some")
    case = Case(method, SHAPE[needs.split], profile, presence, labels, 2, scheme)
    is_refused = (needs.presence == "everyone" and presence == "partial") or (
        needs.labels == "all" and labels == "some"
    )
    if is_refused or not case.is_possible:
        return None
    encryption = SCHEMES[scheme]
    keys = None if scheme == "none" else keys_of(encryption)
    return case.run(encryption, keys=keys, **given)


def runs_of(kind: str, scheme: str = "none") -> Iterator[Run]:
    """Return runs of a kind in both profiles, with everybody and with some only."""
    rest = itertools.product(AXES["profile"], AXES["presence"], AXES["labels"])
    runs = (make_run(kind, *settings, scheme=scheme) for settings in rest)
    return filter(None, runs)


# Each run has keys of its own.
SECRETS = {"Sealers.check_key", "LocalSecrets.seed"}


def may_follow(table, phase, last):
    """Return whether a table allows a phase directly after another."""
    after = table[phase].after
    known = {last}
    if last in table and table[last].counts_as:
        known.add(table[last].counts_as)
    return after is None or bool(known & set(after))
