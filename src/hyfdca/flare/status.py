"""How a study is getting on, as its job process writes it and the command reads it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hyfdca.files import OWNER_ONLY, write_whole

_FILE, _PROGRESS = "status.json", "progress.json"


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What a display shows of a study between two looks.

    Parameters
    ----------
    gaps : list of (float, float)
        The last certified relative gaps, each with the seconds since the start.
    measured : int
        The round of the last of them: not all are measured while somebody is missing.
    sentences : list of str
        The last things worth saying, of ``n_sentences`` that ``writer`` has said.
    writer : str
        Which process this is of: another one counts its sentences anew.
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


_decoder = msgspec.json.Decoder(Status)


def write_status(state: Path, status: Status) -> None:
    """Have a status seen, whole or not at all."""
    _write(state / _FILE, msgspec.json.encode(status))


def read_status(state: Path) -> Status | None:
    """Return the last status, if there is one."""
    try:
        return _decoder.decode((state / _FILE).read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def status_time(state: Path) -> float:
    """Return when there was last a new status, in seconds of the clock."""
    try:
        return (state / _FILE).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def forget_status(state: Path) -> None:
    """Take away the last status: it is of another run."""
    (state / _FILE).unlink(missing_ok=True)


def write_progress(state: Path, round_number: int) -> None:
    """Say that a round is kept; it changes only when the study gets on."""
    _write(state / _PROGRESS, msgspec.json.encode({"round": round_number}))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, content, OWNER_ONLY)
