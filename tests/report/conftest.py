"""What tests of reports share: a trained study."""

from __future__ import annotations

import shutil

import pytest

from tests.report.made_results import trained
from tests.support.consortia import make_files


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """A trained study; not to be written to."""
    folder = tmp_path_factory.mktemp("once")
    return trained(make_files().write(folder), folder / "out")


@pytest.fixture
def out(once, tmp_path):
    """A result folder that a test may change."""
    return shutil.copytree(once, tmp_path / "out")
