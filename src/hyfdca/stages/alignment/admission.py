"""What a client accepts of what a server says about its place among the others."""

from __future__ import annotations

from dataclasses import dataclass

from hyfdca.arrays import BoolArray, IntArray
from hyfdca.stages.alignment.aligned_table import AlignedTable


@dataclass(frozen=True, repr=False)
class Placement:
    """What a server says about a client's place, before the client accepts it.

    Parameters
    ----------
    rows, columns : arrays
        The client's own rows and columns, in the study's order.
    is_rounded : array (rows,) of bool
        Whose label, weight and offset are rounded.
    """

    aligned: AlignedTable
    rows: IntArray
    columns: IntArray
    is_rounded: BoolArray


class Admission:
    """Decides whether a client goes along with a server; this one always does."""

    def place(self, placement: Placement) -> None:
        """Accept a placement.

        Raises
        ------
        RemoteProtocolError
        """

    def share(self, partner: int, rows: IntArray, columns: IntArray) -> None:
        """Accept that another client holds these of the client's rows and columns too.

        Raises
        ------
        RemoteProtocolError
        """
