"""Fingerprints and rosters of study files, and the keys they contain."""

import pytest

from hyfdca.crypto.keys.identity import Identity, PublicIdentity
from hyfdca.errors import StudyError
from hyfdca.study.file import load
from hyfdca.study.identity import make_roster, study_fingerprint, study_hash
from tests.support.consortia import make_files

NAMES = ["north", "city", "coast"]
PUBLIC = {name: Identity.generate().public for name in NAMES}


def files_with_keys(**settings):
    """Return a study whose organisations have keys."""
    files = make_files(**settings)
    for name, public in PUBLIC.items():
        files.organisations[name].extra = f'public_key = "{public.text}"'
    return files


def roster_of(path):
    file = load(path)
    keys = {client.name: client.public_key for client in file.clients}
    return make_roster(path.read_bytes(), keys, file.study.key_epoch)


def test_a_study_file_gives_its_roster(tmp_path):
    """Organisations have the ranks of the file, with their keys and the epoch."""
    path = files_with_keys(key_epoch="7").write(tmp_path)
    roster = roster_of(path)
    assert [entry.name for entry in roster.entries] == NAMES
    assert [entry.public for entry in roster.entries] == list(PUBLIC.values())
    assert roster.epoch == 7
    assert roster.study_hash == study_hash(path.read_bytes())


def test_every_byte_of_a_study_file_counts():
    """Another file has another hash, and the fingerprint shows all of it."""
    contents = [b"", b"a", b"b", b"a\n", b"a\r\n", b"a "]
    assert len({study_hash(content) for content in contents}) == len(contents)
    fingerprint = study_fingerprint(b"a")
    assert bytes.fromhex(fingerprint) == study_hash(b"a")
    assert {len(group) for group in fingerprint.split(" ")} == {4}


def test_studies_need_no_keys_unless_keys_are_exchanged(tmp_path):
    """A study file without keys is valid, but has no roster."""
    files = files_with_keys()
    files.organisations["city"].extra = ""
    with pytest.raises(StudyError, match="'city' has no public_key in the study file"):
        roster_of(files.write(tmp_path))
    file = load(make_files().write(tmp_path))
    assert [client.public_key for client in file.clients] == [None] * 3
    assert file.study.key_epoch == 1


def test_one_key_in_two_pairs_is_noticed(tmp_path):
    """Organisations share neither of their two keys."""
    north, city = PUBLIC["north"], PUBLIC["city"]
    mixed = [
        PublicIdentity(north.sealing, city.verifying),
        PublicIdentity(city.sealing, north.verifying),
    ]
    for public in mixed:
        keys = {"north": north.text, "coast": public.text}
        with pytest.raises(StudyError, match="'north' and 'coast' have the same"):
            make_roster(b"", keys, 1)
