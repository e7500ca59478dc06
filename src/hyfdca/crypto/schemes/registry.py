"""The schemes by name, a study's choices, and which scheme suits which vector.

Vectors are by sample or by feature, or totals, which are always ``stream``. A packed
scheme pays for whole blocks, so where owner groups are tiny, vectors short or few
samples drawn, a scheme whose numbers stand alone takes its place: for BFV that is
``stream``. Blocks of Paillier are so small that they never take more bytes than single
numbers.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from hyfdca.crypto.keys.set_secrets import SetSecrets
from hyfdca.crypto.schemes.arrangement import Arrangement
from hyfdca.crypto.schemes.base import Adder, JoiningSealer, VectorKeys
from hyfdca.crypto.schemes.blocks import BlockAdder, BlockSealer
from hyfdca.crypto.schemes.plain import PlainAdder, PlainSealer
from hyfdca.crypto.schemes.stream import StreamSealer
from hyfdca.crypto.schemes.stream_sums import StreamAdder

SchemeName = Literal["bfv", "paillier", "paillier-single", "stream", "none"]
Precision = Literal["full", "compact"]
SmallVectors = Literal["auto", "same"]
PaillierBits = Literal[2048, 3072]

# Bits of sums: what the plaintexts of BFV's two sets of parameters have room for.
SUM_BITS: dict[Precision, int] = {"full": 58, "compact": 42}

Keys = Mapping[str, bytes]
Workforce = Callable[[Any], Any]  # who works with these parameters


@dataclass(frozen=True)
class Encryption:
    """What a study says about its encryption.

    Parameters
    ----------
    scheme : {"bfv", "paillier", "paillier-single", "stream", "none"}
    precision : {"full", "compact"}
        Sums of 58 bits, or of 42, which BFV seals in two thirds of the bytes and of the
        time. It is a matter of the grid: the same with every scheme.
    small_vectors : {"auto", "same"}
        Whether vectors that would leave packed blocks mostly empty are sealed number
        by number.
    paillier_bits : {3072, 2048}
        The length of the modulus.
    n_clients : int, optional
        How many clients contribute to sums; sums of more are refused.
    """

    scheme: SchemeName = "none"
    precision: Precision = "full"
    small_vectors: SmallVectors = "auto"
    paillier_bits: PaillierBits = 3072
    n_clients: int | None = None

    @cached_property
    def sum_bits(self) -> int:
        """Bits that every sum stays below."""
        return SUM_BITS[self.precision]

    @cached_property
    def totals(self) -> str:
        """The scheme of totals."""
        return "none" if self.scheme == "none" else TOTALS_SCHEME

    @property
    def names(self) -> tuple[str, ...]:
        """The schemes that vectors by sample and by feature may have."""
        loose = LOOSE.get(self.scheme)
        if loose is None or self.small_vectors == "same":
            return (self.scheme,)
        return (self.scheme, loose.name)


class Scheme(NamedTuple):
    """An entry of the table: how to make keys and both halves."""

    new_key: Callable[[Encryption], bytes]  # of the study, if it has one
    public: Callable[[bytes], bytes]  # of a key, what the server needs to add
    sealer: Callable[[bytes, VectorKeys, Encryption, Workforce | None], JoiningSealer]
    adder: Callable[[bytes, Encryption], Adder]


def _no_key(_: Any) -> bytes:
    return b""


# Imported when first used: SEAL does not exist everywhere, and both take time.


def _bfv_parameters(encryption: Encryption) -> Any:
    try:
        from hyfdca.crypto.schemes import bfv_blocks  # noqa: PLC0415
    except ImportError:
        raise ValueError(
            "BFV needs the package seal-python, which some systems do not have; "
            'set encryption = "stream" or "paillier".'
        ) from None
    is_compact = encryption.precision == "compact"
    return bfv_blocks.COMPACT if is_compact else bfv_blocks.FULL


def _bfv_key(encryption: Encryption) -> bytes:
    _bfv_parameters(encryption)  # raises where there is no SEAL
    return b""


def _bfv_sealer(
    _: bytes, keys: VectorKeys, encryption: Encryption, hire: Workforce | None
) -> JoiningSealer:
    from hyfdca.crypto.schemes.bfv import BfvCipher  # noqa: PLC0415

    parameters = _bfv_parameters(encryption)
    workers = hire(parameters) if hire else None
    return BlockSealer(BfvCipher(parameters, keys.of, workers))


def _bfv_adder(_: bytes, encryption: Encryption) -> Adder:
    parameters = _bfv_parameters(encryption)
    from hyfdca.crypto.schemes.bfv import BfvAddition  # noqa: PLC0415

    return BlockAdder(BfvAddition(parameters))


def _paillier_key(encryption: Encryption) -> bytes:
    from hyfdca.crypto.schemes.paillier_keys import SecretKey  # noqa: PLC0415

    return SecretKey.generate(encryption.paillier_bits).to_bytes()


def _paillier_public(key: bytes) -> bytes:
    from hyfdca.crypto.schemes.paillier_keys import SecretKey  # noqa: PLC0415

    return SecretKey.from_bytes(key).public.to_bytes()


def _paillier(packed: bool) -> Scheme:
    def sealer(
        key: bytes, _: VectorKeys, encryption: Encryption, hire: Workforce | None
    ) -> JoiningSealer:
        del hire  # blocks are small
        from hyfdca.crypto.schemes.paillier import PaillierCipher  # noqa: PLC0415
        from hyfdca.crypto.schemes.paillier_keys import SecretKey  # noqa: PLC0415

        secret = SecretKey.from_bytes(key)
        limit = 2**encryption.sum_bits
        return BlockSealer(PaillierCipher(secret, packed=packed, limit=limit))

    def adder(public: bytes, _: Encryption) -> Adder:
        from hyfdca.crypto.schemes.paillier import PaillierAddition  # noqa: PLC0415
        from hyfdca.crypto.schemes.paillier_keys import PublicKey  # noqa: PLC0415

        key = PublicKey.from_bytes(public)
        return BlockAdder(PaillierAddition(key, packed=packed))

    return Scheme(_paillier_key, _paillier_public, sealer, adder)


SCHEMES: dict[str, Scheme] = {
    "none": Scheme(_no_key, _no_key, lambda *_: PlainSealer(), lambda *_: PlainAdder()),
    "stream": Scheme(
        _no_key,
        _no_key,
        lambda _, keys, encryption, __: StreamSealer(keys, encryption.n_clients),
        lambda *_: StreamAdder(),
    ),
    "bfv": Scheme(_bfv_key, _no_key, _bfv_sealer, _bfv_adder),
    "paillier": _paillier(packed=True),
    "paillier-single": _paillier(packed=False),
}


class Loose(NamedTuple):
    """The scheme that replaces a packed one if that takes many times the bytes."""

    name: str
    worth: float


# Full blocks of BFV take two or three times the bytes of stream.
LOOSE: dict[str, Loose] = {"bfv": Loose("stream", 8.0)}

# Of totals, whatever the study's scheme; they are short and go to one client.
TOTALS_SCHEME = "stream"

# Both ways of using Paillier share a key.
_KEY_OF = {"paillier-single": "paillier"}


def new_keys(encryption: Encryption) -> dict[str, bytes]:
    """Return fresh secret keys of the schemes that may be in use.

    Only Paillier has a key of the study; others derive theirs from secrets of sets.
    """
    used = (*encryption.names, encryption.totals)
    names = dict.fromkeys(_KEY_OF.get(name, name) for name in used)
    return {name: SCHEMES[name].new_key(encryption) for name in names}


def public_parameters(keys: Keys) -> dict[str, bytes]:
    """Return what the server must know to add."""
    return {name: SCHEMES[name].public(key) for name, key in keys.items()}


def _found(keys: Mapping[str, bytes], scheme: str) -> bytes:
    name = _KEY_OF.get(scheme, scheme)
    if name not in keys:
        raise ValueError(f"the study's keys have none for the scheme {scheme!r}")
    return keys[name]


@dataclass(frozen=True, repr=False)
class Sealers:
    """A client's schemes: whatever the study allows, and nothing else.

    Parameters
    ----------
    secrets : SetSecrets
        The secrets from which the keys of vectors are derived.
    check_key : bytes
        The key of the checksums of totals, which all clients of the study have.
    tell_opening : callable, optional
        Called before a sum is opened.
    """

    encryption: Encryption
    keys: Keys
    secrets: SetSecrets
    check_key: bytes = b""
    hire: Workforce | None = None
    tell_opening: Callable[[], None] | None = None
    _shared: dict[str, JoiningSealer] = field(default_factory=dict)

    def check(self, name: str) -> str:
        """Return the name of a scheme; raises ``ValueError`` if it is not allowed."""
        if name not in self.encryption.names:
            raise ValueError(f"the study does not allow the scheme {name!r}")
        _found(self.keys, name)
        return name

    def named(self, name: str, keys: VectorKeys) -> JoiningSealer:
        """Return a sealer of vectors with these keys.

        A scheme with a key of the study has one sealer, whatever the vectors.
        """
        own = _found(self.keys, self.check(name))
        if name in self._shared:
            return self._shared[name]
        made = SCHEMES[name].sealer(own, keys, self.encryption, self.hire)
        if own:
            self._shared[name] = made
        return made


def new_group_secret() -> bytes:
    """Return a fresh secret of the server, from which owner groups are numbered."""
    return secrets.token_bytes(32)


@dataclass(frozen=True)
class Adders:
    """The server's schemes; it has public parameters only.

    Parameters
    ----------
    group_secret : bytes
        The server's own. It must be kept to repeat a set-up later: sums by group fit
        only groups with the same numbers.
    """

    encryption: Encryption
    public: Mapping[str, bytes]
    group_secret: bytes = field(default_factory=new_group_secret, repr=False)
    _made: dict[str, Adder] = field(default_factory=dict)

    def make_all(self) -> None:
        """Make the adders of all schemes that may be in use.

        Raises
        ------
        ValueError
            If public parameters are missing or invalid.
        """
        for name in (*self.encryption.names, self.encryption.totals):
            self.named(name)

    def named(self, name: str) -> Adder:
        """Return an adder."""
        if name not in self._made:
            public = _found(self.public, name)
            self._made[name] = SCHEMES[name].adder(public, self.encryption)
        return self._made[name]

    @cached_property
    def totals_adder(self) -> Adder:
        """The adder of totals."""
        return self.named(self.encryption.totals)

    @cached_property
    def n_checks(self) -> int:
        """Extra numbers in a row of totals: sealed ones have a checksum."""
        return 0 if self.encryption.totals == "none" else 1

    def totals(self, width: int) -> tuple[int, Adder]:
        """Return the numbers per row of totals, and what adds them."""
        return width + self.n_checks, self.totals_adder

    def pick(self, use: Use) -> str:
        """Return the scheme for a kind of vector: packed, unless blocks are wasted."""
        name = self.encryption.scheme
        packed = self.named(name)
        loose = LOOSE.get(name)
        if loose is None:
            return name
        if self.encryption.small_vectors == "same":
            if use.n_summands > packed.capacity:
                raise ValueError(
                    f"{name} can add {packed.capacity:,} vectors at this precision, "
                    f"not {use.n_summands:,}; use precision='full' or "
                    "small_vectors='auto'."
                )
            return name
        single = self.named(loose.name)
        n_numbers = use.share * use.arrangement.n_items * use.width
        # Few samples may at worst be spread over as many blocks.
        n_blocks = min(use.n_blocks(packed), max(n_numbers, 1))
        bytes_packed = n_blocks * packed.unit_bytes
        bytes_single = n_numbers * single.unit_bytes
        is_worth = bytes_packed <= loose.worth * bytes_single
        return name if is_worth and use.n_summands <= packed.capacity else loose.name


@dataclass(frozen=True)
class Use:
    """How a kind of vector is used.

    Parameters
    ----------
    width : int
        Numbers per item.
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
