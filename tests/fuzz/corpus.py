"""Small real files of every kind that hyfdca reads, made by small real runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file

from hyfdca.audit.recording import train_recorded
from hyfdca.flare.status import (
    Note,
    Status,
    note_over,
    write_holders,
    write_note,
    write_progress,
    write_status,
)
from hyfdca.kits import tls
from hyfdca.kits.all_local import provision_all
from hyfdca.kits.enrolment import enrol
from hyfdca.kits.kit import Kit
from hyfdca.kits.provisioning import provision
from hyfdca.prediction.policy import PredictionLog
from hyfdca.runtime.store import FolderStore
from hyfdca.study.file import load
from hyfdca.study.local.saved_run import SavedRun
from hyfdca.study.local.study import local_plan, read_tables
from hyfdca.study.local.training import STATE, TimedCheckpoints, resumable_run
from tests.fuzz.studies import NAMES, pooled, write_study

STUDY = "bundle"


def make_corpus(root: Path) -> None:
    """Write files of every kind to a new folder."""
    root.mkdir()
    path = write_study(root, STUDY)
    _write_tables(root)
    train_recorded(path, root / "out", lambda *_: None, NAMES)
    _write_state(path)
    _write_kits(root)
    PredictionLog(FolderStore(root / "log")).add("north", 3, "00ff")


def _write_tables(root: Path) -> None:
    frame = pooled()
    frame.to_parquet(root / "table.parquet")
    numbers = frame[["age", "pressure"]].fillna(0.0).to_numpy()
    labels = np.where(frame["y"] == "ill", 1, -1)
    libsvm = str(root / "table.libsvm")
    dump_svmlight_file(numbers, labels, libsvm, zero_based=False)
    np.savez(root / "table.npz", X=numbers, y=labels)


def _write_state(path: Path) -> None:
    """Write the state of a training that ended after its first round."""
    file = load(path)
    plan = local_plan(file)
    with SavedRun(path.parent / STATE, plan) as saved:
        saved.open("first")
        run = resumable_run(file, plan, read_tables(file, path.parent), saved)
        next(run.training.rounds())
        checkpoints = run.training.checkpoints
        assert isinstance(checkpoints, TimedCheckpoints)
        checkpoints._rounds.keep(1)
        saved.write()


def _write_kits(root: Path) -> None:
    """Write kits, keys, a request and a package, and notes in a kit."""
    tls._KEY_BITS = 2048  # keys of full length only take longer to make
    study = root / "study.toml"
    provision_all(study, root / "kits")
    enrolment = root / "enrolment"
    enrolment.mkdir()
    lines = study.read_text().splitlines()
    for name in NAMES:
        public = enrol(name, enrolment / name).public.text
        place = lines.index(f'name = "{name}"')
        lines.insert(place + 1, f'public_key = "{public}"')
        request = f"{name}.request.json"
        (enrolment / request).write_bytes((enrolment / name / request).read_bytes())
    own = root / "enrolled.toml"
    own.write_text("\n".join([*lines, "[server]", ""]))
    provision(own, enrolment, root / "provisioned", None)
    _write_notes(Kit(root / "kits" / "server"))


def _write_notes(kit: Kit) -> None:
    kit.make_folders()
    write_note(kit, Note("1234", "joined"))
    note_over(kit, ["north"])
    write_holders(kit, {"north": "7"})
    write_progress(kit.state, 3)
    write_status(kit.state, Status(round=3, gaps=[(0.1, 0.5)], present=["north"]))
