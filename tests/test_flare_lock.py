from __future__ import annotations

import shutil
from pathlib import Path

from hyfdca.flare.lock import holder_number
from hyfdca.kits.kit import Kit


def test_a_kit_has_one_number_and_its_copy_another(tmp_path: Path) -> None:
    """So a second client is told from one that was started again."""
    (tmp_path / "kit" / "state").mkdir(parents=True)
    number = holder_number(Kit(tmp_path / "kit"))
    assert holder_number(Kit(tmp_path / "kit")) == number
    shutil.copytree(tmp_path / "kit", tmp_path / "copy")
    assert holder_number(Kit(tmp_path / "copy")) != number
    (tmp_path / "kit").rename(tmp_path / "elsewhere")
    (tmp_path / "copy").rename(tmp_path / "kit")
    assert holder_number(Kit(tmp_path / "kit")) != number
