"""Labels that some holders lack, weights and offsets, against what all know."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyfdca.crypto.schemes.registry import Encryption
from hyfdca.data.targets import TargetSettings
from hyfdca.federation.sealing.kinds import VectorKind
from hyfdca.protocol.client_session import decode, unframe
from hyfdca.stages.alignment.messages import PlacementNotice
from hyfdca.stages.labels.messages import LabelsNotice, WeightsNotice
from hyfdca.stages.labels.transfer import (
    as_whole_numbers,
    from_whole_numbers,
    width_of,
)
from tests.crypto.owner_blocks import check_packed, owners_of
from tests.stages import label_meetings
from tests.stages.alignment.alignments import TOKEN, label_of
from tests.stages.label_meetings import (
    Labelled,
    LabelMeeting,
    label_consortia,
    number_of,
    offset_of,
    weight_of,
)
from tests.support.sealed_runs import ENCRYPTIONS
from tests.support.seen_vectors import Vector
from tests.support.thoroughness import examples

pytestmark = pytest.mark.usefixtures("small_paillier")

SOME = settings(
    max_examples=examples(12),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SETTINGS = {
    "labels": TargetSettings(),
    "weights": TargetSettings(has_weights=True),
    "offsets": TargetSettings(has_offsets=True),
    "all": TargetSettings(True, True, {"unwell": 2.5}),
    "balanced": TargetSettings(class_weight="balanced"),
    "balanced weights": TargetSettings(has_weights=True, class_weight="balanced"),
}
TWO_PART = [Labelled([0, 1, 2, 3], [0], [0, 1]), Labelled([1, 0, 3, 2], [1], [2, 3])]

LABELS = VectorKind("samples", "labels")
WEIGHTS = VectorKind("samples", "sample weights")


def column(values, rows, usual):
    return [usual] * len(rows) if values is None else values[:, 0].tolist()


@pytest.mark.parametrize("name", SETTINGS)
@given(label_consortia())
def test_every_holder_knows_what_some_holder_knows(name, held):
    """Labels, offsets and weights are those of one table without unlabelled rows."""
    meeting = LabelMeeting(held, SETTINGS[name])
    found, wanted = meeting.run(), meeting.weights()
    assert meeting.alignment.layout.samples.n_items == len(meeting.kept)
    for client, losses in enumerate(found):
        rows = meeting.rows_of(client)
        weights = column(losses.weights, rows, 1.0)
        np.testing.assert_allclose(weights, [wanted[r] for r in rows], rtol=1e-12)
        if held[client].known is None:
            assert losses.labels is losses.offsets is None
            continue
        signs = [1.0 if label_of(row) == "unwell" else -1.0 for row in rows]
        assert losses.labels[:, 0].tolist() == signs
        has_offsets = SETTINGS[name].has_offsets
        offsets = [offset_of(row) if has_offsets else 0.0 for row in rows]
        assert column(losses.offsets, rows, 0.0) == offsets


@given(label_consortia())
def test_numbers_of_a_regression_travel_bit_for_bit(held):
    """A label that came from another holder is the same float."""
    meeting = LabelMeeting(held, task="regression")
    for client, losses in enumerate(meeting.run()):
        rows = meeting.rows_of(client)
        if held[client].known is not None:
            assert losses.labels[:, 0].tolist() == [number_of(row) for row in rows]


@given(label_consortia())
def test_rows_that_are_left_out_are_counted(held):
    """Without a label anywhere, or of weight 0: neither has a place anywhere."""
    meeting = LabelMeeting(held, SETTINGS["weights"])
    every = {row for own in held for row in own.rows}
    known = {row for own in held for row in own.known or []}
    assert meeting.alignment.n_without_label == len(every - known)
    assert meeting.alignment.n_without_weight == (3 in known)
    for client, wire in enumerate(meeting.meeting.wires):
        notice = decode(unframe(wire.down[1], TOKEN)[1], PlacementNotice)
        placed = np.frombuffer(notice.rows, "<u4")
        rows = [held[client].rows[place] for place in placed]
        assert rows == meeting.rows_of(client)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["all", "balanced weights"])
@pytest.mark.parametrize("encryption", ["stream", "stream-compact", "paillier"])
@SOME
@given(held=label_consortia())
def test_sealed_is_the_same_bit_for_bit(encryption, name, held):
    """Every holder opens the same bits with every scheme."""
    chosen = ENCRYPTIONS[encryption]
    bare = Encryption("none", chosen.precision)
    sealed = LabelMeeting(held, SETTINGS[name], chosen).run()
    plain = LabelMeeting(held, SETTINGS[name], bare).run()
    for losses, others in zip(sealed, plain, strict=True):
        for part in ("labels", "weights", "offsets"):
            own, other = getattr(losses, part), getattr(others, part)
            assert (own is None) == (other is None)
            assert own is None or own.tobytes() == other.tobytes()


@pytest.mark.parametrize("encryption", ["bfv", "bfv-compact", "bfv-auto"])
def test_blocks_of_bfv_carry_labels(encryption):
    """Two holders that each know half know all afterwards; a third knows weights."""
    held = [*TWO_PART, Labelled([2, 0], [2], None)]
    targets = TargetSettings(has_offsets=True, class_weight={"unwell": 3.0})
    meeting = LabelMeeting(held, targets, ENCRYPTIONS[encryption])
    *found, third = meeting.run()
    for client, losses in enumerate(found):
        rows = meeting.rows_of(client)
        assert losses.offsets[:, 0].tolist() == [offset_of(row) for row in rows]
    assert third.weights is None  # both of its rows are healthy


def test_nothing_is_exchanged_where_nothing_is_lacking():
    """Without blanks and weights there is no message; a table of weights needs none."""
    known = [Labelled([0, 1, 2], [0], [0, 1, 2]), Labelled([2, 1], [1], [1, 2])]
    meeting = LabelMeeting([*known, Labelled([0, 2], [2], None)])
    meeting.run()
    assert meeting.traffic.round_trips == 0
    targets = TargetSettings(has_offsets=True, class_weight={"unwell": 3.0})
    meeting = LabelMeeting(known, targets)
    assert meeting.run()[1].weights.tolist() == [[3.0], [1.0]]
    assert meeting.traffic.round_trips == 0


def test_weights_of_1_change_nothing(monkeypatch):
    """They equal no weights, bit for bit; offsets of 0 equal no offsets."""
    monkeypatch.setattr(label_meetings, "weight_of", lambda _: 1.0)
    monkeypatch.setattr(label_meetings, "offset_of", lambda _: 0.0)
    for class_weight in (None, {"unwell": 1.0}, "balanced"):
        targets = TargetSettings(True, True, class_weight)
        for losses in LabelMeeting(TWO_PART, targets).run():
            assert (losses.weights, losses.offsets) == (None, None)


# What reaches whom


@pytest.mark.parametrize("encryption", ["paillier", "none"])
@SOME
@given(held=label_consortia())
def test_what_is_given_reaches_holders_alone(encryption, held):
    """No slot of any message is of a row that its receiver does not hold or lack."""
    chosen = ENCRYPTIONS.get(encryption, Encryption("none"))
    bare = LabelMeeting(held, SETTINGS["all"])
    meeting = LabelMeeting(held, SETTINGS["all"], chosen)
    bare.run()
    meeting.run()
    blanks, samples = meeting.alignment.blanks, meeting.alignment.layout.samples
    for client, wire in enumerate(meeting.wires):
        wanted = {"take labels": (blanks.lacking[client].tolist(), width_of(3))}
        if held[client].known is None:
            every = list(range(len(samples.items[client])))
            wanted = {"take weights": (every, width_of(1))}
        found, plain = taken_by(wire), taken_by(bare.wires[client])
        assert set(found) == {phase for phase in wanted if wanted[phase][0]}
        for phase, sealed in found.items():
            rows, width = wanted[phase]
            numbers = np.frombuffer(plain[phase].payload, np.int64).tolist()
            assert len(numbers) == len(rows) * width
            if encryption == "paillier":
                sealing = meeting.clients[client]._sealing
                kind = LABELS if width > width_of(1) else WEIGHTS
                sealer = sealing.sealer(kind).on_grid(0)
                groups = sealing._samples
                given = np.array(numbers).reshape(-1, width)
                checks, _ = sealer.checks(given, groups, np.array(rows))
                checked = np.column_stack([given, checks]).ravel().tolist()
                vector = Vector(kind, rows, False, width + 1, sealed)
                owners = owners_of(samples, client)
                cipher = sealer._sealer._cipher
                check_packed(cipher, vector, owners, groups.groups, checked)


def taken_by(wire):
    """Return the sealed vectors by sample that a client got, by phase."""
    kinds = {"take labels": LabelsNotice, "take weights": WeightsNotice}
    found = {}
    for phase, payload in zip(wire.phases, wire.down, strict=True):
        if phase in kinds:
            notice = decode(unframe(payload, TOKEN)[1], kinds[phase])
            [found[phase]] = notice.values
    return found


@SOME
@given(held=label_consortia(), name=st.sampled_from(["all", "balanced weights"]))
def test_the_server_sees_no_label_weight_or_offset(held, name):
    """No number of a row or of all rows is in any byte that it saw."""
    meeting = LabelMeeting(held, SETTINGS[name], ENCRYPTIONS["stream"])
    meeting.run()
    seen = b"".join(reply for wire in meeting.wires for reply in wire.up)
    seen += meeting.meeting.seen
    numbers = {weight_of(row) for row in meeting.kept}
    numbers |= {offset_of(row) for row in meeting.kept}
    numbers.add(sum(weight_of(row) for row in meeting.kept))
    for number in numbers - {0.0}:
        assert struct.pack("<d", number) not in seen
        assert struct.pack(">d", number) not in seen


# Whole numbers


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1))
def test_whole_numbers_are_exact(values):
    """Every float comes back with its own bits, infinities and NaN too."""
    values = np.array(values)
    numbers = as_whole_numbers(values)
    assert numbers.shape == (len(values), width_of(2))
    assert numbers.max() < 2**22
    assert from_whole_numbers(numbers).tobytes() == values.tobytes()


@pytest.mark.parametrize("n_givers", [0, 2])
def test_whole_numbers_of_no_single_giver(n_givers):
    """A row that nobody gave, or two, is refused."""
    numbers = n_givers * as_whole_numbers(np.array([[1.5]]))
    with pytest.raises(ValueError, match="exactly one holder"):
        from_whole_numbers(numbers)
