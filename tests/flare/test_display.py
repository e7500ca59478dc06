"""What a terminal shows of a study between machines, from a status on disk."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from rich.console import Console

from hyfdca.cli.displays.run import share_done
from hyfdca.cli.displays.study import StudyDisplay, seconds_left, status_table
from hyfdca.flare.status import (
    Status,
    forget_status,
    read_status,
    write_progress,
    write_status,
)


def falling(rate: float, n: int = 20, every: float = 0.5) -> list[tuple[float, float]]:
    """Return gaps that fall by the same factor per second."""
    return [(every * k, math.exp(-rate * every * k)) for k in range(n)]


def shown(status: Status, elapsed: float = 75.0) -> str:
    text = io.StringIO()
    console = Console(file=text, width=100)
    console.print(status_table(status, 1.0, elapsed))
    return text.getvalue()


@pytest.mark.parametrize("rate", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("n", [3, 20])
def test_an_exact_decay_is_predicted_exactly(rate: float, n: int) -> None:
    """The gap reaches the tolerance when the formula says so."""
    gaps = falling(rate, n)
    tolerance = gaps[-1][1] / 7.0
    left = seconds_left(Status(gaps=gaps, tolerance=tolerance))
    assert left == pytest.approx(math.log(7.0) / rate)


@pytest.mark.parametrize(
    "gaps",
    [
        [],
        falling(1.0, 2),
        [(s, 1.0 / gap) for s, gap in falling(1.0)],  # rising
        [(s, 0.5) for s, _ in falling(1.0)],  # still
        [(1.0, gap) for _, gap in falling(1.0)],  # all at once
    ],
    ids=["none", "few", "rising", "still", "at once"],
)
def test_without_a_falling_trend_nothing_is_predicted(
    gaps: list[tuple[float, float]],
) -> None:
    """A number would be meaningless."""
    status = Status(gaps=gaps, tolerance=1e-3)
    assert seconds_left(status) is None
    assert "at this rate" not in shown(status)


def test_gaps_and_tolerances_of_zero_are_numbers_too() -> None:
    """A tolerance of zero is never reached; a gap of zero is below any other."""
    left = seconds_left(Status(gaps=falling(1.0), tolerance=0.0))
    assert left is not None
    assert 0.0 < left < 30.0
    gaps = [*falling(1.0), (10.0, 0.0)]
    assert seconds_left(Status(gaps=gaps, tolerance=1e-3)) == 0.0


def test_the_bar_is_logarithmic() -> None:
    """Each factor of ten is equally long, and the bar stays within its ends."""
    assert share_done(1e-1, 1.0, 1e-3) == pytest.approx(1 / 3)
    assert share_done(1e-2, 1.0, 1e-3) == pytest.approx(2 / 3)
    assert share_done(1e-9, 1.0, 1e-3) == share_done(0.0, 1.0, 1e-3) == 1.0
    assert share_done(5.0, 1.0, 1e-3) == 0.0
    assert share_done(1e-4, 1e-4, 1e-3) == 1.0


def test_everything_worth_knowing_is_shown() -> None:
    """Round, gap, who is present and who is missing, bytes and time."""
    status = Status(
        round=1234,
        max_rounds=5000,
        tolerance=1e-3,
        gaps=falling(0.1),
        measured=1234,
        present=["north", "[red]city"],
        missing=["coast"],
        bytes_up=1_234_567,
        bytes_down=890,
    )
    text = shown(status)
    assert "1,234 of at most 5,000" in text
    assert "3.9e-01 → 1e-03" in text
    assert "north, [red]city" in text
    assert "coast" in text
    assert "1.2 MB to the server, 890 bytes to organisations" in text
    assert "1 min 15 s, about 1 min 0 s left at this rate" in text
    assert len(text.splitlines()) == 6


def test_a_gap_of_an_earlier_round_says_so() -> None:
    """Some rounds are not measured, for example while somebody is missing."""
    text = shown(Status(round=9, gaps=[(1.0, 0.5)], measured=7, tolerance=1e-3))
    assert "5.0e-01 (of round 7) → 1e-03" in text


def test_a_gap_that_was_reached_leaves_no_time() -> None:
    """All that is left is to send the model to everybody."""
    text = shown(Status(gaps=[*falling(1.0), (10.0, 1e-4)], tolerance=1e-3))
    assert "all parties receive the model" in text
    assert "at this rate" not in text


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    """There is none before, after it is deleted, and when it is damaged."""
    state = tmp_path / "state"
    assert read_status(state) is None
    status = Status(round=3, gaps=[(0.5, 0.25)], sentences=["So it is."], writer="a")
    write_status(state, status)
    assert read_status(state) == status
    assert status.gap == 0.25
    write_progress(state, 3)
    assert {path.name for path in state.iterdir()} == {"status.json", "progress.json"}
    (state / "status.json").write_bytes(b"{")
    assert read_status(state) is None
    forget_status(state)
    forget_status(state)
    left = {path.name for path in state.iterdir()}
    assert left == {"progress.json", "status.json.damaged"}


def say(state: Path, writer: str, *sentences: str, n: int | None = None) -> None:
    n_sentences = len(sentences) if n is None else n
    write_status(
        state,
        Status(sentences=list(sentences), n_sentences=n_sentences, writer=writer),
    )


def test_every_sentence_is_printed_once(tmp_path: Path) -> None:
    """It is, even if old ones are gone from the status, or a new process writes."""
    text = io.StringIO()
    display = StudyDisplay(Console(file=text, width=40), tmp_path)
    say(tmp_path, "first", "one", "two")
    display._look()  # without waiting for the thread
    display._look()
    say(tmp_path, "first", "two", "three", n=3)
    display._look()
    say(tmp_path, "second", "four", "five")
    display._look()
    assert text.getvalue().split() == ["one", "two", "three", "four", "five"]


def test_a_file_gets_a_line_for_rounds_worth_one(tmp_path: Path) -> None:
    """Rounds 1, 2, 5, 10, ... get one, or the next round seen; lines do not wrap."""
    text = io.StringIO()
    with StudyDisplay(Console(file=text, width=40), tmp_path) as display:
        display.tell("a sentence that is longer than the width of the console is whole")
        for number in (1, 3, 4, 7, 9):
            write_status(
                tmp_path, Status(round=number, gaps=[(1.0, 0.5)], measured=number)
            )
            display._look()
    sentence, *lines = text.getvalue().splitlines()
    assert sentence.endswith("is whole")
    assert lines == [f"round {n}: certified gap 5.0e-01" for n in (1, 3, 7)]


def test_a_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    """The live display disappears at the end; sentences stay."""
    text = io.StringIO()
    console = Console(file=text, width=60, force_terminal=True)
    with StudyDisplay(console, tmp_path) as display:
        display.doing("making keys")
        display.tell("It begins.")
        write_status(tmp_path, Status(round=1, max_rounds=9, present=["north"]))
        display._look()
    assert "making keys" in text.getvalue()
    assert "It begins." in text.getvalue()
    assert "1 of at most 9" in text.getvalue()
    assert text.getvalue().rstrip().endswith("\x1b[2K")
