"""Checks rows that are set aside against the training rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hyfdca.arrays import BoolArray, TokenArray
from hyfdca.data.labels import ClassNames
from hyfdca.errors import counted
from hyfdca.stages.alignment.checks import AlignmentError
from hyfdca.stages.alignment.matching import n_common

_REMEDY = "change holdout, salt or the holdout_column, or leave [evaluation] out"


@dataclass(frozen=True)
class TrainedRows:
    """What is known about the training rows when those set aside are aligned.

    Parameters
    ----------
    classes : tuple of str
        Empty for regression.
    pseudonyms : sequence of arrays (rows, 2)
        Pseudonyms of each client's training rows, under the same key.
    """

    classes: tuple[str, ...]
    pseudonyms: Sequence[TokenArray]

    def check_apart(self, names: Sequence[str], held_out: Sequence[TokenArray]) -> None:
        """Refuse rows that one holder sets aside and another trains on.

        Raises
        ------
        AlignmentError
        """
        if not n_common(np.concatenate(self.pseudonyms), np.concatenate(held_out)):
            return
        for name, own in zip(names, held_out, strict=True):
            for other, trained in zip(names, self.pseudonyms, strict=True):
                n_both = n_common(own, trained)
                if n_both:
                    raise AlignmentError(
                        f"Organisation {name!r} sets {counted(n_both, 'row')} aside "
                        f"that {other!r} has as rows to train on; make the "
                        "holdout_column the same at all organisations."
                    )

    def check_classes(self, own: Iterable[ClassNames], positive: str | None) -> None:
        """Refuse a class that has no training rows, or no rows set aside.

        Raises
        ------
        AlignmentError
        """
        shown = list(own)
        found = {name for each in shown for name in each.names}
        if positive is not None:
            has_rest = any(each.has_rest for each in shown)
            is_there = (bool(found - {positive}) or has_rest, positive in found)
            pairs = zip(self.classes, is_there, strict=True)
            lacking = [name for name, is_known in pairs if not is_known]
            strange: list[str] = []
        else:
            lacking = [name for name in self.classes if name not in found]
            strange = sorted(found - set(self.classes))
        if strange:
            raise AlignmentError(
                f"All rows of the class {strange[0]!r} are set aside, so that no model "
                f"can be trained to find it; {_REMEDY}."
            )
        if lacking:
            raise AlignmentError(
                f"No row of the class {lacking[0]!r} is set aside, so that the model "
                f"cannot be tested on it; {_REMEDY}."
            )


def check_some_held_out(is_labelled: BoolArray) -> None:
    """Refuse to test a model on no rows.

    Raises
    ------
    AlignmentError
    """
    if not len(is_labelled):
        raise AlignmentError(
            "No row is set aside; raise holdout, change salt or the holdout_column, or "
            "leave [evaluation] out."
        )
    if not is_labelled.any():
        raise AlignmentError(
            f"None of the {counted(len(is_labelled), 'row')} set aside has a label and "
            f"a weight above 0; {_REMEDY}."
        )
