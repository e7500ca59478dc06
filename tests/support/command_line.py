"""The command line in this process, for tests that cannot use fixtures."""

from __future__ import annotations

import contextlib
import io
import sys
from unittest import mock

from hyfdca.cli import main as cli


def run_command(*arguments: object) -> tuple[int, str, str]:
    """Run ``hyfdca``; return its exit code, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["hyfdca", *map(str, arguments)]),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
    return int(code), output.getvalue(), errors.getvalue()
