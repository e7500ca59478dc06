"""The command line: keys of organisations, fingerprints of studies."""

from __future__ import annotations

from hyfdca.kits.key_files import read_identity
from hyfdca.study.identity import study_fingerprint
from tests.support.consortia import assert_one_sentence, extra, make_files


def test_new_keys(tmp_path, hyfdca):
    """Making keys prints the line for the study file, and nothing secret."""
    folder = tmp_path / "keys"
    code, output, errors = hyfdca("keys", "new", "--out", folder)
    assert (code, errors) == (0, "")
    identity = read_identity(folder)
    assert f'\npublic_key = "{identity.public.text}"\n' in output
    assert f"Fingerprint: {identity.public.fingerprint}\n" in output
    assert identity.to_bytes()[20:40].decode() not in output
    code, shown, errors = hyfdca("keys", "show", folder)
    assert (code, errors) == (0, "")
    assert output.endswith(shown)
    assert len(shown.splitlines()) == 2


def test_keys_are_made_once(tmp_path, hyfdca):
    """A folder that already has keys is left unchanged."""
    hyfdca("keys", "new", "--out", tmp_path)
    before = (tmp_path / "secret.key").read_bytes()
    code, output, errors = hyfdca("keys", "new", "--out", tmp_path)
    assert (code, output) == (2, "")
    assert "never overwritten" in errors
    assert_one_sentence(errors)
    assert (tmp_path / "secret.key").read_bytes() == before


def test_keys_that_others_can_read_are_not_shown(tmp_path, hyfdca):
    """The error says how to restrict access to the file."""
    hyfdca("keys", "new", "--out", tmp_path)
    (tmp_path / "secret.key").chmod(0o644)
    code, output, errors = hyfdca("keys", "show", tmp_path)
    assert (code, output) == (2, "")
    assert "chmod 600" in errors
    assert_one_sentence(errors)


def test_the_fingerprint_of_a_study(tmp_path, hyfdca):
    """The fingerprint covers the file's bytes; all known keys are shown."""
    hyfdca("keys", "new", "--out", tmp_path / "north")
    public = read_identity(tmp_path / "north").public
    files = make_files(name='"our study"', key_epoch="3")
    extra("north", f'public_key = "{public.text}"')(files)
    path = files.write(tmp_path)
    code, output, errors = hyfdca("study", "fingerprint", path)
    assert (code, errors) == (0, "")
    assert output.splitlines()[:5] == [
        "Study 'our study', key epoch 3:",
        study_fingerprint(path.read_bytes()),
        f"'north': {public.fingerprint}",
        "'city': no key yet",
        "'coast': no key yet",
    ]
    assert "by telephone or in person" in output
