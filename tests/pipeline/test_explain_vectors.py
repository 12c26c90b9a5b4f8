"""`harness explain` of vectors, fusions and second stages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from dense_engines import blind_card
from installed import skip_without
from tiny_models import tiny_dense, tiny_splade

import harness
from harness.data.dataset import Dataset
from harness.results.explanation import DocumentScore, Explanation

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

WORDS = ["fuse", "panel", "wire", "garden", "shed", "wall", "house", "lamp", "switch", "plug"]
DOCUMENTS = {f"d{row}": f"{WORDS[row % 10]} {WORDS[(row * 7) % 10]} number {row}" for row in range(24)}
LONG = "the fuse of the house is in the shed behind the wall of the garden " * 6


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Dataset.of(DOCUMENTS, {"q1": "fuse panel", "q2": "lamp"}, name="house")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The card of flat for an engine that misses every other document, as a graph may."""
    return blind_card(tmp_path_factory.mktemp("cards"), repository)


@pytest.fixture(scope="module")
def explanation(dataset: Dataset, cards: Path) -> Explanation:
    return harness.explain(
        query="q1",
        dataset=dataset,
        backends=["flat:model=random", "blind:model=random", "words=csr:analyzer=whitespace",
                  "both=rrf:words+(flat:model=random);weights=2+1", "again=words|dense:model=random;candidates=3"],
        k=4,
        cards=cards,
    )  # fmt: skip


def documents(explanation: Explanation, label: str) -> Mapping[str, DocumentScore]:
    (backend,) = (backend for backend in explanation.backends if backend.label.startswith(label))
    return {document.document: document for document in backend.documents}


def test_vectors_have_exact_ranks_norms_and_the_hits_that_a_graph_missed(explanation: Explanation) -> None:
    exact, blind = documents(explanation, "flat"), documents(explanation, "blind")
    best = [name for name, document in exact.items() if document.rank is not None]
    assert sorted(exact[name].exact_rank for name in best) == [1, 2, 3, 4]
    missed = {name for name in best if int(name[1:]) % 2}
    assert {name for name, document in blind.items() if document.vector and document.vector.missed} == missed
    assert missed
    for name in missed:
        part = blind[name].vector
        assert part is not None
        assert len(part.instead) == len(missed)
        assert all(blind[other].exact_rank > 4 for other in part.instead)
    assert not any(document.vector and document.vector.missed for document in exact.values())
    assert all(document.vector and document.vector.norm == pytest.approx(1) for document in exact.values())
    assert not [pair for pair in explanation.differences if pair.second.startswith("blind")], "it scores as flat does"
    assert "missed by the index: it returned" in explanation.render("markdown")


def test_a_fusion_has_rank_score_and_contribution_of_each_list(explanation: Explanation) -> None:
    for document in documents(explanation, "both").values():
        words, vectors = document.lists
        shares = [weight / (60 + part.rank) for weight, part in ((2, words), (1, vectors)) if part.rank is not None]
        if document.score is not None:
            assert document.score == pytest.approx(sum(shares))
            assert document.score == pytest.approx(sum(part.contribution or 0 for part in document.lists))
            assert document.rank == document.exact_rank
        assert words.rank == documents(explanation, "words")[document.document].rank


def test_a_second_stage_has_the_rank_before_and_names_documents_that_it_did_not_see(explanation: Explanation) -> None:
    found = documents(explanation, "again")
    for name, document in found.items():
        (before,) = document.lists
        assert before.rank == documents(explanation, "words")[name].rank
        held = before.rank is not None and before.rank <= 3
        assert (document.absence == "") == held
        if held:
            assert document.score == pytest.approx(documents(explanation, "flat")[name].exact_score, abs=1e-6)
    assert "not among the candidates of the second stage" in {document.absence for document in found.values()}


def test_named_documents_have_their_nearest_documents(dataset: Dataset) -> None:
    explanation = harness.explain(query="q1", dataset=dataset, backends="flat:model=random", doc="d3")
    part = documents(explanation, "flat")["d3"].vector
    assert part is not None
    assert len(part.neighbours) == 5
    assert "d3" not in {near.document for near in part.neighbours}
    similarities = [near.similarity for near in part.neighbours]
    assert similarities == sorted(similarities, reverse=True)


def test_quantised_scores_are_beside_the_exact_ones(dataset: Dataset) -> None:
    skip_without("faiss")
    backends = ["flat:model=random", "faiss:model=random;index=SQ8"]
    explanation = harness.explain(query="q1", dataset=dataset, backends=backends, k=3)
    for document in documents(explanation, "faiss").values():
        assert document.vector is not None
        assert document.vector.quantised == pytest.approx(document.exact_score, abs=0.02)
        assert document.vector.quantised != document.exact_score
        if document.score is not None:
            assert document.score == pytest.approx(document.vector.quantised, abs=1e-5)
    steps = {amount.name for pair in explanation.differences for amount in pair.amounts}
    assert "quantisation" in steps
    assert steps <= {"quantisation", "rounding"}


def test_a_planted_prompt_and_a_cut_text_are_named_with_their_amounts(tmp_path: Path) -> None:
    skip_without("sentence_transformers")
    model = tiny_dense(tmp_path / "dense")
    dataset = Dataset.of({"d1": "the garden", "d2": f"{LONG} zeppelin"}, {"q1": "the dog sat"}, name="cut")
    plain = f"flat:model={model};device=cpu"
    explanation = harness.explain(
        query="q1",
        dataset=dataset,
        backends=[f"plain={plain}", f"prompted={plain};query_prompt=a cat: ", f"short={plain};max_seq_length=16"],
    )
    scores = {(score.backend, score.document): score.exact_score for score in explanation.scores().itertuples()}
    labels = [backend.label for backend in explanation.backends]
    amounts = {
        (pair.second, pair.document): {
            amount.name: amount.amount for amount in pair.amounts if amount.name != "rounding"
        }
        for pair in explanation.differences
    }
    for name in ("d1", "d2"):
        by_prompt = scores[labels[1], name] - scores[labels[0], name]
        assert amounts[labels[1], name] == {"query prompt": pytest.approx(by_prompt, abs=1e-6)}
    by_cut = scores[labels[2], "d2"] - scores[labels[0], "d2"]
    assert amounts[labels[2], "d2"] == {"max seq length": pytest.approx(by_cut, abs=1e-6)}
    assert not amounts.get((labels[2], "d1")), "d1 is short"
    cut = [documents(explanation, labels[0])["d2"].cut, documents(explanation, labels[2])["d2"].cut]
    assert np.all(np.diff([0, *cut]) > 0)
    assert explanation.backends[1].facts["query_prompt"] == "a cat:"
    assert "tokens cut" in explanation.render()


def test_learned_vectors_are_explained_by_the_models_tokens(tmp_path: Path) -> None:
    skip_without("sentence_transformers")
    model = tiny_splade(tmp_path / "splade")
    dataset = Dataset.of({"d1": "the garden", "d2": "a cat sat"}, {"q1": "the dog sat"}, name="learned")
    explanation = harness.explain(query="q1", dataset=dataset, backends=f"csr-splade:model={model};device=cpu")
    (backend,) = explanation.backends
    assert backend.facts["query_tokens"] == 3
    terms = explanation.terms()
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    assert set(terms.term) <= vocabulary.keys()
    sums = terms.groupby("document").contribution.sum()
    for name, document in documents(explanation, "csr-splade").items():
        assert document.exact_score == pytest.approx(sums[name], rel=1e-5)
        assert document.tokens is not None
    assert "more terms" in explanation.render(), "a vocabulary of terms is cut to the weightiest"


def test_given_vectors_are_explained_by_their_words(tmp_path: Path) -> None:
    for role, key, vector in (
        ("documents", "d1", {"fuse": 2.0, "wire": 1.0}),
        ("queries", "q1", {"fuse": 1, "panel": 1}),
    ):
        (tmp_path / f"{role}.jsonl").write_text(json.dumps({"id": key, "vector": vector}))
    dataset = Dataset.of({"d1": "text"}, {"q1": "text"}, {"q1": {"d1": 1}}, name="given")
    explanation = harness.explain(query="q1", dataset=dataset, backends=f"csr-splade:model=precomputed:{tmp_path}")
    (document,) = documents(explanation, "csr-splade").values()
    assert [(part.term, part.tf, part.contribution) for part in document.terms] == [("fuse", 2, 2), ("panel", None, 0)]
    assert document.missing_terms == ("panel",)
