"""The algorithms to compare: names and settings, from text and the study file."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hyfdca.algorithms.registry import ALGORITHMS, make_algorithm
from hyfdca.errors import StudyError, as_study_error
from hyfdca.federation.algorithm import Algorithm
from hyfdca.study.file import StudyFile

Setting = bool | int | float | str

_EXAMPLE = "write names and settings such as hyfdca,fedavg(rate=0.5)"
_ENTRY = re.compile(r"\s*([\w-]+)\s*(?:\(([^()]*)\)\s*)?(,|\Z)")
_SETTING = re.compile(r"""\s*(\w+)\s*=\s*("[^"]*"|'[^']*'|[^\s,="']+)\s*(,|\Z)""")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Contender:
    """An algorithm with its settings.

    Parameters
    ----------
    label : str
        Its name, with the settings that the text gives it.
    """

    label: str
    algorithm: Algorithm

    @property
    def settings(self) -> str:
        """All settings as JSON, including those left at their defaults."""
        return json.dumps(dataclasses.asdict(self.algorithm))


def contenders_of(text: str | None, file: StudyFile) -> list[Contender]:
    """Return the algorithms that a text names, such as ``hyfdca,fedavg(rate=0.5)``.

    Settings of the study's table [algorithm] apply to the algorithm named there;
    settings in the text override them.

    Parameters
    ----------
    text : str or None
        None stands for all algorithms.

    Raises
    ------
    StudyError
    """
    named = [(n, {}) for n in ALGORITHMS] if text is None else _parsed(text)
    found: dict[Algorithm, str] = {}
    for name, given in named:
        algorithm = _made(name, {**_of_study(name, file), **given})
        label = _label(name, given)
        if algorithm in found:
            raise StudyError(
                f"--algorithms has {found[algorithm]} and {label}, which are the same; "
                "name each algorithm once, or with different settings."
            )
        found[algorithm] = label
    return [Contender(label, algorithm) for algorithm, label in found.items()]


def _made(name: str, settings: Mapping[str, Any]) -> Algorithm:
    if name not in ALGORITHMS:
        raise StudyError(
            f"There is no algorithm {name!r}; --algorithms takes "
            f"{', '.join(ALGORITHMS)}."
        )
    algorithm = as_study_error(lambda: make_algorithm(name, settings))
    assert algorithm is not None  # noqa: S101  # only "auto" leaves it open
    return algorithm


def _of_study(name: str, file: StudyFile) -> dict[str, Setting]:
    own = dict(file.algorithm)
    return own if own.pop("name", None) == name else {}


def _label(name: str, given: Mapping[str, Setting]) -> str:
    shown = ", ".join(f"{key}={_shown(value)}" for key, value in given.items())
    return f"{name}({shown})" if shown else name


def _shown(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(text: str) -> list[tuple[str, dict[str, Setting]]]:
    """Return names and settings, as they appear in the text."""
    return [
        (found[1], _settings(found[1], found[2] or ""))
        for found in _matches(_ENTRY, text)
    ]


def _settings(name: str, text: str) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    for found in _matches(_SETTING, text) if text.strip() else ():
        if found[1] in settings:
            raise StudyError(
                f"--algorithms sets {found[1]} of {name} twice; set it once."
            )
        settings[found[1]] = _value(found[2])
    return settings


def _matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Match a list; a comma, the last group, is followed by another element."""
    matches, start, is_open = [], 0, True
    while is_open:
        found = pattern.match(text, start)
        if found is None:
            rest = " ".join(text[start:].split()) or "its end"
            where = repr(rest) if text[start:].strip() else rest
            raise StudyError(f"Cannot read --algorithms from {where} on; {_EXAMPLE}.")
        matches.append(found)
        start, is_open = found.end(), found[found.re.groups] == ","
    return matches


def _value(text: str) -> Setting:
    """Return a value as a study file would have it; bare words are texts."""
    if text[0] in "\"'":
        return text[1:-1]
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
