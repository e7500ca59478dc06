"""The owner-group numbers that clients are sent tell groups apart, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hyfdca.crypto.schemes.registry import Encryption
from tests.crypto.owner_blocks import owners_of
from tests.support.sealed_runs import ENCRYPTIONS, keys_of
from tests.support.small_runs import classification, make_training, partition_of, start

pytestmark = pytest.mark.usefixtures("small_paillier")

N_SAMPLES, N_FEATURES = 24, 6
SHAPES = ["overlapping", "2x2", "3x1", "1x3"]
SEALING = ["stream", "bfv-compact", "paillier"]
SECRETS = [bytes(32), bytes(range(32))]
KINDS = ["samples", "features"]


def _federation(shape, name="stream", profile="sealed", secret=None):
    """Return a federation whose server has this secret; by default a fresh one."""
    X, y = classification(N_SAMPLES, N_FEATURES)
    encryption = ENCRYPTIONS.get(name, Encryption())
    run = make_training(
        X,
        y,
        partition_of(shape, N_SAMPLES, N_FEATURES),
        profile=profile,
        encryption=encryption,
        keys=keys_of(encryption),
    )
    if secret is None:
        return run.federation
    secrecy = replace(run.training.secrecy, group_secret=secret)
    chosen = start(run.settings, run.layout, run.blocks, run.participation, secrecy)
    return chosen.federation


def _axis(federation, kind):
    layout = federation.layout
    return layout.samples if kind == "samples" else layout.features


def _sent(federation, kind):
    """Return the number of each item that every client is sent, by its owners."""
    pairs = set()
    for client in federation.everyone:
        notice = federation.vectors.notice(client)
        is_samples = kind == "samples"
        payload = notice.sample_groups if is_samples else notice.feature_groups
        numbers = np.frombuffer(payload, "<u4").tolist()
        owners = owners_of(_axis(federation, kind), client)
        pairs |= set(zip(owners, numbers, strict=True))
    return pairs


def _numbers(federation, kind):
    return {number for _, number in _sent(federation, kind)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SEALING)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("secret", SECRETS, ids=["zeros", "others"])
def test_each_owner_group_has_one_number(shape, name, kind, secret):
    """All holders of a group get the same number for it, and no other group has it."""
    sent = _sent(_federation(shape, name, secret=secret), kind)
    owners, numbers = zip(*sent, strict=True)
    assert len(set(owners)) == len(sent)
    assert len(set(numbers)) == len(sent)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SEALING)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("secret", SECRETS, ids=["zeros", "others"])
def test_numbers_of_groups_do_not_count_them(shape, name, kind, secret):
    """They are not 0, 1, 2, ..., which would show how many groups come before."""
    federation = _federation(shape, name, secret=secret)
    places = range(_axis(federation, kind).n_items)
    assert _numbers(federation, kind).isdisjoint(places)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_of_groups_come_of_the_servers_secret(shape, kind):
    """The same secret gives the same numbers again, another one gives others."""
    one, again, other = (
        _federation(shape, secret=secret) for secret in (*SECRETS[:1] * 2, SECRETS[1])
    )
    assert _sent(one, kind) == _sent(again, kind)
    assert _numbers(one, kind).isdisjoint(_numbers(other, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_of_groups_are_new_in_every_study(shape, kind):
    """Without a secret of its own, a study of the same data and seed has a new one."""
    one, other = _federation(shape), _federation(shape)
    assert {owners for owners, _ in _sent(one, kind)} == {
        owners for owners, _ in _sent(other, kind)
    }
    assert _sent(one, kind) != _sent(other, kind)


@pytest.mark.parametrize("shape", SHAPES)
def test_groups_of_samples_and_of_features_have_numbers_of_their_own(shape):
    """A number says nothing about the other axis."""
    federation = _federation(shape, secret=SECRETS[0])
    samples, features = (_numbers(federation, kind) for kind in KINDS)
    assert samples.isdisjoint(features)


@pytest.mark.parametrize(
    ("name", "profile", "is_sent"),
    [
        ("none", "sealed", (False, False)),
        ("none", "open", (False, False)),
        ("stream", "sealed", (True, True)),
        ("stream", "open", (True, False)),
    ],
)
def test_numbers_of_groups_are_sent_only_for_what_is_sealed(name, profile, is_sent):
    """Vectors that nobody seals need none, so clients learn none."""
    federation = _federation("overlapping", name, profile)
    for client in federation.everyone:
        notice = federation.vectors.notice(client)
        sent = (notice.sample_groups is not None, notice.feature_groups is not None)
        assert sent == is_sent
