"""The plan of a study: its settings, as both sides read them from the same file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hyfdca.algorithms.registry import frees_intercept
from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.data.tables import normalised
from hyfdca.errors import as_study_error
from hyfdca.federation.path import Path, auto_path
from hyfdca.holdings.participation import (
    Participation,
    bernoulli,
    cyclic,
    random_fraction,
)
from hyfdca.maths.losses import Loss, make_loss
from hyfdca.model.scaling import Missing, Scale
from hyfdca.protocol.client_session import TOKEN_BYTES
from hyfdca.stages.alignment.messages import AlignmentSettings
from hyfdca.stages.levels.messages import LevelSettings
from hyfdca.study.file import (
    Bernoulli,
    Cyclic,
    Evaluation,
    Study,
    StudyFile,
)
from hyfdca.study.roles import target_settings
from hyfdca.study.tuning import FIRST_RUN, RunChoice, tuned
from hyfdca.study.values import PredictionIds
from hyfdca.training.settings import TrainingSettings

# Version of the messages between organisations; increment it whenever they change.
PROTOCOL = 7


@dataclass(frozen=True)
class Plan:
    """A study's settings, from its keys to its model.

    Parameters
    ----------
    names : tuple of str
        The organisations, by rank.
    is_centred : bool
        Whether features are centred even if the scale does not do it.
    bias : float or None
        The value of the bias feature; None without an intercept, or with a free one.
    participation : Participation
        The organisations drawn for each round. It is complete only if no round may
        proceed without an organisation.
    quorum : int
        How many organisations must be present for a round.
    phase_timeout : float
        Seconds that a reply may take.
    checkpoint_every : int
        Rounds between checkpoints.
    prediction_ids : {"blinded", "keyed"}
        How holders find the rows that are asked for.
    evaluation : Evaluation
        The rows that are set aside, and how the model is tested on them.
    file : StudyFile
        The study file that all have agreed to.
    run : RunChoice
        The run of the study, and what was chosen for it.
    is_rehearsal : bool
        Whether all parties are in one process, so that the model may be released at any
        time.
    """

    study_hash: bytes
    names: tuple[str, ...]
    epoch: int
    encryption: Encryption
    alignment: AlignmentSettings
    levels: LevelSettings
    scale: Scale
    missing: Missing
    is_centred: bool
    bias: float | None
    training: TrainingSettings
    participation: Participation
    quorum: int
    phase_timeout: float
    checkpoint_every: int
    prediction_ids: PredictionIds
    evaluation: Evaluation
    file: StudyFile
    run: RunChoice = FIRST_RUN
    is_rehearsal: bool = False

    @property
    def token(self) -> bytes:
        """Distinguishes messages of this study from those of others."""
        return self.study_hash[:TOKEN_BYTES]

    def of_run(self, run: RunChoice) -> Plan:
        """Return the plan of a run of the same study.

        Raises
        ------
        ValueError
            If the study file does not leave these settings open.
        """
        file = tuned(self.file, run)
        # A run may only change training.
        return replace(self, training=_settings(file, self.training.loss), run=run)


def plan_of(file: StudyFile, study_hash: bytes, run: RunChoice = FIRST_RUN) -> Plan:
    """Return the plan that both sides of a run of a study follow.

    Raises
    ------
    StudyError
    """
    return as_study_error(lambda: _plan(file, study_hash).of_run(run))


def _plan(file: StudyFile, study_hash: bytes) -> Plan:
    study = file.study
    loss = make_loss(study.loss, study.loss_parameter)
    names = tuple(client.name for client in file.clients)
    training = _settings(file, loss)
    has_bias = study.fit_intercept and not training.free_intercept
    _check_uncovered(study, training)
    return Plan(
        study_hash=study_hash,
        names=names,
        epoch=study.key_epoch,
        encryption=replace(study.encryption_settings(), n_clients=len(names)),
        alignment=alignment_settings(file),
        levels=LevelSettings(
            study.min_level_count, study.release_level_names, study.similar_levels
        ),
        scale=study.scale,
        missing=study.missing,
        is_centred=study.uncovered == "mean",
        bias=study.intercept_scaling if has_bias else None,
        training=training,
        participation=_participation(study, names),
        quorum=len(names) if study.quorum == "all" else study.quorum,
        phase_timeout=study.phase_timeout,
        checkpoint_every=study.checkpoint_every,
        prediction_ids=study.prediction_ids,
        evaluation=file.evaluation,
        file=file,
    )


def _check_uncovered(study: Study, training: TrainingSettings) -> None:
    """Refuse means for uncovered cells where centring features changes the model.

    Only an intercept without penalty compensates for it.
    """
    is_free = training.free_intercept or study.scale == "standard"
    if study.uncovered == "mean" and not is_free:
        raise ValueError(
            'uncovered = "mean" centres features, which changes a model without an '
            'intercept or with a penalised one; set scale = "standard", or '
            'uncovered = "zero", or leave fit_intercept, penalise_intercept and '
            "intercept_scaling out."
        )


def alignment_settings(file: StudyFile) -> AlignmentSettings:
    """Return the study's settings for aligning tables."""
    study = file.study
    return AlignmentSettings(
        make_loss(study.loss, study.loss_parameter).task,
        study.positive_text,
        allow_unshared=study.allow_unshared,
        disagreeing_cells=study.disagreeing_cells,
        cell_tolerance=study.cell_tolerance,
        blank_cells=study.blank_cells,
        needs_values=study.missing == "refuse",
        similar_ids=study.similar_ids,
        uncovered=study.uncovered,
        max_classes=study.max_classes,
        targets=target_settings(file),
        categorical=tuple(map(normalised, study.categorical)),
    )


def _participation(study: Study, names: Sequence[str]) -> Participation:
    """Return the participation, with organisations by rank.

    If a round may proceed without an organisation, participation is not complete.
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
                f"The participation names {sorted(strangers)[0]!r}, which is not an "
                "organisation of the study; correct the name."
            )
        return cyclic([[names.index(n) for n in members] for members in given.sets])
    return random_fraction(len(names), given, study.seed)


def _settings(file: StudyFile, loss: Loss) -> TrainingSettings:
    study, algorithm, path = file.study, file.chosen_algorithm(), path_of(file)
    l2s = () if path is None else path.l2s
    return TrainingSettings(
        loss=loss,
        l2_strength=study.l2 if isinstance(study.l2, float) else l2s[0],
        algorithm=algorithm,
        profile=study.profile,
        max_rounds=study.max_rounds,
        tolerance=study.tol,
        measure_every=study.measure_every,
        max_seconds=study.max_seconds,
        stall_rounds=study.stall_rounds,
        encryption=study.encryption_settings(),
        seed=study.seed,
        free_intercept=study.fit_intercept
        and frees_intercept(
            algorithm, study.penalise_intercept, study.intercept_scaling
        ),
        has_offsets=target_settings(file).has_offsets,
        path=path,
    )


def path_of(file: StudyFile) -> Path | None:
    """Return the strengths among which l2 is chosen; None if the study has one."""
    study, evaluation = file.study, file.evaluation
    if isinstance(study.l2, float) or evaluation.folds is None:
        return None
    if study.l2 == "auto":
        return auto_path(evaluation.folds, study.tol, evaluation.choice)
    l2s = tuple(sorted(study.l2, reverse=True))
    return Path(l2s, evaluation.folds, study.tol, evaluation.choice)
