"""What the audit says of labels that travel between holders."""

from __future__ import annotations

import pytest

from hyfdca.audit.recording import train_recorded
from hyfdca.audit.report import audit_folder
from tests.support.consortia import make_files
from tests.support.labelled_files import VISIBLE, add_column, blank, weight

pytestmark = pytest.mark.usefixtures("no_figure")


def audited(folder, encryption):
    files = make_files(encryption=f'"{encryption}"', max_rounds="3", **VISIBLE)
    blank(files, range(20, 30), "north")
    path = add_column(files, "weight_column", "w", weight).write(folder)
    train_recorded(path, folder / "out", lambda *_: None, ["north"])
    return audit_folder(folder / "out")


def test_labels_and_weights_are_sealed(tmp_path):
    """The server sees that labels travel, and a bound on weights; no label or sum."""
    audit = audited(tmp_path, "stream")
    assert audit.complaints == []
    forms = {seen.value: seen.form for seen in audit.seen}
    assert {forms["labels"], forms["client weights"], forms["weight totals"]} == {
        "sealed"
    }
    received = {seen.value for seen in audit.clients[0].seen}
    assert {"labels", "weight totals"} <= received
    assert "client weights" not in received


def test_labels_that_nothing_seals_are_found(tmp_path):
    """Without encryption the server reads them, and the audit says so."""
    [complaint] = [c for c in audited(tmp_path, "none").complaints if "labels" in c]
    assert complaint.startswith("The server could read what the sealed profile seals")
