"""Every value equals that of sentence-transformers' own evaluator, on vectors made for ties and odd shapes."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any

import numpy as np
import pytest
from installed import Deferred, skip_module_without
from prepared_vectors import PreparedVectors

from harness.errors import DataError, MissingExtraError, RankingError, UsageError

skip_module_without("sentence_transformers")

OURS = "harness.integrations.sentence_transformers"
torch = Deferred("torch")
util = Deferred("sentence_transformers.util")
Theirs = Deferred("sentence_transformers.sentence_transformer.evaluation", "InformationRetrievalEvaluator")
Ours, best_hits = Deferred(OURS, "InformationRetrievalEvaluator"), Deferred(OURS, "best_hits")
Made = tuple[PreparedVectors, tuple[dict[Any, str], dict[Any, str], dict[Any, set[Any]]]]
FUNCTIONS = {
    kind: Deferred("sentence_transformers.util", name)
    for kind, name in (("dot", "dot_score"), ("cosine", "cos_sim"), ("euclidean", "euclidean_sim"))
}


def made(
    queries: int = 20, documents: int = 150, *, levels: int | None = None, seed: int = 0, ids: str = "d{}"
) -> Made:
    """Vectors of whole numbers below `levels` (many exact ties), or without any; ids in no order; 0 to 9 relevant."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)

    def vectors(count: int) -> Any:
        if levels is None:
            return torch.tensor(numbers.normal(size=(count, 8)), dtype=torch.float32)
        return torch.tensor(numbers.integers(0, levels, size=(count, 4)), dtype=torch.float32)

    names = [ids.format(number) for number in range(documents)]
    rng.shuffle(names)
    relevant = {f"q{query}": set(rng.sample(names, rng.randint(0, min(9, documents)))) for query in range(queries)}
    relevant["q0"].add(names[0])
    texts = {f"q{query}": str(query) for query in range(queries)}
    return PreparedVectors(vectors(queries), vectors(documents)), (
        texts,
        {name: str(row) for row, name in enumerate(names)},
        relevant,
    )


def both(made: Made, call: dict[str, Any] | None = None, **options: Any) -> tuple[dict[str, float], dict[str, float]]:
    model, arguments = made
    theirs, ours = Theirs(*arguments, **options), Ours(*arguments, **options)
    expected, found = theirs(model, **(call or {})), ours(model, **(call or {}))
    assert ours.primary_metric == theirs.primary_metric
    assert ours.csv_headers == theirs.csv_headers
    return expected, found


def equal(expected: dict[str, float], found: dict[str, float]) -> bool:
    assert list(found) == list(expected)
    assert all(type(value) is float for value in found.values())
    return found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("levels", [None, 3, 2, 1])
@pytest.mark.parametrize("chunk", [50_000, 150, 149, 37, 1])
def test_ties_and_chunks(levels, chunk):
    assert equal(*both(made(levels=levels), corpus_chunk_size=chunk, score_functions={"dot": util.dot_score}))


@pytest.mark.parametrize(("queries", "documents"), [(1, 1), (1, 12), (7, 3), (30, 400)])
@pytest.mark.parametrize("levels", [None, 2])
def test_shapes(queries, documents, levels):
    """Fewer documents than the deepest rank too."""
    assert equal(*both(made(queries, documents, levels=levels, seed=documents)))


def test_own_ranks_and_a_name():
    ranks = {"mrr_at_k": [3, 1], "ndcg_at_k": [2, 40], "accuracy_at_k": [7], "precision_recall_at_k": [1, 9]}
    expected, found = both(made(levels=3), name="dev", map_at_k=[1, 2, 300], **ranks)
    assert equal(expected, found)
    assert "dev_cosine_map@300" in found


@pytest.mark.parametrize("main", [None, "euclidean"])
def test_several_score_functions(main):
    assert equal(*both(made(), score_functions=FUNCTIONS, main_score_function=main, corpus_chunk_size=40))


def test_a_score_function_of_ones_own():
    def half_precision(queries, documents):
        return (queries @ documents.T).to(torch.bfloat16)

    def whole(queries, documents):
        return (queries @ documents.T).long()

    def double(queries, documents):  # differences that float32 cannot hold
        return 1.0 + (queries.double() @ documents.double().T) * 1e-12

    functions = {"half": half_precision, "whole": whole, "double": double}
    expected, found = both(made(levels=40), score_functions=functions, corpus_chunk_size=64)
    assert equal(expected, found)
    assert found["double_ndcg@10"] == pytest.approx(found["whole_ndcg@10"]) != found["half_ndcg@10"]


@pytest.mark.parametrize("levels", [None, 3, 1])
@pytest.mark.parametrize(("scores", "queries"), [(700, 7), (64, 16), (2**24, 3)])
def test_small_tiles_change_nothing(monkeypatch, levels, scores, queries):
    """Products of small whole numbers are exact in tiles of any shape; other vectors here meet no near-tie."""
    monkeypatch.setattr(best_hits, "SCORES_PER_BLOCK", scores)
    monkeypatch.setattr(best_hits, "QUERIES_PER_BLOCK", queries)
    options = {"map_at_k": [5], "corpus_chunk_size": 80, "score_functions": {"dot": util.dot_score}}
    assert equal(*both(made(levels=levels), **options))


@pytest.mark.parametrize("kind", ["tensor", "array", "memory map"])
def test_embeddings_of_the_corpus_are_taken_as_they_are(kind, tmp_path):
    model, arguments = made(levels=3)
    given: Any = model.documents if kind == "tensor" else model.documents.numpy()
    if kind == "memory map":
        np.save(tmp_path / "documents.npy", given)
        given = np.load(tmp_path / "documents.npy", mmap_mode="c")
    model.documents = torch.zeros(0)
    assert equal(*both((model, arguments), {"corpus_embeddings": given}, corpus_chunk_size=60))
    assert {call for call, _, _ in model.calls} == {"query"}


def test_another_model_encodes_the_corpus():
    one, arguments = made(seed=1)
    other, _ = made(seed=2)
    expected, found = both((one, arguments), {"corpus_model": other}, corpus_chunk_size=100)
    assert equal(expected, found)
    assert [call[:2] for call in other.calls] == [("document", 100), ("document", 50)] * 2
    assert {call for call, _, _ in one.calls} == {"query"}


def test_relevant_documents_outside_the_corpus_count():
    model, (queries, corpus, relevant) = made()
    relevant = {query: documents | {"elsewhere", f"gone-{query}"} for query, documents in relevant.items()}
    expected, found = both((model, (queries, corpus, relevant)), precision_recall_at_k=[150])
    assert equal(expected, found)
    assert found["cosine_recall@150"] < 1.0


def test_ids_may_be_numbers():
    model, (queries, corpus, relevant) = made(levels=2, ids="{}")
    numbers = ({int(q[1:]): t for q, t in queries.items()}, {int(d): t for d, t in corpus.items()})
    judged = {int(query[1:]): {int(document) for document in documents} for query, documents in relevant.items()}
    assert equal(*both((model, (*numbers, judged))))


def test_equal_scores_are_ordered_by_id_ascending():
    model = PreparedVectors(torch.ones(1, 2), torch.ones(3, 2))
    evaluator = Ours({"q": "0"}, {"c": "0", "a": "1", "b": "2"}, {"q": {"b"}})
    assert evaluator(model)["cosine_mrr@10"] == 0.5


def test_ap_at_k_is_divided_by_what_fits():
    """Three relevant documents, two ranks: (1 + 1) / min(2, 3), where trec_eval has (1 + 1) / 3."""
    model = PreparedVectors(torch.eye(4)[:1], torch.tensor([[1.0, i, 0, 0] for i in range(4)]))
    evaluator = Ours({"q": "0"}, {str(i): str(i) for i in range(4)}, {"q": {"0", "1", "3"}}, map_at_k=[2, 4])
    values = evaluator(model)
    assert values["cosine_map@2"] == 1.0
    assert values["cosine_map@4"] == pytest.approx((1 + 1 + 3 / 4) / 3)


def test_the_model_is_asked_as_theirs_is():
    model, arguments = made()
    options = {
        "query_prompt": "query: ", "corpus_prompt_name": "passage", "batch_size": 7, "truncate_dim": 4,
        "show_progress_bar": False,
    }  # fmt: skip
    both((model, arguments), **options)
    assert model.calls[:2] == model.calls[2:]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"relevant": {}}, UsageError, "no query has a relevant document"),
        ({"corpus": {}}, UsageError, "the corpus is empty"),
        ({"relevant": {"q0": {0, 1}}}, DataError, r"none of the .* is in the corpus \(relevant: 0, corpus: 'd"),
        ({"relevant": {"q0": ["d1", "d1"]}}, DataError, "query 'q0' lists a document twice"),
        ({"corpus": {"d1": "0", 1: "1"}, "relevant": {"q0": {1}}}, UsageError, "cannot be put in order"),
        ({"ndcg_at_k": []}, UsageError, r"ndcg_at_k is \[\]"),
        ({"map_at_k": [10, 0]}, UsageError, r"map_at_k is \[10, 0\]"),
        ({"corpus_chunk_size": 0}, UsageError, "corpus_chunk_size is 0"),
        ({"main_score_function": "best"}, UsageError, "unknown similarity 'best'"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(change, error, words):
    _, (queries, corpus, relevant) = made()
    parts = {"queries": queries, "corpus": corpus, "relevant_docs": relevant}
    given = {("relevant_docs" if name == "relevant" else name): value for name, value in change.items()}
    with pytest.raises(error, match=words):
        Ours(**(parts | given))


@pytest.mark.parametrize(
    ("function", "value", "score"), [("cosine", float("nan"), "nan"), ("dot", float("inf"), "-?inf")]
)
def test_a_score_that_is_not_finite_is_refused_by_name(function, value, score):
    model, arguments = made(documents=40, queries=3)
    name = list(arguments[1])[29]
    model.documents[29, 0] = value
    functions = {function: FUNCTIONS[function]}
    said = f"score function '{function}' gives {score}: query 'q.', document '{name}'"
    with pytest.raises(RankingError, match=said):
        Ours(*arguments, score_functions=functions, corpus_chunk_size=8, map_at_k=[2], ndcg_at_k=[1], mrr_at_k=[1],
             accuracy_at_k=[1], precision_recall_at_k=[1])(model)  # fmt: skip


def test_scores_of_another_shape_are_refused():
    model, arguments = made()
    evaluator = Ours(*arguments, score_functions={"pairs": lambda queries, documents: queries[:, 0]})
    with pytest.raises(UsageError, match=r"score function 'pairs' gave Tensor of shape \(\d+,\) for"):
        evaluator(model)


def test_embeddings_of_another_corpus_are_refused():
    model, arguments = made()
    with pytest.raises(UsageError, match="corpus_embeddings has 149 rows for 150 documents"):
        Ours(*arguments)(model, corpus_embeddings=model.documents[:-1])


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers.base.evaluation", None)
    command = r"pip install 'retrieval-harness\[dense\]' 'sentence-transformers>=6'"
    with pytest.raises(MissingExtraError, match=command):
        importlib.reload(importlib.import_module(OURS))


def hits_of(evaluator: Any, seed: int = 0, *, levels: int = 3) -> list[list[dict[str, Any]]]:
    """Lists as `util.semantic_search` makes them, in no order, with ties, of different lengths, and an empty one."""
    rng = random.Random(seed)
    lists = []
    for number in range(len(evaluator.queries_ids)):
        documents = rng.sample([*evaluator.corpus_ids, "elsewhere"], rng.randint(1, 60) if number else 0)
        lists.append([{"corpus_id": document, "score": float(rng.randint(0, levels))} for document in documents])
    return lists


@pytest.mark.parametrize("seed", range(5))
def test_hits_of_ones_own_give_the_same_values(seed):
    _, (queries, corpus, relevant) = made(seed=seed)
    relevant["q1"] = {*relevant["q1"], "not in the corpus"}
    ranks = {"map_at_k": [3, 100], "ndcg_at_k": [2, 10], "mrr_at_k": [1, 7]}
    theirs, ours = (kind(queries, corpus, relevant, **ranks) for kind in (Theirs, Ours))
    hits = hits_of(ours, seed)
    expected, found = theirs.compute_metrics(hits), ours.compute_metrics(hits)
    assert {key: list(at) for key, at in found.items()} == {key: list(at) for key, at in expected.items()}
    assert list(found) == list(expected)
    for key, at in found.items():
        assert at == pytest.approx(expected[key], abs=1e-12)


@pytest.mark.parametrize("name", ["compute_all_metrics", "compute_metrices"])
def test_all_metrics_without_a_call(name, tmp_path):
    model, arguments = made(levels=3)
    for given in ({}, {"corpus_embeddings": model.documents, "output_path": str(tmp_path)}):
        theirs, ours = (kind(*arguments, score_functions=FUNCTIONS, write_predictions=True) for kind in (Theirs, Ours))
        expected, found = (getattr(evaluator, name)(model, **given) for evaluator in (theirs, ours))
        assert sorted(found) == sorted(expected)
        for function, measures in found.items():
            for key, at in measures.items():
                assert at == pytest.approx(expected[function][key], abs=1e-9)
    assert len(list(tmp_path.iterdir())) == 3


def test_scores_are_logged_line_by_line_as_theirs(caplog):
    _, arguments = made(levels=3)
    ranks = {"precision_recall_at_k": [1, 3], "accuracy_at_k": [5], "map_at_k": [100, 2]}
    theirs, ours = (kind(*arguments, **ranks) for kind in (Theirs, Ours))
    values = theirs.compute_metrics(hits_of(ours))
    lines = []
    for evaluator in (theirs, ours):
        caplog.clear()
        with caplog.at_level("INFO"):
            evaluator.output_scores(values)
        lines.append(caplog.messages)
    assert lines[0] == lines[1]
    assert len(lines[1]) == 9


def test_a_call_logs_as_theirs(caplog):
    model, arguments = made(levels=3)
    lines = []
    for kind in (Theirs, Ours):
        caplog.clear()
        with caplog.at_level("INFO"):
            kind(*arguments, score_functions=FUNCTIONS, name="dev")(model, epoch=2)
        lines.append(caplog.messages[1:])
    assert lines[0] == lines[1]


@pytest.mark.parametrize("base", [Theirs, Ours])
def test_a_subclass_can_compute_and_output_otherwise(base):
    """What is overridden is called with the library's lists, and what it returns is what counts."""
    model, arguments = made(levels=3)
    seen: list[Any] = []

    class Halved(base):  # type: ignore[misc, valid-type]
        def compute_metrics(self, queries_result_list: Any) -> Any:
            seen.append(queries_result_list)
            shortened = [hits[:1] for hits in queries_result_list]
            return super().compute_metrics(shortened)

        def output_scores(self, scores: Any) -> None:
            seen.append(scores)

    evaluator = Halved(*arguments)
    values = evaluator(model)
    hits, scores = seen
    assert len(hits) == len(evaluator.queries_ids)
    assert [list(hit) for hit in hits[0]] == [["corpus_id", "score"]] * 100
    assert len(hits[1:3]) == 2
    assert values["cosine_recall@10"] == values["cosine_recall@1"] == scores["recall@k"][10]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda hits: hits[1:], UsageError, "there are 15 lists of hits for 16 queries"),
        (lambda hits: [*hits[:1], [*hits[1], hits[1][0]], *hits[2:]], RankingError, "document 'd.*' is listed twice"),
        (
            lambda hits: [[{"corpus_id": "d1", "score": float("nan")}], *hits[1:]],
            RankingError,
            "query 'q0': a score is NaN",
        ),
    ],
)
def test_hits_that_cannot_be_scored_are_refused(change, error, words):
    _, arguments = made()
    ours = Ours(*arguments)
    with pytest.raises(error, match=words):
        ours.compute_metrics(change(hits_of(ours)))
