"""The options of ``hyfdca reproduce``, and the meaning of their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hyfdca.cli.simulation_options import some_of
from hyfdca.errors import StudyError

if TYPE_CHECKING:
    from hyfdca.reproduction.paper import DataSetName
    from hyfdca.reproduction.plan import Effort, Source
    from hyfdca.reproduction.problems import Choices

_LEAST_SHARE = 0.001
_ANSWERS = (
    "mnist_clients=clients|groups, refresh=all|drawn, divide_by=all|active, "
    "validation=SHARE"
)

Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="0.3 % of the rounds and of the time, in a quarter of an hour."
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        metavar="SHARE",
        help="Share of the paper's rounds and of its 3 hours, such as 0.1, or "
        "mnist=1,news20=0.05,covtype=0.1.",
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(min=1, help="Trials of our own tuning, per setting and method."),
]
DataSets = Annotated[
    str, typer.Option("--sets", metavar="NAMES", help="Some of mnist,news20,covtype.")
]
Sources = Annotated[
    str,
    typer.Option(
        "--hyperparameters",
        metavar="NAMES",
        help="Some of paper,tuned: the paper's, and those of our own tuning.",
    ),
]
L2 = Annotated[
    str,
    typer.Option(
        "--l2",
        metavar="validation|paper",
        help="λ by the central model's validation accuracy, or the paper's.",
    ),
]
Digits = Annotated[
    str, typer.Option(metavar="DIGITS", help="The digits of MNIST with label 1.")
]
Answers = Annotated[
    str,
    typer.Option(
        metavar="NAME=VALUE,...",
        help=f"Other answers to what the paper leaves open: {_ANSWERS}.",
    ),
]


def efforts_of(
    names: Sequence[DataSetName], quick: bool, scale: str, trials: int | None
) -> dict[DataSetName, Effort]:
    """Return how much to do of each data set: all, little, or what was asked for."""
    from dataclasses import replace

    from hyfdca.reproduction.plan import FULL, QUICK, scaled

    if quick and scale:
        raise StudyError("--quick has a scale of its own; leave out one of the two.")
    if scale:
        efforts = {name: scaled(own) for name, own in _scales(names, scale).items()}
    else:
        efforts = dict.fromkeys(names, QUICK if quick else FULL)
    if trials is not None:
        efforts = {name: replace(own, n_trials=trials) for name, own in efforts.items()}
    return efforts


def _scales(names: Sequence[DataSetName], text: str) -> dict[DataSetName, float]:
    """Return the share of each data set; a text has one for all or one for each."""
    pairs = [part.partition("=") for part in text.split(",")]
    if len(pairs) == 1 and not pairs[0][1]:
        pairs = [(name, "=", text) for name in names]
    if sorted(name.strip() for name, _, _ in pairs) != sorted(names):
        raise StudyError(
            "--scale takes one share for all, or one for each data set that is run, "
            f"such as {','.join(f'{name}=0.1' for name in names)}."
        )
    shares = {name.strip(): _share(share) for name, _, share in pairs}
    return {name: shares[name] for name in names}


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not _LEAST_SHARE <= share <= 1.0:
        raise StudyError(
            f"A share of --scale is between {_LEAST_SHARE} and 1, got {text.strip()!r}."
        )
    return share


def data_sets_of(text: str) -> tuple[DataSetName, ...]:
    """Return the data sets that a text names, in the order of the paper."""
    from hyfdca.reproduction.paper import DATA_SETS

    return tuple(some_of(text, DATA_SETS, "--sets"))


def sources_of(text: str) -> tuple[Source, ...]:
    """Return whose hyperparameters a text names."""
    from hyfdca.reproduction.plan import SOURCES

    return tuple(some_of(text, SOURCES, "--hyperparameters"))


def choices_of(digits: str, choose: str, seed: int) -> Choices:
    """Return the answers to what the paper leaves open."""
    import msgspec

    from hyfdca.reproduction.problems import Choices

    answers: dict[str, object] = dict(_pairs(choose)) if choose else {}
    if digits:
        if not digits.isdecimal() or not 0 < len(set(digits)) == len(digits) < 10:
            raise StudyError("--digits takes some of 0123456789, such as 3 or 02468.")
        answers["mnist_positive"] = sorted(map(int, digits))
    try:
        choices = msgspec.convert({**answers, "seed": seed}, Choices, strict=False)
    except msgspec.ValidationError:
        raise StudyError(f"--choose takes some of {_ANSWERS}.") from None
    if not 0.0 < choices.validation < 1.0:
        raise StudyError("The share of --choose validation=SHARE is between 0 and 1.")
    return choices


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the names and values of a text; names must be known and not repeat."""
    pairs = [part.partition("=") for part in text.split(",")]
    found = [(name.strip(), value.strip()) for name, _, value in pairs]
    names = [name for name, _ in found]
    known = {answer.split("=")[0] for answer in _ANSWERS.split(", ")}
    if len(set(names)) != len(names) or not known.issuperset(names):
        raise StudyError(f"--choose takes some of {_ANSWERS}, each once.")
    return found
