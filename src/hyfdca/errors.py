"""The one error that a user gets to see, where nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class StudyError(ValueError):
    """A study that cannot be run; the message is one plain sentence."""


def as_study_error(make: Callable[[], T]) -> T:
    """Return what is made, its complaints as errors of the study."""
    try:
        return make()
    except ValueError as error:
        raise StudyError(str(error)) from None
