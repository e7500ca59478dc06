"""What ``result.json`` says about a study besides its numbers, under ``about``.

Who asked for what, who held what, what organisations can find out about each other, and
what each stage cost. One description serves for writing and reading. Nothing here is
secret: no IDs, no cells, and only fingerprints of public keys.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import msgspec
import numpy as np

from hyfdca import __version__
from hyfdca.arrays import BoolArray, IntArray
from hyfdca.holdings.coverage import Coverage
from hyfdca.runtime.driver import Traffic
from hyfdca.study.costs import StageCost, total_traffic
from hyfdca.study.file import StudyFile
from hyfdca.study.identity import public_identities, study_fingerprint
from hyfdca.study.local.run import Consortium, Run
from hyfdca.study.plan import PROTOCOL
from hyfdca.study.roles import target_settings
from hyfdca.study.tuning import FIRST_RUN, Change, RunChoice, changes_of
from hyfdca.training.runner import Runner

_MOST_GROUPS = 12  # of rows or columns with the same holders, the largest
_MOST_NAMES = 50  # of columns in a group

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A record to which later versions may add fields."""


class Organisation(_Facts, frozen=True):
    """An organisation: the fingerprint of its public key, and what it held."""

    name: str
    key: str | None
    rows: Count
    shared_rows: Count
    columns: Count
    shared_columns: Count
    has_labels: bool


class RowGroup(_Facts, frozen=True):
    """Rows with the same holders."""

    rows: Count
    holders: tuple[str, ...]


class ColumnGroup(_Facts, frozen=True):
    """Columns with the same holders, with the first names."""

    columns: Count
    holders: tuple[str, ...]
    names: tuple[str, ...]


class Cost(_Facts, frozen=True):
    """What a stage cost; seconds are null if it was replayed after a restart."""

    stage: str
    seconds: Amount | None
    bytes_up: Count
    bytes_down: Count
    round_trips: Amount


class About(_Facts, frozen=True, kw_only=True):
    """The whole entry.

    Parameters
    ----------
    is_rehearsal : bool or None
        Whether all parties were in one process. None, as the next, without a file.
    has_weights : bool
        Whether [study] or organisations name a column of weights.
    fingerprint : str or None
        The study file's fingerprint; None without a file.
    settings : dict
        The table [study] of the study file, with defaults, as it was in this run.
    evaluation, algorithm, tuning : dict
        The tables [evaluation], with defaults, [algorithm] and [tuning] of the study
        file; the last without what it does not leave open.
    run : int
        The number of the run.
    changes : tuple of Change
        What was chosen for the run, with the study file's own values.
    n_row_groups, n_column_groups : int
        How many groups there are; the largest are listed.
    exposed : tuple of str
        What organisations can find out about each other's cells.
    """

    hyfdca: str
    protocol: Count
    python: str
    finished: datetime.datetime
    is_rehearsal: bool | None
    has_weights: bool = False
    fingerprint: str | None
    settings: dict[str, Any]
    evaluation: dict[str, Any] = {}
    algorithm: dict[str, Any] = {}
    tuning: dict[str, Any] = {}
    run: Count = 1
    changes: tuple[Change, ...] = ()
    rows: Count
    columns: Count
    features: Count
    organisations: tuple[Organisation, ...]
    n_row_groups: Count
    n_column_groups: Count
    row_groups: tuple[RowGroup, ...]
    column_groups: tuple[ColumnGroup, ...]
    exposed: tuple[str, ...]
    costs: tuple[Cost, ...]


@dataclass(frozen=True)
class Asked:
    """The study file that was trained, and the organisations.

    Parameters
    ----------
    keys : mapping of str to str
        Fingerprints of public keys, for the organisations that have one.
    run : int
        The number of the run.
    changes : tuple of Change
        What was chosen for it.
    evaluation, algorithm, tuning : mapping
        Tables of the file.
    has_weights : bool
        Whether rows have weights.
    """

    fingerprint: str
    keys: Mapping[str, str]
    is_rehearsal: bool
    run: int = 1
    changes: tuple[Change, ...] = ()
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    algorithm: Mapping[str, Any] = field(default_factory=dict)
    tuning: Mapping[str, Any] = field(default_factory=dict)
    has_weights: bool = False

    @classmethod
    def of(
        cls,
        content: bytes,
        file: StudyFile,
        run: RunChoice = FIRST_RUN,
        *,
        is_rehearsal: bool,
    ) -> Self:
        """Return what identifies a study file, given as its bytes and its content.

        In a rehearsal, the organisations' own keys are not used.
        """
        named = {client.name: client.public_key for client in file.clients}
        known = {} if is_rehearsal else public_identities(named)
        keys = {name: identity.fingerprint for name, identity in known.items()}
        changes = tuple(changes_of(file, run))
        return cls(
            study_fingerprint(content),
            keys,
            is_rehearsal,
            run.number,
            changes,
            msgspec.to_builtins(file.evaluation),
            file.algorithm,
            _left_open(file),
            target_settings(file).has_weights,
        )


def _left_open(file: StudyFile) -> dict[str, Any]:
    """Return the table [tuning] without settings that it does not name."""
    table: dict[str, Any] = msgspec.to_builtins(file.tuning) or {}
    return {key: value for key, value in table.items() if value is not None}


def about(run: Run, asked: Asked | None, finished: datetime.datetime) -> dict[str, Any]:
    """Return the entry about a study that has been trained."""
    consortium, coverage = run.consortium, run.consortium.coverage
    names = consortium.names
    found = About(
        hyfdca=__version__,
        protocol=PROTOCOL,
        python=platform.python_version(),
        finished=finished,
        is_rehearsal=None if asked is None else asked.is_rehearsal,
        has_weights=asked is not None and asked.has_weights,
        fingerprint=None if asked is None else asked.fingerprint,
        settings=msgspec.to_builtins(run.study),
        evaluation={} if asked is None else dict(asked.evaluation),
        algorithm={} if asked is None else dict(asked.algorithm),
        tuning={} if asked is None else dict(asked.tuning),
        run=1 if asked is None else asked.run,
        changes=() if asked is None else asked.changes,
        rows=int(coverage.rows.sum()),
        columns=int(coverage.columns.sum()),
        features=len(consortium.features),
        organisations=tuple(_organisations(consortium, asked.keys if asked else {})),
        n_row_groups=len(coverage.rows),
        n_column_groups=len(coverage.columns),
        row_groups=tuple(
            RowGroup(
                rows=int(coverage.rows[group]),
                holders=_named(names, coverage.row_holders[group]),
            )
            for group in _largest(coverage.rows)
        ),
        column_groups=tuple(_column_groups(consortium, coverage)),
        exposed=_exposed(run, 1 if asked is None else asked.run),
        costs=tuple(_costs(run)),
    )
    facts: dict[str, Any] = msgspec.to_builtins(found)
    return facts


def _exposed(run: Run, number: int) -> tuple[str, ...]:
    """Return what organisations can find out, with a note about earlier runs."""
    exposed = run.exposed(len(run.training.history))
    if number == 1:
        return exposed
    return (
        *exposed,
        f"This is run {number} of the study: the margins of its earlier runs count in "
        "addition.",
    )


def _organisations(
    consortium: Consortium, keys: Mapping[str, str]
) -> Iterator[Organisation]:
    layout = consortium.columns.layout
    samples, columns = layout.samples, layout.features
    for rank, name in enumerate(consortium.names):
        rows, own = samples.items[rank], columns.items[rank]
        yield Organisation(
            name=name,
            key=keys.get(name),
            rows=len(rows),
            shared_rows=int(np.sum(samples.counts[rows] > 1)),
            columns=len(own),
            shared_columns=int(np.sum(columns.counts[own] > 1)),
            has_labels=bool(consortium.labelled[rank]),
        )


def _column_groups(consortium: Consortium, coverage: Coverage) -> Iterator[ColumnGroup]:
    features = consortium.columns.features
    for group in _largest(coverage.columns):
        own = coverage.columns_of(group)
        yield ColumnGroup(
            columns=len(own),
            holders=_named(consortium.names, coverage.column_holders[group]),
            names=tuple(features[column] for column in own[:_MOST_NAMES].tolist()),
        )


def _largest(sizes: IntArray) -> list[int]:
    """Return the largest groups, in their own order."""
    largest = np.argsort(-sizes, kind="stable")[:_MOST_GROUPS]
    return [int(group) for group in np.sort(largest)]


def _named(names: tuple[str, ...], is_holder: BoolArray) -> tuple[str, ...]:
    return tuple(names[rank] for rank in np.flatnonzero(is_holder).tolist())


def _costs(run: Run) -> Iterator[Cost]:
    """Yield what each stage cost, from the keys to the model's release."""
    for stage, cost in run.stage_costs.items():
        if stage != "training":  # a notice, which belongs to the set-up
            yield _cost(stage, cost)
    training, progress = run.training, run.training.progress
    start = run.stage_costs.get("training", StageCost()).traffic
    set_up = total_traffic([start, progress.set_up_traffic])
    yield _cost("set-up", StageCost(set_up, training.set_up_seconds))
    in_rounds = sum(record["seconds"] for record in training.history)
    yield _cost("rounds", StageCost(_of_rounds(training, ""), in_rounds))
    # An interrupted run is measured once more, which is not timed.
    measuring = max(progress.seconds - in_rounds, 0.0)
    measured = _of_rounds(training, "measuring_")
    yield _cost("measuring", StageCost(measured, measuring))
    release = StageCost(training.release_traffic, training.release_seconds)
    yield _cost("release", release)
    if run.evaluator is not None:
        yield _cost("evaluation", run.evaluator.cost)


def _of_rounds(training: Runner, prefix: str) -> Traffic:
    names = Traffic.__dataclass_fields__
    return total_traffic(
        Traffic(**{name: record[prefix + name] for name in names})
        for record in training.history
    )


def _cost(stage: str, cost: StageCost) -> Cost:
    traffic = cost.traffic
    return Cost(
        stage=stage,
        seconds=cost.seconds,
        bytes_up=traffic.bytes_up,
        bytes_down=traffic.bytes_down,
        round_trips=traffic.round_trips + traffic.search_round_trips,
    )
