"""Refuses classes of labels that do not fit together, in one sentence each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from hyfdca.data.labels import ClassNames
from hyfdca.data.tables import first_twins
from hyfdca.stages.alignment.checks import AlignmentError, listed_names
from hyfdca.stages.alignment.messages import AlignmentSettings


def check_linked(names: Sequence[str], classes: Sequence[Sequence[str]]) -> None:
    """Refuse classes of two clients with none in common, directly or through others.

    One may write 0 and 1 where the other writes no and yes. A client with a single
    class proves nothing.
    """
    several = [client for client, own in enumerate(classes) if len(own) > 1]
    linked = set(classes[several[0]]) if several else set[str]()
    rest = several[1:]
    while more := [client for client in rest if linked & {*classes[client]}]:
        linked.update(*(classes[client] for client in more))
        rest = [client for client in rest if client not in more]
    if rest:
        one, other = several[0], rest[0]
        raise AlignmentError(
            f"The labels of {names[one]!r}, such as {_quoted(classes[one])}, and those "
            f"of {names[other]!r}, such as {_quoted(classes[other])}, have none in "
            "common; write them alike in all tables, or set max_classes = "
            f"{len({*chain(*classes)})} if all of them are different classes."
        )


def check_linked_to_positive(
    names: Sequence[str],
    classes: Sequence[ClassNames],
    others: Sequence[AbstractSet[bytes] | None],
    positive: str,
) -> None:
    """Refuse a client without the positive label, if nobody with it has its classes.

    All its rows would count as negative, although its 1 may be another client's yes.

    Parameters
    ----------
    others : sequence of sets
        Pseudonyms of each client's classes beside the positive one; None if unknown.
    """
    has_positive = [positive in own.names for own in classes]
    anchors = [k for k, has in enumerate(has_positive) if has and others[k] != set()]
    known = [own for k in anchors if (own := others[k]) is not None]
    if not known or len(known) < len(anchors):
        return
    linked, rest = set[bytes]().union(*known), list[int]()
    for client, own in enumerate(others):
        if own and not has_positive[client]:
            rest.append(client)
    while more := [client for client in rest if linked & (others[client] or set())]:
        linked.update(*(others[client] or set() for client in more))
        rest = [client for client in rest if client not in more]
    if rest:
        n_classes = 1 + len(linked.union(*(others[client] or set() for client in rest)))
        raise AlignmentError(
            f"The labels of {names[anchors[0]]!r} and those of {names[rest[0]]!r} have "
            f"none in common, and {names[rest[0]]!r} has no row with the "
            f"positive_label {positive!r}; write them alike in all tables, or set "
            f"max_classes = {n_classes} if all of them are different classes."
        )


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names[:2]))


def check_classes(
    classes: Sequence[str], settings: AlignmentSettings, n_samples: int
) -> None:
    """Refuse classes that are too many or too few."""
    limit, positive = settings.n_classes_allowed, settings.positive
    if len(classes) > limit:
        raise AlignmentError(
            f"The organisations have {len(classes)} classes together, more than "
            f'{limit}; choose a loss for numbers such as "squared", name a '
            "positive_label or raise max_classes."
        )
    if positive is not None and positive not in classes:
        raise AlignmentError(
            f"No row has the positive_label {positive!r}; set positive_label to a "
            "label that the tables have, or leave it out."
        )
    _check_class_weight(classes, settings)
    if len(classes) < 2:
        raise AlignmentError(
            f"All {n_samples} rows have the same label; give the classifier rows of "
            "two classes at least."
        )


def check_spelling(names: Sequence[str], classes: Sequence[Collection[str]]) -> None:
    """Refuse classes that differ only in capitals or blanks; name their holders."""
    holders: dict[str, list[str]] = {}
    for name, own in zip(names, classes, strict=True):
        for label in own:
            holders.setdefault(label, []).append(repr(name))
    if twins := first_twins(sorted(holders)):
        first, second = (f"{twin!r} of {listed_names(holders[twin])}" for twin in twins)
        raise AlignmentError(
            f"The labels {first} and {second} differ only in capitals or blanks; "
            "write them alike in all tables."
        )


def _check_class_weight(classes: Sequence[str], settings: AlignmentSettings) -> None:
    """Refuse class weights for unknown classes, or that leave no class."""
    weights = settings.targets.class_weight
    if weights is None or weights == "balanced":
        return
    strangers = sorted(set(weights) - set(classes))
    if strangers:
        raise AlignmentError(
            f"The class_weight names {strangers[0]!r}, but the classes are "
            f"{listed_names([repr(name) for name in classes])}; correct the study file."
        )
    if not any(weights.get(name, 1.0) for name in classes):
        raise AlignmentError(
            "The class_weight of every class is 0; give some class a weight above 0."
        )
