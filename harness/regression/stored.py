"""``regression.json``: written with the new result, and read back with its schema checked."""

from __future__ import annotations

from pathlib import Path

import orjson
from pydantic import ValidationError

from harness.errors import ResultError
from harness.regression.schema import SCHEMA_VERSION, RegressionReport

__all__ = ["REGRESSION_NAME", "read_regression", "regression_bytes", "without_texts"]

REGRESSION_NAME = "regression.json"


def regression_bytes(report: RegressionReport, *, keep_text: bool = True) -> bytes:
    """The file; without ``keep_text`` the queries' texts are null."""
    return (report if keep_text else without_texts(report)).model_dump_json(by_alias=True, indent=2).encode() + b"\n"


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
