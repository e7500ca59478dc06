"""The study file (TOML): one training job, who takes part and what is trained.

    [study]
    name = "readmission"
    loss = "logistic"
    l2 = 1e-3
    scale = "standard"
    id_column = "patient"
    label_column = "outcome"

    [algorithm]                 # optional; by default the one with the fewest rounds
    name = "hyfdca"
    step = "safe"

    [evaluation]                # optional; rows that only test the model
    holdout = 0.2

    [tuning]                    # optional; what later runs of the study may change
    l2 = {least = 1e-5, most = 1.0}

    [[clients]]
    name = "north"
    data = "north.csv"          # relative to the study file
    public_key = "hyfdca1:..."  # optional; printed by hyfdca enrol

    [server]                    # optional; where organisations connect
    host = "fl.example.org"
    port = 8102

Features are matched by name, rows by ID. LIBSVM and NPZ tables have features f0, f1,
... and may have no IDs; with rows = "by order" rows are then matched by their numbers.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hyfdca.algorithms.registry import AUTO, make_algorithm
from hyfdca.crypto.schemes.registry import (
    Encryption,
    PaillierBits,
    Precision,
    SchemeName,
    SmallVectors,
)
from hyfdca.data.held_out import HoldoutRule
from hyfdca.data.tables import DATE_ORIGIN, label_text
from hyfdca.errors import StudyError, as_study_error, plain_mistake
from hyfdca.federation.algorithm import Algorithm
from hyfdca.federation.path import PathChoice
from hyfdca.files import open_regular
from hyfdca.maths.losses import make_loss
from hyfdca.model.scaling import Missing, Scale
from hyfdca.protocol.messages import Profile
from hyfdca.stages.alignment.messages import (
    MOST_CLASSES,
    BlankCells,
    DisagreeingCells,
    SimilarIds,
    Uncovered,
)
from hyfdca.study.identity import public_identities
from hyfdca.study.mistakes.alternatives import alternatives
from hyfdca.study.mistakes.old_keys import refuse_no_organisations, refuse_old_keys
from hyfdca.study.mistakes.settings import check_settings
from hyfdca.study.roles import check_roles
from hyfdca.study.toml_files import parsed_toml
from hyfdca.study.tuning import Tuning
from hyfdca.study.values import (
    AtLeastOne,
    Character,
    ClassWeight,
    Decimal,
    Fraction,
    HostName,
    KeyEpoch,
    Port,
    Positive,
    PredictionIds,
    Seconds,
    Strengths,
    Tolerance,
)


class _Participation(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag=str.lower,
):
    """A way of taking part, identified by its kind."""


class Bernoulli(_Participation, frozen=True):
    """Each organisation takes part independently with this probability."""

    probability: Fraction


class Cyclic(_Participation, frozen=True):
    """Sets of organisations, given by name, take part in turn."""

    sets: Annotated[list[list[str]], msgspec.Meta(min_length=1)]


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings of a study; the estimators document those of training."""

    name: str
    loss: str = "logistic"
    loss_parameter: float | None = None
    l2: Positive | Strengths | Literal["auto"] = 1e-3
    profile: Profile = "sealed"
    encryption: SchemeName = "bfv"
    precision: Precision = "full"
    small_vectors: SmallVectors = "auto"
    paillier_bits: PaillierBits = 3072
    participation: Fraction | Bernoulli | Cyclic = 1.0
    scale: Scale = "none"
    missing: Missing = "refuse"
    blank_cells: BlankCells = "refuse"  # that another organisation has a value of
    uncovered: Uncovered = "refuse"  # cells that no organisation holds
    categorical: list[str] = []  # columns that are categories, besides those of text
    min_level_count: AtLeastOne = 5  # rows; rarer levels are "other"
    release_level_names: bool = True
    date_origin: datetime.date = DATE_ORIGIN
    fit_intercept: bool = True
    scale_target: bool | None = None  # of a regression, by default
    penalise_intercept: bool | None = None  # by default where the algorithm needs it
    intercept_scaling: Positive = 1.0
    max_rounds: AtLeastOne = 1000
    tol: Tolerance = 1e-3
    measure_every: AtLeastOne = 1
    max_seconds: Positive | None = None
    stall_rounds: AtLeastOne | None = None
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    rows: Literal["by ID", "by order"] = "by ID"  # of tables without IDs
    id_column: str | None = None
    label_column: str | None = None
    weight_column: str | None = None  # beside labels, like the next
    offset_column: str | None = None
    ignore: list[str] = []  # columns that are not features, where they exist
    class_weight: Literal["balanced"] | dict[str, ClassWeight] | None = None
    encoding: str | None = None  # of CSV files; detected if not given
    delimiter: Character | None = None
    decimal: Decimal | None = None
    positive_label: str | int | float | None = None
    max_classes: Annotated[int, msgspec.Meta(ge=2, le=MOST_CLASSES)] | None = None
    labels_visible_to_holders: bool = False
    allow_unshared: bool = False
    similar_ids: SimilarIds = "refuse"
    similar_levels: Literal["refuse", "allow"] = "refuse"
    disagreeing_cells: DisagreeingCells = "refuse"
    cell_tolerance: Annotated[float, msgspec.Meta(ge=0, le=0.1)] = 1e-6
    key_epoch: KeyEpoch = 1  # raise it for new keys
    # For studies between machines
    quorum: Literal["all"] | AtLeastOne = "all"  # organisations a round needs
    phase_timeout: Seconds = 60.0  # for a reply
    checkpoint_every: AtLeastOne = 1  # rounds
    predictions_per_hour: AtLeastOne = 1000  # rows that each organisation may ask for
    prediction_ids: PredictionIds = "blinded"  # how holders find these rows

    @property
    def positive_text(self) -> str | None:
        """The positive label in the form in which labels are compared."""
        return None if self.positive_label is None else label_text(self.positive_label)

    def encryption_settings(self) -> Encryption:
        """Return the encryption settings of the study."""
        return Encryption(
            self.encryption, self.precision, self.small_vectors, self.paillier_bits
        )


class Client(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An organisation: its table and the names of the table's columns."""

    name: str
    data: str | None = None  # between machines, each organisation names its own table
    features: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    ignore: list[str] = []  # columns that are not features
    id_column: str | None = None
    label_column: str | None = None
    weight_column: str | None = None
    offset_column: str | None = None
    encoding: str | None = None
    delimiter: Character | None = None
    decimal: Decimal | None = None
    label: bool = True
    public_key: str | None = None  # as printed by hyfdca enrol
    may_predict: bool = False  # may ask the others for scores of its own rows


class Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The server that organisations connect to, and its name in certificates."""

    host: HostName = "localhost"
    port: Port = 8102
    name: HostName = "hyfdca-server"


class Evaluation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the model is tested on rows set aside, and how l2 is chosen among several."""

    holdout: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    holdout_column: str | None = None  # of 0 and 1, instead
    salt: str = ""  # the same one gives the same rows set aside, and folds
    min_bin: AtLeastOne = 5  # rows
    curves: AtLeastOne | None = None  # rounds from one point to the next
    folds: Annotated[int, msgspec.Meta(ge=2, le=100)] | None = None
    choice: PathChoice = "best"

    @property
    def rule(self) -> HoldoutRule:
        """Which rows are set aside."""
        return HoldoutRule(self.holdout, self.holdout_column is not None, self.salt)


class StudyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a study file."""

    study: Study
    clients: Annotated[list[Client], msgspec.Meta(min_length=1)]
    algorithm: dict[str, bool | int | float | str] = {}  # its name and its settings
    evaluation: Evaluation = Evaluation()
    tuning: Tuning | None = None
    server: Server = Server()

    def chosen_algorithm(self) -> Algorithm | None:
        """Return the algorithm with its settings; None if the study leaves it open.

        Raises
        ------
        ValueError
            If the algorithm or a setting is unknown or invalid.
        """
        settings = dict(self.algorithm)
        return make_algorithm(str(settings.pop("name", AUTO)), settings)


def load(path: Path) -> StudyFile:
    """Read a study file and check it, as far as possible without its tables.

    Raises
    ------
    StudyError
    """
    return load_with_content(path)[0]


def load_with_content(path: Path) -> tuple[StudyFile, bytes]:
    """Read a study file as ``load`` does; return its bytes too.

    Raises
    ------
    StudyError
    """
    try:
        with open_regular(path) as file:
            content = file.read()
    except (OSError, ValueError):  # of a path with a null character
        raise StudyError(
            f"Cannot read the study file {path}; give the path of a study file."
        ) from None
    return parse(content, path), content


def parse(content: bytes, path: Path) -> StudyFile:
    """Parse the bytes of a study file, with the same checks as ``load``.

    Raises
    ------
    StudyError
        The message names the path.
    """
    raw = parsed_toml(content, f"The study file {path}")
    refuse_old_keys(raw, path)
    refuse_no_organisations(raw, path)
    try:
        file = msgspec.convert(raw, StudyFile)
    except msgspec.MsgspecError as error:
        raise StudyError(
            f"The study file {path} has a mistake{plain_mistake(error)}"
            f"{alternatives(error, StudyFile)}; correct it."
        ) from None
    check_settings(file, path)
    public_identities({client.name: client.public_key for client in file.clients})
    as_study_error(lambda: make_loss(file.study.loss, file.study.loss_parameter))
    check_roles(file)
    as_study_error(file.chosen_algorithm)
    return file
