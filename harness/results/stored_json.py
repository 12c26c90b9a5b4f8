"""Stored JSON files: read them only if harness wrote them, in the schema of this version, and they are undamaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from harness.errors import ResultError

Model = TypeVar("Model", bound=BaseModel)
_PARQUET = b"PAR1"
_EXPECTED_FILES = "name a result folder that harness wrote, or a baseline, a .json file"


class StoredJson(NamedTuple):
    """The parsed content of a file, not yet validated."""

    path: Path
    schema: int
    kind: str
    values: dict[str, Any]

    def refuse_other_schema(self, current: int) -> StoredJson:
        """Return the same content; raise ResultError unless its schema is ``current``."""
        if self.schema < 1:
            raise ResultError(f"'{self.path}' has schema {self.schema}, which does not exist", fix=_EXPECTED_FILES)
        if self.schema != current:
            fix = (
                "pip install --upgrade retrieval-harness"
                if self.schema > current
                else "make the file again with this version of harness"
            )
            raise ResultError(f"'{self.path}' has schema {self.schema}, this harness reads schema {current}", fix=fix)
        return self


def read_stored_json(path: Path, description: str, *, missing: ResultError) -> StoredJson:
    """Read an object that names the version of its schema.

    Args:
        path: the file.
        description: the expected content, for messages (``a baseline``).
        missing: raised if there is no such file.

    Raises:
        ResultError: The file is not JSON, or no such object.
    """
    try:
        stored = path.read_bytes()
        if stored.startswith(_PARQUET):
            raise ResultError(f"'{path}' is a Parquet table, and not {description} of harness", fix=_EXPECTED_FILES)
        content = orjson.loads(stored)
    except OSError as error:
        raise missing from error
    except orjson.JSONDecodeError as error:
        raise ResultError(f"'{path}' is not JSON: {error}", fix=_EXPECTED_FILES) from error
    if not isinstance(content, dict) or type(content.get("schema")) is not int:
        raise ResultError(f"'{path}' is not {description} of harness: it names no schema")
    return StoredJson(path, content["schema"], str(content.get("kind")), content)


def validate(stored: StoredJson, model: type[Model]) -> Model:
    """Return the file's content as ``model``; raise ResultError if it is damaged."""
    try:
        return model.model_validate(stored.values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ResultError(f"'{stored.path}' is damaged: {field}: {first['msg']}") from error
