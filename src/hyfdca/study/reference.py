"""The reference of study files, made from the structures that read them.

``docs/study-file.md`` is what ``reference()`` returns; a test compares the two. To
write it again: ``python -m hyfdca.study.reference > docs/study-file.md``.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from hyfdca.algorithms.registry import ALGORITHMS
from hyfdca.maths.losses import LOSSES
from hyfdca.study.file import Client, Evaluation, Server, Study
from hyfdca.study.tuning import Tuning

_HEAD = """\
# The study file

A study file (TOML) says who takes part and what is trained. This page lists every
key. Any other is refused with a sentence that names the valid keys.

```toml
[study]
name = "readmission"
loss = "logistic"
l2 = 1e-3
scale = "standard"
id_column = "patient"
label_column = "outcome"
labels_visible_to_holders = true

[algorithm]
name = "hyfdca"
step = "safe"

[[clients]]
name = "north"
data = "north.csv"

[[clients]]
name = "city"
data = "city.parquet"
label = false

[server]
host = "fl.example.org"
```

Features are matched by name, rows by ID. Paths are relative to the study file.
"""

_STUDY = {
    "name": "The study's name, shown in the model file and on screen.",
    "loss": f"One of {', '.join(f'`{name}`' for name in LOSSES)}.",
    "loss_parameter": "The loss's parameter, such as the quantile of pinball: see "
    "[algorithms.md](algorithms.md#losses), with all formulas and defaults. The "
    "epsilon and kappa of regressions are in standard deviations of the target, not in "
    "its own units, unless `scale_target = false`.",
    "l2": "λ in λ/2 ‖w‖² + mean loss; scikit-learn's `C` is 1/(n λ). With a list "
    "or `auto`, cross-validation chooses it in the same run; this needs `folds`. "
    "`auto` tries nine values, from the smallest power of two at which a model cannot "
    "lower the loss by more than a quarter, down to 1e-4 of it.",
    "profile": "With `open`, the paper's, the server also sees each organisation's "
    "share or slopes; see [threat-model.md](threat-model.md).",
    "encryption": "The scheme that seals numbers.",
    "precision": "Sums have 58 bits (`full`) or 42 (`compact`).",
    "small_vectors": "`auto` seals short vectors with the scheme that needs the "
    "fewest bytes; `same` seals all vectors with the same scheme.",
    "paillier_bits": "Length of a Paillier modulus.",
    "participation": "Who takes part in a round: a share of the organisations, "
    '`{kind = "bernoulli", probability = 0.5}`, or `{kind = "cyclic", sets = '
    '[["north"], ["city", "coast"]]}`.',
    "scale": "How features are scaled, over all organisations: not at all, to mean 0 "
    "and deviation 1, or to a largest absolute value of 1 (for sparse tables). Blank "
    "cells and weights of rows play no part in it.",
    "missing": "Blank cells are refused, or filled with the mean of their column; in a "
    "category they become a level of their own, `missing`.",
    "blank_cells": "A cell that is blank at one organisation while another holder has "
    "a value is refused, or the value is passed to the organisation that lacks it, "
    'sealed, and then counts, also with `missing = "refuse"`. All organisations must '
    "agree to this, because cells leave the organisation that has them.",
    "uncovered": "Cells that no organisation holds are refused, or taken to be the "
    'mean of their column or, unless `scale = "standard"`, zero. In a category they '
    "count as its most frequent level, the reference, with either.",
    "categorical": "Columns that are categories, whatever their cells look like; "
    "columns of text are categories anyway. A category becomes one feature per level, "
    "1 where a row has it and 0 elsewhere, which is never scaled. The most frequent "
    "level is the reference and has no feature.",
    "min_level_count": "Levels of a category with fewer rows, over all organisations, "
    'become one level, "other"; if these have fewer rows together, they count as the '
    "reference.",
    "release_level_names": "Whether the names of levels are in the model. Without "
    "them features are named `ward=#1`, and the model cannot predict.",
    "date_origin": "Dates become days since this date.",
    "fit_intercept": "Whether the model has an intercept.",
    "scale_target": "Whether the targets of a regression are centred and scaled to "
    "deviation 1 for training; by default they are. With `penalise_intercept = true` "
    "they are scaled to a mean square of 1. The model is in the targets' own units; "
    "`loss_parameter` and the certificate are in units of the deviation.",
    "penalise_intercept": "Whether the intercept is penalised, as the weight of a "
    "constant feature; by default only where the algorithm needs that (`hyfdca` and "
    "its rivals) or `intercept_scaling` is given.",
    "intercept_scaling": "The value of that constant feature: the larger, the less a "
    "penalised intercept is penalised.",
    "max_rounds": "Training ends after this many rounds.",
    "tol": "Training ends when the certified relative gap is at most this.",
    "measure_every": "Rounds from one certificate to the next.",
    "max_seconds": "Training ends after this many seconds.",
    "stall_rounds": "Training ends when the loss has not fallen for this many rounds.",
    "seed": "The seed of all random draws except keys.",
    "rows": "Rows of tables without IDs (LIBSVM, NPZ) are refused, or matched by "
    "their numbers.",
    "id_column": "The column with the IDs of rows, unless an organisation names its "
    "own.",
    "label_column": "The column with the labels, unless an organisation names its own.",
    "weight_column": "The column that says how often a row counts, unless an "
    "organisation names its own; read where labels are. A row of weight 0 is left out.",
    "offset_column": "The column of numbers that are added to the margins of rows, "
    "unless an organisation names its own; read where labels are.",
    "ignore": "Columns that are not features at any organisation; a table need not "
    "have them.",
    "class_weight": "How often a row counts by its class, such as `{malignant = 2.0, "
    "benign = 1.0}`; with `balanced`, rare classes count as much as frequent ones.",
    "encoding": "Of CSV files, such as `utf-8` or `cp1252`; found by looking if it is "
    "not given.",
    "delimiter": "Between the cells of CSV files, a printable ASCII character or a "
    "tab; found by looking if not given.",
    "decimal": "The decimal point of CSV files; found by looking if not given.",
    "positive_label": "The label of class 1; all others are class 0.",
    "max_classes": "More classes than this are refused. By default, more than 20 are, "
    "and so are labels that are fractions.",
    "labels_visible_to_holders": "Admits organisations that have no labels, or blank "
    "ones where others have them; they learn the labels of rows that they share.",
    "allow_unshared": "Admits organisations that share no row with others.",
    "similar_ids": "If many more rows of two organisations would match if their IDs "
    "were written alike (leading zeros, `.0`, capitals, blanks, punctuation): refuse, "
    "or treat them as different rows.",
    "similar_levels": "If levels of a category differ only in capitals or blanks, in "
    "one table or between organisations: refuse, or treat them as different levels.",
    "disagreeing_cells": "If two organisations have different values of a cell, or one "
    "has it blank: refuse, or take the cell of the one listed first, blank or not.",
    "cell_tolerance": "Values of a cell at two organisations are the same if their "
    "relative difference is at most this; the one listed first counts. Labels that are "
    "numbers, weights and offsets are the same if they are equal in single precision, "
    "unless this is below 6e-8.",
    "key_epoch": "Raise it to have new keys made.",
    "quorum": "How many organisations a round needs (between machines).",
    "phase_timeout": "Seconds that an answer may take (between machines).",
    "checkpoint_every": "Rounds from one checkpoint to the next; in one process, "
    "checkpoints are also some seconds apart.",
    "predictions_per_hour": "Rows that each organisation may ask the others to "
    "predict (between machines).",
    "prediction_ids": "How holders find the rows that an organisation asks for: "
    "`blinded`, so that they learn nothing about IDs that they do not hold; or "
    "`keyed`, which takes no time but lets a holder find out all requested IDs by "
    "trying.",
}
_CLIENT = {
    "name": "The organisation's name, which must be unique.",
    "data": "Its table; between machines each organisation names its own.",
    "features": "The columns to train on; by default all but ID and label.",
    "ignore": "Columns of its table that are not features; a column that the table "
    "does not have is refused.",
    "id_column": "Its own name for that column.",
    "label_column": "Its own name for that column.",
    "weight_column": "Its own name for that column.",
    "offset_column": "Its own name for that column.",
    "encoding": "The encoding of its CSV file.",
    "delimiter": "The delimiter of its CSV file.",
    "decimal": "The decimal point of its CSV file.",
    "label": "Whether it has labels.",
    "public_key": "As printed by `hyfdca enrol`.",
    "may_predict": "Whether it may ask the others for scores of its own rows.",
}
_EVALUATION = {
    "holdout": "About this share of the rows is set aside before training, by a hash "
    "of their IDs. The model is tested on them; see [evaluation.md](evaluation.md).",
    "holdout_column": "A column of 0 and 1 in every table that says which rows are set "
    "aside instead; it is not a feature, and holders of a row must agree on it.",
    "salt": "The salt of the hash: with the same salt, the same rows are set aside in "
    "the next study, and a row is in the same fold.",
    "min_bin": "Scores are counted in bins, and no organisation shows fewer rows of a "
    "class than this in one of them.",
    "curves": "Rounds between two measurements of the mean loss on the rows set aside, "
    "which `history.json` lists; see [evaluation.md](evaluation.md#curves). "
    "A multiple of `measure_every`; not together with a list of `l2` or `auto`. Each "
    "point tells an organisation one more score of every row set aside whose label it "
    "has.",
    "folds": "Into how many folds rows are divided where `l2` is chosen. The fold of a "
    "row [follows](evaluation.md#to-compute-the-rows-again) from its ID and `salt`. "
    "Not together with `curves`. Scaling, levels and class weights are those of all "
    "rows: the folds share them.",
    "choice": "Of several `l2`, that with the lowest mean loss of the rows left out, "
    "or the largest whose mean is at most one standard error above it. "
    "The latter needs `folds`.",
}
_TUNING = {
    "l2": "The values that a run may have, such as `{least = 1e-5, most = 1.0}`; the "
    "file's own must be among them. Not where `l2` is chosen among several.",
    "tol": "The same for `tol`.",
    "max_rounds": "The same; `least` is 1 if it is not given.",
    "most_runs": "How many runs the study may have in all; one that trained no round "
    "does not count. Each gives further margins to those who receive them, and "
    "releases a model.",
}
_SERVER = {
    "host": "The name under which organisations reach the server.",
    "port": "The server's port.",
    "name": "The server's name in certificates.",
}
MEANINGS: dict[type[msgspec.Struct], dict[str, str]] = {
    Study: _STUDY,
    Client: _CLIENT,
    Evaluation: _EVALUATION,
    Tuning: _TUNING,
    Server: _SERVER,
}
_TITLES = {
    Study: "`[study]`",
    Client: "`[[clients]]`, once per organisation",
    Evaluation: "`[evaluation]`, rows that test the model, and how `l2` is chosen",
    Tuning: "`[tuning]`, what further runs may change (without it, there are none)",
    Server: "`[server]`, for studies between machines",
}


def reference() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD]
    parts += [_section(kind, meanings) for kind, meanings in MEANINGS.items()]
    names = ", ".join(f"`{name}`" for name in ALGORITHMS)
    parts.append(
        "## `[algorithm]`\n\n`name` is one of "
        f"{names}, or `auto`, the default: the one with the fewest rounds. Its other "
        "keys are the settings of that algorithm; an unknown one is refused with the "
        "list of valid ones. See [algorithms.md](algorithms.md).\n"
    )
    return "\n".join(parts)


def _section(kind: type[msgspec.Struct], meanings: dict[str, str]) -> str:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)  # noqa: S101  # all kinds are structs
    lines = [
        f"## {_TITLES[kind]}\n",
        "| key | value | default | meaning |",
        "|---|---|---|---|",
    ]
    for own in info.fields:
        cells = (f"`{own.encode_name}`", _words(own.type), _default(own))
        lines.append(f"| {' | '.join(cells)} | {meanings[own.encode_name]} |")
    return "\n".join(lines) + "\n"


def _default(own: Any) -> str:
    if own.required:
        return "must be given"
    if own.default_factory is not msgspec.NODEFAULT:
        return "none"
    if own.default is None:
        return "none"
    # Texts, numbers, true and false are the same in JSON and TOML.
    return f"`{msgspec.json.encode(own.default).decode()}`"


def _words(kind: Any) -> str:
    """Describe the values of a type in words."""
    if isinstance(kind, inspect.UnionType):
        return " or ".join(dict.fromkeys(w for own in kind.types if (w := _words(own))))
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(
            f'`"{value}"`' if isinstance(value, str) else f"`{value}`"
            for value in kind.values
        )
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        number = "whole number" if isinstance(kind, inspect.IntType) else "number"
        return number + _range(kind)
    if isinstance(kind, inspect.NoneType):
        return ""
    if isinstance(kind, inspect.ListType) and isinstance(
        kind.item_type, inspect.FloatType
    ):
        return "list of numbers"
    return _PLAIN.get(type(kind), "table")


_PLAIN: dict[type, str] = {
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.ListType: "list of texts",
    inspect.DateType: "date",
}
_HUGE = 1e9  # bounds beyond it only keep arithmetic finite


def _range(kind: Any) -> str:
    words = []
    if kind.gt is not None or (kind.ge is not None and 0 < kind.ge < 1 / _HUGE):
        words.append("above 0")
    elif kind.ge is not None:
        words.append(f"at least {kind.ge:g}")
    if kind.le is not None and kind.le < _HUGE:
        words.append(f"at most {kind.le:g}")
    if kind.lt is not None:
        words.append(f"below {kind.lt:g}")
    return f", {', '.join(words)}" if words else ""


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201
