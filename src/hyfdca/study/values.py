"""The kinds of values that study files have."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Literal

import msgspec

_CONTROLS = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # categories of Unicode
LARGEST = 1e100  # squares and inverses of settings must stay finite
Positive = Annotated[float, msgspec.Meta(ge=1.0 / LARGEST, le=LARGEST)]
Fraction = Annotated[float, msgspec.Meta(gt=0, le=1)]
ClassWeight = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Tolerance = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
KeyEpoch = Annotated[int, msgspec.Meta(ge=1, le=2**32)]
# Names of a host or the server, used in certificates, settings and commands.
HostName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
        r"(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\Z",
        max_length=64,
    ),
]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
Character = Annotated[str, msgspec.Meta(min_length=1, max_length=1)]
Decimal = Literal[".", ","]
PredictionIds = Literal["blinded", "keyed"]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Strengths = Annotated[list[Positive], msgspec.Meta(min_length=2, max_length=100)]


def without_controls(text: str) -> str:
    """Return a text with blanks for the characters that a terminal would obey."""
    return "".join(" " if unicodedata.category(c) in _CONTROLS else c for c in text)
