"""Documents, queries and golden sets, as files of every format, in archives, and as objects in Python."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from fuzzing import files, fuzz, objects, survives, zipped
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.loaders import load_corpus, load_dataset, load_metadata
from harness.loaders.golden import golden_of_objects, load_golden
from harness.store.cache import Cache

DOCUMENTS = b'{"_id": "d1", "text": "one", "metadata": {"x": 1}}\n{"_id": "d2", "text": "two"}\n'
QUERIES = b'{"_id": "q1", "text": "one"}\n'
QRELS = b"query-id\tcorpus-id\tscore\nq1\td1\t1\n"
PARTS = ("corpus", "queries", "qrels/test")


@fuzz
@given(files(), st.sampled_from(PARTS), st.booleans())
def test_folders_and_archives(tmp_path_factory: Any, file: tuple[str, bytes], part: str, packed: bool) -> None:
    members = {"corpus.jsonl": DOCUMENTS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}
    members = {name: content for name, content in members.items() if not name.startswith(part)}
    members[part + file[0]] = file[1]
    place = fresh(tmp_path_factory.getbasetemp() / "dataset")
    cache = Cache(place / "cache")
    if packed:
        (place / "toys.zip").write_bytes(zipped(members))
        survives(lambda: load_dataset(place / "toys.zip", cache=cache))
        return
    for name, content in members.items():
        path = place / "toys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    survives(lambda: load_dataset(place / "toys", cache=cache))
    survives(lambda: load_metadata(["x"], place / "toys", cache=cache))


@fuzz
@given(files())
def test_files_of_documents(tmp_path_factory: Any, file: tuple[str, bytes]) -> None:
    place = fresh(tmp_path_factory.getbasetemp() / "documents")
    path = place / f"docs{file[0]}"
    path.write_bytes(file[1])
    survives(lambda: load_corpus(path, cache=Cache(place / "cache")))


@fuzz
@given(files())
def test_files_of_golden_sets(tmp_path_factory: Any, file: tuple[str, bytes]) -> None:
    path = fresh(tmp_path_factory.getbasetemp() / "golden") / f"golden{file[0]}"
    path.write_bytes(file[1])
    survives(lambda: load_golden(path))


@fuzz
@given(objects(), objects(), st.none() | objects())
def test_objects_as_datasets(corpus: Any, queries: Any, qrels: Any) -> None:
    survives(lambda: harness.Dataset.of(corpus, {"q1": "text"}))
    survives(lambda: harness.Dataset.of({"d1": "text"}, queries, qrels))


@fuzz
@given(objects())
def test_objects_as_golden_sets(questions: Any) -> None:
    survives(lambda: golden_of_objects(questions))


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
