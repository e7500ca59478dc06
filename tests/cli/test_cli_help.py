"""The help of all commands: nothing of it is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.text import Text
from typer.main import get_command

from hyfdca.cli.main import app


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name, own in getattr(command, "commands", {}).items():
        yield from _commands(own, (*words, name))


ALL = [words for words in _commands(get_command(app)) if words]


def _texts(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts of a command and its options, as they are in the code."""
    command: Any = get_command(app)
    for word in words:
        command = command.commands[word]
    for text in (command.help, *(one.help for one in command.params if one.name)):
        yield text or ""


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_square_brackets_are_shown(
    words: tuple[str, ...], hyfdca: Callable[..., tuple[int, str, str]]
) -> None:
    """An example is the name of a table of the study file."""
    for text in _texts(words):
        plain = text.replace("\\[", "[")
        assert Text.from_markup(text).plain == plain
    shown = " ".join(hyfdca(*words, "--help")[1].split())
    bracketed = [name for t in _texts(words) for name in re.findall(r"\[\w+\]", t)]
    assert [name for name in bracketed if name not in shown] == []


def test_there_are_commands_with_brackets() -> None:
    """So the test above compares something."""
    found = [words for words in ALL if any("[" in text for text in _texts(words))]
    assert ("server",) in found
    assert ("train",) in found
