"""The server's side of a study: leads its members through the stages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

from hyfdca.algorithms.registry import Choice
from hyfdca.arrays import TokenArray
from hyfdca.crypto.schemes.registry import Adders, new_group_secret
from hyfdca.data.labels import n_outputs
from hyfdca.errors import StudyError
from hyfdca.federation.blame import sums_of
from hyfdca.federation.server import Federation
from hyfdca.holdings.layout import Layout, with_bias
from hyfdca.model.scaling import Scaling, TargetScaling
from hyfdca.protocol.server_session import Conversation, ServerSession, reply_of
from hyfdca.runtime.driver import Driver, Traffic
from hyfdca.stages.alignment import messages as alignment_messages
from hyfdca.stages.alignment.held_out import TrainedRows
from hyfdca.stages.alignment.server import Alignment, AlignmentServer
from hyfdca.stages.groups import PHASES as GROUP_PHASES
from hyfdca.stages.groups import holder_sets, share_secrets
from hyfdca.stages.keys import messages as key_messages
from hyfdca.stages.keys.server import agree_again
from hyfdca.stages.labels import messages as label_messages
from hyfdca.stages.labels.server import LabelServer
from hyfdca.stages.levels.features import Levels, levels_of_numbers
from hyfdca.stages.levels.messages import PHASES as LEVEL_PHASES
from hyfdca.stages.levels.server import LevelsServer
from hyfdca.stages.scaling.messages import PHASES as SCALING_PHASES
from hyfdca.stages.scaling.server import ScalingServer
from hyfdca.study import messages as m
from hyfdca.study.costs import StageCost, StageCosts, total_traffic
from hyfdca.study.plan import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Prepared:
    """What a server knows before training.

    Parameters
    ----------
    held_out : Alignment, optional
        Who holds the rows that are set aside.
    """

    levels: Levels
    scaling: Scaling
    target: TargetScaling
    federation: Federation
    choice: Choice
    costs: StageCosts
    adders: Adders
    held_out: Alignment | None = None


class StudyServer:
    """Lets members agree on keys, align their tables, and scale them.

    Parameters
    ----------
    driver : callable
        Returns the driver that carries the requests of a stage.
    session : ServerSession
        Numbers the requests of all stages.
    group_secret : bytes, optional
        Determines the numbers of owner groups; replaying a study needs the same one.
    """

    def __init__(
        self,
        plan: Plan,
        driver: Callable[[str], Driver],
        session: ServerSession,
        group_secret: bytes | None = None,
    ) -> None:
        self._plan, self._driver, self._session = plan, driver, session
        self._group_secret = group_secret or new_group_secret()
        self.costs: StageCosts = {}
        self._layout: Layout | None = None  # once it is known
        self._pseudonyms: list[TokenArray] = []  # of training rows, by client

    @property
    def traffic(self) -> Traffic:
        """The traffic of all stages so far."""
        return total_traffic(cost.traffic for cost in self.costs.values())

    @property
    def _everyone(self) -> range:
        return range(len(self._plan.names))

    def prepare(self, holders: Collection[int] = ()) -> Prepared:
        """Run all stages before training.

        Parameters
        ----------
        holders : collection of int
            The clients that already have the study's keys.

        Raises
        ------
        AlignmentError
            If the tables cannot be aligned.
        """
        adders = self.agree(holders)
        columns = self.align()
        held_out = self.align_held_out(columns)
        self.share_secrets(columns)
        target = self.share_labels(columns, adders)
        levels = self.agree_levels(columns, adders)
        scaling = self.scale(levels, adders)
        federation = self._federation(levels.alignment, adders)
        choice = self._plan.training.choose(federation)
        self._start(choice)
        return Prepared(
            levels, scaling, target, federation, choice, self.costs, adders, held_out
        )

    def agree(self, holders: Collection[int] = ()) -> Adders:
        """Let all members agree on the same keys; return the adders."""
        self._session.enter(key_messages.PHASES)
        return self._run("keys", self._agreed(holders))

    def _agreed(self, holders: Collection[int]) -> Conversation[Adders]:
        public = yield from agree_again(self._session, self._everyone, holders)
        adders = Adders(self._plan.encryption, public, self._group_secret)
        with reply_of(min(holders, default=0)):  # who gave the parameters
            adders.make_all()
        return adders

    def align(self) -> Alignment:
        """Match rows by ID and columns by name; the result depends on no key."""
        plan = self._plan
        self._session.enter(alignment_messages.PHASES)
        server = AlignmentServer(plan.names, plan.alignment, self._session)
        alignment = self._run("alignment", server.run())
        self._layout = alignment.layout
        self._pseudonyms = server.pseudonyms
        return alignment

    def align_held_out(self, columns: Alignment) -> Alignment | None:
        """Match the rows that are set aside, if there are any, like the others."""
        trained = TrainedRows(columns.classes, self._pseudonyms)
        self._pseudonyms = []  # large, and no longer needed
        if not self._plan.evaluation.rule:
            return None
        self._check_level_names(columns.named("category"))
        settings = self._plan.alignment.of_held_out_rows
        self._session.enter(alignment_messages.PHASES)
        server = AlignmentServer(self._plan.names, settings, self._session, trained)
        return self._run("held-out rows", server.run())

    def _check_level_names(self, categories: tuple[str, ...]) -> None:
        """Refuse rows set aside whose levels the model will not name."""
        if categories and not self._plan.levels.releases_names:
            raise StudyError(
                "The study sets rows aside and has release_level_names = false, but "
                f"they have no score without the levels of {categories[0]!r}; set "
                "release_level_names = true, or leave [evaluation] out."
            )

    def share_secrets(self, columns: Alignment) -> None:
        """Let holders of the same rows or columns share a secret."""
        if self._plan.encryption.scheme == "none":
            return
        self._session.enter(GROUP_PHASES)
        sets = holder_sets(columns.layout)
        self._run("groups", share_secrets(self._session, sets))

    def share_labels(self, alignment: Alignment, adders: Adders) -> TargetScaling:
        """Let members learn the labels, weights and target scale that they lack."""
        self._session.enter(label_messages.PHASES)
        targets = self._plan.alignment.targets
        server = LabelServer(alignment, targets, adders, self._session)
        return self._run("labels", server.run())

    def agree_levels(self, columns: Alignment, adders: Adders) -> Levels:
        """Let the holders of categories agree on their levels, if there are any."""
        if not columns.is_category.any():
            return levels_of_numbers(columns)
        self._session.enter(LEVEL_PHASES)
        server = LevelsServer(columns, self._plan.levels, adders, self._session)
        return self._run("levels", server.run())

    def scale(self, levels: Levels, adders: Adders) -> Scaling:
        """Let every member scale its own numbers, after the sums that this needs."""
        plan, n_samples = self._plan, levels.columns.layout.samples.n_items
        self._session.enter(SCALING_PHASES)
        server = ScalingServer(levels.numbers, n_samples, adders, self._session)
        self._run("scaling", server.run(plan.scale, plan.missing, plan.is_centred))
        return levels.scaling(self._run("scaling", server.release()))

    def _federation(self, alignment: Alignment, adders: Adders) -> Federation:
        plan, layout = self._plan, alignment.layout
        if plan.bias is not None:
            layout = with_bias(layout)
        width = n_outputs(alignment.classes)
        return Federation(
            plan.training.problem(layout.samples.n_items, width),
            layout,
            adders,
            self._session,
            is_complete=plan.participation.is_complete,
            seed=plan.training.seed,
        )

    def _start(self, choice: Choice) -> None:
        """Tell the members which algorithm runs."""
        algorithm = choice.algorithm
        self._session.enter({**m.START_PHASES, **algorithm.all_phases()})
        notices = dict.fromkeys(self._everyone, m.StartNotice(algorithm.name))
        self._run("training", self._session.tell("start", notices))

    def _run(self, stage: str, conversation: Conversation[T]) -> T:
        cost = self.costs.setdefault(stage, StageCost())
        blaming = nullcontext() if self._layout is None else sums_of(self._layout)
        with cost.timed(), blaming:
            return self._driver(stage).run(conversation, cost.traffic)
