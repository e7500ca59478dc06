"""The schemes by name, what a study may choose of them, and which suits which vector.

Vectors are of three kinds: by sample, by feature, and totals. A packed scheme pays for
whole blocks, so where owner groups are tiny, vectors short or few samples drawn, a
scheme whose numbers stand alone takes its place: for BFV that is ``stream``, for
Paillier one number a ciphertext.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from hyfdca.crypto.arrangement import Arrangement
from hyfdca.crypto.base import Adder, Sealer
from hyfdca.crypto.blocks import BlockAdder, BlockSealer
from hyfdca.crypto.plain import PlainAdder, PlainSealer
from hyfdca.crypto.stream import StreamAdder, StreamSealer

SchemeName = Literal["bfv", "paillier", "stream", "none"]
Precision = Literal["full", "compact"]
SmallVectors = Literal["auto", "same"]

# Bits of sums: what the plaintexts of BFV's two sets of parameters have room for.
SUM_BITS: dict[Precision, int] = {"full": 58, "compact": 42}

Keys = Mapping[str, bytes]
BlockWork = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Encryption:
    """What a study says of its encryption.

    Parameters
    ----------
    scheme : {"bfv", "paillier", "stream", "none"}
    precision : {"full", "compact"}
        Sums of 58 bits, or of 42, which BFV seals in two thirds of the bytes and of the
        time. It is a matter of the grid: the same with every scheme.
    small_vectors : {"auto", "same"}
        Whether vectors that would leave packed blocks mostly empty are sealed number
        by number.
    """

    scheme: SchemeName = "none"
    precision: Precision = "full"
    small_vectors: SmallVectors = "auto"

    @property
    def sum_bits(self) -> int:
        """Bits that every sum stays below."""
        return SUM_BITS[self.precision]

    @property
    def names(self) -> tuple[str, ...]:
        """The schemes that may be in use."""
        loose = LOOSE.get(self.scheme)
        if loose is None or self.small_vectors == "same":
            return (self.scheme,)
        return (self.scheme, loose.name)


class Scheme(NamedTuple):
    """An entry of the table: how to make keys and both halves."""

    new_key: Callable[[Precision], bytes]
    public: Callable[[bytes, Precision], bytes]  # what the server needs to add
    sealer: Callable[[bytes, Precision, BlockWork | None], Sealer]
    adder: Callable[[bytes, Precision], Adder]


def _bfv(precision: Precision) -> Any:
    # Here, since SEAL is not there for every system and takes time to import.
    from hyfdca.crypto import bfv_blocks  # noqa: PLC0415

    return bfv_blocks.COMPACT if precision == "compact" else bfv_blocks.FULL


def _bfv_key(precision: Precision) -> bytes:
    from hyfdca.crypto.bfv_blocks import new_secret_key  # noqa: PLC0415

    return new_secret_key(_bfv(precision))


def _bfv_sealer(key: bytes, precision: Precision, work: BlockWork | None) -> Sealer:
    from hyfdca.crypto.bfv import BfvCipher  # noqa: PLC0415

    return BlockSealer(BfvCipher(_bfv(precision), key, work))


def _bfv_adder(_: bytes, precision: Precision) -> Adder:
    from hyfdca.crypto.bfv import BfvAddition  # noqa: PLC0415

    return BlockAdder(BfvAddition(_bfv(precision)))


SCHEMES: dict[str, Scheme] = {
    "none": Scheme(
        lambda _: b"",
        lambda *_: b"",
        lambda *_: PlainSealer(),
        lambda *_: PlainAdder(),
    ),
    "stream": Scheme(
        lambda _: secrets.token_bytes(32),
        lambda *_: b"",
        lambda key, *_: StreamSealer(key),
        lambda *_: StreamAdder(),
    ),
    "bfv": Scheme(_bfv_key, lambda *_: b"", _bfv_sealer, _bfv_adder),
}


class Loose(NamedTuple):
    """What takes a packed scheme's place, if that takes so many times the bytes."""

    name: str
    worth: float


# Full blocks of BFV take two or three times the bytes of stream.
LOOSE: dict[str, Loose] = {"bfv": Loose("stream", 8.0)}


def new_keys(encryption: Encryption) -> dict[str, bytes]:
    """Return fresh secret keys of the schemes that may be in use."""
    names = encryption.names
    return {name: SCHEMES[name].new_key(encryption.precision) for name in names}


def public_parameters(encryption: Encryption, keys: Keys) -> dict[str, bytes]:
    """Return what the server must know to add."""
    precision = encryption.precision
    return {name: SCHEMES[name].public(keys[name], precision) for name in keys}


@dataclass(frozen=True, repr=False)
class Sealers:
    """A client's schemes: whatever the study allows, and nothing else."""

    encryption: Encryption
    keys: Keys
    work: BlockWork | None = None
    _made: dict[str, Sealer] = field(default_factory=dict)

    def named(self, name: str) -> Sealer:
        """Return a sealer; raises ``ValueError`` for one the study does not allow."""
        if name not in self.encryption.names:
            raise ValueError(f"the study does not allow the scheme {name!r}")
        if name not in self._made:
            make = SCHEMES[name].sealer
            precision = self.encryption.precision
            self._made[name] = make(self.keys[name], precision, self.work)
        return self._made[name]


@dataclass(frozen=True)
class Adders:
    """The server's schemes; it has public parameters only."""

    encryption: Encryption
    public: Mapping[str, bytes]
    _made: dict[str, Adder] = field(default_factory=dict)

    def named(self, name: str) -> Adder:
        """Return an adder."""
        if name not in self._made:
            make = SCHEMES[name].adder
            self._made[name] = make(self.public[name], self.encryption.precision)
        return self._made[name]

    def pick(self, use: Use) -> str:
        """Return the scheme for a kind of vector: packed, unless blocks are wasted."""
        name = self.encryption.scheme
        loose = LOOSE.get(name)
        if loose is None or self.encryption.small_vectors == "same":
            return name
        packed, single = self.named(name), self.named(loose.name)
        n_numbers = use.share * use.arrangement.n_items * use.width
        # Few samples are, at worst, in as many blocks.
        n_blocks = min(use.n_blocks(packed), max(n_numbers, 1))
        bytes_packed = n_blocks * packed.unit_bytes(1)
        bytes_single = n_numbers * single.unit_bytes(1)
        is_worth = bytes_packed <= loose.worth * bytes_single
        return name if is_worth and use.n_summands <= packed.capacity else loose.name


@dataclass(frozen=True)
class Use:
    """How a kind of vector is used.

    Parameters
    ----------
    width : int
        Numbers an item.
    share : float
        Of the items, usually sent at a time.
    n_summands : int
        Vectors in a sum.
    """

    arrangement: Arrangement
    width: int
    share: float = 1.0
    n_summands: int = 1

    def n_blocks(self, adder: Adder) -> int:
        """Return the blocks that a packed scheme needs for all items."""
        assert adder.n_slots is not None  # noqa: S101  # packed
        return self.arrangement.blocks(self.width, adder.n_slots).n_blocks
