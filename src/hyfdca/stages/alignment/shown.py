"""What clients have shown about their rows, columns and labels, checked one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import ByteArray, TokenArray
from hyfdca.crypto.keys.pseudonyms import NO_WEIGHT, name_digests
from hyfdca.data.labels import ClassNames
from hyfdca.protocol.codec import RemoteProtocolError, unpack_tokens
from hyfdca.stages.alignment import messages as m
from hyfdca.stages.alignment.kinds import unpack_kinds
from hyfdca.stages.alignment.label_rows import LabelRows
from hyfdca.stages.alignment.matching import Matched, unpack_pseudonyms


@dataclass(frozen=True)
class Shown:
    """What a client has shown, checked as far as possible without the others."""

    pseudonyms: TokenArray
    names: tuple[str, ...]
    features: TokenArray
    label_tokens: TokenArray | None
    classes: ClassNames
    kinds: ByteArray
    has_blanks: bool
    other_classes: frozenset[bytes] | None = None  # keyed pseudonyms


def read_shown(reply: m.Rows, settings: m.AlignmentSettings) -> Shown:
    """Return what a client has shown, or raise ``RemoteProtocolError``."""
    pseudonyms = unpack_pseudonyms(reply.pseudonyms)
    labels = reply.label_tokens
    tokens = None if labels is None else unpack_tokens(labels, len(pseudonyms))
    is_hidden = reply.hidden_features is not None
    if settings.hide_feature_names != is_hidden or (is_hidden and reply.features):
        raise RemoteProtocolError("feature names are not as hidden as the study says")
    if reply.hidden_features is None:
        names, features = tuple(reply.features), name_digests(reply.features)
    else:
        features = unpack_pseudonyms(reply.hidden_features)
        names = tuple(f"{a:016x}{b:016x}" for a, b in features.tolist())
    has_labels = tokens is not None and bool(np.any(tokens > NO_WEIGHT))
    classes = _classes(reply, settings, has_labels)
    kinds = unpack_kinds(reply.kinds, len(names))
    others = _other_classes(reply, settings, classes)
    return Shown(
        pseudonyms, names, features, tokens, classes, kinds, reply.has_blanks, others
    )


def label_rows_of(shown: Sequence[Shown], rows: Matched) -> LabelRows:
    """Return what the clients' tokens show about the rows."""
    tokens = [
        None if own.label_tokens is None else own.label_tokens[order]
        for own, order in zip(shown, rows.orders, strict=True)
    ]
    return LabelRows(rows.axis, tokens)


def names_of(shown: Sequence[Shown], columns: Matched) -> tuple[str, ...]:
    """Return the names of all features, in the order of their axis."""
    names = np.empty(columns.axis.n_items, dtype=object)
    each = zip(shown, columns.axis.items, columns.orders, strict=True)
    for own, items, order in each:
        names[items] = np.array(own.names, dtype=object)[order]
    return tuple(names)


def _classes(
    reply: m.Rows, settings: m.AlignmentSettings, has_labels: bool
) -> ClassNames:
    """Return the classes of a client, if they fit the task."""
    names, positive = set(reply.classes), settings.positive
    if settings.task == "regression" or not has_labels:
        is_possible = not names and not reply.has_rest
    elif positive is None:
        is_possible = bool(names) and not reply.has_rest
    else:
        n_others = len(names - {positive})
        is_possible = n_others == 0 if reply.has_rest else n_others < 2 and bool(names)
    if not is_possible or len(names) < len(reply.classes):
        raise RemoteProtocolError("its classes do not fit the task")
    return ClassNames(tuple(reply.classes), reply.has_rest)


def _other_classes(
    reply: m.Rows, settings: m.AlignmentSettings, classes: ClassNames
) -> frozenset[bytes] | None:
    """Return the pseudonyms of a client's classes but the positive one, if shown."""
    if reply.other_classes is None:
        return None
    pseudonyms = unpack_pseudonyms(reply.other_classes)
    found = frozenset(own.tobytes() for own in pseudonyms)
    n_named = len({*classes.names} - {settings.positive})
    fits = len(found) > 1 if classes.has_rest else len(found) == n_named
    is_possible = settings.positive is not None and fits
    n_shown = len(pseudonyms)
    if not is_possible or not len(found) == n_shown <= m.MOST_COMPARED_CLASSES:
        raise RemoteProtocolError("the pseudonyms of its classes do not fit them")
    return found
