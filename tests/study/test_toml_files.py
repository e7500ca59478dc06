"""Files in TOML that no parser takes: one sentence that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyfdca.errors import StudyError
from hyfdca.study.client.policy import read_policy_of
from hyfdca.study.file import parse
from hyfdca.study.toml_files import parsed_toml

NINES, ONES = b"9" * 5_000, b"0x" + b"f" * 5_000

CONTENTS = {
    "long number": (b"[a]\nb = " + NINES, "too many digits"),
    "long number in a list": (b"a = [[1], [{b = -" + NINES + b"}]]", "too many digits"),
    "long hexadecimal number": (b"[a]\nb = [{c = " + ONES + b"}]", "too many digits"),
    "brackets": (b"a = " + b"[" * 100_000, "too many brackets"),
    "bytes": (b"a = \xff", "not UTF-8"),
    "no value": (b"a =", "has a mistake"),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_what_cannot_be_read_is_one_sentence(case: str) -> None:
    """It begins with the file, whatever the parser raises."""
    content, sentence = CONTENTS[case]
    with pytest.raises(StudyError, match=rf"^The file a.toml .*{sentence}.*\.$"):
        parsed_toml(content, "The file a.toml")


def test_numbers_that_can_be_read_are() -> None:
    """Also those that no machine word holds."""
    assert parsed_toml(b"a = [1, 0xff]\nb = " + b"9" * 1000, "") == {
        "a": [1, 255],
        "b": int("9" * 1000),
    }


def test_a_mark_of_utf_8_is_no_mistake() -> None:
    """Some editors begin files with one."""
    assert parsed_toml(b"\xef\xbb\xbfa = 1", "") == {"a": 1}


@pytest.mark.parametrize("number", [NINES, ONES])
def test_studies_and_policies_with_long_numbers(number: bytes, tmp_path: Path) -> None:
    """Both are refused by name, not with an error of Python's own."""
    for key in (b"seed", b"step"):
        with pytest.raises(StudyError, match=r"study file .*too many digits"):
            parse(b"[study]\n" + key + b" = " + number, tmp_path / "study.toml")
    (tmp_path / "policy.toml").write_bytes(b"least_rows = " + number)
    with pytest.raises(StudyError, match=r"policy .*too many digits"):
        read_policy_of(tmp_path)
