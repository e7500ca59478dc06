"""Translates the output of NVFlare's processes into sentences for users."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hyfdca.kits.kit import Owner


@dataclass(frozen=True)
class Trouble:
    """A problem, and whether it may resolve itself."""

    sentence: str
    may_pass: bool = False


# Searched in this order. All sentences are about a client; {name} is its own.
_CLIENT = (
    (
        r"CERTIFICATE_VERIFY_FAILED: certificate (has expired|is not yet valid)",
        "The certificate of the server at {address} is not valid at present: it has "
        "expired, or the clock of this machine is wrong; retrying.",
        True,
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "The certificate of the server at {address} was not issued by the authority of "
        "this kit, or has expired: the server or the kit belongs to another study.",
        False,
    ),
    (
        r"TLSV1_ALERT_UNKNOWN_CA|CERTIFICATE_UNKNOWN|BAD_CERTIFICATE"
        r"|CERTIFICATE_EXPIRED|CERTIFICATE_REQUIRED",
        "The server at {address} does not accept the certificate of this kit: it was "
        "issued by another authority, or has expired.",
        False,
    ),
    (
        r"register_client unauthenticated",
        "The server at {address} refuses this client: either another client with the "
        "name {name!r} is already connected (end it, or wait half a minute if it is "
        "gone), or the server's study has no such organisation.",
        False,  # registering again would cut the other client's connection again
    ),
    (
        r"nauthenticated",
        "The server at {address} no longer knows this client; registering again.",
        True,
    ),
    (
        r"failed to verify server|[Ii]nvalid server identity",
        "The server at {address} is not the server of this kit; check the address.",
        False,
    ),
    (
        r"re-challenge after|cannot connect|Retrying \[",
        "The server at {address} is unavailable; retrying.",
        True,
    ),
)
_REFUSED = "Refused a client with the name "
_UP = re.compile(r"Successfully registered client")


def client_is_up(printed: str) -> bool:
    """Return whether a client has been registered by the server."""
    return bool(_UP.search(printed))


def client_trouble(printed: str, owner: Owner) -> Trouble | None:
    """Return why a client is not registered yet, if its output says so."""
    for pattern, sentence, may_pass in _CLIENT:
        if re.search(pattern, printed):
            text = sentence.format(address=owner.address, name=owner.name)
            return Trouble(text, may_pass)
    return None


def refusal(name: str, why: str) -> str:
    """Return the sentence that the server's process prints for a refused client."""
    return f"{_REFUSED}{name!r}: {why}."


def refusals(printed: str) -> list[str]:
    """Return the sentences about refused clients in some output, each once."""
    found = re.findall(rf"{_REFUSED}[^\x1b\n]*", printed)
    return list(dict.fromkeys(found))


def last_error(printed: str) -> str:
    """Return the last error in some output, for problems without a sentence."""
    lines = [line for line in printed.splitlines() if re.search("error", line, re.I)]
    return re.sub(r"\x1b\[[0-9;]*m", "", lines[-1]).strip() if lines else "no reason"
