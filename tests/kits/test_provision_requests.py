"""Requests and names that provisioning refuses."""

from __future__ import annotations

import json
import os
import re
import shutil

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from hyfdca.crypto.keys.identity import Identity
from hyfdca.kits.enrolment import OwnKeys, read_keys, request_of
from hyfdca.kits.key_files import read_identity
from tests.kits.kit_commands import provision_refused
from tests.kits.kit_makers import NAMES

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's"),
    pytest.mark.usefixtures("small_tls"),
]
pytest.importorskip("nvflare")


def spoil_request(of, **changes):
    """Return a function that changes a request without signing it again."""

    def change(parties):
        path = parties.requests / f"{of}.request.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def replace_request(name, as_name=None, identity=None, tls_key=None):
    """Return a function that replaces a request by one with other keys."""

    def change(parties):
        own = read_keys(parties.keys(name))
        keys = OwnKeys(identity or own.identity, tls_key or own.tls_key)
        content = msgspec.json.encode(request_of(as_name or name, keys))
        (parties.requests / f"{name}.request.json").write_bytes(content)

    return change


def write_request(name, content):
    def change(parties):
        (parties.requests / f"{name}.request.json").write_bytes(content)

    return change


def twice(parties):
    path = parties.requests / "north.request.json"
    shutil.copy(path, path.with_name("again.request.json"))


def swap(parties):
    """Give one organisation's identity another's certificate request."""
    paths = [parties.requests / f"{name}.request.json" for name in ("north", "city")]
    north, city = (json.loads(path.read_text()) for path in paths)
    north["certificate_request"] = city["certificate_request"]
    paths[0].write_text(json.dumps(north))


def small_key(parties):
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505
    replace_request("north", tls_key=key)(parties)


WRONG = {
    "another name": (spoil_request("north", name="south"), "changed in transit"),
    "another key": (
        replace_request("north", identity=Identity.generate()),
        "'north' has another public_key than the study file",
    ),
    "signed with another key": (
        spoil_request("north", public_key=Identity.generate().public.text),
        "changed in transit",
    ),
    "no organisation": (
        replace_request("north", as_name="south"),
        "request from 'south', which is not an organisation",
    ),
    "somebody else's": (
        replace_request("north", as_name="city"),
        "two requests from 'city'",
    ),
    "another's certificate": (swap, "changed in transit"),
    "twice": (twice, "two requests from 'north'"),
    "missing": (
        lambda p: (p.requests / "city.request.json").unlink(),
        "no request from 'city'",
    ),
    "path": (replace_request("north", as_name="../../north"), "name .* cannot be used"),
    "hidden": (replace_request("north", as_name=".north"), "name .* cannot be used"),
    "new line": (replace_request("north", as_name="no\nrth"), "name .* cannot be used"),
    "small key": (small_key, "has 1024 bits"),
    "garbled": (write_request("north", b"{"), "garbled"),
    "no text": (write_request("north", b"\xff\xfe\x00"), "garbled"),
    "deep": (write_request("north", b"[" * 60_000), "garbled"),
    "unknown field": (spoil_request("north", more=1), "garbled"),
    "huge": (write_request("north", b" " * 70_000), "larger than"),
    "no folder": (lambda p: shutil.rmtree(p.requests), "Cannot read the folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests(enrolled, hyfdca, case):
    """Each gets one sentence, and nothing is written."""
    change, message = WRONG[case]
    change(enrolled)
    assert re.search(message, provision_refused(hyfdca, enrolled))


def test_a_certificate_request_of_a_key_that_the_sender_lacks(enrolled, hyfdca):
    """The key must have signed its own request."""
    own = read_keys(enrolled.keys("north"))
    request = request_of("north", own)
    lines = request.certificate_request.splitlines()
    lines[-2] = lines[-2][::-1]
    broken = "\n".join(lines) + "\n"
    unsigned = msgspec.structs.replace(request, certificate_request=broken)
    signed = msgspec.structs.replace(
        unsigned, signature=own.identity.sign(unsigned.signed_part)
    )
    write_request("north", msgspec.json.encode(signed))(enrolled)
    assert "certificate request in" in provision_refused(hyfdca, enrolled)


def test_keys_missing_in_the_study_file(enrolled, hyfdca):
    """The message has the lines to add, once their owners have confirmed them."""
    text = enrolled.study.read_text()
    enrolled.study.write_text(re.sub("public_key = .*", "", text))
    errors = provision_refused(hyfdca, enrolled)
    for name in NAMES:
        line = read_identity(enrolled.keys(name)).public.text
        assert f"'{name}': public_key = \"{line}\"" in errors


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((name, "differs from that of") for name in ("hyfdca-server", "CITY")),
        *((name, "cannot be used") for name in ("Süd", "a b", "-x", "x" * 64)),
    ],
)
def test_names_that_cannot_be_used(enrolled, hyfdca, name, why):
    """Names of sites differ from each other, whatever a file system thinks."""
    text = enrolled.study.read_text()
    enrolled.study.write_text(text.replace('name = "north"', f'name = "{name}"'))
    assert why in provision_refused(hyfdca, enrolled)
