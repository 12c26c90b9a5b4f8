"""An index whose vectors are of another model than its questions is told by the texts that it keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from installed import skip_without
from scipy.sparse import csr_array

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.pipeline.check.checked import CheckResult

pytestmark = pytest.mark.integration

OWN_MODELS = """
import numpy as np

WORDS = ["cat", "garden", "light", "station", "dog", "mat", "water", "rail"]

def counts(texts):
    return np.array([[text.split().count(word) + 0.01 for word in WORDS] for text in texts])

class Right:
    encode = staticmethod(counts)

class Other:
    encode = staticmethod(lambda texts: np.roll(counts(texts), 3, axis=1))

class Sparse:
    encode = staticmethod(lambda texts: [dict(enumerate(row)) for row in counts(texts)])

class OtherSparse:
    encode = staticmethod(lambda texts: [dict(enumerate(np.roll(row, 3))) for row in counts(texts)])
"""
TEXTS = {
    "d1": "the cat sat on the mat",
    "d2": "a dog needs water",
    "d3": "light rail reached the station",
    "d4": "the garden needs light and water",
}
ASKED = [
    {"id": "q1", "question": "cat on a mat", "expected": ["d1"]},
    {"id": "q2", "question": "the rail station", "expected": ["d3"]},
]
IDS = Ids.of(TEXTS)
CLEAN = "4 texts of the index were encoded again: the lowest cosine with the stored vectors is 1.0000"
UNKNOWN = "its vectors were not compared with the model's vectors: "


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The vectors of the texts by the model ``Right``; the folder of the test is the current one."""
    (tmp_path / "kept_models.py").write_text(OWN_MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "kept_models", raising=False)  # of another test
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    words = ["cat", "garden", "light", "station", "dog", "mat", "water", "rail"]
    return np.array([[text.split().count(word) + 0.01 for word in words] for text in TEXTS.values()], dtype=np.float32)


def checked(index: str, model: str, **options: Any) -> CheckResult:
    against = f"mine={index};model=python:kept_models:{model}"
    return harness.check(ASKED, against=against, k=2, timing=False, isolation="none", **options)


def assert_told_apart(index: str, place: str, **options: Any) -> None:
    """The right model leaves a note, another one of as many dimensions a warning, in every form of the report."""
    right = checked(index, "Right", **options)
    assert (right.report.verdict, right.report.warnings) == ("passed", [])
    assert right.trial("mine").notes[-1] == CLEAN
    other = checked(index, "Other", **options)
    (warning,) = other.report.warnings
    assert (warning.check, warning.backend) == ("stored-vectors", "mine")
    assert warning.message.startswith(
        "4 of 4 texts that were encoded again have other vectors in the index: the lowest"
    )
    assert warning.fix.endswith(f"if texts other than those of {place} were encoded, this is not an error")
    assert warning.examples[0].startswith("document 'd")
    assert other.report.verdict == "passed"  # the figures stand, with the warning beside them
    for shown in (other.render(), other.render("markdown"), other.render("json"), other.html()):
        assert "that were encoded again have other vectors in the index" in " ".join(shown.split())


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def test_a_folder_of_chroma(made: np.ndarray, tmp_path: Path) -> None:
    skip_without("chromadb")
    from chroma_indexes import write_folder

    write_folder(tmp_path / "db", Inputs(IDS, dense=made), texts=list(TEXTS.values()))
    assert_told_apart("chroma:path=db;collection=theirs", "Chroma's documents")
    (warning,) = checked("chroma:path=db;collection=theirs", "Other").report.warnings
    found = cosines(made, np.roll(made, 3, axis=1))
    assert f"the lowest cosine is {found.min():.3f}, the median {np.median(found):.3f}" in warning.message


def test_a_part_of_an_index_that_another_model_made_is_named(made: np.ndarray, tmp_path: Path) -> None:
    skip_without("chromadb")
    from chroma_indexes import write_folder

    made[2] = np.roll(made[2], 3)
    write_folder(tmp_path / "db", Inputs(IDS, dense=made), texts=list(TEXTS.values()))
    (warning,) = checked("chroma:path=db;collection=theirs", "Right").report.warnings
    assert warning.message.startswith("1 of 4 texts that were encoded again have other vectors")
    assert warning.message.endswith("the median 1.000")
    assert [one.partition(":")[0] for one in warning.examples] == ["document 'd3'"]


def test_a_shard_of_qdrant(made: np.ndarray, tmp_path: Path) -> None:
    skip_without("qdrant_edge")
    from qdrant_indexes import write_shard

    dense = Inputs(IDS, dense=made)
    write_shard(tmp_path / "usual", dense, payload=lambda one: {"docno": one, "page_content": TEXTS[one]})
    assert_told_apart("qdrant-dense:path=usual;id_key=docno", "the payload's 'page_content'")
    write_shard(tmp_path / "named", dense, payload=lambda one: {"docno": one, "held": {"words": TEXTS[one]}})
    assert_told_apart("qdrant-dense:path=named;id_key=docno;text_key=held.words", "the payload's 'held.words'")


def test_learned_sparse_vectors_of_qdrant(made: np.ndarray, tmp_path: Path) -> None:
    skip_without("qdrant_edge")
    from qdrant_indexes import write_shard

    sparse = Inputs(IDS, sparse=SparseVectors.from_scipy(csr_array(made)))
    write_shard(tmp_path / "shard", sparse, idf=False, payload=lambda one: {"docno": one, "text": TEXTS[one]})
    index = "qdrant-splade:path=shard;id_key=docno"
    right = checked(index, "Sparse")
    assert (right.report.warnings, right.trial("mine").notes[-1]) == ([], CLEAN)
    (warning,) = checked(index, "OtherSparse").report.warnings
    assert f"the lowest cosine is {cosines(made, np.roll(made, 3, axis=1)).min():.3f}" in warning.message


@pytest.fixture
def stub() -> Iterator[Any]:
    skip_without("qdrant_edge")
    from qdrant_stub import serve

    with serve() as serving:
        yield serving


def test_a_collection_on_a_server_of_qdrant_with_the_texts_of_a_corpus(
    made: np.ndarray, tmp_path: Path, stub: Any
) -> None:
    from qdrant_indexes import write_collection

    write_collection(stub.url, "theirs", Inputs(IDS, dense=made))
    corpus = tmp_path / "chunks.jsonl"
    corpus.write_text("".join(f'{{"_id": "{one}", "text": "{text}"}}\n' for one, text in TEXTS.items()))
    index = f"qdrant-dense:url={stub.url};transport=rest;collection=theirs;id_key=docno"
    options = {"corpus": corpus, "backends": "csr:analyzer=whitespace"}
    assert_told_apart(index, "the corpus 'chunks'", **options)


def test_a_saved_index_with_the_texts_of_a_corpus(made: np.ndarray, tmp_path: Path) -> None:
    from harness.exact import DenseIndex

    DenseIndex.build(made).save(tmp_path / "flat")
    (tmp_path / "flat" / "ids.txt").write_text("".join(f"{one}\n" for one in TEXTS))
    corpus = tmp_path / "chunks.jsonl"
    corpus.write_text("".join(f'{{"_id": "{one}", "text": "{text}"}}\n' for one, text in TEXTS.items()))
    options = {"corpus": corpus, "backends": "csr:analyzer=whitespace"}
    assert_told_apart("flat:path=flat;id_file=ids.txt", "the corpus 'chunks'", **options)


def test_an_index_without_texts_passes_with_a_warning(made: np.ndarray, tmp_path: Path) -> None:
    """Nothing tells its model from another one of as many dimensions, and the figures look alike."""
    from harness.exact import DenseIndex

    DenseIndex.build(made).save(tmp_path / "flat")
    (tmp_path / "flat" / "ids.txt").write_text("".join(f"{one}\n" for one in TEXTS))
    unknown = checked("flat:path=flat;id_file=ids.txt", "Other")
    (warning,) = unknown.report.warnings
    assert (warning.check, warning.backend) == ("vectors-not-compared", "mine")
    assert warning.message == f"{UNKNOWN}no texts of its documents are known"
    assert f"warning (vectors-not-compared): mine: {warning.message}" in unknown.render().splitlines()


def test_vectors_of_lucene_with_the_texts_of_a_corpus(made: np.ndarray, tmp_path: Path) -> None:
    skip_without("jnius_config")
    from lucene_indexes import add_vectors, writer

    unit = made / np.linalg.norm(made, axis=1, keepdims=True)
    with writer(tmp_path / "lucene") as index:
        add_vectors(index, Inputs(IDS, dense=unit))
    corpus = tmp_path / "chunks.jsonl"
    corpus.write_text("".join(f'{{"_id": "{one}", "text": "{text}"}}\n' for one, text in TEXTS.items()))
    options = {"corpus": corpus, "backends": "csr:analyzer=whitespace"}
    assert_told_apart("lucene-hnsw:path=lucene;field=embedding;id_field=docid", "the corpus 'chunks'", **options)


def test_a_model_that_may_not_be_called_again_is_said(made: np.ndarray, tmp_path: Path) -> None:
    """Encoding the questions takes the one call that is allowed; nothing fails, and no call more is made."""
    skip_without("chromadb")
    from chroma_indexes import write_folder
    from endpoint_stub import serving_embeddings

    write_folder(tmp_path / "db", Inputs(IDS, dense=made[:, :7]), texts=list(TEXTS.values()))
    with serving_embeddings() as serving:
        index = f"mine=chroma:path=db;collection=theirs;model=http:m;endpoint={serving.url}"
        options = {"k": 2, "timing": False, "isolation": "none"}
        once = harness.check(ASKED, against=index, max_calls=1, **options)
        assert once.trial("mine").status == "ok"
        (warning,) = once.report.warnings
        assert warning.message.startswith(f"{UNKNOWN}its texts could not be encoded again: the cache lacks")
        assert len(serving.bodies) == 1
        twice = harness.check(ASKED, against=index, max_calls=2, **options)
        assert [one.check for one in twice.report.warnings] == ["stored-vectors"]  # its counts begin at 0.5
        assert len(serving.bodies) == 2


def test_precomputed_vectors_of_questions_encode_no_texts(made: np.ndarray, tmp_path: Path) -> None:
    skip_without("chromadb")
    from chroma_indexes import write_folder

    write_folder(tmp_path / "db", Inputs(IDS, dense=made), texts=list(TEXTS.values()))
    (tmp_path / "given").mkdir()
    np.save(tmp_path / "given" / "queries.npy", made[[0, 2]])
    (tmp_path / "given" / "queries.ids.txt").write_text("q1\nq2\n")
    index = "chroma:path=db;collection=theirs;model=precomputed:given"
    (subject,) = harness.check(ASKED, against=index, k=2, timing=False, isolation="none").report.trials
    assert subject.notes[-1] == f"{UNKNOWN}its questions have precomputed vectors, and no model encodes its texts"
