"""Which algorithms are compared, as a text and a study file say."""

from __future__ import annotations

import dataclasses
import json

import pytest

from hyfdca.algorithms.fedavg import FedAvg
from hyfdca.algorithms.hyfdca.hyfdca import Hyfdca
from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.comparison.contenders import contenders_of
from hyfdca.errors import StudyError
from hyfdca.study.file import Client, Study, StudyFile
from tests.support.consortia import assert_one_sentence


def file(**algorithm) -> StudyFile:
    return StudyFile(Study(name="test"), [Client(name="north")], algorithm)


def algorithms(text, **algorithm):
    return [c.algorithm for c in contenders_of(text, file(**algorithm))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hyfdca", [Hyfdca()]),
        (" hyfdca , fedavg ( ) ", [Hyfdca(), FedAvg()]),
        ("fedavg(rate=0.5,batch=1),hyfdca", [FedAvg(rate=0.5, batch=1), Hyfdca()]),
        ("fedavg( rate = 5e-1 , batch = all )", [FedAvg(rate=0.5, batch="all")]),
        ("fedavg(batch='all',rate=.5)", [FedAvg(rate=0.5, batch="all")]),
        (
            'hyfdca(step="safe",second_inner_product=true)',
            [Hyfdca(step="safe", second_inner_product=True)],
        ),
        ("fedavg(rate=1),fedavg(rate=2)", [FedAvg(rate=1.0), FedAvg(rate=2.0)]),
    ],
)
def test_names_and_settings(text, expected):
    """Settings are read as in a study file; bare words are texts."""
    assert algorithms(text) == expected


def test_all():
    """Without a text, all algorithms of the registry are compared."""
    assert algorithms(None) == [kind() for kind in ALGORITHMS.values()]


def test_settings_of_the_study():
    """The study's settings are those of its own algorithm; the text overrides them."""
    own = {"name": "hyfdca", "step": "safe", "local_fraction": 0.5}
    assert algorithms("fedavg,hyfdca", **own) == [
        FedAvg(),
        Hyfdca(step="safe", local_fraction=0.5),
    ]
    assert algorithms("hyfdca(step=paper)", **own) == [
        Hyfdca(step="paper", local_fraction=0.5)
    ]


def test_labels():
    """A label has the settings that the text gives, and no others."""
    found = contenders_of("hyfdca(step=safe),fedavg,fedavg(rate=2,batch=all)", file())
    labels = [contender.label for contender in found]
    assert labels == ["hyfdca(step=safe)", "fedavg", "fedavg(rate=2, batch=all)"]
    assert json.loads(found[2].settings) == dataclasses.asdict(
        FedAvg(rate=2.0, batch="all")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "from its end on"),
        ("hyfdca,", "from its end on"),
        ("hyfdca fedavg", "from 'hyfdca fedavg' on"),
        ("hyfdca,(rate=1)", "from '(rate=1)' on"),
        ("fedavg(rate=0.5", "from 'fedavg(rate=0.5' on"),
        ("fedavg(rate=0.5))", "from 'fedavg(rate=0.5))' on"),
        ("fedavg(rate)", "from 'rate' on"),
        ("fedavg(rate=1,)", "from its end on"),
        ("fedavg(rate=__import__('os'))", "Cannot read --algorithms from"),
        ("fedavg(rate=1,rate=2)", "sets rate of fedavg twice"),
        ("fedavg(rate=fast)", "rate must be a positive number"),
        ("fedavg(rate=-1)", "rate must be a positive number"),
        ("fedavg(batch=" + "9" * 5000 + ")", "batch must be"),
        ("fedavg(colour=1)", "has no setting 'colour'"),
        ("hyfdca(rate=1)", "rate is a setting of algorithm"),
        ("magic", "There is no algorithm 'magic'"),
        ("auto", "There is no algorithm 'auto'"),
        ("hyfdca,hyfdca", "which are the same"),
        ("hyfdca,hyfdca(step=auto)", "which are the same"),
    ],
)
def test_refusals(text, message):
    """Unreadable or senseless text is refused with one sentence."""
    with pytest.raises(StudyError) as caught:
        contenders_of(text, file())
    assert message in str(caught.value)
    assert_one_sentence(f"{caught.value}\n")
