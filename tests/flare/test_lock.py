from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

import pytest

from hyfdca.errors import StudyError, plain_errors
from hyfdca.flare.lock import end_if_asked, ended_in_order, holder_number
from hyfdca.kits.kit import Kit


def test_a_kit_has_one_number_and_its_copy_another(tmp_path: Path) -> None:
    """It distinguishes a second client from a restarted one."""
    (tmp_path / "kit" / "state").mkdir(parents=True)
    number = holder_number(Kit(tmp_path / "kit"))
    assert holder_number(Kit(tmp_path / "kit")) == number
    shutil.copytree(tmp_path / "kit", tmp_path / "copy")
    assert holder_number(Kit(tmp_path / "copy")) != number
    (tmp_path / "kit").rename(tmp_path / "elsewhere")
    (tmp_path / "copy").rename(tmp_path / "kit")
    assert holder_number(Kit(tmp_path / "kit")) != number


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_was_swallowed_is_raised_again(kind: signal.Signals) -> None:
    """It is raised at the next check; a later command is not affected."""
    before = signal.getsignal(kind)
    with ended_in_order():
        end_if_asked()
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), kind)
        with pytest.raises(KeyboardInterrupt):
            end_if_asked()
    assert signal.getsignal(kind) is before
    with ended_in_order():
        end_if_asked()


def test_what_the_system_refuses_is_a_sentence(tmp_path: Path) -> None:
    """It names the file and the reason."""
    with (
        pytest.raises(StudyError, match=r"Cannot use .*/none/file \(No such file"),
        plain_errors(tmp_path),
    ):
        (tmp_path / "none" / "file").touch()
