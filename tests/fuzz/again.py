"""Runs one case again, in this process, and shows what comes of it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.fuzz.cases import Case, Tally
from tests.fuzz.corpus import make_corpus
from tests.fuzz.files import try_file
from tests.fuzz.messages import Walk, Whole, try_whole
from tests.fuzz.parties import Conversation, Straight, prediction, training
from tests.fuzz.snapshots import share_what_never_changes


class _Loud(Tally):
    """Raises failures instead of counting them."""

    def fail(
        self, case: Case, error: BaseException, about: str, changed: bytes
    ) -> None:
        """Raise a failure, with what it was about."""
        error.add_note(f"{about}\n{changed[:2000]!r}")
        raise error


def run_again(given: dict[str, Any]) -> int:
    """Run a case that was written down; return 0 if nothing is wrong with it now."""
    case = Case(**given)
    with share_what_never_changes(), TemporaryDirectory() as name:
        folder = Path(name)
        tally = _Loud(folder=folder / "findings")
        if case.kind == "file":
            make_corpus(folder / "corpus")
            try_file(folder / "corpus", case, tally, lambda _: None)
        else:
            _converse(_conversation(folder, case.subject), case, tally)
    print("\n".join(tally.outcomes) or "The case was not reached.")  # noqa: T201
    return 0


def _conversation(folder: Path, name: str) -> Conversation:
    if name != "prediction":
        return training(folder, name)
    make_corpus(folder / "corpus")
    return prediction(folder / "corpus", folder / "corpus" / "out" / "model.json")


def _converse(conversation: Conversation, case: Case, tally: Tally) -> None:
    if case.kind.startswith("whole"):
        undisturbed = conversation.run(Straight(), lambda _: None)
        try_whole(Whole(conversation, case), undisturbed, tally, lambda _: None)
    else:
        Walk(conversation, tally, case.seed, 0.0, lambda _: None, only=case).run()
