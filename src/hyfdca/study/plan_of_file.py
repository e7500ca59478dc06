"""What both sides of a study go by, from what its file says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hyfdca.algorithms.bundle.server import bundle_settings
from hyfdca.algorithms.hyfdca.draws import HyfdcaSettings
from hyfdca.errors import as_study_error
from hyfdca.holdings.participation import (
    Participation,
    bernoulli,
    cyclic,
    random_fraction,
)
from hyfdca.maths.losses import Loss, make_loss
from hyfdca.stages.alignment.messages import AlignmentSettings
from hyfdca.study.file import Bernoulli, Cyclic, Study, StudyFile
from hyfdca.study.plan import Plan
from hyfdca.training.runner import TrainingSettings


def plan_of(file: StudyFile, study_hash: bytes) -> Plan:
    """Return what both sides of a study go by.

    Raises
    ------
    StudyError
    """
    return as_study_error(lambda: _plan(file, study_hash))


def _plan(file: StudyFile, study_hash: bytes) -> Plan:
    study = file.study
    loss = make_loss(study.loss, study.loss_parameter)
    names = tuple(client.name for client in file.clients)
    return Plan(
        study_hash=study_hash,
        names=names,
        epoch=study.key_epoch,
        encryption=study.encryption_settings(),
        alignment=alignment_settings(study),
        scale=study.scale,
        missing=study.missing,
        bias=study.intercept_scaling if study.fit_intercept else None,
        training=_settings(study, loss),
        participation=_participation(study, names),
        quorum=len(names) if study.quorum == "all" else study.quorum,
        phase_timeout=study.phase_timeout,
        checkpoint_every=study.checkpoint_every,
    )


def alignment_settings(study: Study) -> AlignmentSettings:
    """Return what the study says of bringing tables together."""
    return AlignmentSettings(
        make_loss(study.loss, study.loss_parameter).task,
        study.positive_text,
        allow_unshared=study.allow_unshared,
        disagreeing_cells=study.disagreeing_cells,
    )


def _participation(study: Study, names: Sequence[str]) -> Participation:
    """Return who takes part when, with organisations by rank.

    Where a round may do without somebody, nobody is known to be in every round.
    """
    drawn = _drawn(study, names)
    needs_all = study.quorum == "all" or study.quorum >= len(names)
    return drawn if needs_all else replace(drawn, is_complete=False)


def _drawn(study: Study, names: Sequence[str]) -> Participation:
    given = study.participation
    if isinstance(given, Bernoulli):
        return bernoulli(len(names), given.probability, study.seed)
    if isinstance(given, Cyclic):
        strangers = {name for members in given.sets for name in members} - set(names)
        if strangers:
            raise ValueError(
                f"The participation names {sorted(strangers)[0]!r}, which is none of "
                "the study's organisations; correct it."
            )
        return cyclic([[names.index(n) for n in members] for members in given.sets])
    return random_fraction(len(names), given, study.seed)


def _settings(study: Study, loss: Loss) -> TrainingSettings:
    return TrainingSettings(
        loss=loss,
        l2_strength=study.l2,
        hyfdca=HyfdcaSettings(
            variant=study.variant,
            step=study.step,
            local_fraction=study.local_fraction,
            iic=study.iic,
            min_rows=study.min_rows,
            seed=study.seed,
        ).with_more(study.paper_settings),
        profile=study.profile,
        max_rounds=study.max_rounds,
        tolerance=study.tol,
        measure_every=study.measure_every,
        algorithm=study.algorithm,
        bundle=bundle_settings(study.bundle_settings),
        encryption=study.encryption_settings(),
    )
