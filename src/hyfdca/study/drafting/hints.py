"""What a draft of a study points out and leaves to its reader: lines of comments."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from hyfdca.data.glance import Glance
from hyfdca.data.id_forms import ID_FORMS, IdForm
from hyfdca.study.drafting.guesses import Roles, has_word

_ROLES = {
    "weight_column": ("how often each row counts", ("weight", "weights")),
    "offset_column": ("an offset of each margin", ("offset", "offsets", "exposure")),
}
_SINGLE_FORMS: tuple[IdForm, ...] = (
    *("leading zeros", "zeros after a decimal point"),
    *("capitals", "blanks or punctuation"),
)
_MANY = 0.05  # of the IDs of the smaller table


def role_hints(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Yield keys for features that by their names may be weights or offsets."""
    labelled = [
        {name for name in roles.features(place, glance) if _is_number(glance, name)}
        for place, glance in enumerate(glances)
        if glance.has_label(roles.labels.columns[place])
    ]
    # Such columns belong to labels, so all that have labels need them.
    for name in sorted(set.intersection(*labelled)) if labelled else ():
        for key, (meaning, words) in _ROLES.items():
            if has_word(name, words):
                yield f"If {name!r} is {meaning} and no feature, write:"
                yield f"{key} = {json.dumps(name, ensure_ascii=False)}"


def _is_number(glance: Glance, name: str) -> bool:
    return glance.numbered is None and glance.kind_of(name) == "number"


def id_hints(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Yield which tables have IDs that differ only in how they are written."""
    ids = [g.ids(own) for g, own in zip(glances, roles.ids.columns, strict=True)]
    for (one, own), (other, theirs) in combinations(zip(glances, ids, strict=True), 2):
        n_shared = len(own & theirs)
        found = {form: _n_alike(form, own, theirs) for form in _SINGLE_FORMS}
        form = max(_SINGLE_FORMS, key=found.__getitem__)
        n_more = found[form] - n_shared
        if n_more > _MANY * min(len(own), len(theirs)):
            yield (
                f"{one.path.name} and {other.path.name} share {n_shared:,} IDs, and "
                f"{n_more:,} more that differ in {form} alone: write them alike."
            )


def _n_alike(form: IdForm, own: Collection[str], theirs: Collection[str]) -> int:
    """Return how many IDs of two tables are the same in a form."""
    simple = ID_FORMS[form]
    return len(set(map(simple, own)) & set(map(simple, theirs)))
