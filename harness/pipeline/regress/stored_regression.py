"""``regression.json``: written with the new result, and read back with its schema checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.errors import ResultError
from harness.results.regression_schema import SCHEMA_VERSION, RegressionReport
from harness.results.upgrade import read_stored_json, validated
from harness.store.result_folder import result_folder

__all__ = [
    "REGRESSION_NAME",
    "read_regression",
    "regression_bytes",
    "without_texts",
    "write_regression",
]

REGRESSION_NAME = "regression.json"


def regression_bytes(report: RegressionReport, *, keep_text: bool = True) -> bytes:
    """The file; without ``keep_text`` the queries' texts are null."""
    return (report if keep_text else without_texts(report)).model_dump_json(by_alias=True, indent=2).encode() + b"\n"


def write_regression(folder: Path, files: Mapping[str, bytes], *, overwrite: bool, numbered: bool) -> Path:
    """Write a report without a result of its own, whole or not at all; where it lies in the end.

    Raises as :func:`harness.store.result_folder.result_folder`.
    """
    with result_folder(folder, overwrite=overwrite, numbered=numbered, marker=REGRESSION_NAME) as building:
        for name, content in files.items():
            (building.folder / name).write_bytes(content)
    return building.place


def read_regression(folder: Path) -> RegressionReport:
    """Read ``regression.json`` of a folder (or that file itself).

    Raises ResultError when it is missing, malformed, or of a newer schema.
    """
    missing = ResultError(f"no regression report at '{folder}'", fix="give the folder of `harness regress`")
    path = folder / REGRESSION_NAME if folder.is_dir() else folder
    stored = read_stored_json(path, "a regression report", missing=missing)
    return validated(stored.refuse_newer(SCHEMA_VERSION), RegressionReport)


def without_texts(report: RegressionReport) -> RegressionReport:
    """The same report without the texts of queries (``--no-text``)."""
    backends = []
    for backend in report.backends:
        dossier = backend.dossier
        if dossier is not None:
            queries = [query.model_copy(update={"text": None}) for query in dossier.queries]
            dossier = dossier.model_copy(update={"queries": queries})
        backends.append(backend.model_copy(update={"dossier": dossier}))
    return report.model_copy(update={"backends": backends})
