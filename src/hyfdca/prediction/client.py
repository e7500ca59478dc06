"""An organisation's side of predictions for rows split over organisations.

Every organisation that holds features of the rows to predict provides them. One
organisation at a time asks. The stages are *study* (only ``hello``) and *keys*, as in a
study, and *prediction*:

| phase     | who             | down                | up                             |
|-----------|-----------------|---------------------|--------------------------------|
| introduce | everybody       | -                   | how many rows it asks for      |
| request   | the asker       | -                   | signed: model, random number,  |
|           |                 |                     | pseudonyms of its rows         |
| consider  | everybody else  | the same            | consent, or why not            |
| refused   | the asker       | why it gets nothing | -                              |

Between the last two come the alignment (``stages/alignment``) and the sums
(``prediction/sums.py``), in the same stage.

Theory of operation. A holder trusts the asker's signature and its own files, not the
server. It checks permission, limit and model, and logs the prediction, before it
contributes anything. It then continues only with those of its rows whose pseudonyms the
asker signed. Pseudonyms use keys derived for this one prediction, so the server can
link them neither to training nor to other predictions.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from hyfdca.arrays import FloatArray, IntArray, TokenArray
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.pseudonyms import sample_pseudonyms
from hyfdca.crypto.keys.roster import Roster
from hyfdca.crypto.schemes.fixedpoint import power_above
from hyfdca.data.tables import Table, stored_densely
from hyfdca.holdings.ownership import OwnCells
from hyfdca.model.categories import features_of, model_expansion
from hyfdca.model.model import Model
from hyfdca.model.scaling import Scaling
from hyfdca.prediction import messages as p
from hyfdca.prediction.policy import PredictionLog, PredictionTerms, declined_sentence
from hyfdca.prediction.request import checked_pseudonyms, signed_request
from hyfdca.prediction.sums import OwnParts, ScoreSums, ScoringClient
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.protocol.sessions import TOKEN_BYTES, ClientSession, Handlers
from hyfdca.runtime.driver import one_thread
from hyfdca.runtime.store import StoreError
from hyfdca.stages.alignment.aligned_table import AlignedTable
from hyfdca.stages.alignment.client import AlignmentClient
from hyfdca.stages.alignment.messages import AlignmentSettings
from hyfdca.study.client import StudyClient

STAGE = "prediction"


@dataclass(frozen=True, repr=False)
class SplitScores:
    """The scores that an asker receives, by row of its table.

    Parameters
    ----------
    margins : array (n_rows, n_outputs)
        For rows that lack features, the sum over the features provided.
    n_absent : array (n_rows,)
        How many columns of the model nobody provided.
    """

    margins: FloatArray
    n_absent: IntArray


@dataclass(frozen=True, repr=False)
class Bringing:
    """What an organisation provides for predictions.

    Parameters
    ----------
    table : Table
        Rows that it asks for or holds features of; its columns are those of the model's
        columns that it has.
    digest : bytes
        Of the model.
    """

    table: Table
    model: Model
    digest: bytes
    terms: PredictionTerms
    log: PredictionLog
    alignment: AlignmentSettings
    asks: bool = False


class PredictionClient:
    """Answers the server of predictions.

    Parameters
    ----------
    member : StudyClient
        The organisation's side of the study, which has the study's keys.
    tell : callable
        Receives a sentence about each request: who asked, and the outcome.
    """

    def __init__(
        self,
        member: StudyClient,
        identity: Identity,
        roster: Roster,
        bringing: Bringing,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._member, self._identity, self._roster = member, identity, roster
        self._bringing, self._tell = bringing, tell
        self._rank = roster.rank_of(identity.public)
        self.scores: SplitScores | None = None
        self.refusal = ""  # why there are no scores
        self._has_asked = False
        self._session = ClientSession(
            roster.study_hash[:TOKEN_BYTES], p.PHASES, self._own_handlers
        )

    @property
    def _own_handlers(self) -> Handlers:
        return {
            "introduce": self._introduce,
            "request": self._ask,
            "consider": self._consider,
            "refused": self._be_refused,
        }

    @property
    def name(self) -> str:
        """The organisation's name in the study."""
        return self._roster.entries[self._rank].name

    def handle(self, stage: str, phase: str, payload: bytes | bytearray) -> bytearray:
        """Answer one request; a notice is answered with an empty message.

        Raises
        ------
        RemoteProtocolError
            If the request is not allowed now.
        """
        if stage == STAGE:
            return self._predict(phase, payload)
        # Predictions must not begin, save or discard anything of the study.
        if stage == "keys" or (stage, phase) == ("study", "hello"):
            return self._member.handle(stage, phase, payload)
        raise RemoteProtocolError(
            f"predictions have no phase {phase!r} in stage {stage!r}"
        )

    def _predict(self, phase: str, payload: bytes | bytearray) -> bytearray:
        try:
            with one_thread():
                return self._session.handle(phase, payload)
        except StoreError as error:
            self._tell(str(error))  # it names a folder, so it stays here
            raise RemoteProtocolError(
                "its log of predictions cannot be read or written"
            ) from None

    # Asking

    def _introduce(self, _: Message) -> p.Introduction:
        bringing = self._bringing
        return p.Introduction(len(bringing.table.ids) if bringing.asks else 0)

    def _ask(self, _: Message) -> p.Asked:
        """Sign the request, and count it in this organisation's own log too."""
        bringing, table = self._bringing, self._bringing.table
        if not bringing.asks or self._has_asked:
            raise RemoteProtocolError("it asks for no predictions, or already has")
        n_rows = len(table.ids)
        declined = bringing.terms.objection(bringing.log, self.name, n_rows)
        if declined is not None:
            raise RemoteProtocolError(declined_sentence(self.name, self.name, declined))
        nonce, n_outputs = secrets.token_bytes(p.NONCE_BYTES), self._n_outputs
        pseudonyms = self._pseudonyms(nonce)
        request = signed_request(
            self._identity,
            self._roster,
            bringing.digest,
            nonce,
            (n_outputs, pseudonyms),
        )
        bringing.log.add(self.name, n_rows, nonce.hex())
        self._has_asked = True
        self._begin(table, nonce, self._rank)
        return request

    def _be_refused(self, notice: p.RefusedNotice) -> None:
        if not self._has_asked or self.scores is not None:
            raise RemoteProtocolError("it is not waiting for scores")
        self.refusal = "".join(c if c.isprintable() else " " for c in notice.reason)
        self._session.handlers = self._own_handlers

    # Being asked

    def _consider(self, request: p.ConsiderRequest) -> p.Consent | p.Declined:
        """Check and log the request; only then prepare to contribute."""
        pseudonyms = checked_pseudonyms(request, self._roster)
        if request.asker == self._rank:
            raise RemoteProtocolError("an asker cannot consider its own request")
        asker = self._roster.entries[request.asker].name
        declined = self._objection(request, asker, len(pseudonyms))
        if declined is not None:
            self._tell(declined_sentence(self.name, asker, declined))
            return declined
        self._bringing.log.add(asker, len(pseudonyms), request.nonce.hex())
        self._tell(f"Organisation {asker!r} asks for {len(pseudonyms)} rows.")
        own = self._pseudonyms(request.nonce)
        held = _rows_among(self._bringing.table, own, pseudonyms)
        self._begin(held, request.nonce, request.asker)
        return p.Consent()

    def _objection(
        self, request: p.ConsiderRequest, asker: str, n_rows: int
    ) -> p.Declined | None:
        bringing = self._bringing
        declined = bringing.terms.objection(bringing.log, asker, n_rows)
        if declined is not None:
            return declined
        is_same = request.model == bringing.digest
        if not is_same or request.n_outputs != self._n_outputs:
            return p.Declined("model", 0)
        if bringing.log.has(request.nonce.hex()):
            return p.Declined("repeated", 0)
        return None

    # One prediction

    @property
    def _n_outputs(self) -> int:
        return int(self._bringing.model.weights.shape[1])

    @staticmethod
    def _purpose(nonce: bytes) -> str:
        return f"prediction {nonce.hex()}"

    def _pseudonyms(self, nonce: bytes) -> TokenArray:
        keys = self._member.secrecy.alignment_keys(self._purpose(nonce))
        return sample_pseudonyms(self._bringing.table.ids, keys)

    def _begin(self, table: Table, nonce: bytes, asker: int) -> None:
        """Prepare for one prediction, discarding any earlier one."""
        secrecy, model = self._member.secrecy, self._bringing.model
        keys = secrecy.alignment_keys(self._purpose(nonce))
        alignment = AlignmentClient(table, keys, self._bringing.alignment)
        made: list[OwnParts] = []

        def parts() -> OwnParts:
            if not made:
                made.append(own_parts(model, alignment.aligned))
            return made[0]

        def take(sums: ScoreSums) -> None:
            self._take(sums, alignment.order)

        scoring = ScoringClient(
            secrecy.sealers(),
            asker,
            (len(table.ids), self._n_outputs),
            parts,
            take if asker == self._rank else None,
        )
        self._session.handlers = {
            **self._own_handlers,
            **alignment.handlers,
            **scoring.handlers,
        }

    def _take(self, sums: ScoreSums, order: IntArray) -> None:
        model = self._bringing.model
        n_absent = len(model.inputs.columns) - sums.n_cells
        if np.any(n_absent < 0):
            raise RemoteProtocolError("cells were counted twice")
        margins, absent = np.empty_like(sums.margins), np.empty_like(n_absent)
        margins[order] = sums.margins + common_part(model)
        absent[order] = n_absent
        self.scores = SplitScores(margins, absent)


class PredictionStage:
    """One stage of an organisation's side, with the interface drivers expect."""

    def __init__(self, member: PredictionClient, name: str) -> None:
        self._member, self._name = member, name

    def handle(self, phase: str, payload: bytes | bytearray) -> bytearray:
        """Answer one request."""
        return self._member.handle(self._name, phase, payload)


def _rows_among(table: Table, own: TokenArray, asked: TokenArray) -> Table:
    """Return the rows of a table whose pseudonyms were asked for."""
    wanted = set(map(tuple, asked.tolist()))
    rows = [row for row, name in enumerate(map(tuple, own.tolist())) if name in wanted]
    return table.of_rows(np.array(rows, np.int64))


_SLACK = 1e-9  # covers the rounding of norms


def own_parts(model: Model, table: AlignedTable) -> OwnParts:
    """Return what the cells that an organisation counts add to the margins.

    All columns of the table are columns of the model.
    """
    expansion = model_expansion(table.features, model.inputs.categories, table.levels)
    features = _features(model, table.features)
    scaling, weights = _scaling(model, features), model.weights[features]
    cells = table.cells
    if np.any(scaling.offset) and cells.nnz < cells.shape[0] * cells.shape[1]:
        cells = stored_densely(cells.toarray())  # zeros have an offset too
    scaled = scaling.apply(expansion.features(table.own.of(cells)))
    # Overflow shows in the bound.
    with np.errstate(over="ignore", invalid="ignore"):
        margins = scaled @ weights
        bound = _longest(scaled) * float(np.linalg.norm(weights, axis=0).max())
        return OwnParts(margins, _n_owned(table.own), _above(bound))


def common_part(model: Model) -> FloatArray:
    """Return the part common to all margins, (n_outputs,); the asker adds it."""
    reference, scaling = _reference(model), model.scaling
    scaled = (reference - scaling.offset) / scaling.scale
    common: FloatArray = scaled @ model.weights + model.intercept
    return common


def _reference(model: Model) -> FloatArray:
    """Return the value of each feature that adds nothing to a margin."""
    is_filled = model.file.scaling.missing == "mean"
    return model.scaling.filling if is_filled else model.scaling.offset


def _features(model: Model, columns: Sequence[str]) -> IntArray:
    """Return the numbers of the features that columns become."""
    made = features_of(columns, model.inputs.categories)
    place = {name: number for number, name in enumerate(model.features)}
    return np.array([place[name] for name in made], np.int64)


def _scaling(model: Model, features: IntArray) -> Scaling:
    scaling = model.scaling
    return Scaling(
        _reference(model)[features], scaling.scale[features], scaling.filling[features]
    )


def _longest(cells: sp.csr_array) -> float:
    squares = np.asarray(cells.multiply(cells).sum(axis=1)).ravel()
    return float(np.sqrt(squares.max(initial=0.0)))


def _above(bound: float) -> float:
    return power_above(bound * (1 + _SLACK)) if np.isfinite(bound) else np.inf


def _n_owned(own: OwnCells) -> IntArray:
    """Return how many cells of each row an organisation counts."""
    n_groups = own.owns.shape[1]
    sizes = np.bincount(own.column_groups, minlength=n_groups)
    counts: IntArray = (own.owns @ sizes)[own.row_groups]
    return counts
