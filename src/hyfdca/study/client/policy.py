"""A member's own policy: what it never gives, whatever a study file says.

The study file is an agreement of all organisations. ``policy.toml`` in a member's kit
is its own business. It is read before the member's first answer, and restricts what the
study file allows. Nothing of it is sent, except the sentence
that says why the member refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from hyfdca.data.tables import Table, normalised
from hyfdca.errors import StudyError, counted, plain_mistake
from hyfdca.files import read_limited
from hyfdca.study.mistakes.alternatives import alternatives
from hyfdca.study.plan import Plan
from hyfdca.study.toml_files import parsed_toml

POLICY = "policy.toml"

_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
_MOST_BYTES = 100_000

COMMENTED = """\
# What this organisation never gives, whatever a study file says. Remove the # in front
# of a line to set a limit. hyfdca reads this file at every start and sends none of it;
# where it rules out a request, the server gets the reason in one sentence.

# The least number of this organisation's rows that are added up in a sum: the rows of a
# bucket (bundle), the rows drawn per round (hyfdca), the rows of the table, and those
# that it counts of a column, and of its labels: of rows that others hold too, one of
# the holders counts.
# least_rows = 20

# The most rounds times outputs (1, or the number of classes if there are more than two)
# that this organisation takes part in, over all runs of a study. A run is refused if
# its max_rounds is more than what is left.
# most_rounds = 1000

# Columns that take part in no study and no prediction.
# never_offer = ["name", "date of birth"]

# The organisations that get predictions of split rows with this one's help. Without
# this line, they are those that the study file lets ask.
# predictions_for = ["city", "coast"]
"""


class MemberPolicy(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True
):
    """The limits that a member sets for itself; by default none.

    Parameters
    ----------
    least_rows : int
        The least number of its own rows in every sum that it contributes to.
    most_rounds : int, optional
        Rounds times outputs that it takes part in, over all runs of a study.
    never_offer : list of str
        Columns that never take part in anything.
    predictions_for : list of str, optional
        The organisations that get predictions of split rows with its help.
    """

    least_rows: _AtLeastOne = 1
    most_rounds: _AtLeastOne | None = None
    never_offer: list[str] = []
    predictions_for: list[str] | None = None

    def check_rounds(self, plan: Plan, n_outputs: int, n_taken: int = 0) -> None:
        """Refuse a run that may have more rounds than the member takes part in.

        Parameters
        ----------
        n_taken : int
            Rounds times outputs that it took part in before this run.

        Raises
        ------
        StudyError
        """
        n_outputs *= n_fits(plan)
        most, n_rounds = self.most_rounds, plan.training.max_rounds
        if most is None or n_taken + n_rounds * n_outputs <= most:
            return
        earlier = f" after {n_taken} that it took part in" if n_taken else ""
        raise StudyError(
            f"Its {POLICY} allows {counted(most, 'round')} times outputs, but run "
            f"{plan.run.number} has {n_rounds} times {n_outputs}{earlier}; lower "
            f"max_rounds {_where(plan)}."
        )

    def check_table(self, table: Table) -> None:
        """Refuse to take part with a column that is never offered.

        Raises
        ------
        StudyError
        """
        self.check_names(table.features)

    def check_rows(self, n_rows: int) -> None:
        """Refuse a table with too few rows for any sum.

        Raises
        ------
        StudyError
        """
        if 0 < n_rows < self.least_rows:
            raise StudyError(
                f"Its {POLICY} wants at least {self.least_rows} rows in every sum, but "
                f"its table has {n_rows}; lower least_rows."
            )

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse columns that are never offered.

        Raises
        ------
        StudyError
        """
        never = set(map(normalised, self.never_offer))
        if offered := [name for name in names if name in never]:
            raise StudyError(
                f"Its {POLICY} never offers the column {offered[0]!r}, which its table "
                "has; name it in ignore in the study file, or remove it from the table."
            )

    def accepted_askers(self, own: str, names: Collection[str]) -> frozenset[str]:
        """Return who gets predictions with this member's help, itself included.

        Raises
        ------
        StudyError
        """
        if self.predictions_for is None:
            return frozenset(names)
        strangers = sorted(set(self.predictions_for) - set(names))
        if strangers:
            raise StudyError(
                f"The {POLICY} names {strangers[0]!r} in predictions_for, which is not "
                f"an organisation of the study; they are {', '.join(names)}."
            )
        return frozenset({own, *self.predictions_for})


def is_by_policy(reason: str) -> bool:
    """Return whether a member refuses because of its own policy."""
    return f"its {POLICY} " in reason.replace("Its ", "its ")


def _where(plan: Plan) -> str:
    """Return where the rounds of a run can be changed."""
    tuning = plan.file.tuning
    if tuning is None or tuning.max_rounds is None:
        return "in the study file"
    return "with --tune max_rounds, or in the study file"


def n_fits(plan: Plan) -> int:
    """Return how many fits may have a point in each round."""
    return 1 if plan.training.path is None else plan.training.path.n_fits


def write_policy_of(folder: Path) -> None:
    """Write the policy of a new kit, which sets no limits yet."""
    (folder / POLICY).write_text(COMMENTED, encoding="utf-8")


def read_policy_of(folder: Path) -> MemberPolicy:
    """Return the policy in a member's kit; without the file there are no limits.

    Raises
    ------
    StudyError
    """
    path = folder / POLICY
    if not path.exists():
        return MemberPolicy()
    content = read_limited(path, _MOST_BYTES, "correct it, or remove it")
    raw = parsed_toml(content, f"The policy {path}")
    try:
        return msgspec.convert(raw, MemberPolicy)
    except msgspec.MsgspecError as error:
        raise StudyError(
            f"The policy {path} has a mistake{plain_mistake(error)}"
            f"{alternatives(error, MemberPolicy)}; correct it."
        ) from None
