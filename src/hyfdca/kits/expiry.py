"""Checks how long the certificates of a kit are valid, by this machine's clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography import x509

from hyfdca.errors import PassingError, counted
from hyfdca.kits import tls
from hyfdca.kits.kit import StudyKit, certificate_path, read_certificate

SOON = 30  # days
_DAY = 24 * 3600.0

_RENEW = "renew it as docs/deploy.md describes (hyfdca kit renew)"


def require_valid(kit: StudyKit) -> None:
    """Refuse to start with a certificate that others would not accept.

    Raises
    ------
    PassingError
        The certificate may be renewed, or the clock corrected, at any time.
    """
    for path, certificate in _certificates(kit):
        if not tls.is_valid_now(certificate):
            raise PassingError(_invalid(path))


def expiry_warnings(kit: StudyKit) -> list[str]:
    """Return a sentence for each certificate that expires soon, or has expired."""
    warnings = []
    for path, certificate in _certificates(kit):
        left = tls.days_left(certificate)
        if not tls.is_valid_now(certificate):
            warnings.append(_invalid(path))
        elif left < SOON:
            when = counted(left, "day")
            warnings.append(f"The certificate {path} expires in {when}; {_RENEW}.")
    return warnings


class ExpiryWatch:
    """Warns at the start and once a day; the schedule does not follow the clock."""

    def __init__(self, kit: StudyKit, tell: Callable[[str], None]) -> None:
        self._kit, self._tell = kit, tell
        self._next = time.monotonic()

    def look(self) -> None:
        """Warn if a day has passed; to be called often."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _DAY
        for warning in expiry_warnings(self._kit):
            self._tell(warning)


def _certificates(kit: StudyKit) -> Iterator[tuple[Path, x509.Certificate]]:
    """Yield the certificates that a kit presents and verifies with, and their paths."""
    places = [(kit.flare, kit.side), (kit.flare, "rootCA")]
    if kit.side == "server":
        places.append((kit.admin, "client"))
    for flare, base in places:
        yield certificate_path(flare, base), read_certificate(flare, base)


def _invalid(path: Path) -> str:
    return (
        f"The certificate {path} has expired, or the clock of this machine is wrong; "
        f"{_RENEW}, or correct the clock."
    )
