"""Requests and replies as NVFlare messages: named fields with checked types."""

from __future__ import annotations

from typing import Any, get_args

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable

from hyfdca.flare.network import Failure, Kind, NetworkRequest

TOPIC = "hyfdca"
CANNOT = "cannot take part"  # starts the reason of a client that never will

_KIND, _STAGE, _PHASE, _PAYLOAD = "kind", "stage", "phase", "payload"
_ANSWER, _REFUSAL = "answer", "refusal"

_KINDS = get_args(Kind)
_LONGEST_REASON = 1000  # characters
_LONGEST_SENTENCE = 4000

# NVFlare's codes for a request that did not arrive but may do so if sent again.
_MAY_PASS = {
    ReturnCode.COMMUNICATION_ERROR,
    ReturnCode.SERVICE_UNAVAILABLE,
    ReturnCode.ERROR,  # among other things: the client is unreachable at present
    ReturnCode.TOPIC_UNKNOWN,  # its job process is starting
}


def to_message(request: NetworkRequest) -> Any:
    """Return a request as an NVFlare message."""
    message = Shareable()
    message[_KIND], message[_STAGE] = request.kind, request.stage
    message[_PHASE], message[_PAYLOAD] = request.phase, request.payload
    return message


def to_request(message: Any) -> NetworkRequest:
    """Return the request in a message.

    Raises
    ------
    ValueError
        If the message is not a request.
    """
    fields = [message.get(name) for name in (_KIND, _STAGE, _PHASE, _PAYLOAD)]
    kind, stage, phase, payload = fields
    if kind not in _KINDS or not isinstance(payload, bytes):
        raise ValueError("the message is not a request")
    if not (isinstance(stage, str) and isinstance(phase, str)):
        raise ValueError("the message lacks a stage or a phase")
    return NetworkRequest(kind, stage, phase, payload)


def sentence_of(request: NetworkRequest) -> str:
    """Return what the server says in a request that ends the study."""
    text = bytes(request.payload).decode("utf-8", "replace")
    return _one_line(text, _LONGEST_SENTENCE)


def answer_message(answer: bytes | bytearray) -> Any:
    """Return an answer as a message."""
    message = Shareable()
    message[_ANSWER] = answer
    return message


def refusal_message(reason: str) -> Any:
    """Return the message that refuses a request."""
    message = Shareable()
    message[_REFUSAL] = reason
    return message


def to_answer(message: Any, timeout: float) -> bytes | Failure:
    """Return the answer in a client's message, or why there is none."""
    if not isinstance(message, Shareable):
        return Failure("is not connected", may_pass=True)
    code = message.get_return_code()
    if code == ReturnCode.TIMEOUT:
        return Failure(f"did not answer within {timeout:.3g} s")
    if code != ReturnCode.OK:
        return Failure("cannot be reached", may_pass=code in _MAY_PASS)
    answer, refusal = message.get(_ANSWER), message.get(_REFUSAL)
    if isinstance(answer, bytes):
        return answer
    if isinstance(refusal, str):
        return Failure(_one_line(refusal))
    return Failure("sent an invalid reply")


def _one_line(reason: str, longest: int = _LONGEST_REASON) -> str:
    """Return a reason made safe for use in a sentence; its author is not trusted."""
    printable = "".join(c if c.isprintable() else " " for c in reason)
    return " ".join(printable.split())[:longest]
