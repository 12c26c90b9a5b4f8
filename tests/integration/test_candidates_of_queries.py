"""Datasets that name the documents each query is ranked among: second stages, parity, stored outcomes, pitfalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from miniatures import Content, miniature

import harness
from harness.data.dataset import Dataset
from harness.evaluation import as_qrels
from harness.results.comparison import Comparison
from harness.types import Run

CSR = "csr:analyzer=snowball-english"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def candidates_of(content: Content) -> dict[str, list[str]]:
    """Ten documents of each query, judged ones among them."""
    documents = list(content.documents)
    return {query: documents[row : row + 14 : 2] + documents[20:23] for row, query in enumerate(content.queries)}


def dataset(candidates: Mapping[str, Sequence[str]] | None, queries: Mapping[str, str] | None = None) -> Dataset:
    content = miniature()
    documents = {doc: {"title": title, "text": text} for doc, (title, text) in content.documents.items()}
    asked = dict(queries or content.queries)
    whole = Dataset.of(documents, asked, {query: content.qrels["test"][query] for query in asked})
    return replace(whole, candidates=candidates)


def compare(data: Dataset, *backends: str, k: int = 30, **options: object) -> Comparison:
    given = {"isolation": "none", "timing": False, "metrics": "nDCG@10,R@20", **options}
    return harness.compare(list(backends), data, k=k, **given)  # type: ignore[arg-type]


def hits_of(run: Run) -> dict[str, list[tuple[str, float]]]:
    return {
        query: list(zip(run.doc_ids.take(run.rows[start:end]), run.scores[start:end].tolist(), strict=True))
        for query, start, end in zip(run.query_ids, run.indptr[:-1], run.indptr[1:], strict=True)
    }


def test_a_second_stage_scores_every_candidate_and_nothing_else() -> None:
    """Most queries share no word with most candidates, and the first stage returns only what shares one."""
    listed = candidates_of(miniature())
    data = dataset(listed, {query: text.split()[3] for query, text in miniature().queries.items()})
    second, alone = f"{CSR}|dense:model=random;candidates=3", "flat:model=random"
    found = compare(data, CSR, second, alone)
    first = hits_of(found.runs[CSR])
    assert any(len(hits) < len(listed[query]) for query, hits in first.items())
    for query, hits in hits_of(found.runs[second]).items():
        assert sorted(doc for doc, _ in hits) == sorted(listed[query])
    assert hits_of(found.runs[second]) == hits_of(found.runs[alone])
    stages = found.backend(second).stages
    assert stages is not None
    assert stages.reranking is not None
    assert (stages.reranking.candidates, stages.reranking.pairs) == (10, 60)
    assert "all 30 documents that backends return; second stages score exactly these" in found.render()
    assert "a second stage scores all of them and nothing else, whatever candidates= and --k say" in found.render()


def test_all_candidates_are_scored_and_counted_where_fewer_hits_are_asked_for() -> None:
    second = f"{CSR}|keywords:candidates=3"
    few, all_of_them = (compare(dataset(candidates_of(miniature())), second, k=k) for k in (2, 30))
    expected = {query: hits[:2] for query, hits in hits_of(all_of_them.runs[second]).items()}
    assert hits_of(few.runs[second]) == expected
    stages = [one.backend(second).stages for one in (few, all_of_them)]
    assert stages[0] == stages[1]
    assert "raise --k" not in few.render()


def test_equal_whole_numbers_keep_the_order_of_the_first_stage_and_then_that_of_ids() -> None:
    """Of candidates that the first stage did not return, the larger id comes first, however they are listed."""
    listed = {"q0": ["d9", "00017", "d10", "d13", "d8"]}
    data = dataset(listed, {"q0": "harbour"})
    found = compare(data, CSR, f"{CSR}|keywords")
    returned = [doc for doc, _ in hits_of(found.runs[CSR])["q0"]]
    reranked = [doc for doc, _ in hits_of(found.runs[f"{CSR}|keywords"])["q0"]]
    assert 0 < len(returned) < 5
    assert reranked == [*returned, *sorted(set(listed["q0"]) - set(returned), reverse=True)]


def test_parity_is_of_all_documents_and_says_so() -> None:
    found = compare(dataset(candidates_of(miniature())), CSR, "flat:model=random", k=5)
    parity = found.backend(CSR).parity
    assert parity is not None
    assert parity.bit_equal == parity.queries == 6
    assert parity.overlap == {"10": 1.0, "30": 1.0}
    assert "Parity with the exact reference, 6 queries, over all documents" in found.render()
    assert "Recall against exact dense search, 6 queries, over all documents" in found.render()
    assert "over all documents" not in compare(dataset(None), CSR).render()


def test_a_stored_outcome_serves_other_candidates_too() -> None:
    """What is stored is what the engine returned, before any hit is left out."""
    listed = candidates_of(miniature())
    others = {query: [*docs[:-5:-1], "d25", "d26"] for query, docs in listed.items()}
    fresh = {name: compare(dataset(one), CSR, k=5) for name, one in (("listed", listed), ("others", others))}
    assert not np.array_equal(fresh["listed"].runs[CSR].rows, fresh["others"].runs[CSR].rows)
    for name, one in (("listed", listed), ("others", others)):
        again = compare(dataset(one), CSR, k=5, resume="always")
        assert again.backend(CSR).reused
        assert hits_of(again.runs[CSR]) == hits_of(fresh[name].runs[CSR])
        assert again.values.equals(fresh[name].values)


def test_the_digest_of_candidates_knows_whose_they_are_and_not_their_order() -> None:
    listed = {"q0": ["d8", "d9"], "q1": ["d10"], **{f"q{row}": ["d11"] for row in range(2, 6)}}
    moved = {**listed, "q0": ["d8"], "q1": ["d9", "d10"]}
    turned = {**listed, "q0": ["d9", "d8", "d9"]}
    found = [compare(dataset(one), CSR).report.dataset for one in (listed, moved, turned)]
    digests = [one.content.candidates for one in found if one.content is not None]
    assert digests[0] == digests[2]
    assert digests[0] != digests[1]
    assert found[0].sha256 == found[2].sha256 != found[1].sha256


def test_few_candidates_are_no_reason_to_rerank() -> None:
    """R@100 of 29 candidates is 1 whatever their order."""
    content = miniature()
    documents = list(content.documents)
    qrels = {query: {documents[row + 10]: 1} for row, query in enumerate(content.queries)}
    listed = {query: [doc for doc in documents if doc != "d9"] for query in content.queries}
    data = replace(dataset(listed), qrels=as_qrels(qrels))
    found = compare(data, "flat:model=random")
    assert "found-but-ranked-low" not in [one.check for one in found.report.findings]
