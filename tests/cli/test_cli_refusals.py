"""What the command line refuses: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyfdca.algorithms.bundle.bundle import Bundle, Lbfgs
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.crypto.keys.identity import Identity
from hyfdca.errors import StudyError
from hyfdca.study.file import load, parse
from tests.support.consortia import assert_one_sentence, extra, make_files
from tests.support.labelled_files import add_column, blank


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


def rename(organisation, column, name):
    def change(files):
        table = files.organisations[organisation].table
        table[name] = table.pop(column)

    return change


def lose_header(organisation):
    """Return what has the first row stand where the names should be."""

    def change(files):
        table = files.organisations[organisation].table
        files.organisations[organisation].table = {
            str(cells[0]): cells[1:] for cells in table.values()
        }

    return change


def empty(organisation):
    def change(files):
        for column in files.organisations[organisation].table.values():
            column.clear()

    return change


def same_labels(files):
    for organisation in files.organisations.values():
        organisation.table["y"] = ["ill"] * len(organisation.rows)


def weighted(value, key="weight_column", **spoilt):
    def change(files):
        add_column(files, key, "w", value)
        for name, cell in spoilt.items():
            own = files.organisations[name]
            own.table["w"] = [cell] * len(own.rows)

    return change


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
        "different labels .label_column 'y'. .* 'north' and 'coast' in 1 row",
    ),
    "duplicate IDs": (
        spoil("north", id="P001"),
        "'north': north.csv has 1 row with the ID of",
    ),
    "no label anywhere": (
        lambda f: blank(f, range(60)),
        "None of the 60 rows has a label and a weight above 0 at any organisation",
    ),
    "labels of others": (
        lambda f: blank(f, [1, 2], "coast"),
        "blank in 2 rows of 'coast' whose labels others have; set labels_visible_to",
    ),
    "weights disagree": (
        weighted(lambda row: 1.0, coast=2.0),
        "different weights .weight_column 'w'. .* 'north' and 'coast' in 10 rows",
    ),
    "negative weight": (
        weighted(lambda row: row - 3),
        "'north': north.csv has 3 rows with a weight that is negative .*'w'; weights",
    ),
    "blank weight": (
        weighted(lambda row: 1.0, city=""),
        "city.csv has 40 rows with a label but nothing in the weight_column 'w'",
    ),
    "weights of 0": (
        weighted(lambda row: 1.0, coast=0),
        "'coast': all 20 rows of coast.csv with a label have the weight 0",
    ),
    "infinite weight": (weighted(lambda row: "inf"), "negative or beyond 1e\\+100 in"),
    "text weight": (
        weighted(lambda row: "much"),
        "'north': column 'w' of north.csv has 40 cells that are not numbers; correct",
    ),
    "no weight column": (
        setting(weight_column='"w"'),
        "'north': north.csv has no column 'w'",
    ),
    "blank offset": (
        weighted(lambda row: 1.0, "offset_column", city=""),
        "'city': city.csv has 40 rows with nothing in the offset_column 'w'",
    ),
    "infinite offset": (
        weighted(lambda row: "-inf", "offset_column"),
        "north.csv has 40 rows with an offset beyond",
    ),
    "weights at some": (
        extra("city", 'weight_column = "x3"'),
        "'city' has a weight_column, but 'north' has labels and no weight_column",
    ),
    "offsets without a name": (
        lambda f: [extra(n, 'offset_column = "x2"')(f) for n in f.organisations],
        "offset_column, but .study. names none; add one there",
    ),
    "two roles": (
        setting(weight_column='"y"'),
        "'north' has the column 'y' as its label_column and as its weight_column",
    ),
    "label as a feature": (
        extra("city", 'features = ["x3", "y"]'),
        "features of organisation 'city' name 'y', which is its label_column",
    ),
    "class weight of numbers": (
        setting(loss='"squared"', class_weight='"balanced"'),
        "sets class_weight, but loss = .squared. is for numbers",
    ),
    "class weight of no class": (
        setting(class_weight="{sick = 2.0}"),
        "class_weight names 'sick', but the classes are 'ill' and 'well'",
    ),
    "wrong class weight": (
        setting(class_weight='"equal"'),
        "at study.class_weight: unknown value 'equal' .choose .balanced",
    ),
    "negative class weight": (
        setting(class_weight="{ill = -1}"),
        "a number of at least 0",
    ),
    "one class": (same_labels, "same label"),
    "no common ID": (other_ids, "No two of the 3 organisations .* share any of"),
    "one apart": (
        spoil_ids("coast"),
        "'coast' shares none of its 20 IDs .* lacks 3 of 5 features",
    ),
    "cells disagree": (
        spoil("city", x2="7.0"),
        "different values .* 'north' and 'city' in 1 row, in column 'x2'; correct them"
        '.* ignore = ."x2". below .*disagreeing_cells .*names first[.]$',
    ),
    "missing cell": (
        spoil("city", x3=""),
        "'city' has 1 missing cell in city.csv, .* column 'x3'; .*missing = \"mean\"",
    ),
    "blank ID": (
        spoil("city", id=""),
        "'city': city.csv has 1 row without an ID in column 'id'; .*id_column",
    ),
    "another name": (
        rename("city", "y", "Y "),
        r"'city': city.csv has no column 'y' \(did you mean 'Y'\?\); .*label = false",
    ),
    "no names": (
        lose_header("city"),
        "'city': city.csv has no column 'id', 'y' .its first line seems to be no line",
    ),
    "feature twice": (
        extra("city", 'features = ["x3", "x3"]'),
        "'city': features for city.csv are named twice, such as 'x3'; .*key features",
    ),
    "all ignored": (
        extra("city", 'ignore = ["x2", "x3", "x4"]'),
        "'city': city.csv has no feature columns besides ID, label and what ignore",
    ),
    "ignored by mistake": (
        extra("city", 'ignore = ["X33"]'),
        r"'city': city.csv has no column 'X33', which ignore names \(did you mean 'x3'"
        r"\?\); .*or use ignore in \[study\] for columns that only some tables have",
    ),
    "no ID named": (
        lambda f: f.settings.pop("id_column"),
        "'north': the study names no id_column for north.csv; set it to",
    ),
    "no label named": (
        lambda f: f.settings.pop("label_column"),
        "the study names no label_column for north.csv; set it, or write label = false",
    ),
    "other encoding": (
        setting(encoding='"utf-16"'),
        "'north': north.csv is not in the encoding utf-16; set encoding .*\"cp1252\"",
    ),
    "text cell": (spoil("city", x3="P001"), "'city': column 'x3' of city.csv has 1 c"),
    "infinite cell": (spoil("city", x3="inf"), "1 number that is infinite.*'x3'"),
    "no label column": (
        lose("north", "y"),
        "'north': north.csv has no column 'y'; .*, or write label = false below",
    ),
    "no ID column": (lose("north", "id"), "'north': north.csv has no column 'id'"),
    "no feature": (extra("city", 'features = ["x9"]'), "'city': .* no column 'x9'"),
    "unknown key": (
        setting(colour='"red"'),
        r"at study: unknown key `colour` \(the keys are allow_unshared, .*_column\)",
    ),
    "misspelt key": (
        setting(max_round="3"),
        r"unknown key `max_round` \(did you mean max_rounds",
    ),
    "unknown table": (
        extra("coast", "[sever]\nport = 1"),
        r"unknown key `sever` \(did you mean server",
    ),
    "unknown client key": (
        extra("city", "age = 3"),
        r"clients\[1\]: unknown key `age` \(the keys are data, decimal, delimiter, ",
    ),
    "no organisations": (
        lambda f: f.organisations.clear(),
        r"names no organisations; add a table \[\[clients\]\] with name and data for",
    ),
    "misspelt loss": (
        setting(loss='"logisitc"'),
        r"no loss 'logisitc' \(did you mean logistic\?\); choose one of",
    ),
    "no list": (setting(ignore='"a"'), "study.ignore: expected a list, got text;"),
    "no name": (lambda f: f.settings.pop("name"), "missing key `name`"),
    "wrong type": (
        setting(l2='"much"'),
        r'at study.l2: .* \(choose a number or "auto"\)',
    ),
    "wrong range": (
        setting(l2="-1"),
        "at study.l2: expected a number of at least 1e-100; corr",
    ),
    "not finite": (setting(l2="inf"), "at study.l2"),
    "wrong choice": (
        setting(scale='"minmax"'),
        "at study.scale: unknown value 'minmax' "
        r'\(choose "maxabs" or "none" or "standard"\); correct it',
    ),
    "wrong number": (
        setting(paillier_bits="1024"),
        r"at study.paillier_bits: .* \(choose 2048 or 3072\)",
    ),
    "wrong kind": (
        setting(participation='{kind = "some"}'),
        r'at study.participation.kind: .* \(choose "bernoulli" or "cyclic"\)',
    ),
    "wrong word": (
        setting(quorum='"most"'),
        r'at study.quorum: .* \(choose "all" or a number\)',
    ),
    "encryption": (setting(encryption='"rot13"'), 'at study.encryption.*"paillier"'),
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
        "step is a setting of algorithm 'hyfdca', not of 'auto'; name the algorithm",
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
    "cells of nobody": (
        setting(uncovered='"refuse"'),
        r"^20.0% of all cells \(60 of 300\) are with no organisation, such as \d "
        "columns like 'x\\d' of the \\d+ rows that "
        r"('\w+' alone holds|.* and '\w+' alone hold); set uncovered = ",
    ),
    "mean without centring": (
        setting(uncovered='"mean"', scale='"maxabs"', penalise_intercept="true"),
        'uncovered = "mean" centres features, .* set scale = "standard"',
    ),
    "zero with centring": (
        setting(uncovered='"zero"', scale='"standard"'),
        'sets uncovered = "zero", but scale = "standard" centres',
    ),
    "unknown encoding": (
        setting(encoding='"klingon"'),
        "names the encoding 'klingon', which is unknown",
    ),
    "long delimiter": (
        extra("city", 'delimiter = ";;"'),
        r"at clients\[1\].delimiter: expected text of at most 1 character",
    ),
    "fraction label": (
        spoil("city", y="0.5"),
        "'city' has 1 row whose label is a fraction.*name a positive_label or set max",
    ),
    "few classes": (
        setting(max_classes="1"),
        r"at study.max_classes: expected a whole number of at least 2",
    ),
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
    "no epoch": (
        setting(key_epoch="0"),
        "at study.key_epoch: expected a whole number of at least 1",
    ),
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
