"""Limits the connections of one address that have not completed TLS.

gRPC accepts connections before any of our code runs. It cuts off those that do not
complete TLS after some seconds, but has no limit per address, so one stranger could
use up all the files that the server may have open. Here a thread of the server's
process looks at the connections of its port, and shuts down those beyond the limit.
Connections that NVFlare knows have completed TLS with a certificate of the study.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import unquote

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.drivers.driver_params import DriverParams

_MOST = 100  # per address; on one machine all organisations of a trial share theirs
_LOOK_EVERY = 0.5  # seconds
_SAY_EVERY = 60.0
_OPEN_FILES = "/dev/fd"  # of this process, on every POSIX system
_NONE_LEFT = (errno.EMFILE, errno.ENFILE)  # files, of the process or of the system
_MOST_FILES = 1 << 20  # that are looked at one by one

Peer = tuple[str, int]  # address and port of the other end

_log = logging.getLogger("hyfdca")


class StrangerLimit:
    """Shuts down connections to a port, the oldest first, beyond a limit per address.

    Parameters
    ----------
    known : callable
        Returns the other ends of connections that have completed TLS.
    most : int
        Connections of an address that have not.
    """

    def __init__(
        self, port: int, known: Callable[[], Iterable[Peer]], most: int = _MOST
    ) -> None:
        self._port, self._known, self._most = port, known, most
        self._strangers: dict[Peer, int] = {}  # open files, in order of appearance
        self._silent_until = 0.0
        self._errors: set[type[Exception]] = set()

    def look_again(self) -> None:
        """Look once; an error is logged, the first of its kind, and ends nothing."""
        try:
            self.look()
        except Exception as error:  # also of what NVFlare keeps to itself
            if type(error) not in self._errors:
                self._errors.add(type(error))
                _log.warning(
                    "Could not look for connections that have not completed TLS; "
                    "trying again.",
                    exc_info=True,
                )

    def look(self) -> None:
        """Look once."""
        self._strangers = self._found()
        by_address: dict[str, list[Peer]] = defaultdict(list)
        for peer in self._strangers:
            by_address[_counted_as(peer[0])].append(peer)
        for address, peers in by_address.items():
            surplus = peers[: -self._most]
            for peer in surplus:
                _shut_down(self._strangers[peer], peer)
            if surplus:
                self._say(address, len(surplus))

    def _found(self) -> dict[Peer, int]:
        """Return connections that have not completed TLS, those seen before first."""
        found, known = dict(_connections(self._port)), set(self._known())
        earlier = [peer for peer in self._strangers if peer in found]
        in_order = dict.fromkeys([*earlier, *found])
        return {peer: found[peer] for peer in in_order if peer not in known}

    def _say(self, address: str, n_closed: int) -> None:
        """Log what was done, but not repeatedly."""
        if time.monotonic() < self._silent_until:
            return
        self._silent_until = time.monotonic() + _SAY_EVERY
        _log.warning(
            f"Closed {n_closed} connections from {address} that had not completed TLS; "
            f"an address may have {self._most} of them."
        )


def limit_strangers(port: int) -> None:
    """Keep the limit on a port from now on."""
    limit = StrangerLimit(port, _known_to_nvflare)

    def run() -> None:
        while True:
            limit.look_again()
            time.sleep(_LOOK_EVERY)

    threading.Thread(target=run, name="strangers", daemon=True).start()


def _known_to_nvflare() -> Iterator[Peer]:
    for cell in list(CoreCell.ALL_CELLS.values()):
        for connector in list(cell.communicator.conn_manager.connectors.values()):
            for connection in list(connector.driver.connections.values()):
                text = connection.get_conn_properties()[DriverParams.PEER_ADDR.value]
                with suppress(ValueError):  # what we connect to may have a name
                    yield peer_of(text)


def peer_of(text: str) -> Peer:
    """Return what gRPC calls "ipv4:192.0.2.1:5000" or "ipv6:%5B2001:db8::1%5D:5000".

    Raises
    ------
    ValueError
        If it is neither.
    """
    host, _, port = unquote(text).rpartition(":")
    return _plain(host.partition(":")[2].strip("[]"), int(port))


def _connections(port: int) -> Iterator[tuple[Peer, int]]:
    """Yield this process's connections at a port, with their open files."""
    for file in _open_files():
        # Those that are no connections, or closed by now, raise.
        with suppress(OSError, ValueError), _borrowed(file) as own:
            is_inet = own.family in (socket.AF_INET, socket.AF_INET6)
            if is_inet and own.getsockname()[1] == port:
                yield _plain(*own.getpeername()[:2]), file


def _open_files() -> Iterable[int]:
    """Return the numbers of this process's open files, and perhaps of others.

    To list them takes a file. If none is left, all numbers below the limit are in use.
    """
    try:
        return map(int, os.listdir(_OPEN_FILES))
    except OSError as error:
        if error.errno not in _NONE_LEFT:
            raise
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_limited = most != resource.RLIM_INFINITY
    return range(min(most, _MOST_FILES) if is_limited else _MOST_FILES)


def _shut_down(file: int, peer: Peer) -> None:
    """End a connection, unless the file has become another one."""
    with suppress(OSError), _borrowed(file) as own:
        if _plain(*own.getpeername()[:2]) == peer:
            own.shutdown(socket.SHUT_RDWR)


@contextmanager
def _borrowed(file: int) -> Iterator[socket.socket]:
    """Lend a second handle of a connection: nobody can reuse its number meanwhile.

    If no file is left for it, lend the connection itself, and never close it.
    """
    try:
        copy = os.dup(file)
    except OSError as error:
        if error.errno not in _NONE_LEFT:
            raise
        own = socket.socket(fileno=file)
        try:
            yield own
        finally:
            own.detach()
        return
    try:
        own = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with own:
        yield own


def _plain(host: str, port: int) -> Peer:
    """Return the canonical form of an address."""
    address = ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address), port


def _counted_as(address: str) -> str:
    """Return the unit of counting for an address; an IPv6 user has 2^64 addresses."""
    return str(ip_network(f"{address}/64", strict=False)) if ":" in address else address
