"""The state of a study, written by its job process and read by the command."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from hyfdca.flare.notes import read_note_file, write_note_file
from hyfdca.kits.kit import Kit, ServerKit
from hyfdca.study.file import StudyFile
from hyfdca.study.tuning import FIRST_RUN, RunChoice, run_folder, run_sentence

_FILE, _PROGRESS, _RUN = "status.json", "progress.json", "run.json"
_TRAINED = "runs-trained.json"
RUNS_LOG = "runs.log"


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a display shows about a study.

    Parameters
    ----------
    gaps : list of (float, float)
        The last certified relative gaps, each preceded by seconds since the start.
    measured : int
        The round of the last gap; some rounds are not measured if a client is missing.
    sentences : list of str
        The last of the ``n_sentences`` sentences that ``writer`` has published.
    writer : str
        The process that wrote this; each process counts its sentences from one.
    """

    round: int = 0
    max_rounds: int = 0
    tolerance: float = 0.0
    gaps: list[tuple[float, float]] = []
    measured: int = 0
    present: list[str] = []
    missing: list[str] = []
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    sentences: list[str] = []
    n_sentences: int = 0
    writer: str = ""

    @property
    def gap(self) -> float | None:
        """The last certified relative gap."""
        return self.gaps[-1][1] if self.gaps else None


def write_status(state: Path, status: Status) -> None:
    """Publish a status, whole or not at all."""
    write_note_file(state / _FILE, msgspec.json.encode(status))


def read_status(state: Path) -> Status | None:
    """Return the last status, if there is one."""
    return read_note_file(state / _FILE, msgspec.json.Decoder(Status).decode)


def status_time(state: Path) -> float:
    """Return when the status was last written, as seconds of the clock."""
    try:
        return (state / _FILE).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def forget_status(state: Path) -> None:
    """Remove the last status: it belongs to an earlier run."""
    (state / _FILE).unlink(missing_ok=True)


def write_progress(state: Path, round_number: int) -> None:
    """Record the last saved round; it changes only when the study progresses."""
    content = msgspec.json.encode({"round": round_number})
    write_note_file(state / _PROGRESS, content)


State = Literal["joined", "finished", "paused", "refused", "failed"]


@dataclass(frozen=True)
class Note:
    """How a job went on this side: which job, its state, and why."""

    job: str
    state: State
    reason: str = ""


def write_note(kit: Kit, note: Note) -> None:
    """Leave a note, whole or not at all."""
    write_note_file(_note(kit), msgspec.json.encode(note))


def read_note(kit: Kit) -> Note | None:
    """Return the last note, if there is one."""
    return read_note_file(_note(kit), msgspec.json.Decoder(Note).decode)


def progress(kit: Kit) -> bytes:
    """Return bytes that change as the study progresses; empty before it has."""
    return _content(kit.state / "progress.json") + _content(_over(kit))


# The end. A party notes on disk that it has the model before it reports it. So it still
# knows after being killed, and the server knows who still needs the model.


def note_over(kit: Kit, without_model: Sequence[str] = ()) -> None:
    """Record that the model is written, and who does not have it yet."""
    left = msgspec.json.encode(list(without_model))
    write_note_file(_over(kit), left, is_durable=True)


def over_since(kit: Kit) -> float | None:
    """Return when that was last recorded, or None if the study is not over."""
    try:
        return _over(kit).stat().st_mtime
    except FileNotFoundError:
        return None


def is_over(kit: Kit) -> bool:
    """Return whether this party has the model."""
    return over_since(kit) is not None


def without_model(kit: ServerKit) -> list[str]:
    """Return who does not have the model yet, in a study that is over.

    If that is no longer known, everybody receives it again.
    """

    def parse(content: bytes) -> list[str]:
        left = msgspec.json.decode(content, type=list[str])
        if not set(left) <= set(kit.names):
            raise ValueError("strangers")
        return left

    left = read_note_file(_over(kit), parse)
    if left is None:
        note_over(kit, left := list(kit.names))
    return left


def forget_over(kit: Kit) -> None:
    """Allow the study to begin again."""
    _over(kit).unlink(missing_ok=True)


def _over(kit: Kit) -> Path:
    number = current_run(kit).number
    return kit.state / ("over.json" if number == 1 else f"over-{number}.json")


# The run. It determines which study is over, and where results go.


def current_run(kit: Kit) -> RunChoice:
    """Return the run of the study that this party last began."""
    return read_note_file(kit.state / _RUN, RunChoice.from_bytes) or FIRST_RUN


def note_run(kit: Kit, file: StudyFile, run: RunChoice) -> None:
    """Record that a run begins, and log what was chosen for it, if anything."""
    if run == current_run(kit):
        return
    if said := run_sentence(file, run):
        kit.log.mkdir(mode=0o700, exist_ok=True)
        with (kit.log / RUNS_LOG).open("a", encoding="utf-8") as log:
            now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
            log.write(f"{now} {said}\n")
    write_note_file(kit.state / _RUN, run.to_bytes(), is_durable=True)


def runs_trained(kit: Kit) -> frozenset[int]:
    """Return the earlier runs of which a server has begun a round."""
    decoder = msgspec.json.Decoder(list[int])
    found = read_note_file(kit.state / _TRAINED, decoder.decode)
    return frozenset(range(1, current_run(kit).number) if found is None else found)


def note_trained(kit: Kit) -> None:
    """Record that a round of the current run was begun, before it is forgotten."""
    numbers = sorted(runs_trained(kit) | {current_run(kit).number})
    content = msgspec.json.encode(numbers)
    write_note_file(kit.state / _TRAINED, content, is_durable=True)


def result_folder(kit: Kit) -> Path:
    """Return the folder that the results of the current run are written to."""
    return run_folder(kit.out, current_run(kit).number)


def rejoin_file(kit: Kit) -> Path:
    """Return the file that asks the study to pause at the end of a round."""
    return kit.state / "rejoin"


def holders(kit: Kit) -> dict[str, str]:
    """Return the number that each organisation's kit showed when last admitted."""
    decoder = msgspec.json.Decoder(dict[str, str])
    return read_note_file(_holders(kit), decoder.decode) or {}


def write_holders(kit: Kit, numbers: dict[str, str]) -> None:
    """Save these numbers, so that they survive a restart of the server."""
    write_note_file(_holders(kit), msgspec.json.encode(numbers))


def _holders(kit: Kit) -> Path:
    return kit.state / "holders.json"


def _note(kit: Kit) -> Path:
    return kit.state / "job.json"


def forget_note(kit: Kit) -> None:
    """Remove the last note: it belongs to an earlier run."""
    _note(kit).unlink(missing_ok=True)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
