"""Tests between real processes: they come first, and tell what parties have logged.

A study that no test ends early is shared: it is a fixture of the module whose tests
use it, and ends with the last of them.

Their processes wait half of the time. So the tests are of two groups, each run by a
worker in turn, while the other workers run tests that only compute.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.flare.flare_kits import Site
from tests.flare.flare_parties import Parties

_HERE = "tests/online/"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make these tests start first: others can run while they wait."""
    items.sort(key=lambda item: not item.nodeid.startswith(_HERE))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add the logs of a shared study to the report of a test that fails."""
    report = yield
    if report.when == "call" and report.failed:
        for shared in getattr(item, "funcargs", {}).values():
            parties = getattr(shared, "parties", None)
            if isinstance(parties, Site | Parties):
                report.sections.append(("logs", parties.logs()))
    return report
