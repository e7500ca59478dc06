"""Files of every kind that hyfdca reads, spoilt, and read as the commands read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import xxhash

from hyfdca.audit.views import read_view
from hyfdca.data.readers import read_table
from hyfdca.data.tables import Columns
from hyfdca.flare import status
from hyfdca.kits.checking import check_certificate
from hyfdca.kits.enrolment import read_keys, read_request
from hyfdca.kits.key_files import read_public
from hyfdca.kits.kit import ServerKit, read_client_kit, read_server_kit
from hyfdca.kits.package import read_package
from hyfdca.kits.policy import is_strict_client
from hyfdca.model.model import read_model
from hyfdca.prediction.policy import PredictionLog
from hyfdca.protocol import checkpoint
from hyfdca.report.card import card_of
from hyfdca.report.report import page_of
from hyfdca.report.result_files import read_result_folder
from hyfdca.runtime.store import FolderStore
from hyfdca.study.durable import ServerRound
from hyfdca.study.file import load
from hyfdca.study.local.saved_run import SavedRun
from hyfdca.study.local.study import local_plan, read_tables
from hyfdca.study.local.training import STATE, resumable_run
from hyfdca.study.resume import ServerPreparation
from tests.fuzz.cases import Case, Tally, Watch, attempt
from tests.fuzz.mutations import changed_bytes, changed_text, changed_tree

Change = Callable[[bytes, Random], bytes]


# How files are changed


def as_text(content: bytes, random: Random) -> bytes:
    """Change a text file: its bytes, its lines or its characters."""
    if random.random() < 0.3:
        return changed_bytes(content, random)
    lines = content.decode().split("\n")
    place = random.randrange(len(lines))
    if random.random() < 0.2:
        lines.insert(place, random.choice(lines))
    else:
        lines[place] = changed_text(lines[place], random)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def as_json(content: bytes, random: Random) -> bytes:
    """Change a JSON file: its text or what it says."""
    if random.random() < 0.3:
        return as_text(content, random)
    if random.random() < 0.02:
        return b"[" * 100_000
    tree = changed_tree(json.loads(content), random)
    return json.dumps(tree, default=str).encode()


def as_lines(content: bytes, random: Random) -> bytes:
    """Change a file of JSON values, one per line."""
    return as_json(content.rstrip(b"\n"), random) + b"\n"


def as_checkpoint(content: bytes, random: Random) -> bytes:
    """Change a checkpoint, now and then with digests that are right again."""
    if random.random() < 0.3:
        return changed_bytes(content, random)
    kept = content[16:]
    start = kept.index(b"\n", len(checkpoint._MAGIC)) + 1
    version, body = kept[len(checkpoint._MAGIC) : start - 1], kept[start + 16 :]
    tree = changed_tree(msgspec.msgpack.decode(body), random)
    try:
        body = msgspec.msgpack.encode(tree)
    except (OverflowError, msgspec.MsgspecError):
        body = changed_bytes(body, random)
    kept = kept[:start] + checkpoint._digest(version + body) + body
    return xxhash.xxh3_128_digest(kept) + kept


def as_view(content: bytes, random: Random) -> bytes:
    """Change a view: its bytes, or one of its first frames."""
    if random.random() < 0.4:
        return changed_bytes(content, random)
    start = content.index(b"\n") + 1
    size = int.from_bytes(content[start : start + 8], "little")
    end = start + 24 + size
    tree = changed_tree(msgspec.msgpack.decode(content[start + 24 : end]), random)
    try:
        body = msgspec.msgpack.encode(tree)
    except (OverflowError, msgspec.MsgspecError):
        body = b"\xc1"
    head = len(body).to_bytes(8, "little") + xxhash.xxh3_128_digest(body)
    return content[:start] + head + body + content[end:]


# Kinds of files


@dataclass(frozen=True)
class FileKind:
    """One kind of file.

    Parameters
    ----------
    path : str
        Of the file in the corpus.
    read : callable
        Reads it as commands do; it takes the corpus's folder.
    """

    path: str
    change: Change
    read: Callable[[Path], object]


def _numbers(name: str) -> Callable[[Path], object]:
    return lambda root: read_table(root / name, Columns(id=None, label=None))


def _read_parquet(root: Path) -> object:
    columns = Columns(id="id", label="y", categorical=("ward",))
    return read_table(root / "table.parquet", columns)


def _read_csv(root: Path) -> object:
    return read_tables(load(root / "study.toml"), root)


def _read_model(root: Path) -> object:
    model = read_model(root / "out" / "model.json")
    model.inputs.check_named()
    return model


def _report(root: Path) -> object:
    found = read_result_folder(root / "out")
    card = card_of(found)
    return card.as_json(), page_of(card, found.history)


def _read_view(root: Path) -> object:
    header, records = read_view(root / "out" / "client-0.view")
    numbers = [r.numbers() for r in records if r.direction in ("opened", "sealed")]
    return header, len(numbers)


def _read_client_kit(root: Path) -> object:
    kit = read_client_kit(root / "kits" / "north")
    is_strict_client(kit.flare)
    return kit.owner, check_certificate(kit)


def _read_server_kit(root: Path) -> object:
    kit = read_server_kit(root / "kits" / "server")
    return kit.owner, kit.admin_name


def _resume(root: Path) -> object:
    file = load(root / "study.toml")
    plan = local_plan(file)
    with SavedRun(root / STATE, plan) as saved:
        saved.open("resume")
        return resumable_run(file, plan, read_tables(file, root), saved)


def _kit(root: Path) -> ServerKit:
    return ServerKit(root / "kits" / "server", load(root / "enrolled.toml"), b"")


def _checkpoint(name: str, kind: type[Any]) -> Callable[[Path], object]:
    def read(root: Path) -> object:
        content = (root / STATE / "server" / name).read_bytes()[16:]
        return checkpoint.decode(kind, content)

    return read


def _log(root: Path) -> int:
    return PredictionLog(FolderStore(root / "log")).n_last_hour("north")


_NORTH, _SERVER = "kits/north", "kits/server"
KINDS: dict[str, FileKind] = {
    "CSV table": FileKind("north.csv", as_text, _read_csv),
    "Parquet table": FileKind("table.parquet", changed_bytes, _read_parquet),
    "LIBSVM table": FileKind("table.libsvm", as_text, _numbers("table.libsvm")),
    "NPZ table": FileKind("table.npz", changed_bytes, _numbers("table.npz")),
    "study file": FileKind(
        "study.toml", as_text, lambda root: local_plan(load(root / "study.toml"))
    ),
    "model": FileKind("out/model.json", as_json, _read_model),
    **{
        f"report: {name}": FileKind(f"out/{name}", as_json, _report)
        for name in ("model.json", "result.json", "history.json")
    },
    "view": FileKind("out/client-0.view", as_view, _read_view),
    "prediction log": FileKind("log/predictions.jsonl", as_lines, _log),
    "server's round": FileKind(
        "state/server/round-1", as_checkpoint, _checkpoint("round-1", ServerRound)
    ),
    "server's preparation": FileKind(
        "state/server/preparation",
        as_checkpoint,
        _checkpoint("preparation", ServerPreparation),
    ),
    **{
        f"state of a run: {name}": FileKind(f"state/{name}", change, _resume)
        for name, change in (
            ("server/round-1", as_checkpoint),
            ("server/preparation", as_checkpoint),
            ("server/starts", changed_bytes),
            ("server/study", changed_bytes),
            ("member-0/round-1", changed_bytes),
            ("member-0/preparation", changed_bytes),
            ("member-0/keys", changed_bytes),
            ("member-0/identity", changed_bytes),
        )
    },
    **{
        f"client kit: {name}": FileKind(f"{_NORTH}/{name}", change, _read_client_kit)
        for name, change in (
            ("study.toml", as_text),
            ("keys/secret.key", as_text),
            ("keys/public.key", as_text),
            ("flare/startup/client.crt", as_text),
            ("flare/startup/rootCA.pem", as_text),
            ("flare/startup/fed_client.json", as_json),
            ("flare/local/authorization.json", as_json),
        )
    },
    **{
        f"server kit: {name}": FileKind(f"{_SERVER}/{name}", change, _read_server_kit)
        for name, change in (
            ("study.toml", as_text),
            ("flare/startup/server.crt", as_text),
            ("flare/startup/fed_server.json", as_json),
            ("admin/startup/client.crt", as_text),
        )
    },
    "request": FileKind(
        "enrolment/north.request.json",
        as_json,
        lambda root: read_request(root / "enrolment" / "north.request.json"),
    ),
    "package": FileKind(
        "provisioned/north.package.json",
        as_json,
        lambda root: read_package(root / "provisioned" / "north.package.json"),
    ),
    **{
        f"key: {name}": FileKind(f"enrolment/north/{name}", as_text, read)
        for name, read in (
            ("secret.key", lambda root: read_keys(root / "enrolment" / "north")),
            ("tls.key", lambda root: read_keys(root / "enrolment" / "north")),
            ("public.key", lambda root: read_public(root / "enrolment" / "north")),
        )
    },
    **{
        f"note: {name}": FileKind(f"{_SERVER}/state/{name}", as_json, read)
        for name, read in (
            ("job.json", lambda root: status.read_note(_kit(root))),
            ("over.json", lambda root: status.without_model(_kit(root))),
            ("holders.json", lambda root: status.holders(_kit(root))),
            ("status.json", lambda root: status.read_status(_kit(root).state)),
            ("progress.json", lambda root: status.progress(_kit(root))),
        )
    },
}
_RARELY = {"state of a run": 0.05, "report": 0.1, "key": 0.1}  # they take long to read


def drawn_kinds(random: Random) -> Iterator[str]:
    """Yield kinds of files without end; those that take long come rarely."""
    names = list(KINDS)
    while True:
        name = random.choice(names)
        if random.random() < _RARELY.get(name.split(":")[0], 1.0):
            yield name


def try_file(root: Path, case: Case, tally: Tally, watch: Watch) -> None:
    """Spoil one file of the corpus, read it, and put it right again."""
    watch(case)
    kind = KINDS[case.subject]
    path = root / kind.path
    content = path.read_bytes()
    changed = kind.change(content, case.random)

    def act() -> str:
        kind.read(root)
        return "read"

    try:
        path.write_bytes(changed)
        attempt(tally, case, act, lambda: (case.subject, changed))
    finally:
        path.write_bytes(content)
