"""Which accepted lies may change a model although nobody is named.

A case that is followed to its end and leads to another model, with nobody named, is a
finding if a value of the message can be checked, and is *untold* otherwise: no other
party has what it takes to tell the lie from data. ``docs/threat-model.md`` says the
same in words ("What data cannot tell", "What remains"). Whatever is not in these tables
can be checked by nobody: a client's own numbers, and sums that the server made.
"""

from __future__ import annotations

from collections import Counter

from hyfdca.protocol.transcript import COMMON
from tests.fuzz.cases import Finding
from tests.fuzz.parties import Place

_UNTOLD = "that data cannot tell"
_ANOTHER = f"another result {_UNTOLD}"
_DIVERGED = f"diverged by a lie {_UNTOLD}"
# Where P and D contradict each other, somebody's rows or duals have changed. Nobody can
# tell whose, and the study ends without a model.
CONTRADICTION = "The lower bound is above the loss"
ENDED = f"ended by a contradiction {_UNTOLD}"

# Of replies: others have the same value, vouch for it or measure it again. A level that
# one client alone has may have any name, as a class may.
_CHECKED_REPLIES = frozenset(
    {
        *("released weights", "released scaling"),
        *("P and D", "step totals", "search totals", "Gram and offsets"),
        *("evaluation totals", "sums of tags", "fold shares", "weight totals"),
        *("keys", "set secrets", "key tags", "scheme parameters"),
        *("accounts", "algorithm", "certificate", "members", "model", "model digest"),
        *("model tags", "study"),
    }
)
# Of requests: clients compare them, or only another client can make them.
_CHECKED_REQUESTS = COMMON | {
    *("accounts", "keys", "key tags", "set secrets"),
    *("model", "model digest", "model tags"),
}
# After the last saved round clients compare nothing more; P is measured again. A block
# of DSCOVR goes to one client at a time.
_NOT_COMPARED = frozenset({"release", "confirm", "confirm losses", "block"})


def verdict(
    kind: str, place: Place, values: set[str], is_diverged: bool = False
) -> str:
    """Return how a case ended that led to another result with nobody named.

    Parameters
    ----------
    kind : str
        Of the case.
    values : set of str
        Those that were changed, by their names in ``audit/values.py``.
    is_diverged : bool
        Whether the study ended because it diverged, which its model says. A server may
        always say so.

    Raises
    ------
    Finding
        If somebody could have detected the lie.
    """
    if is_diverged and "request" in kind:
        return _DIVERGED
    checked = _CHECKED_REQUESTS if "request" in kind else _CHECKED_REPLIES
    if "request" in kind and place.phase in _NOT_COMPARED:
        checked = checked - COMMON
    found = sorted(value for value in values if value in checked or _is_other(value))
    where = f"{place.stage}, {place.phase}: {', '.join(sorted(values)) or 'nothing'}"
    if found or not values:
        raise Finding(f"another result, and nobody is named ({where})")
    return _DIVERGED if is_diverged else f"{_ANOTHER} ({where})"


def is_contradiction(said: str, values: set[str]) -> bool:
    """Return whether a study ended as it must, though nobody could be named."""
    can_be_told = values & _CHECKED_REPLIES or any(map(_is_other, values))
    return CONTRADICTION in said and bool(values) and not can_be_told


def _is_other(value: str) -> bool:
    """Return whether a message was answered in another kind than data can explain."""
    return " instead of " in value and not value.startswith("TooLarge")


def n_untold(outcomes: Counter[str]) -> int:
    """Return how many cases ended by a lie that data cannot tell."""
    return sum(n for name, n in outcomes.items() if _UNTOLD in name)
