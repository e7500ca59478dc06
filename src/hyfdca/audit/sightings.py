"""How each side saw each value, sealed or open, and what it must not see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hyfdca.algorithms.bundle.messages import FitsNotice
from hyfdca.audit.payloads import Seals
from hyfdca.audit.reading import Heard, Sight, sights
from hyfdca.audit.values import SEALED_BYTES, VALUES, Form, Vector
from hyfdca.crypto.schemes.registry import TOTALS_SCHEME
from hyfdca.federation.messages import Arrangements
from hyfdca.protocol.messages import Profile
from hyfdca.stages.evaluation.messages import HeldOutArrangements


@dataclass
class Sighting:
    """How often a side saw a value in one form."""

    value: str
    form: Form
    schemes: set[str] = field(default_factory=set)
    phases: dict[str, None] = field(default_factory=dict)
    n_messages: int = 0
    n_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the sighting for programs."""
        return {
            "value": self.value,
            "form": self.form,
            "schemes": sorted(self.schemes),
            "phases": list(self.phases),
            "messages": self.n_messages,
            "bytes": self.n_bytes,
        }


class Sightings:
    """Tallies the values in the messages of one side.

    Parameters
    ----------
    profile : {"open", "sealed"}
        The study's profile: what the server may read.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._arranged: dict[tuple[bytes, int], Arrangements] = {}
        # Rows set aside are arranged apart, between rounds of training.
        self._held_out: dict[tuple[bytes, int], Arrangements] = {}
        self._seals = Seals()
        self._complaints: dict[str, None] = {}
        self._forbidden: dict[str, None] = {}
        self.seen: dict[tuple[str, Form], Sighting] = {}
        self.labelled: tuple[bool, ...] = ()  # which clients need margins
        self._n_margins: Counter[tuple[int, str]] = Counter()  # by client and phase
        self._n_scores: Counter[int] = Counter()  # of a row set aside, by client
        self._n_points: dict[int, int] = {}  # points of a path

    def look(self, messages: Iterable[Heard]) -> None:
        """Tally the values in these messages."""
        for said in messages:
            place = (said.conversation, said.client)
            if isinstance(said.message, HeldOutArrangements):
                self._held_out[place] = said.message
            elif isinstance(said.message, Arrangements):
                self._arranged[place] = said.message
            if isinstance(said.message, FitsNotice):
                self._n_points[said.client] = len(said.message.fits)
            for sight in sights(said):
                self._note(said, sight)

    def n_margins(self, client: int) -> int:
        """Return how many different margins of a row a client was sent at most."""
        # Measuring may send the margins of a round a second time, in its own phase.
        sent = (n for (who, _), n in self._n_margins.items() if who == client)
        return max(sent, default=0)

    def n_scores(self, client: int) -> int:
        """Return how many scores of each row set aside a client was sent."""
        return self._n_scores[client]

    def complaints(self) -> list[str]:
        """Return one sentence per breach of the trust model."""
        found = [*self._complaints, *self._seals.finish()]
        if self._forbidden:
            found.insert(
                0,
                f"The server could read what the {self._profile} profile seals: "
                f"{', '.join(self._forbidden)}.",
            )
        return found

    def _note(self, said: Heard, sight: Sight) -> None:
        vector = VALUES[sight.value].vector
        if vector is None or vector in SEALED_BYTES:
            schemes = {SEALED_BYTES[vector]} if vector else set()
            self._count(said, sight, "sealed" if vector else "open", schemes)
            return
        is_held_out = sight.value in ("held-out parts", "held-out scores")
        scheme = self._scheme(said, vector, is_held_out)
        for sealed in sight.sealed:
            if scheme != "none":
                is_sum = said.direction == "down"
                self._seals.look(sight.value, scheme, sealed.payload, is_sum)
        if sight.sealed:
            form: Form = "open" if scheme == "none" else "sealed"
            self._count(said, sight, form, {scheme})
            self._note_margins(said, sight)

    def _note_margins(self, said: Heard, sight: Sight) -> None:
        """Count margins sent, and complain about those that a client does not need."""
        if said.direction == "down" and sight.value == "held-out scores":
            self._n_scores[said.client] += 1
        if said.direction != "down" or sight.value != "margins":
            return
        self._n_margins[said.client, said.phase] += self._n_points.get(said.client, 1)
        if self.labelled and not self.labelled[said.client]:
            sentence = f"Client {said.client} has no labels but was sent margins."
            self._complaints[sentence] = None

    def _scheme(self, said: Heard, vector: Vector, is_held_out: bool) -> str:
        """Return the scheme that the run declared for such vectors."""
        by_client = self._held_out if is_held_out else self._arranged
        arranged = by_client.get((said.conversation, said.client))
        if arranged is None:
            return "none"  # no scheme was declared
        is_read = vector == "buckets" and self._profile == "open"
        if vector in ("buckets", "totals"):
            is_sealed = arranged.samples != "none" and not is_read
            return TOTALS_SCHEME if is_sealed else "none"
        return arranged.samples if vector == "samples" else arranged.features

    def _count(self, said: Heard, sight: Sight, form: Form, schemes: set[str]) -> None:
        key = (sight.value, form)
        seen = self.seen.setdefault(key, Sighting(sight.value, form))
        seen.n_messages += 1
        seen.n_bytes += sight.n_bytes
        seen.schemes |= schemes
        seen.phases[said.phase] = None
        if not VALUES[sight.value].admits(form, self._profile):
            self._forbidden[sight.value] = None
