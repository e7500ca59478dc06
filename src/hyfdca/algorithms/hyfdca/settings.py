"""The settings of the paper's method, HyFDCA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hyfdca.federation.algorithm import Algorithm
from hyfdca.federation.local.work import AtLeastOne, Fraction, Positive
from hyfdca.federation.server import Federation

Variant = Literal["practical", "theory"]
Step = Literal["auto", "paper", "safe", "line_search"]


@dataclass(frozen=True)
class HyfdcaSettings(Algorithm):
    """The settings of HyFDCA.

    Parameters
    ----------
    variant : {"practical", "theory"}
        Algorithm 5 or Algorithm 3 as the local dual method.
    step : {"auto", "paper", "safe", "line_search"}
        Curvature of a coordinate: as printed, or enlarged so that changes of several
        samples at once cannot overshoot (E4); or the printed one with an exact line
        search (``line_search.py``, complete participation only). "auto" never diverges:
        it searches where it may, else it is "safe".
    local_fraction : float
        Share of its samples that a client draws per round.
    iic : float, optional
        The paper's inner iterations constant, H = ceil(IIC N / n_clients); overrides
        ``local_fraction``.
    local_steps : int, optional
        H itself; overrides both.
    aggregation : {"constant", "decreasing"}
        γ_t = 1, or 1/t (Theorem 4).
    cap : {"printed", "largest", "one"}
        c_k of the theory variant: N_k/N, N_k/max N_j (E12), or 1 (Theorems 3 and 4).
    divide_by : {"active", "all"}
        Average over the holders present (E9) or over all holders, as printed. The
        safe step always averages over all.
    refresh : {"auto", "drawn", "all"}
        Which margins active clients send each round: those of drawn samples, as in
        the paper's experiments, or all, as in Algorithm 2. With everybody present
        both give the same duals; with few present, "drawn" leaves the cached margins
        of other samples so old that the method can diverge. "auto" is the cheap one
        under complete participation, else "all".
    second_inner_product : bool
        Algorithm 1 prints a SecureInnerProduct at the end of a round; the paper's
        experiments leave it out. It changes what clients that stay away next time
        leave behind: newer margins.
    min_rows : int
        A client shows its old share again until this many of its duals have changed,
        each by more than a thousandth of the largest change: the difference of two
        shares is then never a sum over fewer rows (E22).
    """

    advice: ClassVar[str] = "use step='auto', or draw fewer samples per round"

    variant: Variant = "practical"
    step: Step = "auto"
    local_fraction: Fraction = 1.0
    iic: Positive | None = None
    local_steps: AtLeastOne | None = None
    aggregation: Literal["constant", "decreasing"] = "constant"
    cap: Literal["printed", "largest", "one"] = "largest"
    divide_by: Literal["active", "all"] = "active"
    refresh: Literal["auto", "drawn", "all"] = "auto"
    second_inner_product: bool = False
    min_rows: AtLeastOne = 1

    def searches(self, is_complete: bool) -> bool:
        """Return whether rounds take their step by a line search."""
        if self.variant == "theory":
            return False
        if self.step == "auto":
            return is_complete and self.min_rows == 1
        return self.step == "line_search"

    def refreshes_all(self, is_complete: bool) -> bool:
        """Return whether clients send the margins of all their samples."""
        return self.refresh == "all" or (self.refresh == "auto" and not is_complete)

    def divides_by_all(self, is_complete: bool) -> bool:
        """Return whether changes are averaged over all holders, present or not."""
        return is_complete or self.is_safe or self.divide_by == "all"

    @property
    def is_safe(self) -> bool:
        """Whether curvatures are enlarged so that no step overshoots."""
        return self.step != "paper" and self.variant == "practical"

    def _check_effects(self, is_complete: bool) -> None:
        """Refuse settings that have no effect."""
        if self.aggregation != "constant" and self.searches(is_complete):
            raise ValueError(
                f"aggregation={self.aggregation!r} has no effect with the line search, "
                "which step='auto' takes if everybody is always present; use "
                "step='paper' or leave it out."
            )
        if self.cap != "largest" and self.variant != "theory":
            raise ValueError(
                f"cap={self.cap!r} belongs to variant='theory'; set both, or leave it "
                "out."
            )
        if self.second_inner_product and is_complete:
            raise ValueError(
                "second_inner_product=True has no effect if everybody is always "
                "present: every round ends with it; leave it out."
            )

    def check(self, federation: Federation) -> None:
        """Refuse steps that cannot be taken in this federation."""
        super().check(federation)
        self._check_effects(federation.is_complete)
        if self.variant == "theory" and self.step not in ("auto", "paper"):
            raise ValueError("variant='theory' brings its own step; use step='auto'.")
        if self.step == "line_search" and self.min_rows > 1:
            raise ValueError(
                "step='line_search' shows sums over the drawn rows whatever min_rows "
                "says; use step='safe' or 'paper' with min_rows."
            )
        if self.step == "line_search" and not federation.is_complete:
            raise ValueError(
                "step='line_search' needs every client in every round; use step='safe' "
                "or 'paper' under partial participation."
            )
