"""What an organisation's kit and a table bring to predictions of split rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hyfdca.crypto.keys.identity import Identity
from hyfdca.data.tables import Table
from hyfdca.errors import StudyError
from hyfdca.kits.key_files import read_identity
from hyfdca.kits.kit import KEYS, OUT, STUDY, Kit
from hyfdca.model.model import Model
from hyfdca.prediction.client import Bringing, PredictionClient
from hyfdca.prediction.policy import PredictionLog
from hyfdca.prediction.split_rows import (
    PredictionParty,
    brought,
    released_model,
    table_to_predict,
)
from hyfdca.runtime.store import FolderStore, SealedStore, Store
from hyfdca.study.file import StudyFile, parse
from hyfdca.study.identity import make_roster, study_hash
from hyfdca.study.plan import Plan, plan_of

KEPT = "kept"  # the folder of a kit's state with what must not be lost


def own_store(kit: Kit, identity: Identity) -> SealedStore:
    """Return what an organisation keeps of its study, sealed for it alone."""
    context = b"hyfdca member " + identity.public.text.encode()
    return SealedStore(FolderStore(kit.state / KEPT), identity.to_bytes(), context)


def model_path(kit: Kit) -> Path:
    """Return where a party has the model of its study."""
    return kit.folder / OUT / "model.json"


def read_plan(kit: Kit) -> tuple[StudyFile, bytes, Plan]:
    """Return a kit's study: what its file says, its bytes, and what they make.

    Raises
    ------
    StudyError
    """
    path = kit.folder / STUDY
    try:
        content = path.read_bytes()
    except OSError:
        raise StudyError(f"There is no study file {path} to read.") from None
    file = parse(content, path)
    return file, content, plan_of(file, study_hash(content))


@dataclass(frozen=True, repr=False)
class OwnSide:
    """An organisation ready to predict with others.

    Parameters
    ----------
    table : Table
        With labels, where the file has some.
    kept : Store
        What it keeps, sealed for this organisation alone.
    """

    name: str
    table: Table
    model: Model
    party: PredictionParty
    bringing: Bringing
    kept: Store

    def member(self, tell: Callable[[str], None]) -> PredictionClient:
        """Return what answers the server."""
        return self.party.member(self.bringing, tell)


def own_side(folder: Path, data: Path, asks: bool = False) -> OwnSide:
    """Return what an organisation brings; nobody else is needed for it.

    Raises
    ------
    StudyError
        If it cannot take part.
    """
    kit = Kit(folder)
    file, content, plan = read_plan(kit)
    identity = read_identity(kit.folder / KEYS)
    keys = {client.name: client.public_key for client in file.clients}
    roster = make_roster(content, keys, plan.epoch)
    try:
        client = file.clients[roster.rank_of(identity.public)]
    except ValueError as error:
        raise StudyError(str(error)) from None
    if not model_path(kit).exists():
        raise StudyError(
            f"There is no model {model_path(kit)} yet; train the study first, or put "
            "the model.json there that its training gave."
        )
    model = released_model(model_path(kit))
    table = table_to_predict(file, client, data, model)
    log = PredictionLog(FolderStore(kit.log))
    kept = own_store(kit, identity)
    party = PredictionParty(plan, identity, roster, kept)
    bringing = brought(file, table, model, log, asks)
    return OwnSide(client.name, table, model, party, bringing, kept)
