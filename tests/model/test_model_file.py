"""Model files: read as written, or refused in one sentence."""

from __future__ import annotations

import copy
import json
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyfdca.model import file as model_file
from hyfdca.model.file import as_bytes, read_model_file
from hyfdca.model.model import ModelError, read_model
from hyfdca.study.local.training import train_file
from tests.model.models import (
    FEATURES,
    all_by_hand,
    document,
    make_file,
    make_table,
    random_cells,
)
from tests.support.consortia import assert_one_sentence, make_files

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def write(folder, content):
    path = folder / "model.json"
    path.write_bytes(
        content if isinstance(content, bytes) else json.dumps(content).encode()
    )
    return path


def bits(numbers):
    return [struct.pack("d", number) for number in numbers]


# Reading what was written


@given(numbers=st.lists(FLOATS, min_size=9, max_size=9))
def test_numbers_are_read_bit_for_bit(tmp_path_factory, numbers):
    """Every finite number is read back unchanged, even the smallest and -0.0."""
    weights = {name: (x,) for name, x in zip(FEATURES, numbers, strict=False)}
    offsets = dict(zip(FEATURES, numbers[4:], strict=False))
    file = make_file(weights=weights, intercept=(numbers[8],))
    scaling = msgspec.structs.replace(file.scaling, offsets=offsets)
    file = msgspec.structs.replace(file, scaling=scaling)
    path = write(tmp_path_factory.mktemp("model"), as_bytes(file))
    again = read_model(path)
    assert again.file == file
    assert bits(again.weights[:, 0]) == bits(numbers[:4])
    assert bits(again.scaling.offset) == bits(numbers[4:8])
    assert bits(again.intercept) == bits(numbers[8:])
    assert as_bytes(again.file) == as_bytes(file)


@pytest.mark.parametrize("kind", ["two", "three", "regression"])
def test_a_trained_model_is_read_as_it_was(tmp_path, kind):
    """Reading returns what a study wrote, including certificate and settings."""
    labels = {"two": None, "three": ["a", "b", "c"] * 20, "regression": [*range(60)]}
    loss = '"huber"' if kind == "regression" else '"logistic"'
    path = make_files(labels[kind], loss=loss, tol="0.1").write(tmp_path)
    outcome = train_file(path, tmp_path / "out", lambda *_: None)
    model = read_model(tmp_path / "out" / "model.json")
    assert model.file == outcome.model()
    assert model.certificate == outcome.certificate
    target = outcome.run.target
    weights = outcome.weights * target.scale
    np.testing.assert_array_equal(model.weights, weights[:-1])
    np.testing.assert_array_equal(model.intercept, weights[-1] + target.centre)
    assert (model.file.id_column, model.file.label_column) == ("id", "y")
    assert model.task == ("regression" if kind == "regression" else "classification")


def test_the_file_can_be_read_by_people():
    """The file is indented, in the order of its description, version first."""
    text = as_bytes(make_file()).decode()
    assert text.startswith('{\n  "format_version": 1,\n  "study": "by hand",\n')
    assert text.endswith("}\n")
    assert "Größe" in text


# Files that are refused


def put(*path):
    """Return a change that puts the last item of ``path`` into a model's document."""

    def change(model):
        *way, key, value = path
        for step in way:
            model = model[step]
        model[key] = value

    return change


def drop(*path):
    def change(model):
        *way, key = path
        for step in way:
            model = model[step]
        del model[key]

    return change


AGE = ("scaling", "scales", "age")
BAD = {
    "version": (
        put("format_version", 2),
        "has format_version 2, but this hyfdca reads",
    ),
    "no version": (drop("format_version"), "missing key `format_version`"),
    "text version": (
        put("format_version", "1"),
        "at format_version: expected a whole number",
    ),
    "unknown key": (put("colour", "red"), "unknown key `colour`"),
    "unknown inner key": (put("scaling", "colour", 1), "at scaling: unknown key"),
    "lines in a key": (put("a\n\nb", 1), "unknown key `a b`"),
    "no weights": (drop("weights"), "missing key `weights`"),
    "no features": (put("weights", {}), "expected 1 weights per feature"),
    "null weight": (put("weights", "age", [None]), "expected a number, got nothing"),
    "text weight": (put("weights", "age", ["1"]), "expected a number, got text"),
    "two weights": (put("weights", "age", [1.0, 2.0]), "expected 1 weights per"),
    "no weight": (put("weights", "age", []), "expected 1 weights per feature"),
    "two intercepts": (put("intercept", [1.0, 2.0]), "feature and 1 intercepts"),
    "no offset": (drop("scaling", "offsets", "age"), "has a scaling for other"),
    "another scale": (put("scaling", "scales", "x", 1.0), "has a scaling for other"),
    "no filling": (put("scaling", "fillings", {}), "has a scaling for other"),
    "negative scale": (put(*AGE, -1.0), "has 1 scales that are not positive"),
    "zero scale": (put(*AGE, 0), "has 1 scales that are not positive"),
    "loss": (put("loss", "zero_one"), "loss or loss_parameter that hyfdca"),
    "loss parameter": (put("loss_parameter", 3.0), "loss or loss_parameter"),
    "classes of numbers": (put("loss", "absolute"), "has classes, but its loss"),
    "no classes": (put("classes", []), "has fewer than two classes"),
    "one class": (put("classes", ["a"]), "has fewer than two classes"),
    "class twice": (put("classes", ["a", "a"]), "has fewer than two classes"),
    "three classes": (put("classes", ["a", "b", "c"]), "expected 3 weights per"),
    "no text": (put("classes", [0, 1]), "expected text, got a whole number"),
    "positive label": (put("positive_label", "no"), "that is not the second of two"),
    "missing": (put("scaling", "missing", "zero"), "at scaling.missing: unknown value"),
    "scale": (put("scaling", "scale", "minmax"), "at scaling.scale: unknown value"),
    "gap": (put("certificate", "gap", 0.1), "a certificate whose gap does not match"),
    "relative gap": (put("certificate", "relative_gap", 0.1), "a certificate whose"),
    "number too large": (put("l2", 10**400), "out of range"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_models(case, tmp_path):
    """Every error is one sentence that names the file and says what to do."""
    change, message = BAD[case]
    model = document(make_file())
    change(model)
    path = write(tmp_path, model)
    with pytest.raises(ModelError) as caught:
        read_model(path)
    text = str(caught.value)
    assert message in text
    assert text.startswith(f"The model file {path} has ")
    assert_one_sentence(text + "\n")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe{}",
        b'{"format_version": NaN}',
        b'{"x": ' + b"[" * 100_000,
        as_bytes(make_file())[:-3],
        as_bytes(make_file()).replace(b'"l2": 0.1', b'"l2": NaN'),
        as_bytes(make_file()).replace(b'"l2": 0.1', b'"l2": 1e999'),
        as_bytes(make_file()).replace(b'"by hand"', b'"\xff"', 1),
        as_bytes(make_file()).replace(b'"by hand"', b'"\\ud800"', 1),
    ],
)
def test_files_that_are_no_models(content, tmp_path):
    """Other bytes yield one sentence too."""
    path = write(tmp_path, content)
    with pytest.raises(ModelError, match=r"The model file .* has a mistake") as caught:
        read_model(path)
    assert_one_sentence(str(caught.value) + "\n")


def test_files_that_are_not_read(tmp_path, monkeypatch):
    """A missing file, a folder and a huge file are refused before reading."""
    for path in (tmp_path / "none.json", tmp_path / "a\0b"):
        with pytest.raises(ModelError, match="Cannot read the model file"):
            read_model_file(path)
    with pytest.raises(ModelError, match="is a folder or larger than 1 GB"):
        read_model_file(tmp_path)
    monkeypatch.setattr(model_file, "_MOST_BYTES", 2**10)
    with pytest.raises(ModelError, match="is a folder or larger"):
        read_model_file(write(tmp_path, b" " * (2**10 + 1)))


# Files of all kinds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
    ),
    max_leaves=5,
)


def places(value, way=()):
    """Return the paths to all values inside a document."""
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        return [way, *(place for k, v in inner for place in places(v, (*way, k)))]
    return [way]


@given(data=st.data())
def test_spoilt_documents(tmp_path_factory, data):
    """A changed file is refused in one line, or predicts with its own numbers."""
    kind = data.draw(st.sampled_from(["two", "three"]))
    model = copy.deepcopy(document(make_file(kind)))
    way = data.draw(st.sampled_from(places(model)[1:]))
    if data.draw(st.booleans()):
        put(*way, data.draw(JSON))(model)
    else:
        drop(*way)(model)
    path = write(tmp_path_factory.mktemp("spoilt"), model)
    check_reading(path, model)


@given(data=st.data())
def test_spoilt_bytes(tmp_path_factory, data):
    """A file with changed bytes is refused too."""
    content = bytearray(as_bytes(make_file()))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(
            st.integers(0, 255)
        )
    path = write(tmp_path_factory.mktemp("spoilt"), bytes(content))
    check_reading(path, None)


def check_reading(path, model):
    table = make_table(random_cells(3))
    try:
        read = read_model(path)
        margins = read.margins(table)
    except ModelError as error:
        text = str(error)
        assert "\n" not in text
        assert text.endswith(".")
        return
    model = json.loads(path.read_bytes()) if model is None else model
    expected = all_by_hand(model, table)
    sizes = np.abs(read.weights).max() * 1e3 / read.scaling.scale.min()
    sizes *= 1 + np.abs(read.scaling.offset).max()
    np.testing.assert_allclose(margins, expected, rtol=1e-9, atol=1e-12 * sizes)
    assert set(read.predict(table)) <= set(model["classes"])
