"""What a party of a study keeps: how it began, and its state after the last rounds."""

from __future__ import annotations

import xxhash

from hyfdca.runtime.store import Store, StoreError

_ROUND = "round-"
_DIGEST_BYTES = 16
_N_KEPT = 2  # rounds: the last one may not have been kept by everybody


class Archive:
    """Files by their meaning, each with a digest: a damaged one is not believed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, name: str, content: bytes) -> None:
        """Keep something that is there once."""
        self._store.write(name, xxhash.xxh3_128_digest(content) + content)

    def read(self, name: str) -> bytes | None:
        """Return something that is there once, none if it is not.

        Raises
        ------
        StoreError
            If it is damaged.
        """
        kept = self._store.read(name)
        if kept is None:
            return None
        content = kept[_DIGEST_BYTES:]
        if xxhash.xxh3_128_digest(content) != kept[:_DIGEST_BYTES]:
            raise StoreError(f"What was kept as {name} is damaged.")
        return content

    @property
    def rounds(self) -> list[int]:
        """The numbers of the rounds that are kept, ascending."""
        names = [name for name in self._store.names() if name.startswith(_ROUND)]
        return sorted(int(name.removeprefix(_ROUND)) for name in names)

    def write_round(self, number: int, content: bytes) -> None:
        """Keep the state after a round, and of those before only the last."""
        self.write(f"{_ROUND}{number}", content)
        for old in self.rounds[:-_N_KEPT]:
            self._store.remove(f"{_ROUND}{old}")

    def read_round(self, number: int) -> bytes | None:
        """Return the state after a round, none if it was not kept."""
        return self.read(f"{_ROUND}{number}")

    def forget_after(self, number: int) -> None:
        """Forget the rounds after one."""
        for later in self.rounds:
            if later > number:
                self._store.remove(f"{_ROUND}{later}")

    def forget(self, name: str) -> None:
        """Forget something that is there once."""
        self._store.remove(name)
