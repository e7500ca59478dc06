"""What NVFlare's processes print, in sentences for whoever started them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hyfdca.kits.kit import Owner


@dataclass(frozen=True)
class Trouble:
    """What is wrong, and whether it may pass by itself."""

    sentence: str
    may_pass: bool = False


# Looked for in this order. All of it is said of a client; {name} is its own.
_CLIENT = (
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "The certificate of the server at {address} was not made by the authority of "
        "this kit, or has expired: one of the two comes from another study.",
        False,
    ),
    (
        r"TLSV1_ALERT_UNKNOWN_CA|CERTIFICATE_UNKNOWN|BAD_CERTIFICATE"
        r"|CERTIFICATE_EXPIRED|CERTIFICATE_REQUIRED",
        "The server at {address} does not accept the certificate of this kit: it was "
        "made by another authority, or has expired.",
        False,
    ),
    (
        r"register_client unauthenticated",
        "The server at {address} refuses this client: another one with the identity "
        "{name!r} is connected already (end it, or wait for half a minute if it is "
        "gone), or its study has no such organisation.",
        False,  # knocking again would cut the other one's connection again
    ),
    (
        r"nauthenticated",
        "The server at {address} does not know this client any more; registering "
        "again.",
        True,
    ),
    (
        r"failed to verify server|[Ii]nvalid server identity",
        "Whoever answers at {address} is not the server of this kit.",
        False,
    ),
    (
        r"re-challenge after|cannot connect|Retrying \[",
        "There is no server at {address} yet; trying again.",
        True,
    ),
)
_REFUSED = "Refused a client that calls itself "
_UP = re.compile(r"Successfully registered client")


def client_is_up(printed: str) -> bool:
    """Return whether a client has been registered by the server."""
    return bool(_UP.search(printed))


def client_trouble(printed: str, owner: Owner) -> Trouble | None:
    """Return why a client is not registered yet, if its output tells."""
    for pattern, sentence, may_pass in _CLIENT:
        if re.search(pattern, printed):
            told = sentence.format(address=owner.address, name=owner.name)
            return Trouble(told, may_pass)
    return None


def refusal(name: str, why: str) -> str:
    """Return what the server's process prints of a client that it does not let in."""
    return f"{_REFUSED}{name!r}: {why}."


def refusals(printed: str) -> list[str]:
    """Return what such output says of clients that were not let in, each once."""
    found = re.findall(rf"{_REFUSED}[^\x1b\n]*", printed)
    return list(dict.fromkeys(found))


def last_error(printed: str) -> str:
    """Return the last error in some output, for what has no sentence of its own."""
    lines = [line for line in printed.splitlines() if re.search("error", line, re.I)]
    return re.sub(r"\x1b\[[0-9;]*m", "", lines[-1]).strip() if lines else "no reason"
