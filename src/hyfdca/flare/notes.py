"""Small files in a kit by which its processes tell each other how things are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from hyfdca.files import OWNER_ONLY, write_whole
from hyfdca.kits.kit import Kit

State = Literal["joined", "finished", "paused", "refused", "failed"]


@dataclass(frozen=True)
class Note:
    """How a job went on this side: of which job, how, and why so."""

    job: str
    state: State
    reason: str = ""


def write_note(kit: Kit, note: Note) -> None:
    """Leave a note, whole or not at all."""
    kit.state.mkdir(mode=0o700, exist_ok=True)
    write_whole(_note(kit), json.dumps(asdict(note)).encode(), OWNER_ONLY)


def read_note(kit: Kit) -> Note | None:
    """Return the last note, if there is one."""
    try:
        return Note(**json.loads(_note(kit).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def progress(kit: Kit) -> bytes:
    """Return what changes when the study has got on; empty before it has."""
    return _content(kit.state / "progress.json") + _content(_over(kit))


# The end. A party notes that it has the model before anybody is told so: whoever is
# killed then still knows, and the server knows whom to give it to.


def note_over(kit: Kit, without_model: Sequence[str] = ()) -> None:
    """Remember that the model is written, and who has none yet."""
    left = json.dumps(list(without_model)).encode()
    write_whole(_over(kit), left, OWNER_ONLY, is_durable=True)


def over_since(kit: Kit) -> float | None:
    """Return when that was last noted; none if the study is not over."""
    try:
        return _over(kit).stat().st_mtime
    except FileNotFoundError:
        return None


def is_over(kit: Kit) -> bool:
    """Return whether this party has the model."""
    return over_since(kit) is not None


def without_model(kit: Kit) -> list[str]:
    """Return who has no model yet, of a study that is over."""
    return list(json.loads(_over(kit).read_text(encoding="utf-8")))


def forget_over(kit: Kit) -> None:
    """Let the study begin once more."""
    _over(kit).unlink(missing_ok=True)


def _over(kit: Kit) -> Path:
    return kit.state / "over.json"


def rejoin_file(kit: Kit) -> Path:
    """Return the file that asks the study to pause at the end of a round."""
    return kit.state / "rejoin"


def holders(kit: Kit) -> dict[str, str]:
    """Return the number that each organisation's kit showed when it was let in last."""
    try:
        return dict(json.loads(_holders(kit).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def write_holders(kit: Kit, numbers: dict[str, str]) -> None:
    """Remember these numbers, also for a server that is started again."""
    write_whole(_holders(kit), json.dumps(numbers).encode(), OWNER_ONLY)


def _holders(kit: Kit) -> Path:
    return kit.state / "holders.json"


def _note(kit: Kit) -> Path:
    return kit.state / "job.json"


def forget_note(kit: Kit) -> None:
    """Take away the last note: it is of another run."""
    _note(kit).unlink(missing_ok=True)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
