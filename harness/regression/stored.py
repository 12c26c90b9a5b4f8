"""``regression.json``: written with the new result, and read back with its schema checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson
from pydantic import ValidationError

from harness.errors import ResultError, UsageError
from harness.regression.schema import SCHEMA_VERSION, RegressionReport
from harness.result_folder import REPORT_NAME

__all__ = [
    "REGRESSION_NAME",
    "check_regression_target",
    "read_regression",
    "regression_bytes",
    "without_texts",
    "write_regression",
]

REGRESSION_NAME = "regression.json"


def regression_bytes(report: RegressionReport, *, keep_text: bool = True) -> bytes:
    """The file; without ``keep_text`` the queries' texts are null."""
    return (report if keep_text else without_texts(report)).model_dump_json(by_alias=True, indent=2).encode() + b"\n"


def check_regression_target(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds something else, or an earlier report without ``overwrite``."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / REGRESSION_NAME).exists()):
        raise UsageError(f"'{folder}' exists and is no report of `harness diff`", fix="choose another --out")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if (folder / REPORT_NAME).exists():
        raise UsageError(f"'{folder}' holds the result of a run, which would be lost", fix="choose another --out")
    if not overwrite:
        raise UsageError(f"'{folder}' already holds a report", fix="choose another --out, or pass --overwrite")


def write_regression(folder: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    """Write a report without a result of its own, file by file and each whole or not at all.

    Raises as :func:`check_regression_target`, and ResultError when it cannot be written.
    """
    check_regression_target(folder, overwrite=overwrite)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            scratch = folder / f".{name}.new"
            scratch.write_bytes(content)
            scratch.replace(folder / name)
    except OSError as error:
        raise ResultError(f"the report cannot be written to '{folder}': {error.strerror or error}") from error


def read_regression(folder: Path) -> RegressionReport:
    """Read ``regression.json`` of a folder (or that file itself).

    Raises ResultError when it is missing, malformed, or of a newer schema.
    """
    path = folder / REGRESSION_NAME if folder.is_dir() else folder
    try:
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ResultError(f"no regression report at '{folder}'", fix="give the folder of `harness regress`") from error
    except orjson.JSONDecodeError as error:
        raise ResultError(f"'{path}' is not JSON: {error}") from error
    version = content.get("schema") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise ResultError(f"'{path}' is not a regression report of harness: it names no schema")
    if version > SCHEMA_VERSION:
        raise ResultError(
            f"'{path}' has schema {version}, this harness reads up to {SCHEMA_VERSION}",
            fix="pip install --upgrade retrieval-harness",
        )
    try:
        return RegressionReport.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultError(f"'{path}' is damaged: {where}: {first['msg']}") from error


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
