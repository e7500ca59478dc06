"""Hashes of packages: from pip's report to a file that pip checks."""

from __future__ import annotations

import pytest
from tools.pin_hashes import merged, read, reported, written

A, B = "a" * 64, "b" * 64


def _entry(name, version, **hashes):
    """Return an entry of pip's report, as far as it matters here."""
    return {
        "metadata": {"name": name, "version": version},
        "download_info": {"archive_info": {"hashes": hashes}},
    }


def test_a_report_becomes_a_file_and_back():
    """Every package has its version and its hash, and nothing else is in the file."""
    pins = reported({"install": [_entry("Zeta", "1.0", sha256=A)]})
    assert written(pins) == f"zeta==1.0 \\\n    --hash=sha256:{A}\n"
    assert read(written(pins)) == pins


def test_hashes_of_other_platforms_stay_while_the_version_does():
    """Wheels of one version differ by platform; those of an old version go."""
    old = {"zeta==1.0": {A}, "eta==1.0": {A}}
    assert merged(old, {"zeta==1.0": {B}, "eta==2.0": {B}}) == {
        "zeta==1.0": {A, B},
        "eta==2.0": {B},
    }


def test_a_package_without_a_hash_is_not_passed_over():
    """A file that pip would check in part would be worse than none."""
    with pytest.raises(KeyError):
        reported({"install": [_entry("zeta", "1.0", md5="0")]})
