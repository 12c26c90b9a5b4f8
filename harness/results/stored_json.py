"""JSON files that harness wrote, read back: whether they are such a file at all, of a known schema, and undamaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from harness.errors import ResultError
from harness.results.upgrade import upgraded

__all__ = ["StoredJson", "read_stored_json", "validated"]

Model = TypeVar("Model", bound=BaseModel)
_PARQUET = b"PAR1"
_PLACES = "name a result folder that harness wrote, or a baseline, a .json file"


class StoredJson(NamedTuple):
    """Content of a file, before anything of it is believed."""

    path: Path
    schema: int
    kind: str
    values: dict[str, Any]

    def refuse_newer(self, newest: int) -> StoredJson:
        """Return the same; raises ResultError where its schema is above ``newest``."""
        if self.schema > newest:
            raise ResultError(
                f"'{self.path}' has schema {self.schema}, this harness reads up to {newest}",
                fix="pip install --upgrade retrieval-harness",
            )
        return self


def read_stored_json(path: Path, what: str, *, missing: ResultError) -> StoredJson:
    """Read a file that should be ``what`` (``a baseline``), an object with the version of its schema.

    Raises ``missing`` where there is no such file, ResultError where it is another.
    """
    try:
        stored = path.read_bytes()
        if stored.startswith(_PARQUET):
            raise ResultError(f"'{path}' is a Parquet table, and not {what} of harness", fix=_PLACES)
        content = orjson.loads(stored)
    except OSError as error:
        raise missing from error
    except orjson.JSONDecodeError as error:
        raise ResultError(f"'{path}' is not JSON: {error}", fix=_PLACES) from error
    if not isinstance(content, dict) or not isinstance(content.get("schema"), int):
        raise ResultError(f"'{path}' is not {what} of harness: it names no schema")
    return StoredJson(path, content["schema"], str(content.get("kind")), content)


def validated(stored: StoredJson, model: type[Model]) -> Model:
    """Return the file's content, of whatever version, as ``model``; raises ResultError where it is damaged."""
    try:
        return model.model_validate(upgraded(stored.values, stored.kind, stored.schema))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultError(f"'{stored.path}' is damaged: {where}: {first['msg']}") from error
    except (AttributeError, TypeError) as error:  # an earlier version's file whose parts are not what they should be
        raise ResultError(f"'{stored.path}' is damaged: {error}") from error
