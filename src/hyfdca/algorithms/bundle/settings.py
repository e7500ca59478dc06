"""How the bundle method runs: its settings, and the points that it looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from hyfdca.algorithms.bundle import messages as b
from hyfdca.federation.algorithm import Algorithm, Needs

# Where between the best point (0) and the trial point (1) new planes touch the loss.
PLACES = (0.0, 0.1, 0.3, 1.0)

# On a path many points bring planes, and each of them serves all fits.
PATH_PLACES = (0.0, 0.3)

# On visits: from the last margins (0) to the new ones (1) and beyond.
VISIT_PLACES = (1.0, 2.0, 4.0, 8.0)

# On wide data vertices are poor: rows share few features, and each has its own dual to
# find. There half of the planes are coordinate steps from the present duals.
WIDE_PLACES = (1.0, 0.1)
WIDE_CANDIDATES = (b.Candidate(0.2, 2.0), b.Candidate(0.5, 5.0))

# Steps from the best point; beyond the trial point, since w often falls short.
TRIAL_STEPS = np.concatenate(
    [[0.0], 2.0 ** np.arange(-7, -1), [0.375, 0.5, 0.75, 1.0, 1.4, 2.0]]
)

_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True)
class BundleSettings(Algorithm):
    """How finely samples are put in buckets; see ``buckets.py``.

    Parameters
    ----------
    min_contributors : int
        Sealed profile: clients that add up to a slope which a holder sees.
    sub_groups : int
        Open profile: parts of an owner group, each with a plane of its own.
    min_group_size : int
        Open profile: samples in such a part at least.
    max_buckets : int
        Neighbouring groups are merged down to this number. More than 125 save few
        rounds and make the server's programme slow.
    """

    frees_intercept: ClassVar[bool] = True
    takes_offsets: ClassVar[bool] = True

    min_contributors: _AtLeastOne = 3
    sub_groups: _AtLeastOne = 1
    min_group_size: _AtLeastOne = 20
    max_buckets: _AtLeastOne = 125

    @property
    def needs(self) -> Needs:
        """Rounds give the certificate, so measuring needs no client."""
        return Needs(measuring="nobody")
