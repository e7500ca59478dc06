"""The interface of an algorithm: settings that make a server half and a client half.

The whole interface that a new method implements (docs/contributing.md). Neither half
knows about sockets, clocks, files or NVFlare.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import msgspec
import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.federation.client import Party
from hyfdca.federation.messages import CONFIRMING
from hyfdca.federation.problem import Problem
from hyfdca.federation.server import Federation, Point
from hyfdca.holdings.layout import Layout
from hyfdca.maths.objective import Measurement
from hyfdca.protocol.checkpoint import Checkpointed
from hyfdca.protocol.client_session import Handlers
from hyfdca.protocol.phases import Phases
from hyfdca.protocol.server_session import Conversation


@dataclass(frozen=True)
class Needs:
    """What a method requires of a federation.

    Parameters
    ----------
    measuring : {"everyone", "nobody"}
        Who must be present when it is measured.
    presence : {"any", "everyone"}
        Who must be present in every round.
    smooth_loss : bool
        Whether the loss must have a Lipschitz derivative.
    labels : {"some", "all"}
        Which clients must have labels.
    split : {"any", "rows", "columns", "rows or columns", "grid"}
        How the table must be split: row-partitioned with all columns at every client,
        column-partitioned with all rows, or row groups times column groups.
    """

    measuring: Literal["everyone", "nobody"] = "everyone"
    presence: Literal["any", "everyone"] = "any"
    smooth_loss: bool = False
    labels: Literal["some", "all"] = "some"
    split: Literal["any", "rows", "columns", "rows or columns", "grid"] = "any"


_SPLITS = {
    "rows": "a row-partitioned (horizontal) table with all columns at every client",
    "columns": "a column-partitioned (vertical) table with all rows at every client",
    "rows or columns": "whole rows or whole columns at every client",
    "grid": "one client for every pair of a row group and a column group",
}


class ServerHalf(Checkpointed[Any], Protocol):
    """The server's half of an algorithm."""

    @property
    def is_between_steps(self) -> bool:
        """Whether no exchange is suspended; only then is there a state to keep."""
        ...

    def set_up(self) -> Conversation[None]:
        """Exchange what every round needs."""
        ...

    def round(self, participants: Sequence[int]) -> Conversation[None]:
        """Run one round with these clients."""
        ...

    def measure(self) -> Conversation[Measurement]:
        """Measure P and D, by exchanges where the rounds gave none."""
        ...

    def released_point(self) -> Point:
        """Return where the weights are that ``release`` would return now."""
        ...

    def release(self) -> Conversation[FloatArray]:
        """Return the weights last measured, (n_features, n_outputs)."""
        ...


@runtime_checkable
class StartsAnywhere(Protocol):
    """A server's half that can begin at other weights than zero."""

    def start_at(self, weights: FloatArray) -> None:
        """Begin at these weights, (n_features, n_outputs), a free intercept last."""
        ...


@runtime_checkable
class ChecksConsistency(Protocol):
    """A server's half that notices contradictions in what clients send."""

    def check_consistency(self, is_over: bool) -> None:
        """Refuse to continue if there are any.

        Parameters
        ----------
        is_over : bool
            Whether the run cannot continue in any case.

        Raises
        ------
        BadReplyError
            It names those who may be the cause.
        """
        ...


class ClientHalf(Checkpointed[Any], Protocol):
    """A client's half of an algorithm."""

    @property
    def handlers(self) -> Handlers:
        """What the client does in each phase, by name; "release" changes nothing."""
        ...


@dataclass(frozen=True)
class Algorithm(ABC):
    """A training method: its settings are its fields."""

    name: ClassVar[str]
    phases: ClassVar[Phases]
    # Whether it can leave the intercept without penalty, and add offsets to margins
    frees_intercept: ClassVar[bool] = False
    takes_offsets: ClassVar[bool] = False
    # Whether it can choose λ among several, all in one run
    chooses_l2: ClassVar[bool] = False
    # Advice where it does not converge in time, and where it diverges
    late_advice: ClassVar[str] = ""
    advice: ClassVar[str] = "scale the features, use a larger l2 or algorithm='bundle'"

    def __post_init__(self) -> None:
        """Check the settings by their annotations."""
        check_settings(self)

    @property
    def needs(self) -> Needs:
        """What it requires of a federation."""
        return Needs()

    @classmethod
    def all_phases(cls) -> Phases:
        """Return its phases, and those that follow the release of every model."""
        return {**cls.phases, **CONFIRMING}

    def most_asked(self, name: str, n_clients: int) -> int | None:
        """Return how often a client answers a phase in one round; None for any number.

        A method overrides it where that follows from its settings, or from the number
        of clients.
        """
        return self.all_phases()[name].most

    @abstractmethod
    def server(self, federation: Federation) -> ServerHalf:
        """Return the server's half."""

    @abstractmethod
    def client(self, party: Party) -> ClientHalf:
        """Return a client's half."""

    def check(self, federation: Federation) -> None:
        """Refuse a federation that the method does not apply to.

        Raises
        ------
        ValueError
            With one plain sentence.
        """
        needs = self.needs
        self._check_margins(federation.problem)
        if needs.smooth_loss:
            self.check_smooth(federation)
        if not _is_split(federation.layout, needs.split):
            raise ValueError(
                f"algorithm={self.name!r} needs {_SPLITS[needs.split]}, which this "
                "partition does not have; use algorithm='bundle' or 'hyfdca'."
            )
        if needs.presence == "everyone" and not federation.is_complete:
            raise ValueError(
                f"algorithm={self.name!r} needs every client in every round; use "
                "participation=1 and a quorum of all, or algorithm='bundle'."
            )
        if needs.labels == "all" and federation.unlabelled:
            raise ValueError(
                f"algorithm={self.name!r} needs labels at every client; use "
                "algorithm='bundle'."
            )

    def _check_margins(self, problem: Problem) -> None:
        """Refuse an intercept or offsets that the method does not support."""
        if problem.free_intercept and not self.frees_intercept:
            raise ValueError(
                f"algorithm={self.name!r} needs a penalised intercept; set "
                "penalise_intercept to true, or leave it out, or use "
                "algorithm='bundle'."
            )
        if problem.has_offsets and not self.takes_offsets:
            raise ValueError(
                f"algorithm={self.name!r} takes no offsets; use algorithm='bundle', "
                "'lbfgs' or 'hyfdca'."
            )
        if problem.path is not None and not self.chooses_l2:
            raise ValueError(
                f"algorithm={self.name!r} trains at one l2; use algorithm='bundle' to "
                "choose among several."
            )

    def check_smooth(self, federation: Federation, where: str = "") -> None:
        """Refuse a loss with a kink."""
        loss = federation.problem.loss
        if math.isinf(loss.smoothness):
            raise ValueError(
                f"algorithm={self.name!r} needs a smooth loss{where}, which "
                f"{loss.name!r} is not; use algorithm='bundle'."
            )


def _is_split(layout: Layout, split: str) -> bool:
    if split == "grid":
        return layout.is_grid
    is_rows = "rows" in split and layout.is_row_split
    return split == "any" or is_rows or ("columns" in split and layout.is_column_split)


def check_settings(settings: Any) -> None:
    """Refuse a value that the annotation of its field does not allow.

    Raises
    ------
    ValueError
        With one plain sentence that names the setting.
    """
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, np.generic):  # NumPy's numbers are numbers
            value = value.item()
            object.__setattr__(settings, field.name, value)
        try:
            msgspec.convert(value, hints[field.name])
        except msgspec.ValidationError as error:
            wanted = allowed(hints[field.name]) or str(error).lower()
            raise ValueError(f"{field.name} must be {wanted}, got {value!r}.") from None


def allowed(hint: Any) -> str:
    """Return the choices or bounds of an annotation in words, if they are simple."""
    arguments = typing.get_args(hint)
    if hint is bool:
        return "true or false"
    if typing.get_origin(hint) is Literal:
        choices = ", ".join(map(str, arguments))
        return choices if len(arguments) == 1 else f"one of {choices}"
    metas = [meta for meta in arguments if isinstance(meta, msgspec.Meta)]
    if metas:
        return _bounds(arguments[0], metas[0])
    return ", or ".join(filter(None, map(allowed, arguments)))


def _bounds(kind: Any, meta: msgspec.Meta) -> str:
    if kind is int and meta.ge is not None:
        return f"a whole number from {meta.ge:g}"
    if meta.le is not None and meta.le <= 1:
        lowest = (
            f"above {meta.gt:g}" if meta.gt is not None else f"at least {meta.ge:g}"
        )
        return f"{lowest} and at most {meta.le:g}"
    return "a positive number" if meta.ge is None else f"a number from {meta.ge:g}"
