"""Checking a table and a kit before going online."""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
import shutil

import numpy as np
import pytest

from hyfdca.cli.exit_codes import MAY_PASS
from hyfdca.kits import authority as authority_module
from hyfdca.kits.authority import read_authority
from hyfdca.kits.enrolment import read_keys
from hyfdca.kits.key_files import read_public
from hyfdca.kits.tls import certificate_pem
from hyfdca.study.identity import study_fingerprint
from tests.kits.kit_commands import refused, succeed
from tests.support.consortia import assert_one_sentence, make_files

pytest.importorskip("nvflare")
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]


def data_of(parties):
    return parties.root / "north" / "data.csv"


def edit(change):
    """Return a function that edits the rows of north's table, names first."""

    def spoil(parties):
        with data_of(parties).open(newline="") as file:
            rows = list(csv.reader(file))
        change(rows)
        with data_of(parties).open("w", newline="") as file:
            csv.writer(file).writerows(rows)

    return spoil


def check(hyfdca, parties, data=None):
    arguments = ("--kit", parties.kit("north"), "--data", data or data_of(parties))
    # Lines that a narrow terminal folds are put together again.
    return re.sub(r" *│\n│ +│ +", " ", succeed(hyfdca, "check", *arguments))


def test_a_table_that_fits(installed, hyfdca):
    """Shows who the organisation is, its table, and the numbers to compare."""
    output = check(hyfdca, installed)
    study = (installed.kit("north") / "study.toml").read_bytes()
    assert "'north', on the roster" in output
    assert re.search(r"rows +│ 40, each with its own ID", output)
    assert re.search(r"features +│ 3 ", output)
    assert re.search(r"labels +│ '(ill|well)' \d+, '(ill|well)' \d+ ", output)
    assert re.search(r"missing cells +│ 0 ", output)
    assert re.search(r"constant columns +│ none", output)
    assert re.search(r"valid from \d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d", output)
    assert study_fingerprint(study) in output
    assert read_public(installed.keys("north")).fingerprint in output
    assert "Warning" not in output


def test_kinds_of_columns(installed, hyfdca):
    """Each column has its kind, and a category the number of its levels."""

    def change(rows):
        rows[0] += ["ward", "day", "smoker"]
        for number, row in enumerate(rows[1:]):
            row += [f"ward {number % 3}", "2020-01-02", "true"]

    edit(change)(installed)
    output = check(hyfdca, installed)
    assert re.search(r"│ ward +│ category, .*│ 3 levels +│ +│ +0 │", output)
    assert re.search(r"│ day +│ date, as days .*│ +7306 │ +7306 │ +0 │", output)
    assert re.search(r"│ smoker +│ true or false, .*│ +1 │ +1 │ +0 │", output)
    assert "ward 2" not in output


def test_constant_columns(installed, hyfdca):
    """The first few constant columns are named."""

    def change(rows):
        for row in rows[1:]:
            row[1] = "5"

    edit(change)(installed)
    output = check(hyfdca, installed)
    assert re.search(r"constant columns +│ 'x0'", output)
    assert "Warning: Constant columns" in output
    assert re.search(r"│ x0 +│ number +│ +5 │ +5 │ +0 │", output)
    assert re.search(r"│ x1 +│ number +│ +-[\d.]+ │ +[\d.]+ │ +0 │", output)


def test_blank_labels(installed, hyfdca):
    """Rows without a label here are counted and are not a class."""

    def change(rows):
        for row in rows[1:4]:
            row[-1] = ""

    assert "without a label" not in check(hyfdca, installed)
    edit(change)(installed)
    output = check(hyfdca, installed)
    assert re.search(r"without a label here +│ 3 ", output)
    assert re.search(r" labels +│ '(ill|well)' \d+, '(ill|well)' \d+ ", output)


def test_names_are_shown_as_they_are(installed, hyfdca):
    """A column name is not markup."""

    def change(rows):
        rows[0][1] = "[red]x"
        for row in rows[1:]:
            row[1] = "5"

    edit(change)(installed)
    assert "'[red]x'" in check(hyfdca, installed)


def repeat_id(rows):
    rows[2][0] = rows[1][0]


def lose_cell(rows):
    rows[1][1] = ""


def lose_label(rows):
    rows[0][-1] = "z"


def long_name(rows):
    rows[0][1] = "x" * 100_000


WRONG = {
    "repeated ID": (edit(repeat_id), "'north': .* has 1 row with the ID"),
    "missing cell": (edit(lose_cell), "'north' has 1 missing cell in data.csv"),
    "no label column": (edit(lose_label), "has no column 'y'"),
    "long name": (edit(long_name), "'north' has 1 name of features, classes"),
    "no table": (lambda p: data_of(p).unlink(), "does not exist; correct"),
    "no study": (
        lambda p: (p.kit("north") / "study.toml").unlink(),
        "Cannot read .*study.toml",
    ),
    "no keys": (lambda p: shutil.rmtree(p.kit("north") / "keys"), "Cannot read the k"),
    "other keys": (
        lambda p: shutil.copytree(
            p.kit("city") / "keys", p.kit("north") / "keys", dirs_exist_ok=True
        ),
        "certificate .* is not that of 'city'",
    ),
    "no certificate": (
        lambda p: (p.kit("north") / "flare/startup/client.crt").unlink(),
        "Cannot read",
    ),
    "another's certificate": (
        lambda p: shutil.copy(
            p.kit("city") / "flare/startup/client.crt",
            p.kit("north") / "flare/startup/client.crt",
        ),
        "is not that of 'north'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_would_fail_online(installed, hyfdca, case):
    """Each prints one sentence and exits with code 2."""
    change, message = WRONG[case]
    change(installed)
    errors = refused(
        hyfdca,
        installed.root,
        *("check", "--kit", installed.kit("north"), "--data", data_of(installed)),
    )
    assert re.search(message, errors)


def test_an_identity_that_is_not_on_the_roster(installed, hyfdca):
    """A study file without this organisation's key belongs to somebody else."""
    path = installed.kit("north") / "study.toml"
    own = read_public(installed.keys("north")).text
    path.write_text(path.read_text().replace(f'public_key = "{own}"', ""))
    errors = refused(
        hyfdca,
        installed.root,
        *("check", "--kit", installed.kit("north"), "--data", data_of(installed)),
    )
    assert "No organisation of the study" in errors


def test_sparse_tables_cannot_be_centred(installed, hyfdca, tmp_path):
    """Standard scaling would make the table dense."""
    path = tmp_path / "sparse.npz"
    np.savez(
        path,
        data=[1.0, 2.0],
        indices=[0, 1],
        indptr=[0, 1, 2],
        shape=[2, 2],
        y=["ill", "well"],
        ids=["P1", "P2"],
    )
    errors = refused(
        hyfdca,
        installed.root,
        *("check", "--kit", installed.kit("north"), "--data", path),
    )
    assert 'set scale = "maxabs" or "none"' in errors


def renew(parties, days):
    """Give north a certificate with this many days left."""
    key = read_keys(parties.keys("north")).tls_key.public_key()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authority_module, "_LEAF_DAYS", days)
        patch.setattr(authority_module, "_CLOCKS_DIFFER", datetime.timedelta(days=99))
        shown = read_authority(parties.kits / "ca").issue("north", "client", key)
    path = parties.kit("north") / "flare/startup/client.crt"
    path.write_text(certificate_pem(shown))


def test_certificates_that_expire(installed, hyfdca):
    """Expiring soon is a warning; an expired one could not go online."""
    renew(installed, 10)
    assert "expires in 9 days" in " ".join(check(hyfdca, installed).split())
    renew(installed, -1)
    kit, data = installed.kit("north"), data_of(installed)
    code, _, errors = hyfdca("check", "--kit", kit, "--data", data)
    assert code == MAY_PASS
    assert_one_sentence(errors)
    assert "has expired" in errors


def test_loosened_settings(installed, hyfdca):
    """A kit that was opened to all classes gets a warning."""
    path = installed.kit("north") / "flare/local/resources.json"
    resources = json.loads(path.read_bytes())
    path.write_text(json.dumps(resources | {"class_allow_list": ["*"]}))
    assert "are no longer strict; reinstall" in check(hyfdca, installed)


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ('never_offer = ["x1"]', "never offers the column 'x1'"),
        ("most_rounds = 2", "allows 2 rounds times outputs, but run 1 has"),
        (
            "least_rows = 41",
            "wants at least 41 rows in every sum, but its table has 40",
        ),
    ],
)
def test_what_the_organisation_itself_will_refuse(installed, hyfdca, policy, sentence):
    """Better now than when everybody has connected."""
    (installed.kit("north") / "policy.toml").write_text(policy)
    arguments = ("--kit", installed.kit("north"), "--data", data_of(installed))
    errors = refused(hyfdca, installed.root, "check", *arguments)
    assert_one_sentence(errors)
    assert sentence in " ".join(errors.split())


def test_ranges_of_numbers(installed, hyfdca):
    """Labels of a regression are shown by their range, and must be numbers."""
    path = installed.kit("north") / "study.toml"
    path.write_text(path.read_text().replace('"logistic"', '"squared"'))
    arguments = ("--kit", installed.kit("north"), "--data", data_of(installed))
    errors = refused(hyfdca, installed.root, "check", *arguments)
    assert "40 rows with a label that is not a number" in errors

    def change(rows):
        for number, row in enumerate(rows[1:]):
            row[-1] = str(number - 3.5)

    edit(change)(installed)
    assert re.search(r"labels +│ -3.5 to 35.5", check(hyfdca, installed))


def test_a_table_before_there_are_kits(tmp_path, hyfdca):
    """A study file and a table suffice, of one organisation or of all."""
    study = make_files().write(tmp_path)
    own = tmp_path / "own.csv"
    own.write_text("id,x0,x1,x2,y\na,1,2,3,ill\nb,2,3,4,well\n")
    one = succeed(hyfdca, "check", study, "--client", "north", "--data", own)
    assert "Fits the study" in one
    assert "'north', in the study file" in one
    assert re.search(r"rows +│ 2, each with its own ID", one)
    assert "fingerprint" not in one
    every = succeed(hyfdca, "check", study)
    for name, n_rows in (("north", 40), ("city", 40), ("coast", 20)):
        assert re.search(rf"'{name}', in[^\n]*\n[^\n]*\n│ rows +│ {n_rows},", every)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--client", "nowhere"], "no organisation 'nowhere'; its organisations are"),
        (["--data", "own.csv"], "Give --client too"),
        (["--kit", "kit"], "Give either --kit and --data, or a study file"),
        (["--client", "city"], "city.csv has no column 'x9'"),
    ],
)
def test_what_does_not_fit_before_there_are_kits(tmp_path, hyfdca, options, sentence):
    """One sentence refuses it."""
    files = make_files()
    files.organisations["city"].extra = 'features = ["x9"]'
    study = files.write(tmp_path)
    assert sentence in refused(hyfdca, tmp_path, "check", study, *options)


def test_the_server_s_kit(installed, hyfdca, tmp_path):
    """It is said whose kit it is, and which one is meant."""
    server = installed.kits / "server"
    for command in ("check", "client"):
        code, shown, errors = hyfdca(
            command, "--kit", server, "--data", tmp_path / "own.csv"
        )
        assert (code, shown) == (2, "")
        assert_one_sentence(errors)
        assert "server is the server's kit; an organisation's kit is made by" in errors
