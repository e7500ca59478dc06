"""What the command line refuses: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.errors import StudyError
from hyfdca.study.file import load, parse
from tests.cli.bad_studies import BAD
from tests.support.consortia import assert_one_sentence, make_files


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, tmp_path, hyfdca):
    """Bad input: one sentence, exit code 2, nothing written, no ID revealed."""
    change, message = BAD[case]
    files = make_files()
    change(files)
    path = files.write(tmp_path)
    code, output, errors = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 2
    assert output == ""
    assert re.search(message, errors), errors
    assert_one_sentence(errors)
    assert not re.search(r"P\d\d\d", errors)
    assert not (tmp_path / "out").exists()


# Settings of algorithms as they used to be in [study], and where they belong now.
OLD_KEYS = {
    "step": ('step = "safe"', Hyfdca(step="safe")),
    "named": (
        'algorithm = "hyfdca"\nstep = "paper"\nlocal_fraction = 0.5\nmin_rows = 1',
        Hyfdca(step="paper", local_fraction=0.5),
    ),
    "iic": ('iic = 0.1\nvariant = "theory"', Hyfdca(iic=0.1, variant="theory")),
    "paper": (
        'min_rows = 5\npaper_settings = {cap = "one", second_inner_product = true}',
        Hyfdca(min_rows=5, cap="one", second_inner_product=True),
    ),
    "bundle": (
        "[study.bundle_settings]\nsub_groups = 2\nmax_buckets = 9",
        Bundle(sub_groups=2, max_buckets=9),
    ),
    "algorithm alone": ('algorithm = "lbfgs"', Lbfgs()),
}


@pytest.mark.parametrize("case", OLD_KEYS)
def test_old_keys(case, tmp_path, hyfdca):
    """Settings in their old place yield one sentence that says where they belong.

    What it shows, pasted into the study file, is the algorithm that was meant.
    """
    lines, algorithm = OLD_KEYS[case]
    path = make_files().write(tmp_path)
    content = path.read_text()
    path.write_text(content.replace("[[clients]]", f"{lines}\n[[clients]]", 1))
    code, output, errors = hyfdca("train", path, "--out", tmp_path / "out")
    assert (code, output) == (2, "")
    assert_one_sentence(errors)
    assert not (tmp_path / "out").exists()
    keys = re.findall(
        r"^(?:\[study\.)?(\w+)", lines.split("\nsub_groups")[0], re.MULTILINE
    )
    shown = re.search(
        r"has (.*) in \[study\]; .* \[algorithm\] with (.*) instead", errors
    )
    assert set(shown[1].split(", ")) == set(keys)
    table = "\n".join(["[algorithm]", *shown[2].split(" and ")])
    path.write_text(content.replace("[[clients]]", f"{table}\n[[clients]]", 1))
    assert load(path).chosen_algorithm() == algorithm


def test_old_step():
    """The sentence is complete, and includes the table to write."""
    content = b'[study]\nname = "x"\nstep = "safe"\n[[clients]]\nname = "north"\n'
    with pytest.raises(StudyError) as caught:
        parse(content, Path("study.toml"))
    assert str(caught.value) == (
        "The study file study.toml has step in [study]; write a table [algorithm] "
        'with name = "hyfdca" and step = "safe" instead.'
    )


@pytest.mark.parametrize(
    "value", ["2024-12-31", "[2024-12-31T10:00:00Z]", "inf", "-inf", "nan"]
)
def test_old_keys_with_any_value(value):
    """Also with one that JSON does not have."""
    content = f'[study]\nname = "x"\nstep = {value}\n[[clients]]\nname = "north"\n'
    with pytest.raises(StudyError, match=r"write a table \[algorithm\] with") as caught:
        parse(content.encode(), Path("study.toml"))
    table = str(caught.value).partition(" and ")[2].removesuffix(" instead.")
    assert list(tomllib.loads(table)) == ["step"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "Missing argument 'study'; see hyfdca train --help."),
        (["train", "a.toml", "b.toml"], "unexpected extra argument"),
        (["fly"], "No such command"),
        (
            ["demo", "--colour"],
            "option: --colour; hyfdca demo has --out, --eng",
        ),
        (
            ["study", "new", "--labels", "y", "a.csv"],
            "hyfdca study new has --out, --id-",
        ),
        (["train", "nothing.toml"], "the study file nothing.toml"),
        (["keys", "new"], "Missing option"),
        (["keys", "show"], "Missing argument"),
        (["keys", "show", "nothing"], "key file nothing/secret.key"),
        (["keys", "burn"], "No such command 'burn'; see hyfdca keys --help."),
        (["study", "fingerprint"], "Missing argument"),
        (["data", "nothing"], "unexpected extra argument"),
        (["data", "--folder", "nothing"], "The folder nothing does not exist"),
        (["study", "fingerprint", "nothing.toml"], "the study file nothing.toml"),
    ],
)
def test_bad_arguments(arguments, message, tmp_path, monkeypatch, hyfdca):
    """Invalid arguments yield one sentence too."""
    monkeypatch.chdir(tmp_path)
    code, output, errors = hyfdca(*arguments)
    assert (code, output) == (2, "")
    assert message in errors
    assert_one_sentence(errors)
    assert not list(tmp_path.iterdir())


def test_commands_are_named_as_users_write_them():
    """Also if the program was started with ``python -m``."""
    command = [sys.executable, "-m", "hyfdca", "keys", "new"]
    ended = subprocess.run(  # noqa: S603  # our own command
        command, capture_output=True, text=True, check=False
    )
    assert ended.stderr == "Missing option '--out'; see hyfdca keys new --help.\n"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[study]\n"])
def test_bad_study_files(content, tmp_path, hyfdca):
    """A study file that is empty, not text or incomplete yields one sentence."""
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    code, _, errors = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 2
    assert "study.toml" in errors
    assert_one_sentence(errors)


@pytest.mark.parametrize("command", ["demo", "train"])
def test_a_folder_that_is_a_file(command, tmp_path, hyfdca):
    """An impossible output folder is refused before training."""
    path = make_files().write(tmp_path)
    study = [path] if command == "train" else []
    code, output, errors = hyfdca(command, *study, "--out", path / "out")
    assert (code, output) == (2, "")
    assert "Cannot write to" in errors
    assert_one_sentence(errors)
