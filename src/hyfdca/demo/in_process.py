"""The demonstration: three hospitals train one model, each with its own CSV file."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hyfdca.arrays import IntArray
from hyfdca.maths.seeds import stream
from hyfdca.study.about import Asked
from hyfdca.study.file import load_with_content
from hyfdca.study.local.run import LocalRun, pooled_objective
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import Outcome, Watcher, check_folder, train, write_files
from hyfdca.training.central import central_optimum

_SEED = 2024
_REFERENCE_GAP = 1e-9  # far below the demonstration's own tolerance


@dataclass(frozen=True)
class Hospital:
    """A hospital: its share of the shuffled patients, from and to, and its columns."""

    name: str
    patients: tuple[float, float]
    columns: range


# Neighbours share patients and two columns; no hospital has all of either.
HOSPITALS = (
    Hospital("north", (0.0, 0.65), range(12)),
    Hospital("city", (0.3, 1.0), range(10, 22)),
    Hospital("coast", (0.5, 1.2), range(20, 30)),  # past the end it wraps around
)

_STUDY = """\
# Run it again with: hyfdca train study.toml

[study]
name = "Three hospitals, one diagnosis"
loss = "logistic"
l2 = 1e-3
scale = "standard"
uncovered = "mean"
tol = 1e-3
id_column = "patient"
label_column = "diagnosis"
positive_label = "malignant"
"""

_WITHOUT_BFV = 'encryption = "stream"  # BFV has no package for this machine\n'
_CLIENT = """
[[clients]]
name = "{0}"
data = "{0}.csv"
"""


def run_demo(folder: Path, watch: Watcher) -> Outcome:
    """Write the hospitals' files and the study, train, compare with pooling."""
    check_folder(folder)
    write_files(folder, demo_files())
    path = folder / "study.toml"
    file, content = load_with_content(path)
    run = prepare(file, folder)
    outcome = train(run, watch)
    asked = Asked.of(content, file, is_rehearsal=True)
    outcome = replace(outcome, pooled_primal=pooled_optimum(run), asked=asked)
    outcome.write(folder)
    return outcome


def demo_files() -> dict[str, bytes]:
    """Return the hospitals' tables and the study file, by file name."""
    # Imported here because it takes seconds, and other commands do not need it.
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415

    data = load_breast_cancer()
    n_patients = len(data.target)
    shuffled = stream(_SEED, "patients").permutation(n_patients)
    files = {}
    for hospital in HOSPITALS:
        first, last = (round(share * n_patients) for share in hospital.patients)
        patients = np.sort(shuffled[np.arange(first, last) % n_patients])
        files[f"{hospital.name}.csv"] = _table(data, patients, hospital.columns)
    encryption = "" if find_spec("seal") else _WITHOUT_BFV
    clients = "".join(_CLIENT.format(hospital.name) for hospital in HOSPITALS)
    return {**files, "study.toml": (_STUDY + encryption + clients).encode()}


def pooled_optimum(run: LocalRun) -> float:
    """Return the loss that training on all tables in one place would reach."""
    return central_optimum(pooled_objective(run), _REFERENCE_GAP).primal


def _table(data: dict[str, np.ndarray], patients: IntArray, columns: range) -> bytes:
    """Return one hospital's CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [str(data["feature_names"][column]) for column in columns]
    writer.writerow(["patient", *names, "diagnosis"])
    for patient in patients:
        cells = data["data"][patient, columns].tolist()
        diagnosis = str(data["target_names"][data["target"][patient]])
        writer.writerow([f"P{patient:04d}", *cells, diagnosis])
    return text.getvalue().encode()
