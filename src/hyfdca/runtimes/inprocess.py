"""All parties in one process, talking in bytes as they would between machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from hyfdca.algorithms.line_search import SEARCH_PHASES
from hyfdca.protocol.client import ClientSession
from hyfdca.protocol.server import Ask, Conversation, Replies

T = TypeVar("T")


@dataclass
class Traffic:
    """What a conversation cost; a notice is half a round trip.

    The trips of a line search are counted apart from those of the round it is in.
    """

    round_trips: float = 0.0
    search_round_trips: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0

    def add_trip(self, ask: Ask) -> None:
        """Count an exchange, or half of one."""
        trips = 1.0 if ask.wants_reply else 0.5
        if ask.phase in SEARCH_PHASES:
            self.search_round_trips += trips
        else:
            self.round_trips += trips


class InProcess:
    """Carries requests to clients one after the other, in rank order."""

    def __init__(self, clients: Mapping[int, ClientSession]) -> None:
        self._clients = clients

    def run(self, conversation: Conversation[T], traffic: Traffic) -> T:
        """Drive a server's conversation to its end; adds its cost to ``traffic``."""
        try:
            ask = next(conversation)
            while True:
                ok = {}
                for client, payload in ask.payloads.items():
                    traffic.bytes_down += len(payload)
                    ok[client] = self._clients[client].handle(ask.phase, payload)
                    if ask.wants_reply:
                        traffic.bytes_up += len(ok[client])
                traffic.add_trip(ask)
                ask = conversation.send(Replies(ok))
        except StopIteration as end:
            result: T = end.value
            return result
