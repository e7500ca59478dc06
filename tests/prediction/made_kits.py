"""Kits of holders who ask each other for predictions of split rows, in one process."""

from __future__ import annotations

import csv
import json

from hyfdca.crypto.keys.identity import Identity
from hyfdca.flare.network import Failure, Network
from hyfdca.flare.predictions import asking
from hyfdca.flare.predictions import serving as predicting
from hyfdca.kits.key_files import write_identity
from hyfdca.model.file import as_bytes
from hyfdca.protocol.codec import RemoteProtocolError
from tests.model.models import make_model, random_cells

_STUDY = """\
[study]
name = "split"
loss = "logistic"
encryption = "stream"
id_column = "id"
label_column = "y"
predictions_per_hour = 9
"""
HOLDINGS = {"north": (range(5), [0, 1]), "city": ([4, 2, 0, 1, 6], [1, 2, 3])}


class Kits:
    """Two organisations and a server, each with a folder, in one process."""

    def __init__(self, home):
        self.home, self.names = home, tuple(HOLDINGS)
        self.askers, self.failing = ("north",), None  # who, in which phase
        self.model, self.cells = make_model(missing="refuse"), random_cells(7)
        identities = {name: Identity.generate() for name in self.names}
        entries = [
            f'[[clients]]\nname = "{name}"\npublic_key = "{own.public.text}"\n'
            f"may_predict = {str(name == 'north').lower()}\n"
            for name, own in identities.items()
        ]
        for name in ("server", *self.names):
            for folder in ("state", "log", "out", "flare/startup", "admin/startup"):
                (home / name / folder).mkdir(parents=True)
            part = "server" if name == "server" else "client"
            (home / name / f"flare/startup/fed_{part}.json").touch()
            (home / name / "admin/startup/fed_admin.json").touch()
            (home / name / "study.toml").write_text("\n".join([_STUDY, *entries]))
        for name, own in identities.items():
            write_identity(own, home / name / "keys")
            self.write_model(name, self.model)
            self.write_rows(name)

    def write_model(self, name, model):
        """Give an organisation a model."""
        (self.home / name / "out" / "model.json").write_bytes(as_bytes(model.file))

    def rows(self, name):
        """Return the file of an organisation's rows."""
        return self.home / name / "rows.csv"

    def write_rows(self, name, cells=None):
        """Write rows with a text column that no model has, and some labels."""
        rows, columns = HOLDINGS[name]
        cells = self.cells if cells is None else cells
        features = [self.model.features[column] for column in columns]
        with self.rows(name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "y", "note", *features])
            labels = ["yes", "", "no", "yes", "no"]
            for row, label in zip(rows, labels, strict=True):
                writer.writerow([f"r{row}", label, "text", *cells[row, columns]])

    def serve(self, *askers):
        """Run a job with everybody in it; by default, ``askers`` ask."""
        handlers = {
            name: (asking if name in (askers or self.askers) else predicting).join(
                self.home / name, self.rows(name)
            )
            for name in self.names
        }

        def courier(name, request, timeout):
            if request.kind != "ask":
                return b""
            if (name, request.phase) == self.failing:
                return Failure("did not answer within 1 s")
            try:
                payload = bytes(request.payload)
                return handlers[name].handle(request.stage, request.phase, payload)
            except RemoteProtocolError as error:
                return Failure(f"refused: {error}")

        network = Network(self.names, courier)
        try:
            predicting.serve(self.home / "server", network)
        finally:
            network.close()

    @property
    def answered(self):
        """The outcomes of all askers."""
        return json.loads((self.home / "server" / "state/answered.json").read_text())
