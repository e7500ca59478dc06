"""A damaged log of predictions: one sentence with its path, or entries that count."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hyfdca.prediction.policy import LOG_FILE, PredictionLog
from hyfdca.runtime.store import FolderStore, StoreError
from tests.support.consortia import assert_one_sentence
from tests.support.spoiling import spoilt
from tests.support.thoroughness import examples

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def make_log(folder):
    return PredictionLog(FolderStore(folder), lambda: NOW)


def n_counted(log):
    """Return how many rows of the last hour are counted."""
    return log.n_last_hour("city")


def refusal(log):
    """Return why a log is refused; "" if it counts rows."""
    try:
        assert n_counted(log) >= 0
    except StoreError as error:
        return str(error)
    return ""


def test_a_damaged_log_is_refused_or_counted(tmp_path):
    """Nothing but the project's own error; never fewer rows than none."""
    log, path = make_log(tmp_path), tmp_path / LOG_FILE
    log.add("city", 7, "a")
    good, n_refused = path.read_bytes(), 0
    assert n_counted(log) == 7
    for content in spoilt(good, 400, "log"):
        path.write_bytes(content)
        said = refusal(log)
        n_refused += bool(said)
        if said:
            assert_one_sentence(f"{said}\n")
            assert str(path) in said
    assert n_refused > examples(400) // 4


def test_a_date_without_a_time_zone_is_damage(tmp_path):
    """It cannot be compared with the clock."""
    line = b'{"time":"2030-01-01T12:00:00","asked_by":"city","rows":1,"request":"a"}'
    (tmp_path / LOG_FILE).write_bytes(line)
    with pytest.raises(StoreError, match="past predictions cannot be counted"):
        n_counted(make_log(tmp_path))
