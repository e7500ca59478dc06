"""The command line: exit codes, files, and one sentence per error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.crypto.keys.identity import Identity
from hyfdca.demo.in_process import demo_files, pooled_objective
from hyfdca.errors import StudyError
from hyfdca.study.file import load, parse
from hyfdca.study.local import prepare
from tests.support.consortia import assert_one_sentence, extra, make_files

KEYS = [
    "algorithm",
    "algorithm_reason",
    "encryption",
    "sealed_with",
    "rounds",
    "primal",
    "dual",
    "relative_gap",
    "pooled_primal",
    "relative_loss",
    "accuracy",
    "bytes_up",
    "bytes_down",
    "round_trips",
    "seconds",
]


def spoil(organisation, **cells):
    """Return a change of some cells of a table, each the first in its column."""

    def change(files):
        for column, value in cells.items():
            files.organisations[organisation].table[column][0] = value

    return change


def setting(**settings):
    return lambda files: files.settings.update(settings)


def lose(organisation, column):
    return lambda files: files.organisations[organisation].table.pop(column)


def empty(organisation):
    def change(files):
        for column in files.organisations[organisation].table.values():
            column.clear()

    return change


def same_labels(files):
    for organisation in files.organisations.values():
        organisation.table["y"] = ["ill"] * len(organisation.rows)


def no_labels_in_the_south(files):
    files.settings["labels_visible_to_holders"] = "true"
    files.organisations["city"].extra = "label = false"


def spoil_ids(*names):
    def change(files):
        for name in names:
            ids = files.organisations[name].table["id"]
            ids[:] = [f"{name}-{number}" for number in range(len(ids))]

    return change


other_ids = spoil_ids("north", "city", "coast")


def repeat_name(files):
    files.organisations["coast"].extra = 'data = "coast.csv"\n[[clients]]\n'
    files.organisations["coast"].extra += 'name = "north"\ndata = "north.csv"'


KEY = Identity.generate().public.text


def same_key(files):
    for name in ("north", "coast"):
        files.organisations[name].extra = f'public_key = "{KEY}"'


BAD = {
    "labels disagree": (
        lambda f: f.organisations["coast"].table["y"].__setitem__(0, "neither"),
        "different labels .* 'north' and 'coast' in 1 rows",
    ),
    "duplicate IDs": (spoil("north", id="P001"), "'north': 1 rows .*repeat the ID"),
    "no labelled holder": (
        no_labels_in_the_south,
        "10 of 60 rows have no organisation",
    ),
    "one class": (same_labels, "same label"),
    "no common ID": (other_ids, "No two of the 3 organisations .* share any of"),
    "one apart": (
        spoil_ids("coast"),
        "'coast' shares none of its 20 IDs .* lacks 3 of 5 features",
    ),
    "cells disagree": (
        spoil("city", x2="7.0"),
        "different values .* 'north' and 'city' in 1 rows; .*disagreeing_cells",
    ),
    "missing cell": (spoil("city", x3=""), "'city' has 1 missing cells in city.csv"),
    "text cell": (spoil("city", x3="P001"), "'city': column 'x3' of city.csv has 1 c"),
    "infinite cell": (spoil("city", x3="inf"), "1 numbers that are infinite.*'x3'"),
    "no label column": (lose("north", "y"), "'north': north.csv has no column 'y'"),
    "no ID column": (lose("north", "id"), "'north': north.csv has no column 'id'"),
    "no feature": (extra("city", 'features = ["x9"]'), "'city': .* no column 'x9'"),
    "unknown key": (setting(colour='"red"'), "at study: unknown key `colour`"),
    "unknown client key": (
        extra("city", "age = 3"),
        r"clients\[1\]: unknown key `age`",
    ),
    "no name": (lambda f: f.settings.pop("name"), "missing key `name`"),
    "wrong type": (setting(l2='"much"'), "at study.l2: expected `float`"),
    "wrong range": (setting(l2="-1"), "at study.l2: expected `float` >= "),
    "not finite": (setting(l2="inf"), "at study.l2"),
    "wrong choice": (setting(scale='"minmax"'), "at study.scale: invalid enum value"),
    "encryption": (setting(encryption='"rot13"'), "at study.encryption"),
    "quorum": (setting(quorum="4"), "quorum of 4 but has 3 organisations"),
    "no quorum": (setting(quorum="0"), "at study.quorum"),
    "no time": (setting(phase_timeout="0"), "at study.phase_timeout"),
    "no data": (
        extra("city", "# data ="),
        "'city' has no data in the study file",
    ),
    "host": (extra("coast", '[server]\nhost = "a b"'), "at server.host"),
    "port": (extra("coast", "[server]\nport = 70000"), "at server.port"),
    "no TOML": (setting(l2=""), "has a mistake"),
    "unknown loss": (setting(loss='"zero_one"'), "no loss 'zero_one'; choose one of"),
    "loss parameter": (setting(loss_parameter="3.0"), "takes no parameter"),
    "no number": (setting(loss='"squared"'), "'north' has 40 rows with a label"),
    "no file": (extra("city", 'data = "town.csv"'), "'city': the file "),
    "file format": (extra("city", 'data = "city.xls"'), "'city': cannot read city.xls"),
    "empty table": (empty("city"), "'city': the file city.csv has no rows"),
    "step": (
        setting(step='"line_search"', participation="0.5"),
        "needs every client in every round",
    ),
    "algorithm": (
        setting(algorithm='"magic"'),
        "algorithm must be one of auto, .*hyfdca.*, got 'magic'",
    ),
    "algorithm by number": (setting(algorithm="3"), "algorithm must be one of auto"),
    "no algorithm": (
        extra("coast", '[algorithm]\nstep = "safe"'),
        "step is a setting of algorithm 'hyfdca', not of 'auto'; name that algorithm",
    ),
    "another algorithm's setting": (
        setting(algorithm='"bundle"', step='"safe"'),
        "step is a setting of algorithm 'hyfdca', not of 'bundle'",
    ),
    "unknown setting": (
        extra("coast", '[algorithm]\nname = "bundle"\ncolour = "red"'),
        "algorithm 'bundle' has no setting 'colour'; it has: min_contributors, ",
    ),
    "setting's choice": (
        setting(step='"long"'),
        "step must be one of auto, paper, safe, line_search, got 'long'",
    ),
    "setting's range": (
        setting(min_rows="0"),
        "min_rows must be a whole number from 1, got 0",
    ),
    "setting's type": (
        setting(algorithm='"bundle"', sub_groups='"two"'),
        "sub_groups must be a whole number from 1, got 'two'",
    ),
    "table for a setting": (
        extra("coast", '[algorithm]\nname = "bundle"\nsub_groups = {n = 2}'),
        r"at algorithm\[...\]: expected",
    ),
    "no seconds": (setting(max_seconds="0"), "at study.max_seconds"),
    "no stall": (setting(stall_rounds="0"), "at study.stall_rounds"),
    "positive label": (setting(positive_label='"dead"'), "positive_label 'dead'"),
    "label of no one": (extra("coast", "label = false"), "sign of a dual is the label"),
    "names twice": (repeat_name, "'north' more than once"),
    "key cut short": (
        extra("city", f'public_key = "{KEY[:-1]}"'),
        "public_key of organisation 'city' .*91 letters .* instead of 92",
    ),
    "key with a typing error": (
        extra("city", f'public_key = "{KEY[:-1]}{"B" if KEY[-1] == "A" else "A"}"'),
        "public_key of organisation 'city' .*typing error",
    ),
    "no key": (extra("city", 'public_key = ""'), "'city' .*begins with hyfdca1:"),
    "key twice": (same_key, "'north' and 'coast' have the same public_key"),
    "no epoch": (setting(key_epoch="0"), "at study.key_epoch: expected `int` >= 1"),
    "far epoch": (setting(key_epoch=str(2**70)), "has a mistake"),
}


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
    ("arguments", "message"),
    [
        (["train"], "Missing argument"),
        (["train", "a.toml", "b.toml"], "unexpected extra argument"),
        (["fly"], "No such command"),
        (["demo", "--colour"], "No such option"),
        (["train", "nothing.toml"], "the study file nothing.toml"),
        (["keys", "new"], "Missing option"),
        (["keys", "show"], "Missing argument"),
        (["keys", "show", "nothing"], "key file nothing/secret.key"),
        (["keys", "burn"], "No such command"),
        (["study", "fingerprint"], "Missing argument"),
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


def test_train(tmp_path, hyfdca):
    """A study writes its model and how it was found; pooled numbers are null."""
    path = make_files().write(tmp_path)
    out = tmp_path / "deep" / "out"
    code, output, errors = hyfdca("train", path, "--out", out)
    assert (code, errors) == (0, "")
    assert {p.name for p in out.iterdir()} == {
        "model.json",
        "result.json",
        "history.json",
        "convergence.png",
    }
    history = json.loads((out / "history.json").read_text())
    result = json.loads((out / "result.json").read_text())
    assert list(result) == KEYS
    assert result["pooled_primal"] is None
    assert result["relative_loss"] is None
    assert result["relative_gap"] <= 1e-4
    assert [record["round"] for record in history] == [*range(1, result["rounds"] + 1)]
    assert history[-1]["primal"] == result["primal"]
    assert history[-1]["participants"] == ["north", "city", "coast"]
    assert "round 1: certified gap" in output
    assert "north" in output
    assert (out / "convergence.png").read_bytes()[:4] == b"\x89PNG"


def test_default_folder(tmp_path, monkeypatch, hyfdca):
    """Without --out the folder is named after the study file."""
    monkeypatch.chdir(tmp_path)
    make_files().write(tmp_path)
    code, _, _ = hyfdca("train", "study.toml")
    assert code == 0
    assert (tmp_path / "study-out" / "result.json").exists()


def test_not_converging_is_a_warning(tmp_path, hyfdca):
    """Too few rounds give a model, exit code 0 and a visible warning."""
    path = make_files(max_rounds="2").write(tmp_path)
    code, output, _ = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 0
    assert "Not converged" in output
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert list(result) == [*KEYS, "warning"]
    assert "round limit" in result["warning"]


@pytest.mark.parametrize(
    ("limit", "reason", "advice"),
    [
        ({"max_seconds": "1e-9"}, "time limit", "max_seconds"),
        ({"stall_rounds": "5", "tol": "0.0"}, "stalled", "stall_rounds"),
    ],
)
def test_other_limits_are_warnings(limit, reason, advice, tmp_path, hyfdca):
    """The reason for stopping early is named, with what to do about it."""
    path = make_files(encryption='"none"', **limit).write(tmp_path)
    code, output, _ = hyfdca("train", path, "--out", tmp_path / "out")
    assert code == 0
    assert "Not converged" in output
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert reason in result["warning"]
    assert advice in result["warning"]
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert model["training"]["stop_reason"] == reason


def test_names_are_text(tmp_path, hyfdca):
    """Characters that look like markup are shown unchanged."""
    files = make_files()
    files.settings["name"] = '"[/x] $x_$ 50 %"'
    path = files.write(tmp_path)
    code, output, errors = hyfdca("train", path, "--out", tmp_path / "[bold]out")
    assert (code, errors) == (0, "")
    assert "[/x] $x_$ 50 %" in output
    assert "[bold]out" in output


def test_demo(tmp_path, hyfdca):
    """The demonstration comes as close to the pooled optimum as it certifies."""
    code, output, errors = hyfdca("demo", "--out", tmp_path)
    assert (code, errors) == (0, "")
    result = json.loads((tmp_path / "result.json").read_text())
    assert list(result) == KEYS
    assert 0 <= result["relative_loss"] <= 1.01 * result["relative_gap"] <= 1.01e-3
    assert "loss above the pooled optimum" in output
    files = {p.name for p in tmp_path.iterdir()}
    written = {"model.json", "result.json", "history.json", "convergence.png"}
    assert files == {*demo_files(), *written}


def test_the_demo_s_study_can_be_trained(tmp_path, hyfdca):
    """The demonstration writes an ordinary study, which gives the same result."""
    for name, content in demo_files().items():
        (tmp_path / name).write_bytes(content)
    code, _, _ = hyfdca("train", tmp_path / "study.toml", "--out", tmp_path / "out")
    assert code == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["relative_gap"] <= 1e-3


def test_hospitals_share_patients_and_columns(tmp_path):
    """Every hospital shares some rows and columns, and lacks some others."""
    for name, content in demo_files().items():
        (tmp_path / name).write_bytes(content)
    run = prepare(load(tmp_path / "study.toml"), tmp_path)
    partition = run.consortium.partition
    for holding in partition.holdings:
        assert len(holding.samples) < partition.n_samples
        assert (partition.features.counts[holding.features] > 1).any()
    assert pooled_objective(run).X.shape == (569, 31)


@pytest.mark.parametrize("group", ["keys", "study"])
def test_help_of_a_group_without_arguments(group, hyfdca):
    """Without a command, the commands of the group are listed."""
    code, output, errors = hyfdca(group)
    assert (code, errors) == (2, "")
    assert f"hyfdca {group}" in output


def test_interrupting(monkeypatch, tmp_path, hyfdca):
    """Ctrl-C leaves one line and the exit code of an interrupt."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("hyfdca.demo.in_process.run_demo", interrupt)
    assert hyfdca("demo", "--out", tmp_path) == (130, "", "Interrupted.\n")


def test_help_without_arguments(hyfdca):
    """Without arguments, the commands are listed."""
    code, output, errors = hyfdca()
    assert (code, errors) == (2, "")
    assert "train" in output


def test_version():
    """The installed command prints its version."""
    command = Path(sys.executable).with_name("hyfdca")
    run = subprocess.run(  # noqa: S603  # our own command
        [command, "--version"], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"hyfdca \d+\.\d+\.\d+\n", run.stdout)
