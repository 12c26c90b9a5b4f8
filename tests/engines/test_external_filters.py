"""Filters of questions on collections of the user: the engines' own filters, with values compared as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import skip_without

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.pipeline.check.checked import CheckResult
from harness.testing.expected import random_unit_vectors

YEARS = {"a": "1971", "b": 1971, "c": 1971.0, "d": True, "e": "true", "f": 0.5, "g": None, "h": -3, "i": "1e3"}
FILTERS = {"1971": "ab", "1971.0": "c", "true": "de", "0.5": "f", "-3": "h", "1e3": "i", "": "abcdefghi", "none": ""}
VECTORS = random_unit_vectors(1, len(YEARS), 8)
GIVEN = Inputs(Ids.of(YEARS), dense=VECTORS)


def golden(field: str) -> list[dict[str, Any]]:
    return [
        {
            "id": f"q{text}",
            "question": f"words {text}",
            "expected": [names[:1] or "a"],
            **({"filter": {field: text}} if text else {}),
        }
        for text, names in FILTERS.items()
    ]


def checked(against: str, work: Path, field: str = "year") -> CheckResult:
    questions = golden(field)
    made = work / "made"
    made.mkdir()
    np.save(made / "queries.npy", random_unit_vectors(2, len(questions), 8))
    (made / "queries.ids.txt").write_text("".join(f"{question['id']}\n" for question in questions))
    options = {"k": len(YEARS), "isolation": "none", "timing": False}
    return harness.check(questions, against=f"{against};model=precomputed:{made}", **options)


def require_filtered(result: CheckResult, filters: Mapping[str, str] = FILTERS) -> None:
    (trial,) = result.report.trials
    assert {question.id: "".join(sorted(question.top)) for question in trial.questions} == {
        f"q{text}": names for text, names in filters.items()
    }
    assert trial.parity is not None  # with exact search of the vectors that match, by the index's own metadata
    assert (trial.parity.queries, trial.parity.different) == (len(FILTERS), 0)


def chroma_folder(folder: Path) -> str:
    import chromadb

    metadata: list[Mapping[str, Any] | None] = [
        {"year": year, "tenant": "north"} if year is not None else None for year in YEARS.values()
    ]
    with chromadb.PersistentClient(path=str(folder)) as client:
        collection = client.create_collection("docs", embedding_function=None)
        collection.add(ids=list(YEARS), embeddings=VECTORS, metadatas=metadata)  # type: ignore[arg-type]
    return f"chroma:path={folder};collection=docs"


@pytest.mark.integration
def test_chroma_compares_values_as_text(tmp_path: Path) -> None:
    skip_without("chromadb")
    equal_numbers = {"1971": "abc", "1971.0": "bc"}  # Chroma does not tell 1971 from 1971.0
    require_filtered(checked(chroma_folder(tmp_path / "db"), tmp_path), {**FILTERS, **equal_numbers})


@pytest.mark.integration
def test_a_field_that_no_document_of_an_index_has_is_named(tmp_path: Path) -> None:
    skip_without("chromadb")
    (trial,) = checked(chroma_folder(tmp_path / "db"), tmp_path, field="yaer").report.trials
    assert trial.error is not None
    assert trial.error.message.startswith(
        "no document of the external index has the metadata field 'yaer' (did you mean 'year'?)"
    )


def qdrant_shard(folder: Path, *, nested: bool = False, without: str = "") -> str:
    from qdrant_indexes import write_shard

    def payload(name: str) -> dict[str, Any]:
        fields = {"year": YEARS[name]} if YEARS[name] is not None and name not in without else {}
        return {"docno": name, **({"metadata": fields} if nested else fields)}

    write_shard(folder, GIVEN, similarity="dot", payload=payload)
    return f"qdrant-dense:path={folder};exact=true;id_key=docno"


@pytest.mark.integration
@pytest.mark.parametrize("nested", [False, True])
def test_qdrant_compares_values_as_text(nested: bool, tmp_path: Path) -> None:
    skip_without("qdrant_edge")
    against = qdrant_shard(tmp_path / "shard", nested=nested, without="d")
    require_filtered(checked(against, tmp_path), {**FILTERS, "true": "e"})


@pytest.mark.integration
def test_booleans_that_qdrant_edge_cannot_filter_are_refused(tmp_path: Path) -> None:
    skip_without("qdrant_edge")
    (trial,) = checked(qdrant_shard(tmp_path / "shard"), tmp_path).report.trials
    assert trial.error is not None
    assert trial.error.message.startswith("'year' holds booleans, and Qdrant Edge's client cannot filter by them")
