"""The audit of a recorded run: what was seen, what can be inferred, the verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from hyfdca.audit.client_attack import Overheard, RotationScore, groups_of, mount
from hyfdca.audit.collusion import Collusion, CollusionScore, StolenKeys
from hyfdca.audit.column_attack import ColumnScore, Rests, attack_columns
from hyfdca.audit.evidence import Evidence
from hyfdca.audit.facts import Facts
from hyfdca.audit.reading import Heard, UnknownError, heard
from hyfdca.audit.scoring import AttackScore
from hyfdca.audit.server_attacks import ATTACKS, Truth
from hyfdca.audit.sightings import Sighting, Sightings
from hyfdca.audit.views import (
    Header,
    Record,
    ViewError,
    client_views,
    read_view,
    view_path,
)
from hyfdca.errors import StudyError
from hyfdca.study.file import StudyFile, load
from hyfdca.study.local import LocalRun, local_plan, prepare

# Attacks that the trust model admits: in the open profile the server has every share.
_ADMITTED = {"open": {"share differences", "plane differences"}, "sealed": set[str]()}


@dataclass(frozen=True)
class ClientAudit:
    """What a recorded client could find out.

    Parameters
    ----------
    rotations : list of RotationScore
        By group of its samples, from margins.
    columns : list of ColumnScore
        By other client, from weights or slopes of columns that both have.
    collusion : CollusionScore
        What it could open together with the server.
    """

    name: str
    seen: list[Sighting]
    rotations: list[RotationScore]
    columns: list[ColumnScore]
    collusion: CollusionScore


@dataclass(frozen=True)
class Audit:
    """The result; ``complaints`` lists breaches of the trust model."""

    header: Header
    names: tuple[str, ...]
    seen: list[Sighting]
    attacks: dict[str, AttackScore]
    clients: list[ClientAudit]
    complaints: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether nobody saw or could infer more than the trust model allows."""
        return not self.complaints

    @property
    def was_attacked(self) -> bool:
        """Whether some attack of the server found anything to work with."""
        return any(score.n_equations for score in self.attacks.values())

    def is_admitted(self, attack: str) -> bool:
        """Return whether the trust model allows this attack to succeed."""
        return attack in _ADMITTED[self.header.profile]

    def as_json(self) -> dict[str, Any]:
        """Return the audit for programs."""
        return {
            "profile": self.header.profile,
            "encryption": self.header.encryption,
            "server": [_seen_as_json(one) for one in self.seen],
            "attacks": {
                name: {**asdict(score), "admitted": self.is_admitted(name)}
                for name, score in self.attacks.items()
            },
            "clients": {client.name: self._client(client) for client in self.clients},
            "complaints": self.complaints,
            "clean": self.is_clean,
            "attacked": self.was_attacked,
        }

    def _client(self, client: ClientAudit) -> dict[str, Any]:
        groups = [
            {
                "others": [self.names[other] for other in rotation.group.others],
                "rows": len(rotation.group.rows),
                "gram_error": rotation.gram_error,
                "few": {"known_rows": rotation.n_few, **asdict(rotation.few)},
                "enough": {"known_rows": rotation.n_enough, **asdict(rotation.enough)},
            }
            for rotation in client.rotations
        ]
        columns = [
            {
                "other": self.names[found.other],
                "columns": found.n_columns,
                "rows": found.n_rows,
                **asdict(found.score),
            }
            for found in client.columns
        ]
        return {
            "seen": [_seen_as_json(one) for one in client.seen],
            "groups": groups,
            "columns": columns,
            "with_server": asdict(client.collusion),
        }


def _seen_as_json(seen: Sighting) -> dict[str, Any]:
    return {
        "value": seen.value,
        "form": seen.form,
        "schemes": sorted(seen.schemes),
        "phases": list(seen.phases),
        "messages": seen.n_messages,
        "bytes": seen.n_bytes,
    }


def audit_folder(folder: Path, study: Path | None = None) -> Audit:
    """Audit the run that was recorded in a folder.

    Parameters
    ----------
    study : Path, optional
        The study file; by default at its path when the run was recorded.

    Raises
    ------
    StudyError
        If there is no complete view, or the study is another one.
    """
    try:
        header, _ = read_view(view_path(folder, None))
        run = _truth_run(header, study or folder / header.study)
        return _audit(folder, header, run)
    except ViewError as error:
        raise StudyError(str(error)) from None


def _truth_run(header: Header, path: Path) -> LocalRun:
    """Return the study with its data in one place, as it was recorded."""
    file = load(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != header.study_hash:
        raise StudyError(
            f"The study file {path} is not the one that was recorded; give the "
            "recorded one with --study."
        )
    # Without its algorithm: what that needs of the intercept must be said.
    is_free = local_plan(file).training.free_intercept
    plain = msgspec.structs.replace(
        file.study, encryption="none", penalise_intercept=not is_free
    )
    return prepare(StudyFile(plain, file.clients), path.parent)


def _audit(folder: Path, header: Header, run: LocalRun) -> Audit:
    facts, truth = facts_of(run), truth_of(run)
    sightings = Sightings(header.profile)
    sightings.labelled = facts.layout.labelled
    unknown: dict[str, None] = {}
    sightings.look(_messages(read_view(view_path(folder, None))[1], unknown))
    again = _messages(read_view(view_path(folder, None))[1], {})
    evidence = Evidence(facts).collect(again)
    attacks = {name: attack(evidence, truth) for name, attack in ATTACKS.items()}
    broken = [
        f"The attack by {name} succeeds: its error is {score.error:.2g} times that of "
        f"predicting the mean, with {score.recovered:.0%} of the rows recovered."
        for name, score in attacks.items()
        if score.succeeds and name not in _ADMITTED[header.profile]
    ]
    clients = [
        _client_audit(path, header, facts, truth) for path in client_views(folder)
    ]
    broken += [
        f"The server and {client.name!r} together open {client.collusion.n_outside:,} "
        "numbers of owner groups that it is not in."
        for client in clients
        if client.collusion.n_outside
    ]
    return Audit(
        header,
        run.consortium.names,
        list(sightings.seen.values()),
        attacks,
        clients,
        [*unknown, *sightings.complaints(), *broken],
    )


def facts_of(run: LocalRun) -> Facts:
    """Return what the server of a study knows anyway."""
    training = run.training
    is_free = training.settings.free_intercept
    return Facts(
        training.federation.layout,
        run.labels().shape[1],
        training.settings.l2_strength * training.federation.layout.samples.n_items,
        None if is_free else run.intercept_value,
        is_free,
    )


def truth_of(run: LocalRun) -> Truth:
    """Return every client's block as used in messages: scaled, own cells only."""
    return {client: block.X.toarray() for client, block in enumerate(run.blocks)}


def _messages(records: Iterator[Record], unknown: dict[str, None]) -> Iterator[Heard]:
    """Return the messages of a view; add a sentence to ``unknown`` for others."""
    for record in records:
        if record.direction not in ("down", "up"):
            continue
        try:
            yield heard(record)
        except UnknownError as error:
            unknown[str(error)] = None


def _client_audit(
    path: Path, server: Header, facts: Facts, truth: Truth
) -> ClientAudit:
    header, _ = read_view(path)
    if header.run != server.run or header.party is None:
        raise StudyError(
            f"The view {path} and the server's are of different runs; record them "
            "together."
        )
    sightings = Sightings(header.profile)
    received = _messages(read_view(path)[1], {})
    sightings.look(said for said in received if said.direction == "down")
    overheard = Overheard(facts, header.party).listen(read_view(path)[1])
    groups = groups_of(facts, header.party)
    rests = Rests(facts, header.party).listen(read_view(path)[1])
    return ClientAudit(
        header.name,
        list(sightings.seen.values()),
        [mount(overheard, group, truth) for group in groups],
        attack_columns(rests, truth),
        _collusion(path, header.party),
    )


def _collusion(path: Path, rank: int) -> CollusionScore:
    """Try a client's keys on the server's view, if the run recorded them."""
    kept = [r.payload for r in read_view(path)[1] if r.direction == "keys"]
    if not kept:
        return CollusionScore()
    keys = msgspec.msgpack.decode(kept[-1], type=StolenKeys)
    _, records = read_view(view_path(path.parent, None))
    return Collusion(rank, keys).listen(_messages(records, {}))
