"""Stores what a client answered about rows set aside, run by run."""

from __future__ import annotations

import msgspec

from hyfdca.errors import reading
from hyfdca.runtime.store import Archive
from hyfdca.stages.evaluation.answered import Answered, AnsweredRecord
from hyfdca.study.plan import Plan

TESTS = "tests"


def answered_in(plan: Plan, archive: Archive) -> Answered:
    """Return the record of what a client has answered in its run, for updating."""
    of_run = b"%d.%d" % (plan.epoch, plan.run.number)

    def read() -> AnsweredRecord:
        with reading(archive.damage(TESTS)):
            kept = archive.read(TESTS)
            run, record = _decoder.decode(kept) if kept else (b"", AnsweredRecord())
        return record if run == of_run else AnsweredRecord()

    def write(record: AnsweredRecord) -> None:
        archive.write(TESTS, msgspec.msgpack.encode((of_run, record)))

    return Answered(read, write, plan.is_rehearsal)


_decoder = msgspec.msgpack.Decoder(tuple[bytes, AnsweredRecord])
