"""The audit of a recorded run: what was seen, what can be inferred, the verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from hyfdca.audit.client_audit import ClientAudit, audit_client
from hyfdca.audit.evidence import Evidence
from hyfdca.audit.facts import Facts
from hyfdca.audit.findings import Finding, is_admitted, server_findings
from hyfdca.audit.reading import messages
from hyfdca.audit.scoring import AttackScore
from hyfdca.audit.server_attacks import ATTACKS, Truth
from hyfdca.audit.sightings import Sighting, Sightings
from hyfdca.audit.views import Header, client_views, read_view, view_path
from hyfdca.errors import StudyError
from hyfdca.holdings.exposure import Exposure, exposures
from hyfdca.holdings.layout import Layout
from hyfdca.maths.losses import Loss
from hyfdca.stages.evaluation.scores import HeldOut
from hyfdca.study.exposure_notes import exposure_notes, held_out_notes
from hyfdca.study.file import StudyFile, load
from hyfdca.study.local.run import LocalRun
from hyfdca.study.local.study import local_plan, prepare


@dataclass(frozen=True)
class Audit:
    """The result.

    Parameters
    ----------
    n_margins : tuple of int
        The most margins of a row that each client was sent.
    n_scores : tuple of int
        The number of scores of a row set aside.
    held_out : HeldOut or None
        The rows of the curves.
    complaints : list of str
        What a party saw that the trust model does not allow it to see.
    findings : list of Finding
        The attacks that recover cells, whether the trust model admits them or not.
    """

    header: Header
    names: tuple[str, ...]
    layout: Layout
    loss: Loss
    seen: list[Sighting]
    n_margins: tuple[int, ...]
    attacks: dict[str, AttackScore]
    clients: list[ClientAudit]
    complaints: list[str]
    findings: list[Finding]
    n_scores: tuple[int, ...] = ()
    held_out: HeldOut | None = None

    @property
    def is_clean(self) -> bool:
        """Whether nobody saw too much, and no attack recovered anything."""
        return self.is_accepted({})

    @property
    def was_attacked(self) -> bool:
        """Whether some attack of the server found anything to work with."""
        return any(score.n_equations for score in self.attacks.values())

    def is_admitted(self, attack: str) -> bool:
        """Return whether the trust model allows this attack to succeed."""
        return is_admitted(attack, self.header.profile)

    def is_accepted(self, expected: Mapping[str, float]) -> bool:
        """Return whether only expected findings were found."""
        return not self.complaints and not self.unexpected(expected)

    def unexpected(self, expected: Mapping[str, float]) -> list[Finding]:
        """Return the findings that the user does not accept."""
        return [found for found in self.findings if not found.is_accepted(expected)]

    def exposed(self) -> tuple[str, ...]:
        """Return what organisations can find out about each other, in sentences."""
        notes = exposure_notes(self.names, self.layout, self.n_margins, self.loss)
        if self.held_out is None:
            return notes
        more = (self.layout, self.held_out, self.n_scores)
        return notes + held_out_notes(self.names, *more)

    def as_json(self, expected: Mapping[str, float]) -> dict[str, Any]:
        """Return the audit for programs."""
        return {
            "profile": self.header.profile,
            "encryption": self.header.encryption,
            "exposed": [self._exposure(one) for one in exposures(self.layout)],
            "held_out_scores": dict(zip(self.names, self.n_scores, strict=True)),
            "findings": [
                {**asdict(found), "is_accepted": found.is_accepted(expected)}
                for found in self.findings
            ],
            "server": [one.as_json() for one in self.seen],
            "attacks": {
                name: {**asdict(score), "admitted": self.is_admitted(name)}
                for name, score in self.attacks.items()
            },
            "clients": {one.name: one.as_json(self.names) for one in self.clients},
            "complaints": self.complaints,
            "clean": self.is_clean,
            "accepted": self.is_accepted(expected),
            "attacked": self.was_attacked,
        }

    def _exposure(self, one: Exposure) -> dict[str, Any]:
        return {
            "client": self.names[one.client],
            "others": [self.names[other] for other in one.others],
            "rows": one.n_rows,
            "columns": one.n_columns,
            "own_columns": one.n_own,
            "margins": self.n_margins[one.client],
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
    header, _ = read_view(view_path(folder, None))
    run = _truth_run(header, study or folder / header.study)
    return _audit(folder, header, run)


def _truth_run(header: Header, path: Path) -> LocalRun:
    """Return the study with its data in one place, as it was recorded."""
    file = load(path)
    if hashlib.sha256(path.read_bytes()).hexdigest() != header.study_hash:
        raise StudyError(
            f"The study file {path} is not the one that was recorded; give the "
            "recorded one with --study."
        )
    # Without its algorithm, so that what it needs of the intercept is stated.
    is_free = local_plan(file).training.free_intercept
    plain = msgspec.structs.replace(
        file.study, encryption="none", penalise_intercept=not is_free
    )
    tested = file.evaluation  # the views are of the other rows
    again = StudyFile(plain, file.clients, evaluation=tested)
    return prepare(again, path.parent)


def _audit(folder: Path, header: Header, run: LocalRun) -> Audit:
    facts, truth = facts_of(run), truth_of(run)
    sightings = Sightings(header.profile)
    sightings.labelled = facts.layout.labelled
    unknown: dict[str, None] = {}
    sightings.look(messages(read_view(view_path(folder, None))[1], unknown))
    again = messages(read_view(view_path(folder, None))[1], {})
    evidence = Evidence(facts).collect(again)
    attacks = {name: attack(evidence, truth) for name, attack in ATTACKS.items()}
    names = run.consortium.names
    clients = [
        audit_client(path, header, facts, truth) for path in client_views(folder)
    ]
    return Audit(
        header,
        names,
        facts.layout,
        run.training.federation.problem.loss,
        list(sightings.seen.values()),
        tuple(sightings.n_margins(c) * facts.n_outputs for c in range(len(names))),
        attacks,
        clients,
        [
            *unknown,
            *sightings.complaints(),
            *(sentence for client in clients for sentence in client.complaints()),
        ],
        [
            *(found for client in clients for found in client.findings(names)),
            *server_findings(attacks, header.profile),
        ],
        tuple(sightings.n_scores(c) * facts.n_outputs for c in range(len(names))),
        run.validated,
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
        training.settings.path,
    )


def truth_of(run: LocalRun) -> Truth:
    """Return every client's block as used in messages: scaled, own cells only."""
    return {client: block.X.toarray() for client, block in enumerate(run.blocks)}
