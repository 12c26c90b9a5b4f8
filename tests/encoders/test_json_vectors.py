"""Precomputed vectors in JSON Lines and in ann-benchmarks' HDF5."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.encoders.precomputed import PrecomputedEncoder
from harness.encoders.settings import EncoderName, Role, Settings
from harness.encoders.sources import encoding_key
from harness.errors import DataError
from harness.plan.backend_spec import parse_backends

DOCUMENTS = {"d1": {"pump": 3, "water": 1.5}, "d2": {"filter": 2}, "d3": {}}
QUERIES = {"q1": {"water": 1, "unknown": 4}, "q2": {"filter": 0.5}}


def write(folder: Path, role: str, vectors: dict[str, Any], *, packed: bool = False) -> None:
    lines = "".join(
        json.dumps({"id": name, "contents": "", "vector": vector}) + "\n" for name, vector in vectors.items()
    )
    content = lines.encode()
    (folder / f"{role}.jsonl{'.gz' if packed else ''}").write_bytes(gzip.compress(content) if packed else content)


def settings(folder: Path, kind: EncoderName = "splade") -> Settings:
    backend = "flat" if kind == "dense" else "csr-splade"
    (spec,) = parse_backends(f"{backend}:model='precomputed:{folder}'")
    return Settings.of(kind, spec.parameters)


def encode(folder: Path, role: Role, ids: list[str], kind: EncoderName = "splade") -> Any:
    return PrecomputedEncoder(settings(folder, kind)).encode(Inputs(Ids.of(ids)), role)


@pytest.mark.parametrize("packed", [False, True])
def test_terms_of_both_files_share_their_columns(tmp_path: Path, packed: bool) -> None:
    write(tmp_path, "documents", DOCUMENTS, packed=packed)
    write(tmp_path, "queries", QUERIES, packed=packed)
    documents, queries = (
        encode(tmp_path, role, list(vectors)) for role, vectors in (("documents", DOCUMENTS), ("queries", QUERIES))
    )
    assert isinstance(documents, SparseVectors)
    assert documents.dimensions == queries.dimensions == 4
    scores = (queries.to_scipy() @ documents.to_scipy().T).toarray()
    assert scores.tolist() == [[1.5, 0, 0], [0, 1, 0]]
    assert encode(tmp_path, "documents", ["d2", "d1"]).values.tolist() == [2.0, 3.0, 1.5]


def test_a_comparison_of_such_vectors(tmp_path: Path) -> None:
    write(tmp_path, "documents", DOCUMENTS)
    write(tmp_path, "queries", QUERIES)
    dataset = harness.Dataset.of({d: d for d in DOCUMENTS}, {q: q for q in QUERIES}, {"q1": {"d1": 1}, "q2": {"d2": 1}})
    result = harness.compare(
        dataset=dataset, backends=[f"csr-splade:model='precomputed:{tmp_path}'"], k=3, metrics=["RR"], isolation="none"
    )
    assert result.metrics()["RR"].tolist() == [1.0]


def test_terms_that_are_numbers_are_columns(tmp_path: Path) -> None:
    write(tmp_path, "queries", {"q1": {"7": 1, "0": 2}})
    queries = encode(tmp_path, "queries", ["q1"])
    assert (queries.indices.tolist(), queries.values.tolist(), queries.dimensions) == ([0, 7], [2.0, 1.0], 8)


def test_lists_are_dense_vectors(tmp_path: Path) -> None:
    write(tmp_path, "documents", {"a": [1, 2], "b": [0.5, -1]})
    np.testing.assert_array_equal(encode(tmp_path, "documents", ["b", "a"], "dense"), [[0.5, -1], [1, 2]])
    write(tmp_path, "documents", {"a": [1, 2], "b": [0.5]})
    with pytest.raises(DataError, match="vectors of 1, 2 dimensions"):
        encode(tmp_path, "documents", ["a"], "dense")


def test_the_key_of_one_role_covers_the_terms_of_the_other(tmp_path: Path) -> None:
    write(tmp_path, "documents", DOCUMENTS)
    write(tmp_path, "queries", QUERIES)
    before = encoding_key(settings(tmp_path), "documents", "texts", fetch=False)
    write(tmp_path, "queries", {"q1": {"water": 1, "aa": 4}})
    assert encoding_key(settings(tmp_path), "documents", "texts", fetch=False) != before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"id": "a"}\n[1]\n', "line 1: an id and a vector are expected.*\n  line 2: an object is expected"),
        ('{"id": "a", "vector": {"x": "1"}}\n', "the vector of 'a' holds a value that is not a number"),
        ('{"id": "a", "vector": {"1": 1}}\n{"id": "b", "vector": [1]}\n', "vectors of terms and lists of numbers"),
        ('{"id": "a", "vector": [1]}\n{"id": "b", "vector": {"1": 1}}\n', "vectors of terms and lists of numbers"),
        ('{"id": "a", "vector": {"x": 1}}\n', "the terms are words, and without a file of the other role"),
        ('{"id": "a", "vector": {"1": 1}}\n{"id": "a", "vector": {"1": 2}}\n', "an id occurs twice"),
        ("{\n", "line 1: malformed JSON"),
        ("\n", "the file holds no vectors"),
    ],
)  # fmt: skip
def test_faulty_lines_are_named(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "documents.jsonl").write_text(content)
    with pytest.raises(DataError, match=says):
        encode(tmp_path, "documents", ["a"])
