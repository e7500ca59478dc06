"""Files in TOML, as people write them: what they contain, or one sentence."""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from hyfdca.errors import StudyError, plain_mistake

_MOST_BITS = 10_000  # some 3,000 digits


def parsed_toml(content: bytes, what: str) -> dict[str, Any]:
    """Return the content of a TOML file.

    Parameters
    ----------
    what : str
        The file, to begin a sentence with.

    Raises
    ------
    StudyError
    """
    try:
        # Some editors begin UTF-8 files with a mark.
        text = content.removeprefix(codecs.BOM_UTF8)
        found: dict[str, Any] = msgspec.toml.decode(text)
        _check_numbers(found)
    except UnicodeDecodeError:
        raise StudyError(f"{what} is not UTF-8; save it as UTF-8.") from None
    except RecursionError:
        raise StudyError(
            f"{what} has too many brackets in each other; correct it."
        ) from None
    except msgspec.MsgspecError as error:
        raise StudyError(
            f"{what} has a mistake{plain_mistake(error)}; correct it."
        ) from None
    except ValueError:  # Python reads no whole numbers of thousands of digits
        raise StudyError(
            f"{what} has a number with too many digits; correct it."
        ) from None
    return found


def _check_numbers(content: Any) -> None:
    """Refuse whole numbers that Python reads, as hexadecimal, but does not print."""
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise ValueError("too many digits")
