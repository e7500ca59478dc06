"""The commands of both sides, and what they display."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec
from rich.console import Console

from hyfdca.cli.displays.run import results_table
from hyfdca.cli.displays.study import StudyDisplay
from hyfdca.cli.report import try_report
from hyfdca.errors import StudyError, as_study_error, plain_errors, reading
from hyfdca.flare.client import run_client
from hyfdca.flare.jobs import MODEL, RESULT, check_before_connecting
from hyfdca.flare.predictions.inputs import KEPT
from hyfdca.flare.predictions.serving import (
    run_prediction_holder,
    run_prediction_server,
)
from hyfdca.flare.status import (
    current_run,
    forget_over,
    is_over,
    note_run,
    note_trained,
    result_folder,
    runs_trained,
    without_model,
)
from hyfdca.flare.supervisor import Terms, run_server
from hyfdca.kits.kit import ClientKit, ServerKit, read_client_kit, read_server_kit
from hyfdca.model.file import read_model_file
from hyfdca.runtime.store import Archive, FolderStore
from hyfdca.study.client.openings import forget_openings
from hyfdca.study.client.placements import forget_placements
from hyfdca.study.client.release import forget_release
from hyfdca.study.ending import Ending, ending_of
from hyfdca.study.identity import study_hash
from hyfdca.study.local.saved_run import How
from hyfdca.study.plan import plan_of
from hyfdca.study.resume import run_asked_for
from hyfdca.study.tuning import RunChoice, check_choice, choice_after, tuned


def serve_study(
    folder: Path, console: Console, how: How, tuning: Collection[str] = ()
) -> Ending:
    """Run a study's server until the study is finished; return how it ended.

    Parameters
    ----------
    tuning : collection of str
        What to choose for a further run, such as "l2=1e-3".

    Raises
    ------
    StudyError
    """
    with plain_errors(folder):
        return _serve_study(folder, console, how, tuning)


def _serve_study(
    folder: Path, console: Console, how: How, tuning: Collection[str]
) -> Ending:
    kit = read_server_kit(folder)
    further = _further_run(kit, tuning, how) if tuning else None
    if further is not None and _is_in_vain(kit, further):
        said = (
            f"Run {further.number - 1} was begun but has trained no round; run "
            f"{further.number} begins."
        )
        console.print(said, soft_wrap=True, markup=False)
    if how == "first" and further is None:
        _check_no_earlier_run(kit)
    if how == "resume" and is_over(kit) and not without_model(kit):
        said = f"This study is finished; its model is in {result_folder(kit)}."
        console.print(said, soft_wrap=True, markup=False)
        return _ending(kit)
    plan = plan_of(kit.file, study_hash(kit.content))
    terms = Terms(quorum=None if plan.quorum == len(plan.names) else plan.quorum)

    def prepare() -> None:
        if further is not None:
            _begin_further(kit, further)
        elif how == "restart":
            _forget_run(kit)

    with StudyDisplay(console, kit.state) as display:
        run_server(folder, display.tell, terms, prepare)
    out = result_folder(kit)
    path = out / RESULT
    with reading(StudyError(f"The file {path} is damaged; the model is beside it.")):
        result = msgspec.json.decode(path.read_bytes())
    try_report(out)
    model = out / MODEL
    classes = read_model_file(model).classes if model.exists() else ()
    console.print(results_table(kit.file.study.name, result, classes))
    for note in result.get("loss_notes", ()):
        console.print(note, soft_wrap=True, markup=False)
    console.print(f"Written to {out}", soft_wrap=True, markup=False)
    return _ending(kit)


def join_study(folder: Path, data: Path, console: Console, restart: bool) -> Ending:
    """Take part in a study until it is finished; return how it ended.

    Parameters
    ----------
    restart : bool
        Join it again, and allow another model of it to be released.

    Raises
    ------
    StudyError
    """
    with plain_errors(folder):
        return _join_study(folder, data, console, restart)


def _join_study(folder: Path, data: Path, console: Console, restart: bool) -> Ending:
    kit = read_client_kit(folder)
    with StudyDisplay(console, kit.state) as display:

        def prepare() -> None:
            check_before_connecting(kit, data)
            if restart:
                _forget_end(kit)

        run_client(folder, data, display.tell, prepare=prepare)
    ending = _ending(kit)
    console.print(ending.sentence, soft_wrap=True, markup=False)
    said = f"The model is in {result_folder(kit) / MODEL}"
    console.print(said, soft_wrap=True, markup=False)
    return ending


def _ending(kit: ServerKit | ClientKit) -> Ending:
    """Return how a study ended whose model this kit has."""
    study = tuned(kit.file, current_run(kit)).study
    return ending_of(read_model_file(result_folder(kit) / MODEL), study.tol)


def serve_predictions(folder: Path, console: Console) -> None:
    """Serve all who ask for predictions of split rows, then end.

    Raises
    ------
    StudyError
    """
    with plain_errors(folder):
        run_prediction_server(folder, lambda said: console.print(said, markup=False))


def help_to_predict(folder: Path, data: Path, console: Console) -> None:
    """Help others to predict split rows until all requests are served.

    Raises
    ------
    StudyError
    """
    tell = lambda said: console.print(said, markup=False)  # noqa: E731
    with plain_errors(folder):
        run_prediction_holder(folder, data, tell)


def _check_no_earlier_run(kit: ServerKit) -> None:
    """Refuse to discard or resume an earlier run without an explicit option."""
    if is_over(kit):
        left = " and ".join(without_model(kit))
        further = "begin a further run with --tune, or " if kit.file.tuning else ""
        raise StudyError(
            f"This study is finished and its model is in {result_folder(kit)}; "
            + (f"give it to {left} with --resume, or " if left else further)
            + "run it again with --restart."
        )
    _check_no_unfinished_run(kit)


def _check_no_unfinished_run(kit: ServerKit) -> None:
    kept = kit.state / KEPT
    if rounds := Archive(FolderStore(kept)).rounds:
        raise StudyError(
            f"A run of this study is in {kept}, saved up to round {rounds[-1]}; "
            "continue it with --resume, or discard it with --restart."
        )


def _further_run(kit: ServerKit, tuning: Collection[str], how: How) -> RunChoice:
    """Return the next run of a study, if it may begin now."""
    # A run that organisations may know of keeps its number, even without a round.
    last = current_run(kit).number
    is_known = run_asked_for(Archive(FolderStore(kit.state / KEPT))) == last
    run = choice_after(last, is_known or _has_trained(kit), tuning)
    trained = runs_trained(kit) | ({last} if _has_trained(kit) else set())
    n_before = len(trained - {run.number})
    as_study_error(lambda: check_choice(run, kit.file, n_before))
    if how == "restart":
        return run
    if is_over(kit):
        if left := " and ".join(without_model(kit)):
            raise StudyError(
                f"The model of the last run has not reached {left}; hand it out with "
                "--resume first, or add --restart to begin a further run without that."
            )
        return run
    _check_no_unfinished_run(kit)
    return run


def _has_trained(kit: ServerKit) -> bool:
    """Return whether a round of the current run was begun, as far as is known."""
    return is_over(kit) or bool(Archive(FolderStore(kit.state / KEPT)).rounds)


def _is_in_vain(kit: ServerKit, further: RunChoice) -> bool:
    """Return whether a further run follows one that trained nothing."""
    last = current_run(kit).number
    is_known = last in runs_trained(kit) or _has_trained(kit)
    return further.number > last and not is_known


def _begin_further(kit: ServerKit, run: RunChoice) -> None:
    """Begin a run; its note comes last, so that it never has another run's rounds."""
    _forget_rounds(kit)
    note_run(kit, kit.file, run)


def _forget_end(kit: ClientKit) -> None:
    archive = Archive(FolderStore(kit.state / KEPT))
    forget_release(archive)
    forget_placements(archive)
    forget_openings(archive)
    forget_over(kit)


def _forget_run(kit: ServerKit) -> None:
    _forget_rounds(kit)
    forget_over(kit)


def _forget_rounds(kit: ServerKit) -> None:
    """Forget the rounds of the current run, but not that there were any."""
    if _has_trained(kit):
        note_trained(kit)
    Archive(FolderStore(kit.state / KEPT)).forget_after(-1)
    (kit.state / "progress.json").unlink(missing_ok=True)
