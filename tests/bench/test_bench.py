"""`hyfdca bench crypto`: what it measures, what it prints, what it does without."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
from rich.console import Console

from hyfdca.bench import crypto, subjects
from hyfdca.bench.crypto import Cost, CostComparison, compare, measure
from hyfdca.cli import bench as display
from hyfdca.cli import main as cli
from hyfdca.crypto.schemes.blocks import BlockAdder, BlockSealer
from hyfdca.crypto.schemes.paillier import PaillierAddition, PaillierCipher
from hyfdca.crypto.schemes.paillier_keys import SecretKey
from hyfdca.crypto.schemes.plain import PlainAdder, PlainSealer

FIGURES = {"encrypt_ns", "decrypt_ns", "add_ns", "bytes"}
KEY = SecretKey.generate(512, for_tests=True)


def small_paillier(packed=True):
    cipher = PaillierCipher(KEY, packed=packed)
    adder = BlockAdder(PaillierAddition(KEY.public, packed=packed))
    return subjects.Ours(BlockSealer(cipher), adder, fill=cipher.pool.fill)


@pytest.fixture
def few(monkeypatch):
    """Measure schemes that take no time, and no library."""
    schemes = {"none": subjects.SCHEMES["none"], "paillier-pooled": small_paillier}
    monkeypatch.setattr(crypto, "SCHEMES", schemes)
    for name in subjects.LIBRARIES:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def bench(monkeypatch, capsys):
    """Run the command in this process; return exit code, output and errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hyfdca", "bench", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return caught.value.code or 0, *capsys.readouterr()

    return run


def library(name):
    """Return a library to measure beside, or skip the test."""
    reason = f"{name} is not installed; it is in the extra {crypto.EXTRA}"
    pytest.importorskip(name, reason=reason)
    return subjects.LIBRARIES[name]()


@pytest.mark.parametrize("packed", [False, True])
def test_blocks_are_measured(packed):
    """Any pair of block cipher and addition is measured through one helper."""
    cost = measure(small_paillier(packed), seconds=0.0)
    # One bit says that a block is present.
    assert cost.bytes == pytest.approx(128 / (7 if packed else 1), rel=0.01)
    assert min(cost.encrypt_ns, cost.decrypt_ns, cost.add_ns) > 0


def test_no_encryption_is_eight_bytes():
    """Numbers in the clear take the eight bytes of their grid."""
    assert measure(subjects.SCHEMES["none"](), seconds=0.0).bytes == 8


@pytest.mark.parametrize(
    ("name", "low", "high"), [("phe", 512, 512), ("tenseal", 8, 40)]
)
def test_libraries_are_measured(name, low, high):
    """The libraries seal, add and open the same grid."""
    cost = measure(library(name), seconds=0.0)
    assert low <= cost.bytes <= high
    assert min(cost.encrypt_ns, cost.decrypt_ns, cost.add_ns) > 0


def test_what_is_prepared_is_not_counted():
    """A filled pool makes sealing cheaper than opening."""
    cost = measure(small_paillier(), seconds=0.05)
    assert cost.encrypt_ns < cost.decrypt_ns / 2


class Wrong(subjects.Ours):
    """Forgets to add."""

    def add(self, total, vector):
        """Do nothing."""


class Lossy(subjects.Ours):
    """Opens values other than those sealed."""

    def open(self, payload):
        """Return numbers that are too small."""
        return super().open(payload) / 2


@pytest.mark.parametrize("subject", [Wrong, Lossy])
def test_wrong_sums_are_not_measured(subject):
    """A scheme with wrong results is not measured."""
    with pytest.raises(ArithmeticError, match="differ from the sealed"):
        measure(subject(PlainSealer(), PlainAdder()), seconds=0.0)


def test_vectors_fit_the_time():
    """More time means longer vectors, in whole blocks, up to a bound."""
    subject = small_paillier()
    short, long = (crypto._n_values(subject, seconds) for seconds in (0.0, 0.5))
    assert short == subject.n_slots
    assert long > short
    assert long % subject.n_slots == 0
    assert crypto._n_values(subjects.SCHEMES["none"](), 1e9) == 2**18


def test_json(few, bench):
    """For programs only JSON is printed, with null for what is not installed."""
    code, output, errors = bench("crypto", "--json", "--seconds", "0")
    assert code == 0
    result = json.loads(output)
    assert set(result) == {"schemes", "libraries", "paper", "versions"}
    assert set(result["schemes"]) == {"none", "paillier-pooled"}
    for figures in result["schemes"].values():
        assert set(figures) == FIGURES
        assert all(np.isfinite(value) and value > 0 for value in figures.values())
    assert result["libraries"] == {"phe": None, "tenseal": None}
    paper = {"encrypt_ns": 18.882e6, "decrypt_ns": 18.865e6, "add_ns": 0.054e6}
    assert result["paper"] == pytest.approx(paper)
    assert result["versions"]["python"].startswith("3.")
    assert {"hyfdca", "gmpy2", "phe", "tenseal"} <= set(result["versions"])
    assert "measuring none" in errors


def test_a_missing_extra_is_named(few, bench):
    """Without the libraries the rest is printed, and what to install."""
    code, output, errors = bench("crypto", "--seconds", "0")
    assert code == 0
    assert "paillier-pooled" in output
    assert "the paper's estimate" in output
    assert output.count("missing") == 2
    assert 'phe and tenseal; pip install "hyfdca[bench]".\n' in errors


def test_bench_alone_lists_what_there_is(bench):
    """Without a name the benchmarks are listed."""
    code, output, errors = bench()
    assert (code, errors) == (2, "")
    assert "crypto" in output


def test_bad_seconds(bench):
    """An invalid time yields one sentence."""
    code, output, errors = bench("crypto", "--seconds", "-1")
    assert (code, output) == (2, "")
    assert errors.count("\n") == 1


def test_a_version_that_is_not_there():
    """A distribution that is not installed has no version."""
    assert crypto._version("no-such-distribution") is None


def _cost(nanoseconds):
    return Cost(nanoseconds, nanoseconds, 1.0, 16.0)


def _printed(comparison):
    console = Console(file=io.StringIO(), width=100)
    console.print(display.comparison_table(comparison))
    return console.file.getvalue()


def test_the_table_compares_with_phe():
    """Times are readable, and compared with those of phe."""
    comparison = CostComparison(
        {"none": _cost(2.0), "slow": _cost(4e9), "stream": _cost(123456.0)},
        {"phe": _cost(8e6), "tenseal": None},
    )
    text = _printed(comparison)
    rows = {
        line.split("│")[1].strip(): line for line in text.splitlines() if "│" in line
    }
    assert "4,000,000" in rows["none"]
    assert "0.002" in rows["slow"]
    assert "4 s" in rows["slow"]
    assert "123 µs" in rows["stream"]
    assert "8 ms" in rows["phe"]
    assert "18.9 ms" in rows["the paper's estimate"]
    assert "Pooled" not in text
    assert display.missing_message(comparison).startswith(
        "Not measured because not installed: t"
    )


def test_nothing_missing_is_nothing_said():
    """If all libraries are installed, the advice to install is omitted."""
    comparison = CostComparison({}, {"phe": _cost(1.0), "tenseal": _cost(1.0)})
    assert display.missing_message(comparison) == ""


def test_a_terminal_gets_a_bar():
    """On a terminal a bar moves, without a thread that would be measured too."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with display.MeasuringDisplay(console) as show:
        show("none")
        show("stream")
    text = console.file.getvalue()
    assert "measuring none" in text
    assert "measuring stream" in text


@pytest.mark.slow
def test_every_scheme_and_library():
    """One run measures the whole table, and packing pays."""
    subjects_shown = []
    comparison = compare(seconds=0.0, tell=subjects_shown.append)
    assert subjects_shown == [*subjects.LIBRARIES, *subjects.SCHEMES]
    assert list(comparison.schemes) == list(subjects.SCHEMES)
    packed = comparison.schemes["paillier-3072"]
    single = comparison.schemes["paillier-3072-unpacked"]
    assert packed.encrypt_ns < single.encrypt_ns / 20
    assert packed.bytes == pytest.approx(769 / 47)  # one byte marks the block
    assert single.bytes == 769
