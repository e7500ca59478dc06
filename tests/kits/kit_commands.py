"""Commands that must succeed, or be refused in one sentence and write nothing."""

from __future__ import annotations

from tests.kits.kit_makers import snapshot
from tests.support.consortia import assert_one_sentence


def succeed(hyfdca, *arguments):
    code, output, errors = hyfdca(*arguments)
    assert (code, errors) == (0, "")
    return output


def refused(hyfdca, watched, *arguments):
    """Return the one sentence of a command that must fail and write nothing."""
    before = snapshot(watched)
    code, output, errors = hyfdca(*arguments)
    assert (code, output) == (2, "")
    assert_one_sentence(errors)
    assert snapshot(watched) == before
    return errors


def provision_refused(hyfdca, parties):
    return refused(
        hyfdca,
        parties.root,
        *("provision", parties.study, "--requests", parties.requests),
        *("--out", parties.kits),
    )
