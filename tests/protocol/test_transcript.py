"""Clients notice a server that does not send all of them the same."""

import msgspec
import pytest

from hyfdca.algorithms.bundle.messages import FitsNotice, Move
from hyfdca.federation.messages import GridRequest
from hyfdca.protocol.codec import RemoteProtocolError
from hyfdca.protocol.messages import GridSpec, Message, TotalsSpec
from hyfdca.protocol.transcript import Transcript
from hyfdca.stages.validation.messages import SumsRequest

KEY, OTHER_KEY = bytes(32), bytes([1]) * 32
EVERYBODY = range(3)


class Clients:
    """Three transcripts, and the accounts that a server hands on."""

    def __init__(self):
        """Start with nothing noted."""
        self.transcripts = [Transcript() for _ in EVERYBODY]
        self.number, self.accounts = 0, []

    def send(self, *bits, receivers=EVERYBODY):
        """Send a request on these grids, one per receiver."""
        self.number += 1
        for client, own in zip(receivers, bits, strict=True):
            request = GridRequest(GridSpec(own, 8))
            self.transcripts[client].note(False, self.number, "norms", request)

    def take_back(self, one_differs=False):
        """End a round without the account of the last client; all return."""
        kept = [transcript.state() for transcript in self.transcripts]
        before = self.accounts
        self.send(4, 5 if one_differs else 4, 4)
        self.compare()
        self.accounts = before
        for transcript, state in zip(self.transcripts, kept, strict=True):
            transcript.go_back(state)

    def compare(self, accounts=None, is_last=False):
        """Let all compare the accounts of the last comparison and give new ones."""
        self.number += 1
        compared = self.accounts if accounts is None else accounts
        for transcript in self.transcripts:
            transcript.note(True, self.number, "keep", Message())
            transcript.compare(KEY, compared, is_last)
        self.accounts = [
            transcript.account(KEY, client, EVERYBODY)
            for client, transcript in enumerate(self.transcripts)
        ]


@pytest.fixture
def clients():
    """Return clients that have compared once."""
    made = Clients()
    made.compare()
    return made


def test_what_is_the_same_is_accepted_and_forgotten(clients):
    """It also holds if only some receive a request."""
    for _ in range(5):
        clients.send(4, 4, 4)
        clients.send(5, 5, receivers=(0, 2))
        clients.compare()
    # The last comparison itself, and what came since the one before.
    assert [len(t.state().digests) for t in clients.transcripts] == [3, 2, 3]


@pytest.mark.parametrize("delays", [0, 2])
def test_a_server_that_sends_one_client_something_else_is_noticed(delays, clients):
    """It is noticed at the next comparison, even if accounts were lost in between."""
    clients.send(4, 4, 5)
    for _ in range(1 + delays):
        clients.compare(accounts=[])
    with pytest.raises(RemoteProtocolError, match="something different from"):
        clients.compare()


def test_a_server_cannot_change_an_account(clients):
    """A server without the key cannot make both sides look alike."""
    clients.send(4, 4, 5)
    clients.compare()
    alike = msgspec.structs.replace(
        clients.accounts[2], notes=clients.accounts[0].notes
    )
    with pytest.raises(RemoteProtocolError, match="was changed"):
        clients.compare([*clients.accounts[:2], alike])


def test_an_older_account_does_not_count(clients):
    """It does not contain the last comparison."""
    older = clients.accounts
    clients.send(4, 4, 5)
    clients.compare()
    with pytest.raises(RemoteProtocolError, match="withholds"):
        clients.compare(older, is_last=True)


def test_accounts_cannot_be_withheld_for_long(clients):
    """Servers that restart lose some; others are refused."""
    for _ in range(3):
        clients.compare(accounts=clients.accounts[:2])
    with pytest.raises(RemoteProtocolError, match="withholds"):
        clients.compare(accounts=clients.accounts[:2])


def test_a_client_that_restarts_remembers_what_was_not_compared(clients):
    """A checkpoint keeps its notes, and notes made since stay."""
    clients.send(4, 4, 5)
    clients.compare(accounts=[])
    kept = clients.transcripts[0].state()
    clients.transcripts[0] = Transcript()
    clients.transcripts[0].note(True, clients.number + 1, "hello", Message())
    clients.transcripts[0].restore(kept)
    with pytest.raises(RemoteProtocolError, match="something different"):
        clients.compare()


@pytest.mark.parametrize("method", [Transcript.restore, Transcript.go_back])
def test_going_back_makes_nobody_forget(method, clients):
    """An older state does not replace the notes of a running client."""
    before = clients.transcripts[0].state()
    clients.send(4, 4, 5)
    clients.compare(accounts=[])
    method(clients.transcripts[0], before)
    with pytest.raises(RemoteProtocolError, match="something different"):
        clients.compare()


def test_rounds_that_are_taken_back_are_no_delays(clients):
    """The server never got their accounts; the last ones that it got are enough."""
    for _ in range(10):
        clients.take_back()
    for _ in range(2):
        clients.send(4, 4, 4)
        clients.compare()
    clients.compare(is_last=True)


def test_what_was_sent_in_a_round_that_is_taken_back_is_compared(clients):
    """It is compared once a round is not taken back."""
    clients.take_back(one_differs=True)
    clients.take_back()
    clients.compare()
    with pytest.raises(RemoteProtocolError, match="something different from"):
        clients.compare()


def test_who_goes_back_does_not_start_to_count_delays_again(clients):
    """The delays belong to the state that is restored."""
    for _ in range(3):
        clients.compare(accounts=[])
    clients.take_back()
    with pytest.raises(RemoteProtocolError, match="withholds"):
        clients.compare(accounts=[])


@pytest.mark.parametrize("bits", [4, 5])
def test_grids_of_several_totals_are_compared_without_their_seeds(bits, clients):
    """The client that opens totals is sent no seed, and all the same grids."""
    clients.number += 1
    for client, transcript in enumerate(clients.transcripts):
        own = bits if client == 2 else 4
        spec = TotalsSpec(own, 8, 0, 1, bytes(16) if client else b"")
        request = SumsRequest([spec, spec])
        transcript.note(False, clients.number, "validation sums", request)
    clients.compare()
    if bits == 4:
        clients.compare()
        return
    with pytest.raises(RemoteProtocolError, match="something different from"):
        clients.compare()


@pytest.mark.parametrize(
    "changed",
    [
        {"fits": [0, 2]},
        {"sources": [0, 1]},
        {"shares": (0.25, 0.75)},
        {"largest_l2": 2.0},
        {"largest_l2": None},
    ],
)
def test_all_clients_work_at_the_same_fits(changed, clients):
    """Sums of losses at different strengths or folds would be meaningless."""
    notice = FitsNotice(Move(0, [0.0]), [0, 1], [0, 0], (0.5, 0.5), 1.0)
    for client, transcript in enumerate(clients.transcripts):
        own = msgspec.structs.replace(notice, **(changed if client == 2 else {}))
        transcript.note(False, 10**6, "fits", own)
    clients.number = 10**6
    clients.compare()
    with pytest.raises(RemoteProtocolError, match="something different from"):
        clients.compare()
