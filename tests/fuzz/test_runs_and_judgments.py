"""Runs, judgments and labels, as files of every format and as objects in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fuzzing import files, fuzz, objects, survives
from hypothesis import given

import harness

RUN = {"q1": {"d1": 2.0, "d2": 1.0}}
QRELS = {"q1": {"d1": 1}}


@fuzz
@given(files())
def test_files_of_runs(tmp_path_factory: Any, file: tuple[str, bytes]) -> None:
    path = write(tmp_path_factory.getbasetemp(), f"run{file[0]}", file[1])
    survives(lambda: harness.evaluate(path, QRELS, "nDCG@10,AP").findings)


@fuzz
@given(files())
def test_files_of_judgments(tmp_path_factory: Any, file: tuple[str, bytes]) -> None:
    path = write(tmp_path_factory.getbasetemp(), f"judgments{file[0]}", file[1])
    survives(lambda: harness.evaluate(RUN, path, "nDCG@10,AP").findings)


@fuzz
@given(files(".jsonl", ".json"))
def test_files_of_labels(tmp_path_factory: Any, file: tuple[str, bytes]) -> None:
    path = write(tmp_path_factory.getbasetemp(), "labels.jsonl", file[1])
    survives(lambda: harness.evaluate(RUN, QRELS, labels=path))


@fuzz
@given(objects())
def test_objects_as_runs(run: Any) -> None:
    survives(lambda: harness.evaluate(run, QRELS, "nDCG@10,AP").findings)


@fuzz
@given(objects())
def test_objects_as_judgments(qrels: Any) -> None:
    survives(lambda: harness.evaluate(RUN, qrels, "nDCG@10,AP").findings)


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path
