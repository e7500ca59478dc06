"""What runs of a study may change, within ranges to which all have agreed.

The table ``[tuning]`` of a study file leaves settings open. The coordinator chooses
them for a run; every organisation checks the choice against its own study file. Without
the table a study has one run, with the settings of its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from hyfdca.errors import StudyError, counted
from hyfdca.study.values import Positive, Tolerance

if TYPE_CHECKING:
    from hyfdca.study.file import Study, StudyFile

_MOST_RUNS = 1000
RunNumber = Annotated[int, msgspec.Meta(ge=1, le=_MOST_RUNS)]
RoundLimit = Annotated[int, msgspec.Meta(ge=1, le=2**40)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a study file."""


class L2Range(_Table, frozen=True, kw_only=True):
    """The values that l2 may have."""

    least: Positive
    most: Positive


class TolRange(_Table, frozen=True, kw_only=True):
    """The values that tol may have."""

    least: Tolerance
    most: Tolerance


class RoundsRange(_Table, frozen=True, kw_only=True):
    """The values that max_rounds may have."""

    least: RoundLimit = 1
    most: RoundLimit


class Tuning(_Table, frozen=True, kw_only=True):
    """What the coordinator may change from run to run."""

    l2: L2Range | None = None
    tol: TolRange | None = None
    max_rounds: RoundsRange | None = None
    most_runs: Annotated[int, msgspec.Meta(ge=2, le=_MOST_RUNS)] = 5


SETTINGS = ("l2", "tol", "max_rounds")


class RunChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The number of a run and the settings chosen for it; None: the file's."""

    number: RunNumber = 1
    l2: Positive | None = None
    tol: Tolerance | None = None
    max_rounds: RoundLimit | None = None

    @property
    def chosen(self) -> dict[str, float]:
        """The chosen settings by name."""
        values = {name: getattr(self, name) for name in SETTINGS}
        return {name: value for name, value in values.items() if value is not None}

    def to_bytes(self) -> bytes:
        """Return it as bytes, to be kept."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> RunChoice:
        """Return the choice that ``to_bytes`` gave, or raise ``MsgspecError``."""
        return msgspec.json.decode(content, type=RunChoice)


FIRST_RUN = RunChoice()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that was chosen for a run, with the study file's value and range."""

    setting: str
    value: float
    study_file: float
    least: float
    most: float


def check_tuning(where: str, study: Study, tuning: Tuning | None) -> None:
    """Refuse ranges that are empty, or do not contain the study's own value.

    Raises
    ------
    ValueError
    """
    if tuning is None:
        return
    ranges = _ranges(tuning)
    if not ranges:
        raise ValueError(
            f"{where} has a table [tuning] that leaves nothing open; add l2, tol or "
            "max_rounds to it, or remove it."
        )
    if "l2" in ranges and not isinstance(study.l2, float):
        raise ValueError(
            f"{where} has l2 chosen among several values and also leaves it open in "
            "[tuning]; give one l2, or remove l2 from [tuning]."
        )
    for name, own in ranges.items():
        if own.least > own.most:
            raise ValueError(
                f"{where} has a range of {name} in [tuning] whose least ({own.least}) "
                f"is above its most ({own.most}); exchange them."
            )
        value = getattr(study, name)
        if not own.least <= value <= own.most:
            raise ValueError(
                f"{where} has {name} = {value}, but its [tuning] allows {name} from "
                f"{own.least} to {own.most}; widen that range, or change {name}."
            )


def check_choice(
    choice: RunChoice, file: StudyFile, n_before: int | None = None
) -> None:
    """Refuse a run that a study file does not allow.

    Parameters
    ----------
    n_before : int, optional
        How many other runs have trained a round; by default all with lower numbers.

    Raises
    ------
    ValueError
    """
    _check_settings(choice, file)
    n_before = choice.number - 1 if n_before is None else n_before
    if file.tuning is not None and n_before >= file.tuning.most_runs:
        raise ValueError(
            f"Run {choice.number} is not allowed, because the study file allows "
            f"{counted(file.tuning.most_runs, 'run')} (most_runs in [tuning])."
        )


def _check_settings(choice: RunChoice, file: StudyFile) -> None:
    """Refuse what was chosen for a run if a study file does not leave it open."""
    tuning, number = file.tuning, choice.number
    if tuning is None:
        if choice == FIRST_RUN:
            return
        raise ValueError(
            f"{_named(choice)} is not allowed, because the study file has no table "
            "[tuning]: the study has one run, with the settings of its file."
        )
    ranges = _ranges(tuning)
    for name, value in choice.chosen.items():
        if name not in ranges:
            raise ValueError(
                f"Run {number} has {name} = {value}, but the study file leaves "
                f"{name} no range in [tuning]; it leaves {' and '.join(ranges)} open."
            )
        own = ranges[name]
        if not own.least <= value <= own.most:
            raise ValueError(
                f"Run {number} has {name} = {value}, but the study file allows {name} "
                f"from {own.least} to {own.most}."
            )


def _named(choice: RunChoice) -> str:
    chosen = " and ".join(f"{name} = {value}" for name, value in choice.chosen.items())
    return f"Run {choice.number}{f' with {chosen}' if chosen else ''}"


def _ranges(tuning: Tuning) -> dict[str, Any]:
    """Return the ranges of the settings that are left open."""
    found = {name: getattr(tuning, name) for name in SETTINGS}
    return {name: own for name, own in found.items() if own is not None}


def tuned(file: StudyFile, choice: RunChoice) -> StudyFile:
    """Return a study file with the settings of a run.

    How many runs there may be is checked by ``check_choice``.

    Raises
    ------
    ValueError
        If the file does not leave these settings open.
    """
    _check_settings(choice, file)
    study = msgspec.structs.replace(file.study, **choice.chosen)
    return msgspec.structs.replace(file, study=study)


def changes_of(file: StudyFile, choice: RunChoice) -> Iterator[Change]:
    """Yield what was chosen for a run that the file allows."""
    for name, value in choice.chosen.items():
        own = getattr(file.tuning, name)
        yield Change(
            setting=name,
            value=value,
            study_file=getattr(file.study, name),
            least=own.least,
            most=own.most,
        )


def run_sentence(file: StudyFile, choice: RunChoice) -> str | None:
    """Return a run and its settings in words; None for the run of the file itself."""
    if choice == FIRST_RUN:
        return None
    changes = [
        f"{own.setting} = {own.value} (study file: {own.study_file}, allowed: "
        f"{own.least} to {own.most})"
        for own in changes_of(file, choice)
    ]
    what = ", ".join(changes) or "with the settings of the study file"
    return f"Run {choice.number} of the study {file.study.name!r}: {what}."


def choice_after(last: int, is_taken: bool, options: Iterable[str]) -> RunChoice:
    """Return the choice of the run that comes next.

    Parameters
    ----------
    is_taken : bool
        Whether the number of the last run cannot be reused.

    Raises
    ------
    StudyError
    """
    return choice_of(last + is_taken, options)


def choice_of(number: int, options: Iterable[str]) -> RunChoice:
    """Return the choice that options such as "l2=1e-3" make.

    Raises
    ------
    StudyError
    """
    values: dict[str, Any] = {}
    for option in options:
        name, _, text = option.partition("=")
        if name not in SETTINGS:
            raise StudyError(
                f"Cannot choose {option!r} for a run; give l2=, tol= or max_rounds= "
                "with a value, such as l2=1e-3."
            )
        if name in values:
            raise StudyError(f"The option --tune gives {name} twice; give it once.")
        values[name] = _value(name, text)
    return RunChoice(number=min(number, _MOST_RUNS), **values)


def _value(name: str, text: str) -> Any:
    kind = int if name == "max_rounds" else float
    try:
        return msgspec.convert(kind(text), _KINDS[name])
    except (ValueError, OverflowError):  # msgspec's errors are ValueErrors
        raise StudyError(
            f"The option --tune {name}={text} gives no value that {name} may have; "
            "give a number, such as "
            f"{'max_rounds=200' if name == 'max_rounds' else f'{name}=1e-3'}."
        ) from None


_KINDS: dict[str, Any] = {"l2": Positive, "tol": Tolerance, "max_rounds": RoundLimit}


def run_folder(folder: Path, number: int) -> Path:
    """Return where the results of a run go: those of the first into the folder."""
    return folder if number == 1 else folder / f"run-{number}"
