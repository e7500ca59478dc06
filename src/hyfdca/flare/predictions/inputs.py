"""What an organisation needs to predict split rows: its kit, model and table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from hyfdca.crypto.keys.identity import Identity
from hyfdca.data.tables import Table
from hyfdca.errors import StudyError
from hyfdca.files import open_regular
from hyfdca.kits.key_files import read_identity
from hyfdca.kits.kit import KEYS, OUT, STUDY, Kit
from hyfdca.model.model import Model
from hyfdca.prediction.bringing import Bringing
from hyfdca.prediction.client import PredictionClient
from hyfdca.prediction.policy import PredictionLog
from hyfdca.prediction.split_rows import (
    PredictionParty,
    brought,
    released_model,
    table_to_predict,
)
from hyfdca.runtime.store import FolderStore, SealedStore, Store
from hyfdca.study.client.policy import read_policy_of
from hyfdca.study.file import StudyFile, parse
from hyfdca.study.identity import make_roster, study_hash
from hyfdca.study.plan import Plan, plan_of

KEPT = "kept"  # folder in a kit's state for what must not be lost


def own_store(kit: Kit, identity: Identity) -> SealedStore:
    """Return the store of an organisation, sealed for it alone."""
    context = b"hyfdca member " + identity.public.text.encode()
    return SealedStore(FolderStore(kit.state / KEPT), identity.to_bytes(), context)


def model_path(kit: Kit) -> Path:
    """Return the path of the study's model in a kit."""
    return kit.folder / OUT / "model.json"


def read_plan(kit: Kit) -> tuple[StudyFile, bytes, Plan]:
    """Return a kit's study: the parsed file, its bytes and the plan.

    Raises
    ------
    StudyError
    """
    path = kit.folder / STUDY
    try:
        with open_regular(path) as opened:
            content = opened.read()
    except OSError:
        raise StudyError(
            f"Cannot read the study file {path}; install the kit again."
        ) from None
    file = parse(content, path)
    return file, content, plan_of(file, study_hash(content))


@dataclass(frozen=True, repr=False)
class OwnSide:
    """An organisation ready to predict with others.

    Parameters
    ----------
    table : Table
        With labels, if the file has any.
    kept : Store
        Its store, sealed for this organisation alone.
    """

    name: str
    table: Table
    model: Model
    party: PredictionParty
    bringing: Bringing
    kept: Store

    def member(self, tell: Callable[[str], None]) -> PredictionClient:
        """Return the client that answers the server."""
        return self.party.member(self.bringing, tell)


def own_side(folder: Path, data: Path, asks: bool = False) -> OwnSide:
    """Return an organisation's side; this needs no other party.

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
            f"The model {model_path(kit)} does not exist; train the study first, or "
            "copy its model.json there."
        )
    model = released_model(model_path(kit))
    table = table_to_predict(file, client, data, model)
    policy = read_policy_of(kit.folder)
    policy.check_table(table)
    log = PredictionLog(FolderStore(kit.log))
    kept = own_store(kit, identity)
    party = PredictionParty(plan, identity, roster, kept)
    bringing = brought(file, table, model, log, asks)
    accepted = policy.accepted_askers(client.name, plan.names)
    terms = replace(bringing.terms, accepted=accepted)
    bringing = replace(bringing, terms=terms)
    return OwnSide(client.name, table, model, party, bringing, kept)
