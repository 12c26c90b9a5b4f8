"""Datasets that name the documents each query is ranked among: fusions, second stages, parity, outcomes, pitfalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from miniatures import candidates_of, hits_of, miniature
from scipy.sparse import vstack

import harness
from harness.data.dataset import Dataset
from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.ranking import order
from harness.data.types import SparseVectors
from harness.encoders import bm25
from harness.engines.csr import CsrEngine
from harness.engines.interface import SearchResult
from harness.exact import SparseIndex
from harness.pipeline.evaluate import as_qrels
from harness.results.comparison import Comparison
from harness.text import count_terms, create_analyzer

CSR = "csr:analyzer=snowball-english"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def dataset(candidates: Mapping[str, Sequence[str]] | None, queries: Mapping[str, str] | None = None) -> Dataset:
    content = miniature()
    documents = {doc: {"title": title, "text": text} for doc, (title, text) in content.documents.items()}
    asked = dict(queries or content.queries)
    whole = Dataset.of(documents, asked, {query: content.qrels["test"][query] for query in asked})
    return replace(whole, candidates=candidates)


def compare(data: Dataset, *backends: str, k: int = 30, **options: object) -> Comparison:
    given = {"isolation": "none", "timing": False, "metrics": "nDCG@10,R@20", **options}
    return harness.compare(list(backends), data, k=k, **given)  # type: ignore[arg-type]


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
    stages = found.trial(second).stages
    assert stages is not None
    assert stages.reranking is not None
    assert (stages.reranking.candidates, stages.reranking.pairs) == (10, 60)
    assert "all 30 documents that backends return; second stages score exactly these" in found.render(verbose=True)
    assert "a second stage scores all of them and nothing else, whatever candidates= and --k say" in found.render(
        verbose=True
    )


def test_all_candidates_are_scored_and_counted_where_fewer_hits_are_asked_for() -> None:
    second = f"{CSR}|keywords:candidates=3"
    few, all_of_them = (compare(dataset(candidates_of(miniature())), second, k=k) for k in (2, 30))
    expected = {query: hits[:2] for query, hits in hits_of(all_of_them.runs[second]).items()}
    assert hits_of(few.runs[second]) == expected
    stages = [one.trial(second).stages for one in (few, all_of_them)]
    assert stages[0] == stages[1]
    assert "raise --k" not in few.render(verbose=True)


def test_equal_whole_numbers_keep_the_order_of_the_first_stage_and_then_that_of_ids() -> None:
    """Of candidates that the first stage did not return, the larger id comes first, however they are listed."""
    listed = {"q0": ["d9", "00017", "d10", "d13", "d8"]}
    data = dataset(listed, {"q0": "harbour"})
    found = compare(data, CSR, f"{CSR}|keywords")
    returned = [doc for doc, _ in hits_of(found.runs[CSR])["q0"]]
    reranked = [doc for doc, _ in hits_of(found.runs[f"{CSR}|keywords"])["q0"]]
    assert 0 < len(returned) < 5
    assert reranked == [*returned, *sorted(set(listed["q0"]) - set(returned), reverse=True)]


def test_parity_is_of_all_candidates_however_few_are_kept_and_says_so() -> None:
    """A fusion and an engine's own one are held against what is fused of exact hits, too."""
    fused, own = f"rrf:({CSR})+(flat:model=random)", "qdrant-hybrid:fusion=dbsf;analyzer=snowball-english;model=random"
    found = compare(dataset(candidates_of(miniature())), CSR, "flat:model=random", fused, own, k=5)
    for backend in found.report.trials:
        assert backend.parity is not None
        assert (backend.parity.tie_equivalent, backend.parity.queries) == (6, 6)
        assert backend.parity.overlap == {"10": 1.0}
    assert "Parity with the exact reference, 6 queries, among the candidates" in found.render(verbose=True)
    assert "Recall against exact dense search, 6 queries, among the candidates" in found.render(verbose=True)
    assert "among the candidates" not in compare(dataset(None), CSR).render(verbose=True)


def test_a_stored_outcome_is_that_of_its_candidates() -> None:
    listed = candidates_of(miniature())
    others = {query: [*docs[:-5:-1], "d25", "d26"] for query, docs in listed.items()}
    fresh = compare(dataset(listed), CSR, k=5)
    assert not compare(dataset(others), CSR, k=5, resume="always").trial(CSR).reused
    assert not compare(dataset(None), CSR, k=30, resume="always").trial(CSR).reused
    again = compare(dataset({query: docs[::-1] for query, docs in listed.items()}), CSR, k=5, resume="always")
    assert again.trial(CSR).reused
    assert hits_of(again.runs[CSR]) == hits_of(fresh.runs[CSR])
    assert again.values.equals(fresh.values)


def write_run(path: Path, ranked: Sequence[tuple[str, float]]) -> str:
    lines = [f"q0 Q0 {doc} {rank} {score} planted\n" for rank, (doc, score) in enumerate(ranked, start=1)]
    path.write_text("".join(lines))
    return f"run:{path}"


def test_fusions_take_ranks_and_scores_among_the_candidates(tmp_path: Path) -> None:
    """By hand. Over all documents the first run has d8, d9, d10 at 1, 10 and 11, and reciprocal ranks place d8 first:
    1/61 + 1/63 = .0323, above d9's 1/70 + 1/61 = .0307. Among the three d9 has 1/62 + 1/61 = .0325.
    """
    others = [f"d{number}" for number in range(11, 19)]
    first = [("d8", 20.0), *((doc, 19.0 - place) for place, doc in enumerate(others)), ("d9", 8.0), ("d10", 4.0)]
    runs = [
        write_run(tmp_path / "first.trec", [*first, ("d19", 0.0)]),
        write_run(tmp_path / "second.trec", [("d9", 6.0), ("d10", 3.0), ("d8", 2.0), ("d20", 0.0)]),
    ]
    expected = {
        "rrf": [("d9", 1 / 62 + 1 / 61), ("d8", 1 / 61 + 1 / 63), ("d10", 1 / 63 + 1 / 62)],
        "minmax": [("d9", 4 / 16 + 1), ("d8", 1), ("d10", 1 / 4)],
        "minmax;weights=0.8+0.2": [("d8", 0.8), ("d9", 0.8 * 4 / 16 + 0.2), ("d10", 0.2 / 4)],
    }
    data = replace(dataset({"q0": ["d10", "d8", "d9"]}, {"q0": "harbour"}), qrels=as_qrels({"q0": {"d9": 1}}))
    for name, hits in expected.items():
        method, _, weights = name.partition(";")
        fused = f"{method}:{runs[0]}+{runs[1]}{';' * bool(weights)}{weights}"
        (backend,) = (one.label for one in compare(data, fused).report.trials if one.stages is not None)
        found = hits_of(compare(data, fused).runs[backend])["q0"]
        assert [doc for doc, _ in found] == [doc for doc, _ in hits]
        assert [score for _, score in found] == pytest.approx([score for _, score in hits])


def test_candidates_that_a_backend_did_not_return_are_counted_and_named(tmp_path: Path) -> None:
    """A run that was cut before: of its three hits one is a candidate, of query q0; a second stage scores them all."""
    listed = {"q0": ["d9", "d8", "d10"], "q1": ["d9"]}
    data = dataset(listed, {query: miniature().queries[query] for query in listed})
    run = write_run(tmp_path / "cut.trec", [("d11", 3.0), ("d9", 2.0), ("d12", 1.0)])
    found = compare(data, run, f"{run}|keywords")
    cut, reranked = found.report.trials
    note = "3 of 4 candidates were not returned, and have no rank: d8 of query q0, d10 of query q0, d9 of query q1"
    assert cut.notes[0] == note
    assert note in found.render(verbose=True)
    assert not any("not returned" in one for one in reranked.notes)


def test_of_an_external_index_candidates_are_kept_by_their_ids(tmp_path: Path) -> None:
    """Its documents lie in another order than the dataset's, with some that the dataset lacks."""
    content, listed = miniature(), candidates_of(miniature())
    data, alone = dataset(listed), "csr:analyzer=whitespace"
    texts = [f"{title} {text}".strip() for title, text in content.documents.values()][::-1]
    counts = count_terms(create_analyzer("whitespace"), [texts], list(content.queries.values()))
    weights = bm25.document_weights(counts, k1=0.9, b=0.4, k1_plus_1=True)
    ids = list(content.documents)[::-1]
    for name, taken, held in (
        ("whole", weights, ids),
        ("more", SparseVectors.from_scipy(vstack([weights.to_scipy(), weights.to_scipy()[:9]])), [*ids, *"abcdefghi"]),
    ):
        SparseIndex.build(taken, idf="bm25").save(tmp_path / name)
        (tmp_path / name / "ids.txt").write_text("".join(f"{one}\n" for one in held))
        external = f"csr:external=true;analyzer=whitespace;path={tmp_path / name}"
        found = compare(data, alone, external)
        (label,) = (one.label for one in found.report.trials if one.label != alone)
        for query, hits in hits_of(found.runs[label]).items():
            assert {doc for doc, _ in hits} <= set(listed[query])
        if name == "whole":
            theirs, ours = (hits_of(order(found.runs[name])) for name in (label, alone))
            assert theirs == ours
            parity = found.trial(label).parity
            assert parity is not None
            assert (parity.tie_equivalent, parity.max_rel_score_diff) == (6, 0.0)


def test_few_hits_are_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries are searched in chunks of so many hits, and the answers are the same; clients under load agree."""
    asked: list[int] = []
    search = CsrEngine.search

    def counting(engine: CsrEngine, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        asked.append(len(queries) * k)
        return search(engine, queries, k, clock)

    monkeypatch.setattr(CsrEngine, "search", counting)
    whole = compare(dataset(candidates_of(miniature())), CSR)
    assert max(asked) == 6 * 30
    asked.clear()
    monkeypatch.setattr("harness.worker.trial._CHUNK_HITS", 70)
    parts = compare(dataset(candidates_of(miniature())), CSR)
    assert max(asked) == 2 * 30
    assert hits_of(parts.runs[CSR]) == hits_of(whole.runs[CSR])


def test_clients_under_load_compare_hits_among_candidates() -> None:
    options = {"timing": True, "concurrency": "2", "load_seconds": 0.2, "clients": "threads"}
    found = compare(dataset(candidates_of(miniature())), CSR, **options)
    (level,) = found.trial(CSR).closed_loop
    assert level.qps > 0
    assert level.different_queries == 0


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
