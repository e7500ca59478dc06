"""Requests and answers as NVFlare's messages: named fields, each of a checked type."""

from __future__ import annotations

from typing import Any, get_args

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable

from hyfdca.flare.network import Failure, Kind, NetworkRequest

TOPIC = "hyfdca"
CANNOT = "cannot take part"  # how the reason of a client begins that never will

_KIND, _STAGE, _PHASE, _PAYLOAD = "kind", "stage", "phase", "payload"
_ANSWER, _REFUSAL = "answer", "refusal"

_KINDS = get_args(Kind)
_LONGEST_REASON = 1000  # characters

# What NVFlare says of a request that did not arrive and may do so if sent again.
_MAY_PASS = {
    ReturnCode.COMMUNICATION_ERROR,
    ReturnCode.SERVICE_UNAVAILABLE,
    ReturnCode.ERROR,  # what it has no word for: no way to the client at present
    ReturnCode.TOPIC_UNKNOWN,  # its job process is starting
}


def to_message(request: NetworkRequest) -> Any:
    """Return NVFlare's message of a request."""
    message = Shareable()
    message[_KIND], message[_STAGE] = request.kind, request.stage
    message[_PHASE], message[_PAYLOAD] = request.phase, request.payload
    return message


def to_request(message: Any) -> NetworkRequest:
    """Return the request of a message.

    Raises
    ------
    ValueError
        If it is none.
    """
    fields = [message.get(name) for name in (_KIND, _STAGE, _PHASE, _PAYLOAD)]
    kind, stage, phase, payload = fields
    if kind not in _KINDS or not isinstance(payload, bytes):
        raise ValueError("the message is no request")
    if not (isinstance(stage, str) and isinstance(phase, str)):
        raise ValueError("the message names no stage and phase")
    return NetworkRequest(kind, stage, phase, payload)


def answer_message(answer: bytes | bytearray) -> Any:
    """Return the message of an answer."""
    message = Shareable()
    message[_ANSWER] = answer
    return message


def refusal_message(reason: str) -> Any:
    """Return the message of a request that is not answered."""
    message = Shareable()
    message[_REFUSAL] = reason
    return message


def to_answer(message: Any, timeout: float) -> bytes | Failure:
    """Return what a client's message says; what it is not allowed to be, is said so."""
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
    return Failure("sent something that is no answer")


def _one_line(reason: str) -> str:
    """Return a reason as it may stand in a sentence, whoever wrote it."""
    printable = "".join(c if c.isprintable() else " " for c in reason)
    return " ".join(printable.split())[:_LONGEST_REASON]
