"""Stored files of every version of every schema are still read, and mean what they meant."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import BaseModel

from harness.pipeline.regress.stored_regression import read_regression
from harness.results.baseline import SCHEMA_VERSION as BASELINE_VERSION
from harness.results.baseline import Baseline, read_baseline
from harness.results.check_schema import CHECK_SCHEMA_VERSION
from harness.results.regression_schema import SCHEMA_VERSION as REGRESSION_VERSION
from harness.results.schema import SCHEMA_VERSION
from harness.results.stored import read_check_report, read_report

STORED = Path(__file__).parent / "stored"


def read_whole_baseline(folder: Path) -> BaseModel:
    path = folder / "baseline.json"
    read_baseline(path)
    return Baseline.model_validate_json(path.read_bytes())


class Kind(NamedTuple):
    """A stored file: its name, the version that is written now, and how it is read from its folder."""

    file: str
    version: int
    read: Callable[[Path], BaseModel]


KINDS = {
    "comparison": Kind("report.json", SCHEMA_VERSION, read_report),
    "check": Kind("report.json", CHECK_SCHEMA_VERSION, read_check_report),
    "regression": Kind("regression.json", REGRESSION_VERSION, read_regression),
    "baseline": Kind("baseline.json", BASELINE_VERSION, read_whole_baseline),
}


@pytest.mark.parametrize("name", KINDS)
def test_there_is_a_file_of_every_version(name: str) -> None:
    found = {path.name for path in STORED.glob(f"{name}-*.json")}
    assert found == {f"{name}-{version}.json" for version in range(1, KINDS[name].version + 1)}


@pytest.mark.parametrize("path", sorted(STORED.iterdir()), ids=lambda path: path.stem)
def test_it_is_read_with_everything_that_it_says(path: Path, tmp_path: Path) -> None:
    kind = KINDS[path.stem.partition("-")[0]]
    shutil.copy(path, tmp_path / kind.file)
    again = json.loads(kind.read(tmp_path).model_dump_json(by_alias=True))
    stored = json.loads(path.read_text(encoding="utf-8").replace('"existing": false', '"external": false'))
    assert only_what_was_stored(again, stored) == stored


def only_what_was_stored(read: object, stored: object) -> object:
    """``read`` without the fields that came later: the stored file does not have them."""
    if isinstance(read, dict) and isinstance(stored, dict):
        return {name: only_what_was_stored(read[name], value) for name, value in stored.items() if name in read}
    if isinstance(read, list) and isinstance(stored, list) and len(read) == len(stored):
        return [only_what_was_stored(one, other) for one, other in zip(read, stored, strict=True)]
    return read
