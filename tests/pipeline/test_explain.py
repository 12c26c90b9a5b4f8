"""`harness explain`: ranks, terms and differences of documents, in every form."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from small_world import write_cards
from warm_harness import harness_command

import harness
from harness.data.dataset import Dataset
from harness.errors import UnknownNameError, UsageError
from harness.results.explanation import BackendExplanation, DocumentScore, Explanation

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

DOCUMENTS = {
    "d1": "fuse panel fuse wire",
    "d2": "the fuse of the house is in the garden shed behind the old wall",
    "d3": "panels and wires of a panel",
    "d4": "garden",
    "d5": "",
}
QUERIES = {"q1": "The fuse panels", "q2": "zeppelin garden"}


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Dataset.of(DOCUMENTS, QUERIES, name="house")


@pytest.fixture(scope="module")
def two(dataset: Dataset) -> Explanation:
    backends = ["csr:analyzer=snowball-english", "csr:analyzer=snowball-english;k1=2"]
    return harness.explain(query="q1", dataset=dataset, backends=backends)


def backend(explanation: Explanation, number: int = 0) -> BackendExplanation:
    return explanation.backends[number]


def documents(explanation: Explanation, number: int = 0) -> Mapping[str, DocumentScore]:
    return {document.document: document for document in backend(explanation, number).documents}


def test_documents_are_the_best_of_each_backend_with_their_terms(two: Explanation) -> None:
    assert two.query == "The fuse panels"
    assert set(two.documents) == {"d1", "d2", "d3"}
    first = documents(two)["d1"]
    assert (first.rank, first.exact_rank, first.score) == (1, 1, first.exact_score)
    assert [(part.term, part.written, part.tf, part.df, part.documents) for part in first.terms] == [
        ("fuse", ("fuse",), 2, 2, 4),
        ("panel", ("panels",), 1, 2, 4),
    ]
    assert first.exact_score == pytest.approx(sum(part.contribution for part in first.terms))
    assert documents(two)["d3"].missing_terms == ("fuse",)
    assert (first.length, first.stored_length) == (4, 4)


def test_words_that_the_analyzer_drops_or_changes_are_listed(two: Explanation) -> None:
    words = {word.written: (word.terms, word.changed) for word in backend(two).words}
    assert words == {"The": ((), True), "fuse": (("fuse",), False), "panels": (("panel",), True)}


def test_a_difference_of_backends_is_named_with_its_amount(two: Explanation) -> None:
    pair = next(pair for pair in two.differences if pair.document == "d1")
    assert [amount.name for amount in pair.amounts if amount.name != "rounding"] == ["k1"]
    assert sum(amount.amount for amount in pair.amounts) == pytest.approx(pair.difference, abs=1e-12)
    assert pair.difference == documents(two, 1)["d1"].score - documents(two)["d1"].score


def test_a_difference_of_documents_is_named_by_term_and_length(two: Explanation) -> None:
    pair = backend(two).differences[0]
    assert pair.above == "d1"
    assert {amount.name for amount in pair.amounts} <= {"fuse", "panel", "length"}
    assert sum(amount.amount for amount in pair.amounts) == pytest.approx(pair.difference)


def test_equal_backends_have_no_differences(dataset: Dataset) -> None:
    backends = ["csr:analyzer=snowball-english", "csr:analyzer=snowball-english;threads=2"]
    backends[1] = "again=csr:analyzer=snowball-english;k1=0.9000000000000001"
    explanation = harness.explain(query="q1", dataset=dataset, backends=backends)
    assert {amount.name for pair in explanation.differences for amount in pair.amounts} <= {"rounding"}


def test_a_document_below_k_has_its_exact_rank_and_the_terms_it_lacks(dataset: Dataset) -> None:
    explanation = harness.explain(
        query="q1", dataset=dataset, backends="csr:analyzer=snowball-english", doc=["d3", "d4", "d5"], k=1
    )
    found = documents(explanation)
    assert (found["d3"].rank, found["d3"].exact_rank) == (None, 2)
    assert found["d3"].exact_score > 0
    assert found["d4"].missing_terms == ("fuse", "panel")
    assert found["d4"].absence == "no hit: it has none of the query's terms"
    assert found["d5"].absence == "it has no text"


def test_a_filter_is_named(tmp_path: Path) -> None:
    records = [
        {"_id": name, "text": text, "metadata": {"room": "shed" if name == "d2" else "hall"}}
        for name, text in DOCUMENTS.items()
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    queries = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    (tmp_path / "queries.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in queries))
    explanation = harness.explain(
        query="q1",
        dataset=str(tmp_path),
        backends="csr:analyzer=snowball-english",
        filter=["room=shed"],
        doc=["d1", "d2"],
    )
    assert {name: document.absence for name, document in documents(explanation).items()} == {
        "d1": "left out by the filter",
        "d2": "",
    }


def test_an_analyzer_is_a_step(dataset: Dataset) -> None:
    explanation = harness.explain(
        query="q1", dataset=dataset, backends=["csr:analyzer=whitespace", "csr:analyzer=snowball-english"], doc="d3"
    )
    (pair,) = explanation.differences
    assert [amount.name for amount in pair.amounts if amount.name != "rounding"] == ["analyzer"]
    words = {before.written: (before.terms, after.terms) for before, after in pair.words}
    assert words == {"panels": (("panels",), ("panel",))}


def test_a_stored_result_is_explained_from_its_own_hits(dataset: Dataset, tmp_path: Path) -> None:
    comparison = harness.compare("csr:analyzer=snowball-english", dataset, timing=False, k=2)
    explanation = harness.explain(comparison, query="q1", dataset=dataset, doc=["d2", "d1"])
    ranks = {name: (document.rank, document.exact_rank) for name, document in documents(explanation).items()}
    assert ranks == {"d1": (1, 1), "d2": (None, 3)}
    changed = Dataset.of({**DOCUMENTS, "d4": "shed"}, QUERIES, name="house")
    with pytest.raises(UsageError, match="'house' has other documents now than the result"):
        harness.explain(comparison, query="q1", dataset=changed)
    with pytest.raises(UsageError, match="--backends with a result"):
        harness.explain(comparison, query="q1", backends="csr")


def test_faults_of_a_request_are_refused(dataset: Dataset) -> None:
    with pytest.raises(UnknownNameError, match="unknown query 'q9' of 'house'"):
        harness.explain(query="q9", dataset=dataset, backends="csr:analyzer=whitespace")
    with pytest.raises(UnknownNameError, match="unknown document 'd9' of 'house'"):
        harness.explain(query="q1", dataset=dataset, backends="csr:analyzer=whitespace", doc="d9")
    with pytest.raises(UsageError, match="--query is"):
        harness.explain(query=["q1"], dataset=dataset, backends="csr:analyzer=whitespace")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="called without 'query'"):
        harness.explain(dataset=dataset)  # type: ignore[call-arg]


def test_an_unknown_document_is_refused_before_anything_is_searched(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(*_arguments: object) -> None:
        raise AssertionError("the backends were searched")

    monkeypatch.setattr("harness.pipeline.explain.run_plan", search)
    with pytest.raises(UnknownNameError, match="unknown document 'd9' of 'house'"):
        harness.explain(query="q1", dataset=dataset, backends="csr:analyzer=whitespace", doc=["d1", "d9"])


def test_markdown_holds_whole_sentences() -> None:
    words = [f"word{number}" for number in range(40)]
    dataset = Dataset.of({"d1": " ".join(words)}, {"q1": " ".join(words)}, name="long")
    text = harness.explain(query="q1", dataset=dataset, backends="csr:analyzer=whitespace").render("markdown")
    assert all(word in text.partition("made of")[2].partition("<details>")[0] for word in sorted(words)[:20])
    assert "characters)" not in text


def test_frames_and_formats_hold_the_same(two: Explanation) -> None:
    assert list(two.scores().columns[:2]) == ["backend", "document"]
    terms = two.terms()
    assert terms.groupby(["backend", "document"]).contribution.sum().round(5).to_dict() == {
        (score.backend, score.document): round(score.exact_score, 5) for score in two.scores().itertuples()
    }
    assert set(two.steps().name) <= {"k1", "rounding"}
    assert json.loads(two.render("json")) == json.loads(json.dumps(two.to_dict()))
    assert "The" in two.render("table")
    assert "| `d1` |" in two.render("markdown")
    with pytest.raises(UnknownNameError, match="format 'html'"):
        two.render("html")


def test_the_command_prints_terms_and_steps() -> None:
    words = "explain --dataset cacm --backends csr:analyzer=snowball-english --query 12 --doc CACM-3127 --format json"
    done = subprocess.run([*harness_command(), *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["backends"][0]["documents"]
    assert found["document"] == "CACM-3127"
    assert found["exact_rank"] == 1


ODD = {
    "d 1": "fuse panel fuse wire",
    "두 번째": "the fuse",
    "007": "panels",
    "7": "garden",
    "e": "",
    "cafe\u0301": "the of",
}
ODD_QUERIES = {"q 1": "The fuse panels", "1": "zeppelin", "stop": "the of a", "blank": " "}


def test_ids_of_every_kind_are_explained_and_near_ones_are_named() -> None:
    dataset = Dataset.of(ODD, ODD_QUERIES, name="odd")
    options: dict[str, object] = {"dataset": dataset, "backends": "csr:analyzer=snowball-english"}
    explanation = harness.explain(query="q 1", doc=["두 번째", "007", 7, "e", "두 번째"], **options)
    assert explanation.documents == ("두 번째", "007", "7", "e")
    for query in (1, "stop", "blank"):
        explanation = harness.explain(query=query, **options)
        assert (explanation.documents, explanation.notes) == ((), ("no backend returned a document",))
        assert "no backend returned a document" in explanation.render()
        (document,) = harness.explain(query=query, doc="7", **options).backends[0].documents
        assert document.absence == "no hit: it has none of the query's terms"
    assert {word.terms for word in harness.explain(query="stop", **options).backends[0].words} == {()}
    for query, doc, message in (
        ("q1", (), r"unknown query 'q1' of 'odd'\s+did you mean 'q 1'\?"),
        ("", (), "unknown query '' of 'odd'"),
        ("1", "d1", r"unknown document 'd1' of 'odd'\s+did you mean 'd 1'\?"),
        ("1", "caf\u00e9", "the ids are the same but for Unicode normalisation"),
        ("1", "", "unknown document '' of 'odd'"),
        ("1", "007, e", r"unknown document '007, e' of 'odd'\s+name each document: --doc 007 --doc e$"),
        ("1", "d 1,e", r"unknown document 'd 1,e' of 'odd'\s+name each document: --doc 'd 1' --doc e$"),
        ("1", "007,none", "unknown document '007,none' of 'odd'"),
        ("1,stop", (), r"unknown query '1,stop' of 'odd'\s+explain one query at a time: --query 1 or --query stop$"),
        ("1,none", (), "unknown query '1,none' of 'odd'"),
    ):
        with pytest.raises(UsageError, match=message):
            harness.explain(query=query, doc=doc, **options)
    with pytest.raises(UsageError, match="--k is 0"):
        harness.explain(query="1", k=0, **options)
    many = Dataset.of({f"doc-{number}": "fuse" for number in range(6000)}, ODD_QUERIES, name="many")
    with pytest.raises(UsageError, match="unknown document 'doc-60001' of 'many'\n  did you mean 'doc-"):
        harness.explain(query="1", dataset=many, backends="csr:analyzer=whitespace", doc="doc-60001")


def test_words_in_another_unicode_normalisation_are_named() -> None:
    texts = {"d1": "cafe\u0301 fuse", "d2": "caf\u00e9"}
    explanation = harness.explain(
        query="q",
        dataset=Dataset.of(texts, {"q": "caf\u00e9 fuse"}, name="unicode"),
        backends="csr:analyzer=whitespace",
    )
    assert documents(explanation)["d1"].respelled == ("caf\u00e9",)
    assert documents(explanation)["d2"].respelled == ()
    assert "in another Unicode normalisation" in " ".join(explanation.render().split())


def test_documents_that_an_engine_lost_are_named(dataset: Dataset, tmp_path: Path) -> None:
    cards = write_cards(tmp_path, losing="LosesDocuments", good="BruteForce")
    backends = ["losing", "good"]
    explanation = harness.explain(query="q1", dataset=dataset, backends=backends, cards=cards)
    assert "lost 1 documents that are not empty: d2" in explanation.backends[0].note
    assert documents(explanation, 1)["d2"].rank == 3
    assert not explanation.differences


def test_an_id_may_contain_a_comma() -> None:
    dataset = Dataset.of({"a,b": "fuse", "a": "fuse", "b": "panel"}, {"1,2": "fuse", "1": "panel", "2": "fuse"})
    explanation = harness.explain(query="1,2", doc="a,b", dataset=dataset, backends="csr:analyzer=whitespace")
    assert (explanation.query_id, explanation.documents) == ("1,2", ("a,b",))


def test_a_tie_is_named_as_the_reason_of_an_order() -> None:
    dataset = Dataset.of({"a": "fuse", "b": "fuse"}, {"1": "fuse"})
    explanation = harness.explain(query="1", dataset=dataset, backends="csr:analyzer=whitespace")
    (pair,) = explanation.backends[0].differences
    assert (pair.difference, pair.amounts) == (0, ())
    assert "equal scores" in explanation.render("markdown", verbose=True)
