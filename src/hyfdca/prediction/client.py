"""An organisation's side of predictions for rows split over organisations.

Every organisation that holds features of the rows to predict provides them. One
organisation at a time asks. The stages are *study* (only ``hello``) and *keys*, as in a
study, and *prediction*:

| phase     | who             | down                | up                             |
|-----------|-----------------|---------------------|--------------------------------|
| introduce | everybody       | -                   | how many rows it asks for      |
| request   | the asker       | -                   | signed: model, random number,  |
|           |                 |                     | pseudonyms of its rows; or why |
|           |                 |                     | it may not ask                 |
| consider  | everybody else  | the same            | consent, or why not            |
| refused   | the asker       | why it gets nothing | -                              |

Between the last two come, in the same stage, the phases in which holders find the rows
(``prediction/blinded_rows.py``), the alignment (``stages/alignment``) and the sums
(``prediction/sums.py``).

Theory of operation. A holder trusts the asker's signature and its own files, not the
server. It checks permission, limit and model, and logs the prediction, before it
contributes anything. It then continues only with those of its rows whose pseudonyms the
asker signed. Pseudonyms use keys of this one prediction, so the server can link them
neither to training nor to other predictions. If the study sets ``prediction_ids =
"keyed"``, all clients have these keys, and a holder can try IDs that it does not hold.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import FloatArray, IntArray, TokenArray
from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.pseudonyms import AlignmentKeys, sample_pseudonyms
from hyfdca.crypto.keys.roster import Roster
from hyfdca.data.tables import Table
from hyfdca.prediction import messages as p
from hyfdca.prediction.blinded_rows import BlindAsker, BlindHolder, OneRequest
from hyfdca.prediction.bringing import Bringing
from hyfdca.prediction.parts import common_part, reference_of
from hyfdca.prediction.policy import declined_sentence
from hyfdca.prediction.request import checked_pseudonyms, signed_request
from hyfdca.prediction.sums import ScoreSums, ScoringClient
from hyfdca.protocol.client_session import TOKEN_BYTES, ClientSession, Handlers
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import Message
from hyfdca.runtime.driver import one_thread
from hyfdca.runtime.store import StoreError
from hyfdca.stages.alignment.client import AlignmentClient
from hyfdca.stages.score_parts import OwnParts, own_parts
from hyfdca.study.client.client import StudyClient

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
            with self._member.openings.counted(), one_thread():
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

    def _ask(self, _: Message) -> p.Asked | p.Declined:
        """Sign the request, and count it in this organisation's own log too.

        Its own terms may rule it out by now, for example after an earlier attempt.
        """
        bringing, table = self._bringing, self._bringing.table
        if not bringing.asks or self._has_asked:
            raise RemoteProtocolError("it asks for no predictions, or already has")
        n_rows = len(table.ids)
        declined = bringing.terms.objection(bringing.log, self.name, n_rows)
        if declined is not None:
            self._has_asked = True
            return declined
        nonce, n_outputs = secrets.token_bytes(p.NONCE_BYTES), bringing.n_outputs
        pseudonyms, public, more = self._named(nonce)
        request = signed_request(
            self._identity,
            self._roster,
            bringing.digest,
            nonce,
            (n_outputs, pseudonyms),
            public,
        )
        bringing.log.add(self.name, n_rows, nonce.hex())
        self._has_asked = True
        self._begin((table, pseudonyms), nonce, self._rank)
        self._session.handlers = {**self._session.handlers, **more}
        return request

    def _named(self, nonce: bytes) -> tuple[TokenArray, bytes, Handlers]:
        """Return pseudonyms of all rows, and what others need to find theirs.

        They need the public half of the pseudonyms' key, and further phases.
        """
        ids = self._bringing.table.ids
        if self._bringing.terms.ids == "keyed":
            return sample_pseudonyms(ids, self._keys(nonce)), b"", {}
        asker = BlindAsker(self._request(self._rank, nonce), ids)
        return asker.pseudonyms, asker.public, asker.handlers

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
        declined = self._bringing.objection(request, asker, len(pseudonyms))
        if declined is not None:
            self._tell(declined_sentence(self.name, asker, declined))
            return declined
        self._bringing.log.add(asker, len(pseudonyms), request.nonce.hex())
        self._tell(f"Organisation {asker!r} asks for {len(pseudonyms)} rows.")
        self._find(request, pseudonyms)
        return p.Consent()

    def _find(self, request: p.ConsiderRequest, asked: TokenArray) -> None:
        """Begin with the requested rows, once this organisation can recognise them."""
        table, nonce = self._bringing.table, request.nonce

        def found(own: TokenArray) -> None:
            rows = _rows_among(own, asked)
            self._begin((table.of_rows(rows), own[rows]), nonce, request.asker)

        if self._bringing.terms.ids == "keyed":
            found(sample_pseudonyms(table.ids, self._keys(nonce)))
            return
        own = self._request(request.asker, nonce)
        holder = BlindHolder(own, request.public, table.ids, found)
        self._session.handlers = {**self._own_handlers, **holder.handlers}

    # One prediction

    def _keys(self, nonce: bytes) -> AlignmentKeys:
        """Return the keys of one prediction, which the server does not have."""
        return self._member.secrecy.alignment_keys(f"prediction {nonce.hex()}")

    def _request(self, asker: int, nonce: bytes) -> OneRequest:
        key, own = self._keys(nonce).samples, (self._identity, self._roster)
        return OneRequest(*own, self._rank, asker, nonce, key)

    def _begin(self, rows: tuple[Table, TokenArray], nonce: bytes, asker: int) -> None:
        """Prepare for one prediction, discarding any earlier one.

        Parameters
        ----------
        rows : (Table, array)
            The requested rows that this organisation holds, and their pseudonyms.
        """
        bringing, model = self._bringing, self._bringing.model
        secrecy, (table, pseudonyms) = self._member.secrecy, rows
        alignment = AlignmentClient(
            table, self._keys(nonce), bringing.alignment, pseudonyms, secrecy.secrets
        )
        made: list[OwnParts] = []

        def parts() -> OwnParts:
            if not made:
                reference = reference_of(model)
                made.append(own_parts(model, alignment.aligned, reference))
            return made[0]

        def take(sums: ScoreSums) -> None:
            self._take(sums, alignment.order)

        scoring = ScoringClient(
            secrecy.sealers(),
            asker,
            (len(table.ids), bringing.n_outputs),
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


def _rows_among(own: TokenArray, asked: TokenArray) -> IntArray:
    """Return the rows whose pseudonyms were asked for."""
    wanted = set(map(tuple, asked.tolist()))
    rows = [row for row, name in enumerate(map(tuple, own.tolist())) if name in wanted]
    return np.array(rows, np.int64)
