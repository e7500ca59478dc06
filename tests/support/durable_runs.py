"""Studies in one process whose parties keep everything and may crash."""

import math
from itertools import islice

import msgspec

from hyfdca.crypto.keys.identity import Identity
from hyfdca.crypto.keys.roster import Roster, RosterEntry
from hyfdca.runtime.faulty import Faults, FaultyNetwork
from hyfdca.runtime.store import Archive, MemoryStore, SealedStore
from hyfdca.study.client.client import StudyClient
from hyfdca.study.evaluating import STAGE, evaluator_of
from hyfdca.study.file import load
from hyfdca.study.identity import study_hash
from hyfdca.study.local.run import Consortium as Parties
from hyfdca.study.local.run import Run
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import conclude
from hyfdca.study.plan import plan_of
from hyfdca.study.presence import Presence
from hyfdca.study.resume import ResumableStudy
from hyfdca.study.tables import table_of
from hyfdca.study.tuning import RunChoice, tuned
from tests.support.consortia import extra, make_files


def write(folder, unlabelled=False, tuning="", **settings):
    """Write a small study to a folder, with the lines of a table [tuning] if given."""
    files = make_files(**settings)
    if unlabelled:
        extra("coast", "label = false")(files)
        files.settings["labels_visible_to_holders"] = "true"
    path = files.write(folder)
    if tuning:
        path.write_text(f"{path.read_text()}[tuning]\n{tuning}\n")
    return folder


class Consortium:
    """A study's members on a faulty network, each with its own store."""

    def __init__(self, folder, faults=None, seed=0, n_tries=2):
        self.folder, self.file = folder, load(folder / "study.toml")
        clients = self.file.clients
        self.plan = plan_of(self.file, study_hash(msgspec.json.encode(self.file)))
        self.server_plan = self.plan  # of the run that the server begins or resumes
        study, tested = self.file.study, self.file.evaluation
        self.tables = [table_of(study, c, folder / c.data, tested) for c in clients]
        self.identities = [Identity.generate() for _ in clients]
        publics = (identity.public for identity in self.identities)
        entries = tuple(map(RosterEntry, self.plan.names, publics))
        self.roster = Roster(self.plan.study_hash, entries, self.plan.epoch)
        self.stores = [MemoryStore() for _ in clients]
        self.server_store = MemoryStore()
        self.sentences = []
        faults = faults or Faults()
        self.network = FaultyNetwork(self.member, len(clients), faults, seed, n_tries)

    def member(self, rank):
        """Start a member with what it kept."""
        identity = self.identities[rank]
        store = SealedStore(self.stores[rank], identity.to_bytes(), b"test")
        return StudyClient(self.plan, self.tables[rank], identity, self.roster, store)

    def hosted(self):
        """Start the server with what it kept."""
        plan, archive = self.server_plan, Archive(self.server_store)
        presence = Presence(plan, self.network, self.sentences.append)
        return ResumableStudy(plan, self.network, presence, archive).ready()

    def further(self, **chosen):
        """Let the server begin a further run when it is started next."""
        self.begin_run(RunChoice(number=self.server_plan.run.number + 1, **chosen))

    def begin_run(self, run):
        """Let the server begin this run when it is started next."""
        self.server_plan = self.plan.of_run(run)
        Archive(self.server_store).forget_after(-1)

    def begin(self, n_rounds):
        """Run some rounds, after which the server stops."""
        for _ in islice(self.hosted().runner.rounds(), n_rounds):
            pass

    def train(self):
        """Run the study to its end; return its rounds and the weights."""
        runner = self.hosted().runner
        return runner, runner.finish()

    def tested(self):
        """Run the study to its end and test its model; return the outcome."""
        hosted = self.hosted()
        for _ in hosted.runner.rounds():
            pass
        return conclude(self._run(hosted))

    def _run(self, hosted):
        prepared, driver = hosted.prepared, self.network.driver(STAGE)
        return Run(
            tuned(self.file, self.server_plan.run).study,
            Parties(self.plan.names, prepared.levels),
            prepared.scaling,
            hosted.traffic,
            hosted.runner,
            evaluator=evaluator_of(self.plan, prepared, driver),
            target=prepared.target,
        )


def undisturbed(folder):
    """Run the same study in one process, with nothing kept."""
    run = prepare(load(folder / "study.toml"), folder)
    return run.training, run.training.finish()


class ReplayedMembers:
    """The participants that a history names, measured as they were."""

    def __init__(self, history):
        """Take the participants and measurements of these rounds."""
        self._history = history

    def of_round(self, round_number):
        """Return who took part."""
        self._round = round_number
        return tuple(self._history[round_number - 1]["participants"])

    def can_measure(self, is_last):
        """Return whether the round was measured."""
        return not math.isnan(self._history[self._round - 1]["primal"])

    def are_all_present(self):
        """Return that everybody is, as a measurement tells."""
        return True

    def wait_for_all(self, because):
        """Return at once."""


def replayed(folder, history):
    """Run the rounds of a history again in one process, with nothing kept."""
    run = prepare(load(folder / "study.toml"), folder)
    run.training.members = ReplayedMembers(history)
    return run.training, run.training.finish()


COSTS = ("seconds", "round_trips", "search_round_trips", "bytes_up", "bytes_down")


def numbers(history):
    """Return a history without what it cost; none where nothing was measured."""
    hidden = {*COSTS, *(f"measuring_{cost}" for cost in COSTS), "participants"}
    return [
        (
            tuple(record["participants"]),
            {
                name: None if math.isnan(value) else value
                for name, value in record.items()
                if name not in hidden
            },
        )
        for record in history
    ]


def spoil(store, name):
    """Damage the last byte of something stored."""
    content = store.read(name)
    store.write(name, content[:-1] + bytes([content[-1] ^ 1]))
