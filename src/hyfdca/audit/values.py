"""The trust model as a table: every value that is sent, and who may see it.

``docs/threat-model.md`` says the same in words. The kind of a sealed vector decides in
which profiles it must be sealed from the server. A client may open what it receives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hyfdca.protocol.messages import Profile

# Kinds of sealed vectors. Most are named as ``arrange`` names their schemes. Buckets
# (totals per bucket) are readable by the server in the open profile, statistics never.
Vector = Literal[
    "samples", "features", "totals", "buckets", "statistics", "envelope", "note"
]
Form = Literal["sealed", "open"]

# What clients seal without a scheme of the study, and how.
SEALED_BYTES: dict[str | None, str] = {"envelope": "hpke", "note": "aes-gcm"}

_READABLE_IN_OPEN = ("features", "buckets")


@dataclass(frozen=True)
class Value:
    """A kind of value.

    Parameters
    ----------
    vector : str or None
        The kind of sealed vector; None if the value is sent unsealed.
    holder, other : str
        What clients see of it: those that hold the sample or feature, and the others.
    open_only : bool
        Whether it may be sent only in the open profile.
    """

    what: str
    vector: Vector | None
    holder: str
    other: str = "nothing"
    open_only: bool = False

    def admits(self, form: Form, profile: Profile) -> bool:
        """Return whether the server may see the value in this form."""
        if self.vector is None:
            return profile == "open" or not self.open_only
        if form == "sealed":
            return True
        return profile == "open" and self.vector in _READABLE_IN_OPEN

    def server(self, profile: Profile) -> str:
        """Return one word for what the server sees."""
        if not self.admits("open", profile):
            return "nothing" if self.vector is None else "sealed"
        return "open"


_OWN = "their own samples'"
_FEATURES = "their own features'"
_RECEIVER = "the receiver"
_HOLDERS = "all clients"
_ASKER = "the asker, which holds the row"

VALUES: dict[str, Value] = {
    # By sample
    "row norms": Value("squared lengths of rows", "samples", _OWN),
    "margins": Value("margins, and parts of them", "samples", f"{_OWN}, with labels"),
    "labels": Value(
        "labels that holders lack, with weights and offsets",
        "samples",
        f"{_OWN}, with labels",
    ),
    "sample weights": Value(
        "weights of samples, for holders without labels", "samples", _OWN
    ),
    "duals": Value("duals", "samples", _OWN),
    "dual changes": Value("changes of duals", "samples", _OWN),
    "probe margins": Value("margins of random weights", "samples", _OWN),
    "score parts": Value("parts of requested scores", "samples", "nobody else's"),
    "scores": Value("requested scores", "samples", _ASKER),
    "cell counts": Value("number of cells in a score", "samples", _ASKER),
    "held-out parts": Value(
        "parts of scores of rows set aside", "samples", "nobody else's"
    ),
    "held-out scores": Value(
        "scores of rows set aside", "samples", "the one that has the row's label"
    ),
    # By feature
    "weights": Value("weights, as sums of shares", "features", _FEATURES),
    "shares": Value("each client's share of the weights", "features", "nobody else's"),
    "slopes": Value("slopes of cutting planes", "features", f"{_FEATURES}, by bucket"),
    "probe shares": Value("weights of random margins", "features", _FEATURES),
    "statistics": Value("counts and sums for scaling", "statistics", _FEATURES),
    "level counts": Value("rows of each level", "statistics", _FEATURES),
    "trial weights": Value("weights of a trial point", None, _FEATURES, open_only=True),
    "released weights": Value("weights of the model", None, "the model", "the model"),
    "released scaling": Value("scaling of the model", None, "the model", "the model"),
    "released levels": Value("names of levels", None, "the model", "the model"),
    # Totals
    "losses": Value("sum of a client's losses", "totals", "nobody else's"),
    "client targets": Value("sums of a client's targets", "totals", "nobody else's"),
    "target totals": Value("sums of all targets", "totals", "all clients with labels"),
    "client weights": Value("sums of a client's weights", "totals", "nobody else's"),
    "weight totals": Value(
        "sums of all weights, by class", "totals", "all clients with labels"
    ),
    "fold weights": Value("a client's weight by fold", "totals", "nobody else's"),
    "fold shares": Value("shares of the folds in all weight", None, "all clients"),
    "products": Value("inner products of feature sums", "totals", "nobody else's"),
    "offsets": Value("offsets and balances of planes", "buckets", "nobody else's"),
    "grand totals": Value("totals of all clients", "totals", "the one that opens them"),
    "tags": Value("combinations of pads of totals", "totals", "the witness"),
    "sums of tags": Value(
        "combinations of the pads of all clients' totals", None, "the witness"
    ),
    "P and D": Value("P and D, or a length", None, "the one that opens them"),
    "step totals": Value(
        "D or curvature along a direction", None, "the one that opens them"
    ),
    "search totals": Value(
        "P along a search, or its parts by fold", None, "the one that opens them"
    ),
    "Gram and offsets": Value(
        "offsets and balances by bucket, products of slopes",
        None,
        "the one that opens them",
    ),
    "evaluation parts": Value(
        "a client's sums over rows set aside", "totals", "nobody else's"
    ),
    "evaluation totals": Value(
        "sums over all rows set aside: losses, errors, rows by class and score",
        None,
        "the one that opens them",
    ),
    # Sent by the server, or public
    "schemes": Value("how vectors are sealed", None, _RECEIVER),
    "group numbers": Value("numbers of owner groups", None, _OWN),
    "bucket numbers": Value("numbers of buckets", None, _OWN),
    "holders": Value("who else holds the same", None, _OWN),
    "holder counts": Value("holders per sample or feature", None, _OWN),
    "positions": Value("which samples are drawn or sent", None, _OWN),
    "grids": Value("grids of numbers", None, _RECEIVER),
    "factors": Value("factors of steps", None, _OWN),
    "intercepts": Value("intercepts of trial points", None, _RECEIVER),
    "steps": Value("steps and where planes touch", None, _RECEIVER),
    "plane weights": Value("weights of planes", None, _RECEIVER),
    "plane lengths": Value("lengths of slopes", None, _RECEIVER),
    "path": Value(
        "which strengths are tried at a point, and the largest", None, "all clients"
    ),
    "random start": Value("random weights to start from", None, _FEATURES),
    "bounds": Value(
        "bounds on rows, weights and targets, as powers of two", None, "nobody else's"
    ),
    "score bins": Value("where bins of scores end", None, "all clients with labels"),
    "calibration points": Value(
        "intercept and slope of a calibration", None, "all clients with labels"
    ),
    "label holders": Value("who has the label of a row set aside", None, _OWN),
    "model tags": Value("proofs of which model was sent", None, "all clients"),
    "numbers": Value("counters and flags", None, _RECEIVER),
    "algorithm": Value("which algorithm runs", None, "all clients"),
    "run settings": Value("which run it is, and its settings", None, "all clients"),
    "study": Value("hash of the study file", None, "all clients", "all clients"),
    "certificate": Value("the certified gap", None, "all clients"),
    "model": Value("the released model", None, "all clients"),
    # Alignment
    "pseudonyms": Value("keyed pseudonyms of IDs", None, "nobody else's"),
    "form pseudonyms": Value(
        "keyed pseudonyms of IDs in simpler forms, by no row", None, "nobody else's"
    ),
    "feature names": Value("names of features, or pseudonyms", None, "nobody else's"),
    "feature kinds": Value("which columns are categories or dates", None, _FEATURES),
    "class names": Value("names of classes", None, "all clients", "all clients"),
    "class pseudonyms": Value(
        "keyed pseudonyms of classes beside the positive one", None, "nobody else's"
    ),
    "label tokens": Value(
        "keyed tokens of ID and label, or that there is none", None, "nobody else's"
    ),
    "cell tokens": Value("keyed tokens of cells held twice", None, "nobody else's"),
    "cell hints": Value("how to round cells held twice", "note", _OWN),
    "blank cells": Value(
        "which cells a client has blank", "note", "another holder of these cells"
    ),
    "filled cells": Value(
        "values of cells that a client has blank", "note", "that client"
    ),
    "level tokens": Value("keyed tokens of levels", None, "nobody else's"),
    "level numbers": Value("numbers of levels by column", None, _FEATURES),
    "placement": Value("who counts which rows and columns", None, _OWN),
    # Predictions of split rows
    "asked pseudonyms": Value("keyed pseudonyms of requested rows", None, _HOLDERS),
    "blinded IDs": Value("a holder's IDs, blinded by it", None, "the asker"),
    "evaluated IDs": Value(
        "a holder's blinded IDs under the asker's key", None, "that holder"
    ),
    "prediction request": Value("who asks, for how many rows", None, _HOLDERS),
    "prediction refusal": Value("why a request is refused", None, "the asker"),
    "model digest": Value("a digest of the model", None, _HOLDERS),
    # Keys
    "scheme parameters": Value("public parameters of schemes", None, "all clients"),
    "keys": Value("the study's keys", "envelope", "all clients", "all clients"),
    "set secrets": Value(
        "secrets of those who hold the same", "envelope", "the members of the set"
    ),
    "key tags": Value("proofs of keys", None, "all clients", "all clients"),
    "members": Value("who is present", None, _HOLDERS, _HOLDERS),
    "accounts": Value(
        "digests of what all clients are sent alike", None, _HOLDERS, _HOLDERS
    ),
}
