"""Views that are damaged, also under right digests: refused with their path."""

from __future__ import annotations

import resource
import struct
from pathlib import Path

import msgspec
import pytest
import xxhash

from hyfdca.audit.views import Record, ViewError, ViewWriter, read_view
from tests.audit.test_recording import HEADER
from tests.support.consortia import assert_one_sentence
from tests.support.spoiling import spoilt

MAGIC = b"hyfdca view 1\n"


def frame(body):
    return struct.pack("<Q16s", len(body), xxhash.xxh3_128_digest(body)) + body


@pytest.fixture
def view(tmp_path):
    path = tmp_path / "server.view"
    writer = ViewWriter(path, HEADER)
    writer.write(Record("step", 1, "up", bytes(16), "totals", (2, 1)))
    writer.close()
    return path


def refusal(path):
    """Read a view to its end; return why it is refused, or ""."""
    try:
        _, records = read_view(path)
        for record in records:
            record.numbers()
    except ViewError as error:
        return str(error)
    return ""


def test_damaged_views_are_refused(view):
    """One sentence says where the view is."""
    good = view.read_bytes()
    assert refusal(view) == ""
    for content in spoilt(good, 400, "view"):
        view.write_bytes(content)
        said = refusal(view)
        assert content == good or said
        assert_one_sentence(f"{said or 'Whole.'}\n")
        assert str(view) in said or content == good


@pytest.mark.parametrize("name", ["header", "record"])
def test_frames_with_right_digests_are_read_or_refused(view, name):
    """It holds for frames with other contents or deep nesting."""
    record = Record("step", 1, "up", bytes(16), "totals", (2, 1))
    frames = {"header": HEADER, "record": record, "end": [1]}
    frames = {part: msgspec.msgpack.encode(own) for part, own in frames.items()}

    def said_of(content):
        changed = {**frames, name: content}
        view.write_bytes(MAGIC + b"".join(map(frame, changed.values())))
        return refusal(view)

    assert said_of(frames[name]) == ""
    said = [said_of(content) for content in spoilt(frames[name], 200, name)]
    assert any(said)
    for sentence in filter(None, said):
        assert_one_sentence(f"{sentence}\n")


def test_a_claimed_length_costs_no_memory(view):
    """A frame that claims 16 GB is refused under a limit of 4 GB of addresses."""
    content = view.read_bytes()
    start = len(MAGIC)
    view.write_bytes(content[:start] + struct.pack("<Q", 2**34) + content[start + 8 :])
    before = resource.getrlimit(resource.RLIMIT_AS)
    n_pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    used = n_pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**32, before[1]))
    try:
        assert "damaged" in refusal(view)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
