"""A study in one process: every organisation with its own table, keys and half.

They exchange the same messages as between machines; nothing is pooled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.data.tables import Table
from hyfdca.errors import StudyError
from hyfdca.federation.sealing.secrets import workforce
from hyfdca.protocol.codec import RefusedError
from hyfdca.protocol.server_session import ServerSession
from hyfdca.runtime.driver import Traffic
from hyfdca.runtime.inprocess import InProcess
from hyfdca.runtime.store import Store
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.study.client.client import StudyClient
from hyfdca.study.evaluating import STAGE, evaluator_of
from hyfdca.study.file import StudyFile
from hyfdca.study.identity import study_hash
from hyfdca.study.local.run import Consortium, LocalRun
from hyfdca.study.plan import Plan, plan_of
from hyfdca.study.server import Prepared, StudyServer
from hyfdca.study.tables import data_of, table_of
from hyfdca.study.tuning import FIRST_RUN, RunChoice, tuned
from hyfdca.study.validating import STAGE as VALIDATION
from hyfdca.study.validating import validator_of
from hyfdca.training.in_process import n_threads
from hyfdca.training.runner import DrawnMembers, Runner, make_runner


def prepare(file: StudyFile, folder: Path) -> LocalRun:
    """Read, align and scale the tables; paths are relative to ``folder``.

    Raises
    ------
    StudyError
    """
    return prepare_tables(file, read_tables(file, folder))


def read_tables(file: StudyFile, folder: Path) -> list[Table]:
    """Read every organisation's table; paths are relative to ``folder``.

    Raises
    ------
    StudyError
    """
    study, tested = file.study, file.evaluation
    return [table_of(study, c, folder / data_of(c), tested) for c in file.clients]


def prepare_tables(file: StudyFile, tables: Sequence[Table]) -> LocalRun:
    """Align and scale the organisations' tables, by rank.

    Raises
    ------
    StudyError
    """
    plan = local_plan(file)
    members = local_clients(plan, tables)
    session = ServerSession(plan.token)
    convener = StudyServer(plan, lambda stage: local_driver(members, stage), session)
    try:
        prepared = convener.prepare()
    except (AlignmentError, RefusedError, ValueError) as error:
        raise StudyError(str(error)) from None
    driver = local_driver(members, "training", training_threads(tables))
    drawn = DrawnMembers(plan.participation, len(members))
    training = make_runner(
        plan.training, prepared.choice, prepared.federation, driver, drawn
    )
    training.confirms = True
    carrier = local_driver(members, VALIDATION)
    training.validator = validator_of(plan, prepared, carrier)
    run = local_run(file, tables, prepared, convener.traffic, training, members)
    tests = evaluator_of(plan, prepared, local_driver(members, STAGE))
    return replace(run, evaluator=tests)


def local_run(
    file: StudyFile,
    tables: Sequence[Table],
    prepared: Prepared,
    traffic: Traffic,
    training: Runner,
    members: tuple[StudyClient, ...],
) -> LocalRun:
    """Return the run of a study whose parties are all in this process.

    Parameters
    ----------
    traffic : Traffic
        The traffic of the preparation.
    """
    plan = members[0].plan
    names, own = plan.names, tuned(file, plan.run)
    notes = tuple(
        f"{name}: {note}"
        for name, table in zip(names, tables, strict=True)
        for note in table.notes
    )
    return LocalRun(
        own.study,
        Consortium(names, prepared.levels),
        prepared.scaling,
        traffic,
        training,
        members,
        target=prepared.target,
        notes=notes,
        stage_costs=prepared.costs,
    )


def training_threads(tables: Sequence[Table]) -> int:
    """Return how many organisations work at a time during training."""
    return n_threads([table.cells for table in tables])


def local_plan(file: StudyFile, run: RunChoice = FIRST_RUN) -> Plan:
    """Return the plan of a run of a study whose parties all read the same file.

    Raises
    ------
    StudyError
    """
    plan = plan_of(file, study_hash(msgspec.json.encode(file)), run)
    return replace(plan, is_rehearsal=True)


def local_clients(
    plan: Plan,
    tables: Sequence[Table],
    stores: Sequence[Store] | None = None,
    identities: Sequence[Identity] | None = None,
) -> tuple[StudyClient, ...]:
    """Return organisations in this process.

    Parameters
    ----------
    stores : sequence of Store, optional
        Where each saves its keys and states; by default nothing is saved.
    identities : sequence of Identity, optional
        Their own keys; by default new ones.
    """
    own: Sequence[Store | None] = stores or [None] * len(tables)
    identities = identities or [Identity.generate() for _ in tables]
    entries = map(RosterEntry, plan.names, (identity.public for identity in identities))
    roster = Roster(plan.study_hash, tuple(entries), plan.epoch)
    hire = workforce(plan.encryption)
    return tuple(
        StudyClient(plan, table, identity, roster, store, hire)
        for table, identity, store in zip(tables, identities, own, strict=True)
    )


def local_driver(
    members: tuple[StudyClient, ...], stage: str, n_threads: int = 1
) -> InProcess:
    """Return the driver that carries a stage's requests within this process."""
    stages = {k: member.stage(stage) for k, member in enumerate(members)}
    return InProcess(stages, n_threads)
