"""The commands of both sides, and what they display."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Console

from hyfdca.cli.displays.run import results_table
from hyfdca.cli.displays.study import StudyDisplay
from hyfdca.errors import StudyError, reading
from hyfdca.flare.client import run_client
from hyfdca.flare.jobs import MODEL, RESULT
from hyfdca.flare.lock import plain_errors
from hyfdca.flare.predictions.inputs import KEPT
from hyfdca.flare.predictions.serving import (
    run_prediction_holder,
    run_prediction_server,
)
from hyfdca.flare.status import forget_over, is_over, without_model
from hyfdca.flare.supervisor import Terms, run_server
from hyfdca.kits.kit import ClientKit, ServerKit, read_client_kit, read_server_kit
from hyfdca.model.file import read_model_file
from hyfdca.runtime.store import Archive, FolderStore
from hyfdca.study.client.release import forget_release
from hyfdca.study.ending import Ending, ending_of
from hyfdca.study.identity import study_hash
from hyfdca.study.local.saved_run import How
from hyfdca.study.plan import plan_of


def serve_study(folder: Path, console: Console, how: How) -> Ending:
    """Run a study's server until the study is finished; return how it ended.

    Raises
    ------
    StudyError
    """
    kit = read_server_kit(folder)
    if how == "first":
        _check_no_earlier_run(kit)
    if how == "resume" and is_over(kit) and not without_model(kit):
        said = f"This study is finished; its model is in {kit.out}."
        console.print(said, soft_wrap=True, markup=False)
        return _ending(kit)
    plan = plan_of(kit.file, study_hash(kit.content))
    terms = Terms(quorum=None if plan.quorum == len(plan.names) else plan.quorum)
    with plain_errors(folder), StudyDisplay(console, kit.state) as display:
        forget = (lambda: _forget_run(kit)) if how == "restart" else (lambda: None)
        run_server(folder, display.tell, terms, forget)
    path = kit.out / RESULT
    with reading(StudyError(f"The file {path} is damaged; the model is beside it.")):
        result = msgspec.json.decode(path.read_bytes())
    console.print(results_table(kit.file.study.name, result))
    console.print(f"Written to {kit.out}", soft_wrap=True, markup=False)
    return _ending(kit)


def join_study(folder: Path, data: Path, console: Console, restart: bool) -> Ending:
    """Take part in a study until it is finished; return how it ended.

    Parameters
    ----------
    restart : bool
        Join it again, and let another model of it be released.

    Raises
    ------
    StudyError
    """
    kit = read_client_kit(folder)
    with plain_errors(folder), StudyDisplay(console, kit.state) as display:
        forget = (lambda: _forget_end(kit)) if restart else (lambda: None)
        run_client(folder, data, display.tell, prepare=forget)
    ending = _ending(kit)
    console.print(ending.sentence, soft_wrap=True, markup=False)
    said = f"The model is in {kit.out / MODEL}"
    console.print(said, soft_wrap=True, markup=False)
    return ending


def _ending(kit: ServerKit | ClientKit) -> Ending:
    """Return how a study ended whose model this kit has."""
    return ending_of(read_model_file(kit.out / MODEL), kit.file.study.tol)


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
    kept = kit.state / KEPT
    rounds = Archive(FolderStore(kept)).rounds
    if is_over(kit):
        left = " and ".join(without_model(kit))
        raise StudyError(
            f"This study is finished and its model is in {kit.out}; "
            + (f"give it to {left} with --resume, or " if left else "")
            + "run it again with --restart."
        )
    if rounds:
        raise StudyError(
            f"A run of this study is in {kept}, saved up to round {rounds[-1]}; "
            "continue it with --resume, or discard it with --restart."
        )


def _forget_end(kit: ClientKit) -> None:
    forget_release(Archive(FolderStore(kit.state / KEPT)))
    forget_over(kit)


def _forget_run(kit: ServerKit) -> None:
    Archive(FolderStore(kit.state / KEPT)).forget_after(-1)
    (kit.state / "progress.json").unlink(missing_ok=True)
    forget_over(kit)
