"""Comments with which a draft of a study points things out to its reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from hyfdca.data.glance import Glance
from hyfdca.data.labels import is_fraction
from hyfdca.data.tables import without_brackets
from hyfdca.study.drafting.guess import has_word
from hyfdca.study.drafting.guesses import Roles
from hyfdca.study.drafting.ids import SINGLE_FORMS, n_alike

_ROLES = {
    "weight_column": ("how often each row counts", ("weight", "weights")),
    "offset_column": ("an offset of each margin", ("offset", "offsets", "exposure")),
}
_MEASURED = (
    *("body", "birth", "patient", "kg", "lb", "lbs", "g", "gain", "loss", "change"),
    *("fetal", "ideal", "lean", "dry", "start", "end"),
)
_CODES = (
    *("code", "type", "kind", "category", "status", "group", "stage", "class"),
    *("grade", "region", "zip", "ward", "sex", "gender", "race"),
)
_DAY = re.compile(r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_FEWEST_CODES, _MOST_CODES = 3, 10  # two values are as good as numbers
_MANY = 0.05  # of the IDs of the smaller table


def role_hints(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Yield keys for features whose names suggest weights or offsets."""
    labelled = [
        {name for name in roles.features(place, glance) if _is_number(glance, name)}
        for place, glance in enumerate(glances)
        if glance.has_label(roles.labels.columns[place])
    ]
    # Such columns belong to labels, so all that have labels need them.
    for name in sorted(set.intersection(*labelled)) if labelled else ():
        for key, (meaning, words) in _ROLES.items():
            if has_word(name, words) and not has_word(name, _MEASURED):
                yield f"If {name!r} is {meaning} and no feature, write:"
                yield f"{key} = {json.dumps(name, ensure_ascii=False)}"


def code_hints(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Yield features of few whole numbers whose names suggest codes."""
    values: dict[str, set[str]] = {}
    for place, glance in enumerate(glances):
        for name in roles.features(place, glance):
            if has_word(name, _CODES) and _is_number(glance, name):
                values.setdefault(name, set()).update(glance.label_values(name))
    for name, own in values.items():
        is_whole = not any(map(is_fraction, own))
        if is_whole and _FEWEST_CODES <= len(own) <= _MOST_CODES:
            yield f"If {name!r} is a code and no quantity, write:"
            yield f"categorical = [{json.dumps(name, ensure_ascii=False)}]"


def date_hints(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Yield features of numbers such as 20240131, which are probably dates."""
    for place, glance in enumerate(glances):
        for name in roles.features(place, glance):
            if _is_number(glance, name):
                values = glance.label_values(name)
                if values and all(map(_DAY.fullmatch, values)):
                    yield (
                        f"{name!r} of {glance.path.name} is read as numbers. If these "
                        "are dates, write them as in 2024-01-31."
                    )


def missing_hints(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Yield which features have numbers that seem to mean missing values."""
    for place, glance in enumerate(glances):
        for name in roles.features(place, glance):
            if _is_number(glance, name) and (note := glance.missing_note(name)):
                yield note


def twin_names(
    glances: Sequence[Glance], roles: Roles
) -> Iterator[tuple[Glance, str, Glance, str]]:
    """Yield features of two tables whose names differ only in brackets."""
    named = [
        {without_brackets(name): name for name in roles.features(place, glance)}
        for place, glance in enumerate(glances)
    ]
    each = combinations(zip(glances, named, strict=True), 2)
    for (one, own), (other, theirs) in each:
        for stem in own.keys() & theirs.keys():
            if own[stem] not in theirs.values() and theirs[stem] not in own.values():
                yield one, own[stem], other, theirs[stem]


def _is_number(glance: Glance, name: str) -> bool:
    is_readable = glance.numbered is None and not glance.mistake(name)
    return is_readable and glance.kind_of(name) == "number"


def id_hints(glances: Sequence[Glance], roles: Roles) -> Iterator[str]:
    """Yield which tables have IDs that differ only in how they are written."""
    ids = [g.ids(own) for g, own in zip(glances, roles.ids.columns, strict=True)]
    for (one, own), (other, theirs) in combinations(zip(glances, ids, strict=True), 2):
        n_shared = len(own & theirs)
        found = {form: n_alike(form, own, theirs) for form in SINGLE_FORMS}
        form = max(SINGLE_FORMS, key=found.__getitem__)
        n_more = found[form] - n_shared
        if n_more > _MANY * min(len(own), len(theirs)):
            yield (
                f"{one.path.name} and {other.path.name} share {n_shared:,} IDs, and "
                f"{n_more:,} more that differ only in {form}: write them alike."
            )
