"""Stores expensive results as files: a study that was killed finds them again.

A file's name depends on everything that its content depends on, including the tables.
So a result of other data or settings is never taken for the present one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hyfdca.errors import StudyError
from hyfdca.files import write_whole
from hyfdca.reproduction.problems import PaperProblem, Rows

T = TypeVar("T", bound=msgspec.Struct)


def kept_path(folder: Path, name: str, problem: PaperProblem, **settings: Any) -> Path:
    """Return the path of a problem's result, which may not exist yet.

    Parameters
    ----------
    name : str
        A readable name.
    settings : JSON values
        Other things that the result depends on.
    """
    facts = {
        "problem": [problem.name, problem.l2, dataclasses.asdict(problem.choices)],
        "rows": [_checksum(rows) for rows in (problem.train, problem.validation)],
        **settings,
    }
    content = json.dumps(facts, sort_keys=True).encode()
    checksum = hashlib.blake2b(content, digest_size=8).hexdigest()
    return folder / f"{problem.name}-{name}-{checksum}.json"


def load_kept(path: Path, kind: type[T]) -> T | None:
    """Return the content of a file, or None if there is none.

    Raises
    ------
    StudyError
        If it is damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StudyError(
            f"{path} cannot be read ({error}); delete it, and it is computed again."
        ) from None


def keep(path: Path, record: msgspec.Struct) -> None:
    """Write a result; the file is complete or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, msgspec.json.encode(record), is_durable=True)


def _checksum(rows: Rows) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for array in (rows.X.indptr, rows.X.indices, rows.X.data, rows.y):
        digest.update(array.tobytes())
    return digest.hexdigest()
