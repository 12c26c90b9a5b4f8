from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array

import harness.exact
from harness.data.types import Corpus, Ids, Queries
from harness.errors import DataError, UsageError
from harness.exact import SparseIndex, encode_documents, encode_queries
from harness.exact.encoding import widen
from harness.pipeline.model_evaluation import evaluate


class Model:
    """Letters as dimensions: 'aab' has weight 2 at 0 and 1 at 1."""

    def __init__(self, form) -> None:
        self.form = form
        self.batches: list[int] = []

    def encode_documents(self, texts: list[str]):
        self.batches.append(len(texts))
        return self.form(np.array([[text.count(letter) for letter in "abcd"] for text in texts], dtype=np.float64))

    def encode_queries(self, texts: list[str]):
        return self.encode_documents(texts)


def mappings(dense: np.ndarray) -> list[dict[int, float]]:
    return [{int(place): row[place] for place in reversed(np.flatnonzero(row))} for row in dense]


FORMS = [np.asarray, np.float16, np.int64, csr_array, csc_array, mappings, lambda dense: dense.tolist()]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rows(form):
    model = Model(form)
    rows = encode_documents(model, ["aab", "", "dc", "a", "bb"], batch_size=2)
    assert model.batches == [2, 2, 1]
    assert rows.to_scipy().toarray().tolist() == [[2, 1, 0, 0], [0] * 4, [0, 0, 1, 1], [1, 0, 0, 0], [0, 2, 0, 0]]
    assert (rows.indptr.dtype, rows.indices.dtype, rows.values.dtype) == (np.int64, np.int32, np.float32)


def test_no_texts():
    assert len(encode_queries(Model(np.asarray), [])) == 0
    assert encode_queries(Model(np.asarray), iter([]), dimensions=7).dimensions == 7


def test_dimensions():
    assert encode_documents(Model(mappings), ["b"]).dimensions == 2
    assert encode_documents(Model(mappings), ["b"], dimensions=9).dimensions == 9
    assert widen(encode_documents(Model(mappings), ["b"]), 5).dimensions == 5
    with pytest.raises(DataError, match="index 1 is outside the 1 dimensions"):
        encode_documents(Model(mappings), ["b"], dimensions=1)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (lambda dense: dense[:-1], "gave 1 rows for the 2 texts from row 2 on"),
        (lambda dense: dense * np.nan, r"documents: 2 problems\n  row 2: the vector has a value that is NaN"),
        (lambda dense: (dense + 1) * 1e300, "row 3: the vector has a value that is NaN or infinite"),
        (lambda dense: [{0: np.inf} for _ in dense], "row 2: the vector has a value that is NaN or infinite"),
        (lambda dense: [{0: None} for _ in dense], "row 2: the vector has a value that is NaN or infinite"),
        (lambda dense: [{-1: 1.0} for _ in dense], "outside 0 to"),
        (lambda dense: [{2**40: 1.0} for _ in dense], "outside 0 to"),
        (lambda dense: [{1.5: 1.0} for _ in dense], "not a whole number"),
        (lambda dense: [{np.nan: 1.0} for _ in dense], "not a whole number"),
        (lambda dense: [{"a": 1.0} for _ in dense], "not {whole number: weight}"),
        (lambda dense: dense[0], "of shape"),
        (lambda dense: np.array([["a"]] * len(dense)), "of shape"),
        (lambda _: csr_array((5, 4)), "gave 5 rows for the 2 texts from row 2 on"),
    ],
)
def test_what_a_model_must_not_give_in_its_second_batch(form, message: str):
    model = Model(np.asarray)
    answers = iter([np.eye(2, 4), form(np.eye(2, 4))])
    model.encode_documents = lambda _: next(answers)
    with pytest.raises(DataError, match=message):
        encode_documents(model, ["a", "b", "c", "d"], batch_size=2)


def test_widths_that_change_between_batches():
    model = Model(np.asarray)
    widths = iter([4, 3])
    model.encode_documents = lambda texts: np.ones((len(texts), next(widths)))
    with pytest.raises(DataError, match=r"different widths: \[3, 4\]"):
        encode_documents(model, ["a", "b"], batch_size=1)


def test_batch_size():
    with pytest.raises(UsageError, match="the documents are one string"):
        encode_documents(Model(np.asarray), "abc")
    with pytest.raises(UsageError, match="batch_size is 0"):
        encode_documents(Model(np.asarray), ["a"], batch_size=0)


DOCUMENTS = {"d1": "aab", "d2": "bcd", "d3": "ccc", "d4": ""}
QUERIES = {"q1": "a", "q2": "cc", "q3": "d"}
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d1": 1}}


@pytest.mark.parametrize("form", [np.asarray, mappings])
def test_the_whole_evaluation_in_one_call(form):
    result = evaluate(Model(form), DOCUMENTS, QUERIES, QRELS, "RR,R@1", k=10)
    means = {
        str(measure): result.scores.values[:, place].tolist() for place, measure in enumerate(result.scores.measures)
    }
    assert means == {"RR": [1.0, 0.5, 0.0], "R@1": [1.0, 0.0, 0.0]}
    assert result.run.doc_ids.take(result.run.rows) == ["d1", "d3", "d2", "d2"]
    assert len(result.index) == 4


def test_columns_give_the_same_and_ties_follow_the_measures():
    import pyarrow as pa

    documents = {"d1": "a", "d2": "a", "d3": "b"}
    corpus = Corpus(Ids.of(documents), pa.chunked_array([list(documents.values())]), "x")
    queries = Queries(Ids.of(["q"]), pa.chunked_array([["a"]]), "y")
    for given, asked in ((documents, {"q": "a"}), (corpus, queries)):
        result = evaluate(Model(np.asarray), given, asked, {"q": {"d2": 1}}, ["RR"], k=1)
        assert result.run.doc_ids.take(result.run.rows) == ["d2"]
        assert result.scores.values.tolist() == [[1.0]]


def test_idf_and_threads_are_passed_on():
    plain = evaluate(Model(np.asarray), DOCUMENTS, QUERIES, QRELS)
    weighted = evaluate(Model(np.asarray), DOCUMENTS, QUERIES, QRELS, idf="bm25", threads=2)
    assert plain.index.idf is None
    assert weighted.index.idf is not None
    assert weighted.run.scores.tolist() != plain.run.scores.tolist()


def test_public_names_are_sorted_and_there():
    names = harness.exact.__all__
    assert names == sorted(names)
    assert set(names) <= set(dir(harness.exact))
    assert all(getattr(harness.exact, name) for name in names)
    assert harness.exact.SparseIndex is SparseIndex
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        harness.exact.missing
