"""Wrong code that the tests must notice: one small change each, on a copy of the tree.

    python -m tests.mutants [NAME ...]

A mutant that survives is a test that is missing. Each names the tests that should
fail; ``make thorough`` runs all of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Change(NamedTuple):
    """A piece of a source file, and what stands there in the mutant."""

    file: str
    old: str
    new: str


class Mutant(NamedTuple):
    """Changes, and the tests that must notice them."""

    changes: tuple[Change, ...]
    tests: tuple[str, ...]


def _one(file: str, old: str, new: str, *tests: str) -> Mutant:
    return Mutant((Change(file, old, new),), tests)


MUTANTS: dict[str, Mutant] = {
    # Certificates
    "both rounding margins of HyFDCA's certificate are left out": Mutant(
        (
            Change(
                "federation/evaluation/measuring.py",
                "error = party.sample_holders[counted, None] * step / 2",
                "error = 0.0",
            ),
            Change(
                "algorithms/hyfdca/dual_client.py",
                "((sizes + error) ** 2)",
                "(sizes**2)",
            ),
        ),
        ("tests/algorithms/hyfdca/test_hyfdca_certificate.py",),
    ),
    "the norm in D of any method is not rounded up": Mutant(
        (
            Change(
                "federation/evaluation/measuring.py",
                "((sizes + error) ** 2)",
                "(sizes**2)",
            ),
            Change(
                "federation/evaluation/measuring.py",
                "error = party.sample_holders[counted, None] * step / 2",
                "error = 0.0",
            ),
        ),
        ("tests/federation/evaluation/test_evaluation.py",),
    ),
    "the bundle's bound forgets the rounding of slopes": _one(
        "algorithms/bundle/planes.py",
        "np.sqrt(np.maximum(squared_norms, 0.0)) + norm_error",
        "np.sqrt(np.maximum(squared_norms, 0.0))",
        "tests/algorithms/bundle/test_bundle_certificate.py",
        "tests/algorithms/bundle/test_planes.py",
    ),
    "a bound within reach of the intercept is taken for one beyond": _one(
        "algorithms/bundle/bounding.py",
        "np.where(reach >= self.limits, self.near_bounds, far)",
        "self.near_bounds",
        "tests/algorithms/bundle/test_free_intercept.py",
    ),
    "duals are rounded to the nearest, out of their domain": _one(
        "crypto/schemes/fixedpoint.py",
        "out[i] = np.int64(number)  # as in C, towards zero",
        "out[i] = np.int64(np.rint(number))",
        "tests/crypto/test_fixedpoint.py",
    ),
    # Rows set aside
    "levels of rows set aside reach the model": _one(
        "data/held_out.py",
        "*(_own_levels(table.of_rows(np.flatnonzero(part))) for part in parts)",
        "*(table.of_rows(np.flatnonzero(part)) for part in parts)",
        "tests/study/held_out/test_held_out_rows.py",
    ),
    "a row may be trained on and tested on": _one(
        "stages/alignment/server.py",
        "self._trained.check_apart(self._names, self.pseudonyms)",
        "pass",
        "tests/study/held_out/test_held_out_rows.py",
    ),
    "scores go to a holder whose label is blank": _one(
        "stages/evaluation/server.py",
        "HeldOut(alignment.layout.samples, alignment.label_owners)",
        "HeldOut(alignment.layout.samples, alignment.layout.sample_designees)",
        "tests/study/held_out/test_held_out_privacy.py",
    ),
    "parts of scores are sealed to the first client": _one(
        "stages/evaluation/scores.py",
        'sealing = Sealing("sealed", self._sealers, shape, self._width, owner)',
        'sealing = Sealing("sealed", self._sealers, shape, self._width, 0)',
        "tests/study/held_out/test_evaluation.py",
    ),
    "any model is tested": _one(
        "study/client/tested_model.py",
        "        check_model(content, own)\n",
        "",
        "tests/study/hostile/test_lying_evaluations.py",
    ),
    "two clients may test two models": _one(
        "stages/evaluation/client.py",
        'if not hmac.compare_digest(b"".join(expected), b"".join(request.tags)):',
        "if not request.tags:",
        "tests/study/hostile/test_lying_evaluations.py",
    ),
    "runs of rows may be short": _one(
        "stages/evaluation/bins.py",
        "max(len(bins) // least - 1, 0))",
        "len(bins))",
        "tests/stages/test_score_bins.py",
    ),
    "pairs in one bin are never lost": _one(
        "stages/evaluation/curves.py",
        "_sum_below(positive_down, negative_up),",
        "_sum_below(positive_up, negative_down),",
        "tests/stages/test_score_bins.py",
    ),
    "tenths of probability are not joined": _one(
        "stages/evaluation/calibration.py",
        "if surely[end] - perhaps[start] >= least:",
        "if end:",
        "tests/stages/test_score_bins.py",
    ),
    "offsets are forgotten in scores": _one(
        "stages/evaluation/client.py",
        "margins = margins + targets.offsets[:, None]",
        "pass",
        "tests/study/held_out/test_evaluation.py",
    ),
    # Privacy
    "owner groups keep their own numbers": _one(
        "federation/owner_groups.py",
        "return opaque_groups(self._plain, self.secret, self.name)",
        "return self._plain",
        "tests/federation/test_vectors.py",
    ),
    "a pad is used twice": _one(
        "crypto/schemes/stream.py",
        "nonce = self._next_nonce()",
        "nonce = self._identity + bytes(NONCE_BYTES - len(self._identity))",
        "tests/crypto/test_stream.py",
    ),
    "the audit lets everything pass": _one(
        "audit/values.py",
        'if form == "sealed":\n            return True\n        return profile',
        "if form:\n            return True\n        return profile",
        "tests/audit/test_audit_sightings.py",
        "tests/audit/test_audit_attacks.py",
    ),
    "clients without labels are admitted silently": _one(
        "study/mistakes/settings.py",
        "if client.label or study.labels_visible_to_holders:",
        "if True:",
        "tests/study/test_study.py",
        "tests/cli/test_cli_refusals.py",
    ),
    "predictions have no hourly limit": _one(
        "prediction/policy.py",
        "left = max(self.rows_per_hour - log.n_last_hour(asker), 0)",
        "left = self.rows_per_hour",
        "tests/prediction",
    ),
    "an asker evaluates points that no holder signed": _one(
        "prediction/blinded_rows.py",
        "request.check(asked.holder, asked.signature, _BLINDED, *said)",
        "pass",
        "tests/prediction/test_split_blinded.py",
        "tests/prediction/test_dictionary_attack.py",
    ),
    "a holder takes points under any key": _one(
        "prediction/blinded_rows.py",
        "if list(points) != known:",
        "if False:",
        "tests/prediction/test_split_blinded.py",
    ),
    "points are hashed without the clients' key": _one(
        "crypto/keys/oblivious.py",
        "blake2b(content, digest_size=size, key=key, person=person)",
        "blake2b(content, digest_size=size, person=person)",
        "tests/crypto/test_oblivious.py",
    ),
    # The protocol
    "a client answers phases in any order": _one(
        "protocol/client_session.py",
        "if rule is None or (after is not None and self.last_phase not in after):",
        "if rule is None:",
        "tests/protocol",
    ),
    "a server sends phases in any order": _one(
        "protocol/server_session.py",
        "if rule.after is not None and last not in rule.after:",
        "if False:",
        "tests/protocol",
    ),
    "a repeated request is answered again": _one(
        "protocol/client_session.py",
        "if is_retry and self._last_reply:",
        "if False:",
        "tests/protocol/test_client_sessions.py",
    ),
    "damaged messages are taken as they are": _one(
        "protocol/client_session.py",
        "if payload[_HEADER.size : _START] != _digest(payload):",
        "if False:",
        "tests/protocol",
    ),
    "a new part of a sum leaves the old total": _one(
        "federation/sums.py",
        '''Replace the parts of some clients."""
        self._totals, self._taken = None, {}''',
        '''Replace the parts of some clients."""''',
        "tests/federation/test_sums.py",
        "tests/algorithms/hyfdca/test_hyfdca.py",
    ),
    # Checkpoints
    "a checkpoint of another version is read": _one(
        "protocol/checkpoint.py",
        "if written_by != __version__:",
        "if False:",
        "tests/protocol/test_damaged_checkpoints.py",
    ),
    "an array in two fields is two arrays afterwards": _one(
        "protocol/checkpoint.py",
        "return self._arrays[parts[0]]",
        "return self._arrays[parts[0]].copy()",
        "tests/protocol/test_checkpoint.py",
    ),
    "the server forgets which round a client kept": _one(
        "study/durable.py",
        "self.kept_by = {**self.kept_by, **dict.fromkeys(presence.present, number)}",
        "self.kept_by = dict.fromkeys(presence.everyone, number)",
        "tests/study/durable/test_durable.py",
        "tests/study/durable/test_faulty_network.py",
    ),
    # Algorithms
    "the safe step forgets the spread of draws": _one(
        "algorithms/hyfdca/safe_step.py",
        "(spread[drawn] + interaction * chance[drawn] ** 2) / chance[drawn]",
        "(interaction * chance[drawn] ** 2) / chance[drawn]",
        "tests/algorithms/hyfdca/test_safe_step.py",
        "tests/algorithms/hyfdca/test_errata.py",
    ),
    "a line search takes a step that lowers D": _one(
        "algorithms/hyfdca/line_search.py",
        "return vertex if at_least >= values[0] else float(TRIAL_STEPS[best])",
        "return 2.0 * vertex",
        "tests/algorithms/hyfdca/test_line_search.py",
    ),
    "a row counts for its level at every holder": _one(
        "stages/levels/client.py",
        "owned, found = table.own.of(table.cells), []",
        "owned, found = table.cells, []",
        "tests/stages/test_levels.py",
    ),
    "levels are shown in the order of their names": _one(
        "stages/levels/client.py",
        "key=digests.__getitem__",
        "key=levels.__getitem__",
        "tests/stages/test_levels.py",
    ),
    "the tokens of levels have no key": _one(
        "crypto/keys/pseudonyms.py",
        "return _digests(texts, PSEUDONYM_BYTES, _LEVEL, keys.samples).reshape(-1, 2)",
        "return _digests(texts, PSEUDONYM_BYTES, _LEVEL).reshape(-1, 2)",
        "tests/crypto/test_pseudonyms.py",
    ),
    "a run that stalls is never noticed": _one(
        "training/stopping.py",
        "return lowest.last_measured - lowest.round >= self.rounds",
        "return False",
        "tests/training",
        "tests/estimators/test_limits.py",
    ),
}


def survives(name: str, mutant: Mutant) -> bool:
    """Return whether all its tests pass on a mutant."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        ignored = shutil.ignore_patterns("__pycache__", ".venv", ".git")
        for part in ("src", "tests", "docs"):
            shutil.copytree(ROOT / part, copy / part, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for change in mutant.changes:
            path = copy / "src" / "hyfdca" / change.file
            text = path.read_text(encoding="utf-8")
            if change.old not in text:
                raise LookupError(f"{name}: {change.file} has no {change.old!r}")
            path.write_text(text.replace(change.old, change.new), encoding="utf-8")
        options = ["-q", "-x", "-m", "not slow and not chaos", "-p", "no:cacheprovider"]
        ran = subprocess.run(  # noqa: S603  # our own command
            [sys.executable, "-m", "pytest", *options, *mutant.tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}"},
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode not in (0, 1):
            raise RuntimeError(f"{name}: the tests did not run:\n{ran.stdout[-2000:]}")
        return ran.returncode == 0


def main() -> int:
    """Make all mutants, or those named; return how many survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("names", nargs="*", help="mutants, by default all")
    wanted = parser.parse_args().names or list(MUTANTS)
    for name in wanted:
        if name not in MUTANTS:
            known = "\n".join(MUTANTS)
            parser.error(f"there is no mutant {name!r}; there are\n{known}")
    n_alive = 0

    def tried(name: str) -> tuple[str, bool, float]:
        started = time.monotonic()
        return name, survives(name, MUTANTS[name]), time.monotonic() - started

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, is_alive, seconds in pool.map(tried, wanted):
            n_alive += is_alive
            what = "SURVIVES" if is_alive else "killed"
            sys.stdout.write(f"{what:8} {seconds:6.1f} s  {name}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(wanted) - n_alive} of {len(wanted)} mutants killed\n")
    return n_alive


if __name__ == "__main__":
    sys.exit(main())
