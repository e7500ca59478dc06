"""Thirty varied runs, written down so that two commits can be compared bit for bit.

    python -m tests.recorded_runs record FILE [NAME ...]
    python -m tests.recorded_runs compare FILE [NAME ...]

Record before a change that must not change any number, compare after it. A run is
written down as a digest of its weights, one of its history without seconds, bytes and
round trips, and the bytes and round trips it cost. Digests hold on one type of machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    make_classification,
)
from sklearn.preprocessing import StandardScaler

from hyfdca import HyFDCAClassifier, HyFDCARegressor
from hyfdca.kits import tls
from tests.flare.flare_kits import site
from tests.support.consortia import extra, make_files, scores
from tests.support.durable_runs import Consortium

Record = dict[str, Any]
_MODEL_WRITTEN = {0, 3}  # exit codes; 3 means that rounds ran out before tol
_BY_CLOCK = {"seconds", "measuring_seconds", "finished"}
_BY_CHANCE = {"fingerprint", "key"}  # of fresh keys


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _recorded(weights: np.ndarray, history: list[dict[str, Any]]) -> Record:
    """Return what must not change of a run."""
    cost = ("bytes_up", "bytes_down", "round_trips", "search_round_trips")
    by_itself = {*cost, *(f"measuring_{name}" for name in cost)}
    kept = [
        {k: v for k, v in record.items() if k not in _BY_CLOCK | by_itself}
        for record in history
    ]
    totals = {
        name: sum(r[name] + r.get(f"measuring_{name}", 0) for r in history)
        for name in cost
    }
    return {
        "weights": _digest(np.ascontiguousarray(weights).tobytes()),
        "history": _digest(json.dumps(kept, default=str).encode()),
        "rounds": len(history),
        **totals,
    }


# Estimators


def _cancer() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200], y[:200]


def _diabetes() -> tuple[Any, Any]:
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X)[:150], (y[:150] - y.mean()) / y.std()


def _digits() -> tuple[Any, Any]:
    X, y = load_digits(n_class=3, return_X_y=True)
    return X[:150] / 16.0, y[:150]


def _wide() -> tuple[Any, Any]:
    X, y = make_classification(60, 200, n_informative=20, random_state=0)
    X[np.abs(X) < 0.8] = 0.0
    return sp.csr_array(X), y


def _fitted(kind: Any, data: Callable[[], Any], **settings: Any) -> Callable[[], Any]:
    def run() -> Record:
        model = kind(random_state=3, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(*data())
        weights = np.append(np.ravel(model.coef_), np.ravel(model.intercept_))
        certificate = model.certificate_
        return {
            **_recorded(weights, model.history_),
            "certificate": [certificate.primal.hex(), certificate.dual.hex()],
            "algorithm": model.algorithm_,
            "stop": model.stop_reason_,
        }

    return run


_C, _R = HyFDCAClassifier, HyFDCARegressor
_PAPER = {"algorithm": "hyfdca", "step": "paper", "iic": 0.05, "max_rounds": 40}

ESTIMATORS: dict[str, Callable[[], Record]] = {
    "bundle-open-horizontal-hinge": _fitted(_C, _cancer, grid=(4, 1)),
    "bundle-sealed-bfv-grid-logistic": _fitted(
        _C, _cancer, loss="logistic", profile="sealed", encryption="bfv"
    ),
    "bundle-sealed-stream-compact-vertical": _fitted(
        _C,
        _cancer,
        loss="squared_hinge",
        grid=(1, 4),
        profile="sealed",
        encryption="stream",
        precision="compact",
        tol=1e-2,
    ),
    "bundle-open-subgroups-huber": _fitted(
        _R, _diabetes, loss="huber", bundle_settings={"sub_groups": 3}
    ),
    "bundle-wide-candidates": _fitted(_C, _wide, grid=(2, 2), max_rounds=60),
    "bundle-several-classes-weighted": _fitted(
        _C, _digits, class_weight="balanced", profile="sealed", tol=1e-2
    ),
    "async-bundle-half": _fitted(_C, _cancer, participation=0.5, max_rounds=80),
    "async-bundle-bfv-classes": _fitted(
        _C, _digits, participation=0.6, encryption="bfv", max_rounds=25
    ),
    "waiting-bundle-sealed-half": _fitted(
        _C, _cancer, participation=0.7, profile="sealed", max_rounds=60
    ),
    "lbfgs-open": _fitted(_R, _diabetes, algorithm="lbfgs", tol=1e-6),
    "lbfgs-sealed-paillier": _fitted(
        _R,
        _diabetes,
        algorithm="lbfgs",
        profile="sealed",
        encryption="paillier",
        grid=(2, 1),
        max_rounds=3,
    ),
    "auto-picks-lbfgs": _fitted(_R, _diabetes, tol=1e-7, max_rounds=60),
    "hyfdca-line-search-open": _fitted(
        _C, _cancer, algorithm="hyfdca", max_rounds=40, local_fraction=0.5
    ),
    "hyfdca-line-search-sealed-bfv": _fitted(
        _C,
        _cancer,
        algorithm="hyfdca",
        profile="sealed",
        encryption="bfv",
        max_rounds=8,
    ),
    "hyfdca-safe-half": _fitted(
        _C, _cancer, algorithm="hyfdca", step="safe", participation=0.5, max_rounds=40
    ),
    "hyfdca-paper-grid": _fitted(_C, _cancer, **_PAPER, measure_every=5),
    "hyfdca-paper-drawn-printed": _fitted(
        _C,
        _cancer,
        **_PAPER,
        participation=0.5,
        paper_settings={
            "refresh": "drawn",
            "divide_by": "all",
            "second_inner_product": True,
        },
    ),
    "hyfdca-theory-horizontal": _fitted(
        _C,
        _cancer,
        variant="theory",
        grid=(4, 1),
        max_rounds=30,
        paper_settings={"aggregation": "decreasing", "cap": "one", "local_steps": 7},
    ),
    "hyfdca-safe-complete-stream": _fitted(
        _R,
        _diabetes,
        loss="absolute",
        algorithm="hyfdca",
        step="safe",
        encryption="stream",
        profile="sealed",
        max_rounds=15,
    ),
    "hyfdca-diverges": _fitted(
        _R, _diabetes, algorithm="hyfdca", step="paper", l2=1e-5, max_rounds=400
    ),
}


# Studies, as the command trains them


def _trained(change: Any = None, labels: Any = None, **settings: str) -> Any:
    def run() -> Record:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            files = make_files(labels=labels, **settings)
            if change:
                change(files)
            study = files.write(folder)
            command = [sys.executable, "-m", "hyfdca", "train", str(study)]
            done = subprocess.run(  # noqa: S603  # our own command
                [*command, "--out", str(folder / "out")],
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode not in _MODEL_WRITTEN:
                raise RuntimeError(done.stderr)
            return _written(folder / "out")

    return run


def _written(folder: Path) -> Record:
    """Return what must not change of the files that a study writes."""
    model = json.loads((folder / "model.json").read_bytes())
    result = json.loads((folder / "result.json").read_bytes())
    history = json.loads((folder / "history.json").read_bytes())
    weights = [*model["weights"].values(), model["intercept"], model["scaling"]]
    for name in ("warning", "algorithm_reason", "sealed_with"):
        result.pop(name, None)  # words
    return {
        **_recorded(np.frombuffer(json.dumps(weights).encode(), np.uint8), history),
        "certificate": model["certificate"],
        "result": _repeatable(result),
    }


def _repeatable(value: Any) -> Any:
    """Return what is left of a result without what the clock and keys say."""
    if isinstance(value, list):
        return [_repeatable(own) for own in value]
    if not isinstance(value, dict):
        return value
    left_out = _BY_CLOCK | _BY_CHANCE
    return {k: _repeatable(v) for k, v in value.items() if k not in left_out}


def _unlabelled(files: Any) -> None:
    extra("coast", "label = false")(files)
    files.settings["labels_visible_to_holders"] = "true"


_SCORES = [float(s) for s in scores()]

STUDIES: dict[str, Callable[[], Record]] = {
    "study-default": _trained(),
    "study-unlabelled-mean": _trained(
        _unlabelled, missing='"mean"', encryption='"stream"'
    ),
    "study-bfv-blocks-min-rows": _trained(
        algorithm='"hyfdca"',
        profile='"sealed"',
        small_vectors='"same"',
        min_rows="3",
        max_rounds="30",
    ),
    "study-regression-maxabs": _trained(
        labels=_SCORES,
        loss='"half_squared"',
        scale='"maxabs"',
        algorithm='"lbfgs"',
        encryption='"none"',
    ),
    "study-cyclic": _trained(
        participation='{kind = "cyclic", sets = [["north", "city"], ["coast"]]}',
        profile='"open"',
        max_rounds="25",
    ),
    "study-bernoulli-open-safe": _trained(
        participation='{kind = "bernoulli", probability = 0.7}',
        algorithm='"hyfdca"',
        profile='"open"',
        seed="5",
        max_rounds="25",
    ),
}


# Studies that are stopped and resumed, and studies between processes


def _resumed(n_rounds: int, change: Any = None, **settings: str) -> Any:
    def run() -> Record:
        with tempfile.TemporaryDirectory() as name:
            files = make_files(**settings)
            if change:
                change(files)
            files.write(Path(name))
            consortium = Consortium(Path(name))
            consortium.begin(n_rounds)
            rounds, weights = consortium.train()
            return _recorded(weights, rounds.history)

    return run


def _between_processes(kills: bool) -> Any:
    def run() -> Record:
        settings = {"algorithm": '"hyfdca"', "step": '"safe"', "tol": "0"}
        files = make_files(max_rounds="60", **settings)
        with tempfile.TemporaryDirectory() as name, site(Path(name), files) as made:
            server, clients = made.start()
            if kills:
                while made.round() < 10:
                    time.sleep(0.05)
                server.kill()
                server = made.server("--resume")
            assert server.ends(300) in _MODEL_WRITTEN, server.said
            for client in clients.values():
                assert client.ends(60) in _MODEL_WRITTEN, client.said
            return _written(made.kit("server") / "out")

    return run


RESUMED: dict[str, Callable[[], Record]] = {
    "resumed-bundle": _resumed(4, encryption='"stream"'),
    "resumed-unlabelled-hyfdca": _resumed(
        6, _unlabelled, algorithm='"hyfdca"', max_rounds="20", encryption='"stream"'
    ),
    "nvflare": _between_processes(kills=False),
    "nvflare-server-killed": _between_processes(kills=True),
}

RUNS = {**ESTIMATORS, **STUDIES, **RESUMED}


def _arguments() -> argparse.Namespace:
    """Return what is to be done; ``before`` is what to compare with."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded_runs")
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path, help="the file to write, or to compare with")
    parser.add_argument("names", nargs="*", help="runs, by default all")
    given = parser.parse_args()
    given.names, given.before = given.names or list(RUNS), RUNS
    try:
        if given.what == "compare":
            given.before = json.loads(given.file.read_text())
        elif not given.file.parent.is_dir():
            parser.error(f"the folder {given.file.parent} does not exist")
    except (OSError, ValueError):
        parser.error(f"{given.file} cannot be read; record writes such a file")
    for name in given.names:
        if name not in RUNS or name not in given.before:
            there = ", ".join(run for run in RUNS if run in given.before)
            parser.error(f"there is no run {name}; there are {there}")
    return given


def main() -> int:
    """Record all runs, or compare them; return how many differ."""
    given = _arguments()
    tls._KEY_BITS = 2048
    now, n_different = {}, 0
    for name in given.names:
        started = time.monotonic()
        now[name] = json.loads(json.dumps(RUNS[name]()))
        said = f"{name:42} {time.monotonic() - started:6.1f} s"
        if given.what == "compare":
            is_same = now[name] == given.before[name]
            n_different += not is_same
            changes = _changes(given.before, now, name)
            said += "  identical" if is_same else f"  DIFFERS {changes}"
        sys.stdout.write(said + "\n")
        sys.stdout.flush()
    if given.what == "record":
        given.file.write_text(json.dumps(now, indent=1))
    else:
        sys.stdout.write(f"{len(now) - n_different} of {len(now)} identical\n")
    return n_different


def _changes(before: Record, now: Record, name: str) -> str:
    old, new = before[name], now[name]
    return "; ".join(
        f"{key}: {old.get(key)} -> {new[key]}"
        for key in new
        if old.get(key) != new[key]
    )


if __name__ == "__main__":
    sys.exit(main())
