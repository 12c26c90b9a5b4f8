"""Lucene indexes of vectors and impacts that somebody else made: by Anserini's own commands, and with other fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest
from installed import skip_module_without
from lucene_indexes import add_vectors, delete, run_anserini, writer

import harness
from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.engines.interface import ExpectedContent, IndexHandle
from harness.engines.lucene.engine import RowsEngine
from harness.engines.lucene.impact import LuceneImpactEngine, read_vocabulary
from harness.engines.lucene.vectors import LuceneFlatEngine, LuceneHnswEngine
from harness.errors import BackendError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.testing import RecordingProgress
from harness.testing.expected import random_unit_vectors

skip_module_without("jnius_config")

pytestmark = pytest.mark.integration
ENGINES: dict[str, type[RowsEngine[Any]]] = {
    "lucene-hnsw": LuceneHnswEngine,
    "lucene-flat": LuceneFlatEngine,
    "lucene-impact": LuceneImpactEngine,
}
DOCUMENTS, QUERIES, TERMS = 300, 6, ["cat", "##ing", "a^b", ":", "AND", "(dog"]
IDS, QUERY_IDS = [f"d{row}" for row in range(DOCUMENTS)], [f"q{row}" for row in range(QUERIES)]
VECTORS, ASKED = random_unit_vectors(3, DOCUMENTS, 24), random_unit_vectors(4, QUERIES, 24)
IMPACTS = (np.random.default_rng(5).integers(0, 40, (DOCUMENTS, len(TERMS))) % 9).astype(np.float32)
QUERY_WEIGHTS = np.eye(QUERIES, len(TERMS), dtype=np.float32) + np.eye(QUERIES, len(TERMS), 1, dtype=np.float32)
GIVEN = Inputs(Ids.of(IDS), dense=VECTORS)
_DENSE = "-collection JsonDenseVectorCollection -generator DenseVectorDocumentGenerator -threads 1 -input"

_SPARSE = "-collection JsonVectorCollection -generator DefaultLuceneDocumentGenerator -threads 1 -input"


@pytest.fixture(scope="module")
def anserini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Indexes of Anserini's own commands."""
    folder = tmp_path_factory.mktemp("anserini")
    for name in ("dense", "sparse"):
        (folder / name).mkdir()
    dense = [{"docid": one, "vector": vector.tolist()} for one, vector in zip(IDS, VECTORS, strict=True)]
    (folder / "dense" / "d.jsonl").write_text("".join(json.dumps(one) + "\n" for one in dense))
    weights = [{term: int(one) for term, one in zip(TERMS, row, strict=True) if one} for row in IMPACTS]
    sparse = [{"id": one, "contents": "", "vector": row} for one, row in zip(IDS, weights, strict=True)]
    (folder / "sparse" / "s.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sparse))
    lines = [
        f"IndexHnswDenseVectors {_DENSE} {folder}/dense -index {folder}/hnsw -M 4 -efC 8",
        f"IndexFlatDenseVectors {_DENSE} {folder}/dense -index {folder}/flat",
        f"IndexFlatDenseVectors {_DENSE} {folder}/dense -index {folder}/quantised -quantize.int8",
        f"IndexCollection {_SPARSE} {folder}/sparse -index {folder}/impact -impact -pretokenized",
    ]
    run_anserini(*(line.split() for line in lines))
    (folder / "vocab.txt").write_text("".join(f"{term}\n" for term in TERMS))
    return folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection, with its vectors of both kinds beside it."""
    from scipy.sparse import csr_array, save_npz

    folder = tmp_path_factory.mktemp("data") / "small"
    for name in ("qrels", "dense", "sparse"):
        (folder / name).mkdir(parents=True)
    told = (("corpus", "documents", IDS, VECTORS, IMPACTS), ("queries", "queries", QUERY_IDS, ASKED, QUERY_WEIGHTS))
    for name, role, ids, dense, sparse in told:
        records = [json.dumps({"_id": one, "title": "", "text": f"text of {one}"}) for one in ids]
        (folder / f"{name}.jsonl").write_text("".join(f"{record}\n" for record in records))
        np.save(folder / "dense" / f"{role}.npy", dense)
        save_npz(folder / "sparse" / f"{role}.npz", csr_array(sparse / 100))
        for kind in ("dense", "sparse"):
            (folder / kind / f"{role}.ids.txt").write_text("".join(f"{one}\n" for one in ids))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\n")
    return folder


def compared(dataset: Path, kind: str, *expressions: str) -> list[Any]:
    backends = [f"{one};external=true;model=precomputed:{dataset / kind}" for one in expressions]
    comparison = harness.compare(backends, dataset, k=10, isolation="none", timing=False, ties="engine")
    assert [one.error for one in comparison.report.trials] == [None] * len(backends)
    return comparison.report.trials


@contextmanager
def attached(backend: str, folder: Path, **parameters: Any) -> Iterator[tuple[RowsEngine[Any], IndexHandle]]:
    given = {**find_cards("backends")[backend].defaults, "external": True, "path": str(folder), **parameters}
    with closing(ENGINES[backend](given)) as engine:
        yield engine, engine.attach(folder / "not used", RecordingProgress())


def refused(backend: str, folder: Path, **parameters: Any) -> str:
    with pytest.raises(BackendError) as refusal, attached(backend, folder, **parameters):
        pass
    assert "delete" not in str(refusal.value), "the index is the user's"
    return str(refusal.value)


def content(found: IndexHandle, vectors: Float32Array = VECTORS) -> ExpectedContent:
    rows = GIVEN.ids.rows_of(found.ids)
    known = np.flatnonzero(rows >= 0).astype(np.int32)
    taken = Inputs(Ids.of(GIVEN.ids.take(rows[known])), dense=np.ascontiguousarray(vectors[rows[known]]))
    return ExpectedContent(known, taken, Inputs(Ids.of(QUERY_IDS), dense=ASKED))


def test_dense_indexes_of_anserini_are_held_against_the_exact_oracle(anserini: Path, dataset: Path) -> None:
    graph, flat, quantised = compared(
        dataset,
        "dense",
        f"lucene-hnsw:path={anserini}/hnsw;ef_search=10",
        f"lucene-flat:path={anserini}/flat",
        f"lucene-flat:path={anserini}/quantised",
    )
    for backend, name in ((graph, "hnsw"), (flat, "flat"), (quantised, "quantised")):
        files = [path for path in (anserini / name).iterdir() if path.is_file()]
        assert backend.index.external_index.files == len(files)
        assert backend.index.documents_indexed == DOCUMENTS
        assert backend.engine.mode == "embedded, an external index"
    assert graph.index.state["vectors_in_graph"] == DOCUMENTS
    assert graph.parity.causes.keys() == {"approximate search"}
    assert 0.1 < graph.parity.overlap["10"] < 1
    assert flat.parity.tie_equivalent == QUERIES
    assert quantised.parity is None
    assert any("Lucene scores quantised vectors" in note for note in quantised.notes)


def test_an_impact_index_of_anserini_is_searched_by_the_models_vocabulary(anserini: Path, dataset: Path) -> None:
    """Terms of all kinds of characters, and words that the parser would take for operators."""
    index = f"lucene-impact:path={anserini}/impact;vocabulary={anserini / 'vocab.txt'}"
    for backend in compared(dataset, "sparse", index, f"{index};idf=true"):
        assert backend.parity.tie_equivalent == backend.parity.queries == QUERIES, backend.notes
        assert backend.parity.max_abs_score_diff == 0
        assert backend.index.external_index.in_dataset == DOCUMENTS


def test_a_golden_set_is_held_against_them_without_a_collection(anserini: Path, dataset: Path, tmp_path: Path) -> None:
    """Only the questions are encoded; each expects what exact search has first."""
    for kind in ("dense", "sparse"):
        (tmp_path / kind).mkdir()
        for path in (dataset / kind).glob("queries.*"):
            (tmp_path / kind / path.name).write_bytes(path.read_bytes())
    best = {"dense": np.argmax(ASKED @ VECTORS.T, axis=1), "sparse": np.argmax(QUERY_WEIGHTS @ IMPACTS.T, axis=1)}
    indexes = {
        f"lucene-flat:path={anserini}/flat": "dense",
        f"lucene-hnsw:path={anserini}/hnsw;ef_search=200": "dense",
        f"lucene-impact:path={anserini}/impact;vocabulary={anserini / 'vocab.txt'}": "sparse",
    }
    for index, kind in indexes.items():
        golden = [
            {"id": name, "question": f"about {name}", "expected": [IDS[row]]}
            for name, row in zip(QUERY_IDS, best[kind], strict=True)
        ]
        against = f"{index};model=precomputed:{tmp_path / kind}"
        checked = harness.check(golden, against=against, k=5, isolation="none", timing=False, require="MRR@5>=1")
        assert checked.passed, checked
        assert checked.report.trials[0].engine.mode == "embedded, an external index"
        golden[0]["expected"] = ["nowhere"]
        checked = harness.check(golden, against=against, k=5, isolation="none", timing=False)
        assert (checked.report.verdict, checked.report.trials[0].metrics) == ("invalid", {})


def test_other_impacts_leave_no_oracle(anserini: Path) -> None:
    given = {"vocabulary": str(anserini / "vocab.txt"), "impact_scale": 1.0}
    with attached("lucene-impact", anserini / "impact", **given) as (engine, found):
        changed = IMPACTS[GIVEN.ids.rows_of(found.ids)]
        changed[7, 2] += 1
        rows = np.arange(DOCUMENTS, dtype=np.int32)
        asked = Inputs(Ids.of(QUERY_IDS), sparse=SparseVectors.from_scipy(_csr(QUERY_WEIGHTS)))
        ours = ExpectedContent(rows, Inputs(found.ids, sparse=SparseVectors.from_scipy(_csr(changed))), asked)
        reason = engine.mismatch(ours, RecordingProgress())
        assert reason == "the term 'a^b' has other documents or impacts than the encoder gives it"
        far = SparseVectors(np.array([0, 1]), np.array([99], np.int32), np.ones(1, np.float32), 100)
        with pytest.raises(RejectedInputError, match="column 99, and the vocabulary has 6 terms"):
            engine.search(Inputs(Ids.of(["q"]), sparse=far), 3, perf_counter_ns)


def test_an_idf_that_counts_other_documents_leaves_no_oracle(anserini: Path) -> None:
    given = {"vocabulary": str(anserini / "vocab.txt"), "impact_scale": 1.0, "idf": True}
    with attached("lucene-impact", anserini / "impact", **given) as (engine, found):
        rows = np.arange(DOCUMENTS - 1, dtype=np.int32)
        some = Ids.of(found.ids.take(rows))
        known = Inputs(some, sparse=SparseVectors.from_scipy(_csr(IMPACTS[GIVEN.ids.rows_of(some)])))
        asked = Inputs(Ids.of(QUERY_IDS), sparse=SparseVectors.from_scipy(_csr(QUERY_WEIGHTS)))
        reason = engine.mismatch(ExpectedContent(rows, known, asked), RecordingProgress())
    assert reason == "its idf counts 300 documents with terms, the dataset's part of it has 299"


def test_impacts_under_other_terms_are_refused(anserini: Path) -> None:
    """Without the vocabulary the terms would be numbers, every query would find nothing, and the mean would be 0."""
    with attached("lucene-impact", anserini / "impact", impact_scale=1.0) as (engine, found):
        given = Inputs(found.ids, sparse=SparseVectors.from_scipy(_csr(IMPACTS[GIVEN.ids.rows_of(found.ids)])))
        asked = Inputs(Ids.of(QUERY_IDS), sparse=SparseVectors.from_scipy(_csr(QUERY_WEIGHTS)))
        ours = ExpectedContent(np.arange(DOCUMENTS, dtype=np.int32), given, asked)
        with pytest.raises(RejectedInputError, match=r"has terms such as '##ing', '\(dog', ':', and none that") as said:
            engine.mismatch(ours, RecordingProgress())
    assert "(vocabulary=)" in str(said.value)


def _csr(array: Float32Array) -> Any:
    from scipy.sparse import csr_array

    return csr_array(array)


@pytest.mark.parametrize(
    ("function", "similarity", "kind"),
    [
        ("DOT_PRODUCT", "cosine", "Binary"),
        ("COSINE", "cosine", "Sorted"),
        ("MAXIMUM_INNER_PRODUCT", "dot", "Binary"),
        ("EUCLIDEAN", "l2", "Sorted"),
    ],
)
def test_every_stored_vector_is_compared(function: str, similarity: str, kind: str, tmp_path: Path) -> None:
    """Ids are doc values here, in a segment of their own each; deleted documents are not there."""
    scaled = VECTORS * np.linspace(0.1, 9, DOCUMENTS, dtype=np.float32)[:, None]
    stored = VECTORS if function == "DOT_PRODUCT" else scaled
    part = slice(0, 40)
    with writer(tmp_path) as made:
        add_vectors(made, Inputs(Ids.of(IDS[part]), dense=stored[part]), function=function, doc_values=kind)
        made.commit()
        add_vectors(made, Inputs(Ids.of(["gone"]), dense=stored[:1]), function=function, doc_values=kind)
        made.commit()
        delete(made, "key", "gone")
    given = {"field": "embedding", "id_field": "docid", "similarity": ""}
    with attached("lucene-hnsw", tmp_path, **given) as (engine, found):
        assert found.state["similarity"] == similarity
        assert list(found.ids) == IDS[part]
        assert engine.mismatch(content(found, scaled), RecordingProgress()) is None
        other = scaled.copy()
        other[7, 3] *= np.float32(1 + 2e-6)
        reason = engine.mismatch(content(found, other), RecordingProgress())
        assert reason.startswith(
            "1 documents have other vectors than the encoder gives, 'd7' first; values differ by up to "
        )
        hits = engine.search(Inputs(Ids.of(["q"]), dense=scaled[9:10]), 40, perf_counter_ns)
    wide = scaled[part].astype(np.float64)
    exact = {
        "cosine": wide @ wide[9] / np.linalg.norm(wide, axis=1) / np.linalg.norm(wide[9]),
        "dot": wide @ wide[9],
        "l2": -np.square(wide - wide[9]).sum(axis=1),
    }[similarity]
    np.testing.assert_allclose(hits.scores, exact[hits.rows], rtol=1e-5, atol=1e-5)


def test_what_cannot_be_searched_rightly_is_refused(anserini: Path, tmp_path: Path) -> None:
    said = refused("lucene-flat", anserini / "hnsw")
    assert "has graphs (Lucene99HnswVectorsFormat)\n  take lucene-hnsw" in said
    assert "has no graphs (AnseriniLucene99FlatVectorFormat)\n  take lucene-flat" in refused(
        "lucene-hnsw", anserini / "flat"
    )
    said = refused("lucene-hnsw", anserini / "hnsw", similarity="l2")
    assert "is compared by DOT_PRODUCT, which is not similarity=l2\n  say similarity=cosine or similarity=dot" in said
    assert "name one that it has (field=): vector" in refused("lucene-hnsw", anserini / "hnsw", field="embedding")
    said = refused("lucene-hnsw", anserini / "hnsw", id_field="docno")
    assert "has the stored field 'docno', and none has doc values of it" in said
    assert "has the field of terms 'weights'" in refused("lucene-impact", anserini / "impact", field="weights")
    assert "without frequencies" in refused("lucene-impact", anserini / "impact", field="id")
    (tmp_path / "empty").mkdir()
    assert "path= must name the folder" in refused("lucene-hnsw", tmp_path / "empty")
    with pytest.raises(RejectedInputError, match="the vocabulary cannot be read"):
        read_vocabulary(tmp_path / "none.txt")
    with attached("lucene-flat", anserini / "flat") as (engine, found):
        known = content(found)
        short = ExpectedContent(known.rows, known.documents, Inputs(Ids.of(QUERY_IDS), dense=ASKED[:, :20].copy()))
        with pytest.raises(RejectedInputError, match="vectors of 24 dimensions, the encoder gives 20"):
            engine.mismatch(short, RecordingProgress())
