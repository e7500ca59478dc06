"""The randomness of Paillier blocks: random n-th powers, precomputed or on demand."""

from __future__ import annotations

import os
import secrets
from typing import NoReturn

import gmpy2
from gmpy2 import mpz

from hyfdca.crypto.schemes.paillier_keys import SecretKey


class BlindingPool:
    """Blindings precomputed while there is nothing else to do; each is used once.

    Two blocks with the same blinding reveal the difference of their numbers. So a pool
    can be neither copied nor stored, and is empty in a process that was forked.
    """

    def __init__(self, key: SecretKey) -> None:
        self._powers = _BlindingPowers(key)
        self._ready: list[mpz] = []
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self._ready) if self._process == os.getpid() else 0

    def fill(self, n_blocks: int) -> None:
        """Make blindings until there are enough for that many blocks."""
        self._forget_another_process()
        self._ready.extend(self._powers.draw(max(n_blocks - len(self._ready), 0)))

    def take(self, n_blocks: int) -> list[mpz]:
        """Return blindings that were never used, made now if none are ready."""
        self._forget_another_process()
        # One pop at a time, so that two threads never get the same one.
        taken: list[mpz] = []
        while len(taken) < n_blocks:
            try:
                taken.append(self._ready.pop())
            except IndexError:
                taken.extend(self._powers.draw(n_blocks - len(taken)))
        return taken

    def _forget_another_process(self) -> None:
        if self._process != os.getpid():
            self._ready, self._process = [], os.getpid()

    def __reduce__(self) -> NoReturn:
        raise TypeError("blindings are used once: a pool of them cannot be copied")


class _BlindingPowers:
    """Draws n-th powers modulo n^2, all equally likely.

    Modulo p^2 the n-th powers are the p-th powers: they form a group of p - 1
    elements, of which q, having no factor in common with p - 1, only changes the
    order. The p-th power of a number depends only on its remainder modulo p.
    """

    def __init__(self, key: SecretKey) -> None:
        self._primes = (key.p, key.q)
        self._squares = (key.p**2, key.q**2)
        self._inverse = gmpy2.invert(key.q**2, key.p**2)

    def draw(self, n_blocks: int) -> list[mpz]:
        """Return that many fresh blindings."""
        p_square, q_square = self._squares
        by_p, by_q = (self._powers(side, n_blocks) for side in (0, 1))
        return [
            mod_q + q_square * ((mod_p - mod_q) * self._inverse % p_square)
            for mod_p, mod_q in zip(by_p, by_q, strict=True)
        ]

    def _powers(self, side: int, n_blocks: int) -> list[mpz]:
        prime, square = self._primes[side], self._squares[side]
        below = int(prime) - 1
        bases = [mpz(secrets.randbelow(below) + 1) for _ in range(n_blocks)]
        return list(gmpy2.powmod_base_list(bases, prime, square))
