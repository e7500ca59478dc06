"""Which accepted lies may change a model although nobody is named."""

from __future__ import annotations

from tests.fuzz.parties import Place


def verdict(kind: str, place: Place, values: set[str]) -> str:
    return f"another result ({place.stage}, {place.phase}: {', '.join(sorted(values))})"


def n_untold(outcomes):
    return sum(n for name, n in outcomes.items() if "another result (" in name)
