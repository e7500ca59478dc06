"""A member's own policy: read from its kit, checked before its answers."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hyfdca.errors import StudyError
from hyfdca.prediction.policy import PredictionTerms, declined_sentence
from hyfdca.study.client.client import StudyClient
from hyfdca.study.client.policy import (
    COMMENTED,
    POLICY,
    MemberPolicy,
    read_policy_of,
)
from tests.support.consortia import assert_one_sentence, make_files
from tests.support.durable_runs import Consortium, write


def test_a_kit_without_the_file_has_no_limits(tmp_path):
    """Kits of earlier versions lack the file."""
    assert read_policy_of(tmp_path) == MemberPolicy()


def test_the_commented_file_has_every_key(tmp_path):
    """It sets nothing; with its lines uncommented it sets everything."""
    (tmp_path / POLICY).write_text(COMMENTED)
    assert read_policy_of(tmp_path) == MemberPolicy()
    set_all = re.sub(r"^# (?=\w+ = )", "", COMMENTED, flags=re.MULTILINE)
    (tmp_path / POLICY).write_text(set_all)
    policy = read_policy_of(tmp_path)
    assert all(
        getattr(policy, name) != getattr(MemberPolicy(), name)
        for name in MemberPolicy.__struct_fields__
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("least_row = 3", "did you mean least_rows"),
        ("colour = 3", "the keys are least_rows, most_rounds, never_offer"),
        ("least_rows = 0", "least_rows"),
        ("least_rows = [", "has a mistake"),
        ('predictions_for = "city"', "predictions_for"),
    ],
)
def test_a_mistake_is_one_sentence(content, said, tmp_path):
    """It names the file, and what may be written instead."""
    (tmp_path / POLICY).write_text(content)
    with pytest.raises(StudyError, match=said) as raised:
        read_policy_of(tmp_path)
    assert_one_sentence(f"{raised.value}\n")
    assert POLICY in str(raised.value)


class Careful(Consortium):
    """A study in which the second organisation has a policy."""

    def __init__(self, folder, policy, rank=1):
        self._policy, self._rank = policy, rank
        super().__init__(folder)

    def member(self, rank):
        """Start a member, city with its policy."""
        policy = self._policy if rank == self._rank else MemberPolicy()
        given = (self.plan, self.tables[rank], self.identities[rank], self.roster)
        return StudyClient(*given, policy=policy)


@pytest.mark.parametrize(
    ("policy", "settings", "said"),
    [
        (
            MemberPolicy(least_rows=41),
            {},
            "its table has 40; have more rows put together",
        ),
        (MemberPolicy(least_rows=15), {"sub_groups": "2"}, "a bucket has"),
        (MemberPolicy(least_rows=30), {}, "what it counts of a column has 20"),
        (MemberPolicy(least_rows=2), {"local_steps": "1"}, "a draw has 1"),
        (
            MemberPolicy(most_rounds=99),
            {},
            "allows 99 rounds times outputs, but run 1 has 100 times 1; lower "
            "max_rounds in the study file",
        ),
        (MemberPolicy(never_offer=["x3"]), {}, "never offers the column 'x3'"),
    ],
)
def test_a_member_refuses_what_its_policy_rules_out(policy, settings, said, tmp_path):
    """The server gets the sentence; the others would have gone on."""
    if "sub_groups" in settings:
        settings = {**settings, "algorithm": '"bundle"', "profile": '"open"'}
        settings = {**settings, "min_group_size": "5"}
    if "local_steps" in settings:
        settings = {**settings, "algorithm": '"hyfdca"', "step": '"paper"'}
    folder = write(tmp_path, max_rounds="100", **settings)
    consortium = Careful(folder, policy)
    with pytest.raises(StudyError, match="'city' refuses: its") as raised:
        consortium.train()
    assert said in str(raised.value)
    assert_one_sentence(f"{raised.value}\n")
    assert not any("unavailable" in said for said in consortium.sentences)  # once


def test_a_member_named_first_counts_all_that_it_holds(tmp_path):
    """As the refusal of a policy says: named second, city counts 20 of 40 rows."""
    files = make_files(max_rounds="2")
    city = files.organisations.pop("city")
    files.organisations = {"city": city, **files.organisations}
    files.write(tmp_path)
    assert Careful(tmp_path, MemberPolicy(least_rows=40), rank=0).train()


def test_a_policy_that_rules_nothing_out_changes_nothing(tmp_path):
    """Limits that the study keeps leave the model as it is, bit for bit."""
    policy = MemberPolicy(
        least_rows=2, most_rounds=100, never_offer=["y2"], predictions_for=["north"]
    )
    folder = write(tmp_path, max_rounds="100", tol="1e-2", algorithm='"bundle"')
    careful = Careful(folder, policy).train()[1]
    assert careful.tobytes() == Careful(folder, MemberPolicy()).train()[1].tobytes()


def test_predictions_are_for_those_whom_the_policy_names():
    """They must also be askers in the study file; an organisation accepts itself."""
    names = ("north", "city", "coast")
    policy = MemberPolicy(predictions_for=["city"])
    accepted = policy.accepted_askers("north", names)
    terms = replace(PredictionTerms(frozenset(names), 10, "keyed"), accepted=accepted)
    log = SimpleNamespace(n_last_hour=lambda _: 0)
    assert terms.objection(log, "city", 1) is None
    assert terms.objection(log, "north", 1) is None
    declined = terms.objection(log, "coast", 1)
    sentence = declined_sentence("north", "coast", declined)
    assert "policy.toml does not name it in predictions_for" in sentence
    assert MemberPolicy().accepted_askers("north", names) == set(names)
    with pytest.raises(StudyError, match="'moon' in predictions_for"):
        MemberPolicy(predictions_for=["moon"]).accepted_askers("north", names)
