"""The demonstration between processes: each party runs in its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from hyfdca.arrays import FloatArray
from hyfdca.demo.in_process import demo_files, pooled_optimum
from hyfdca.demo.parties import hospitals
from hyfdca.errors import StudyError
from hyfdca.flare.jobs import MODEL
from hyfdca.flare.processes import free_port
from hyfdca.flare.supervisor import run_server
from hyfdca.kits.all_local import provision_all
from hyfdca.kits.kit import STATE, STUDY, ServerKit, read_server_kit
from hyfdca.kits.provisioning import SERVER
from hyfdca.model.file import ModelFile
from hyfdca.study.figures import Convergence, draw_convergence
from hyfdca.study.file import load
from hyfdca.study.local.run import LocalRun
from hyfdca.study.local.study import prepare
from hyfdca.study.outcome import (
    HISTORY,
    RESULT,
    Summary,
    as_json,
    check_folder,
    write_files,
)

_WHAT = (
    "Three hospitals and a server train one model on this machine as they would on "
    "four, each in its own processes, which connect over mutual TLS; starting them "
    "takes about 20 seconds."
)


class DemoDisplay(AbstractContextManager["DemoDisplay"], Protocol):
    """Shows the demonstration while it runs."""

    def tell(self, sentence: str) -> None:
        """Show a sentence."""

    def doing(self, what: str) -> None:
        """Show a long step before or after the rounds."""


def run_flare_demo(folder: Path, display_of: Callable[[Path], DemoDisplay]) -> Summary:
    """Write the hospitals' files, train between processes, compare with pooling.

    Parameters
    ----------
    display_of : callable
        Returns the display of a study whose job processes write to this folder.

    Raises
    ------
    StudyError
    """
    check_folder(folder)
    write_files(folder, demo_files())
    with _workplace() as work, display_of(work / SERVER / STATE) as display:
        display.tell(_WHAT)
        display.doing("making keys and certificates for the server and three hospitals")
        _provision(work)
        display.doing(
            "starting processes; the hospitals then match rows and agree on keys"
        )
        with hospitals(work, folder) as present:
            run_server(work / SERVER, display.tell)
            present.wait()
        display.doing("computing the optimum of the pooled data for comparison")
        return _compared(folder, read_server_kit(work / SERVER))


@contextmanager
def _workplace() -> Iterator[Path]:
    """Yield a folder for the kits; a failed study leaves it and its logs."""
    home = Path(tempfile.mkdtemp(prefix="hyfdca-demo-"))
    try:
        yield home / "kits"
    except StudyError as error:
        said = str(error).removesuffix(".")
        raise StudyError(f"{said} (logs are in {home}).") from None
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    shutil.rmtree(home, ignore_errors=True)


def _provision(kits: Path) -> None:
    study = kits.with_name(STUDY)
    server = b"\n[server]\nport = %d\n" % free_port()
    study.write_bytes(demo_files()[STUDY] + server)
    provision_all(study, kits)


def _compared(folder: Path, kit: ServerKit) -> Summary:
    """Write the results, with figures that only a demonstration can know.

    It has all tables, so it can pool them and count the rows classified correctly.
    """
    run = prepare(load(folder / STUDY), folder)
    optimum = pooled_optimum(run)
    model = (kit.out / MODEL).read_bytes()
    result = msgspec.json.decode((kit.out / RESULT).read_bytes())
    result["pooled_primal"] = optimum
    result["relative_loss"] = (result["primal"] - optimum) / optimum
    result |= asdict(run.scores(_weights(model, run)))
    study, history = run.study, (kit.out / HISTORY).read_bytes()
    records = msgspec.json.decode(history)
    figure = Convergence(study.name, records, study.tol, optimum)
    contents = {
        MODEL: model,
        RESULT: as_json(result),
        HISTORY: history,
        "convergence.png": draw_convergence(figure),
    }
    write_files(folder, contents)
    return Summary(study.name, result, run.consortium, run.exposed(len(records)))


def _weights(model: bytes, run: LocalRun) -> FloatArray:
    """Return a model's weights in the order of a run, with the intercept last."""
    file = msgspec.json.decode(model, type=ModelFile)
    rows = [file.weights[feature] for feature in run.consortium.features]
    if run.intercept_value is not None:
        value = run.intercept_value
        centred = [own - run.target.centre for own in file.intercept]
        rows.append(tuple(intercept / value for intercept in centred))
    return np.array(rows) / run.target.scale
