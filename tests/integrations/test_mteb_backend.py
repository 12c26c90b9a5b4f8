"""`harness.integrations.mteb.Backend`: a local task through `mteb.evaluate`, held against `harness.compare` on it."""

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from installed import skip_module_without
from miniatures import Content, miniature, mteb_tables, mteb_task, parquet_repository

import harness
from harness.errors import BackendError, UsageError

skip_module_without("mteb")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the libraries: whatever they deprecate of one another
    pytest.mark.usefixtures("warm_workers"),
]
K = 1000
CSR = "csr:analyzer=whitespace"  # which needs no Java
NAMES = {
    "ndcg_at": "nDCG",
    "map_at": "AP",
    "recall_at": "R",
    "precision_at": "P",
    "mrr_at": "RR",
    "hit_rate_at": "Success",
}
CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)


def register(content: Content, folder: Path, patch: pytest.MonkeyPatch, **attributes: object) -> None:
    parquet_repository(folder / "repository", mteb_tables(content))
    mteb_task(patch, "Miniature", folder / "repository", langs=["eng-Latn"], **attributes)


def evaluated(backend: Any, name: str = "Miniature") -> dict[str, float]:
    import mteb

    results = mteb.evaluate(backend, mteb.get_task(name), cache=None, co2_tracker=False)
    return results.task_results[0].scores["test"][0]


def compared(backend: str) -> dict[str, float]:
    metrics = [f"{ours}@{cutoff}" for ours in NAMES.values() for cutoff in CUTOFFS]
    comparison = harness.compare([backend], "mteb:Miniature", k=K, metrics=metrics, queries="judged", timing=False)
    (trial,) = comparison.report.trials
    means = {name: value.mean for name, value in trial.metrics.items()}
    return {f"{theirs}_{cutoff}": means[f"{ours}@{cutoff}"] for theirs, ours in NAMES.items() for cutoff in CUTOFFS}


def assert_equal(backend: str, **options: object) -> None:
    """MTEB rounds means to five places, but for the reciprocal rank, of which it adds the values in another order."""
    from harness.integrations.mteb import Backend

    theirs, ours = evaluated(Backend(backend, timing=False, **options)), compared(backend)
    rounded = {name: value if name.startswith("mrr") else round(value, 5) for name, value in ours.items()}
    for name, value in rounded.items():
        assert theirs[name] == (pytest.approx(value, rel=1e-12) if name.startswith("mrr") else value), name


@pytest.mark.parametrize("backend", ["qdrant", "lucene", "faiss:model=python:word_vectors:Words"])
def test_scores_are_those_of_compare(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties (the sentences have many), an unknown word, negative and zero grades are scored alike by both."""
    content = miniature()
    first = next(iter(content.documents))
    queries = {**content.queries, "none": "zzz", "zeros": "where is the falcon", "q9": "the falcon near the harbour"}
    qrels = {**content.qrels["test"], "none": {first: 1}, "zeros": {first: 0}, "q9": {first: 3, "d9": -1, "d12": 1}}
    register(replace(content, queries=queries, qrels={"test": qrels}), tmp_path, monkeypatch)
    assert_equal(backend)


def test_own_documents_are_left_out_by_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = miniature()
    queries = {name: content.documents[name][1] for name in list(content.documents)[10:15]}
    qrels = {name: {name: 1, "d20": 1, "d21": 2} for name in queries}
    content = replace(content, queries=queries, qrels={"test": qrels})
    register(content, tmp_path, monkeypatch, ignore_identical_ids=True)
    assert_equal(CSR)


def register_reranking(candidates: dict[str, list[str]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = mteb_tables(miniature())
    tables["top_ranked"] = {"test": [{"query-id": query, "corpus-ids": ids} for query, ids in candidates.items()]}
    parquet_repository(folder / "repository", tables)
    mteb_task(monkeypatch, "Miniature", folder / "repository", langs=["eng-Latn"], task_type="Reranking")


def test_candidates_of_a_reranking_task_are_searched_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.integrations.mteb import Backend

    candidates = {query: [f"d{number}" for number in range(10, 20)] for query in miniature().queries}
    register_reranking(candidates, tmp_path, monkeypatch)
    backend = Backend(CSR, timing=False)
    theirs, ours = evaluated(backend), compared(CSR)
    assert theirs["ndcg_at_10"] == round(ours["ndcg_at_10"], 5)
    run = backend.comparison.run(CSR)
    assert set(run.doc_ids.take(run.rows)) <= set(candidates["q0"])


def test_a_query_without_candidates_has_no_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.integrations.mteb import Backend

    first, *others = miniature().queries
    register_reranking({query: ["d10", "d11"] for query in others}, tmp_path, monkeypatch)
    backend = Backend(CSR, timing=False)
    evaluated(backend)
    run = backend.comparison.run(CSR)
    lengths = dict(zip(run.query_ids, (run.indptr[1:] - run.indptr[:-1]).tolist(), strict=True))
    assert lengths.pop(first) == 0
    assert any(lengths.values())


def test_a_search_is_stored_with_its_parity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.integrations.mteb import Backend

    register(miniature(), tmp_path, monkeypatch)
    evaluated(Backend(f"mine={CSR};k1=1.2", out=tmp_path / "results", timing=False))
    stored = harness.Comparison.load(tmp_path / "results" / "mteb-Miniature-test-mine")
    assert stored.datasets == ["mteb:Miniature@test"]
    assert stored.parity().loc["mine", "identical"] == 6


def test_a_revision_names_the_configuration() -> None:
    from mteb.models.models_protocols import SearchProtocol

    from harness.integrations.mteb import Backend

    plain = Backend("csr")
    assert isinstance(plain, SearchProtocol)
    assert plain.mteb_model_meta.name == "harness/csr"
    assert plain.mteb_model_meta.revision == Backend("csr").mteb_model_meta.revision
    revisions = {Backend(one).mteb_model_meta.revision for one in ("csr", "csr:k1=1.2", "lucene", "rrf:csr+lucene")}
    assert len({*revisions, Backend("csr:analyzer=whitespace").mteb_model_meta.revision}) == 5


def test_a_backend_that_fails_ends_the_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.integrations.mteb import Backend

    register(miniature(), tmp_path, monkeypatch)
    with pytest.raises(BackendError, match="no_such_module"):
        evaluated(Backend("flat:model=python:no_such_module:Model", timing=False))


def test_mistakes_are_named_before_anything_starts() -> None:
    from harness.integrations.mteb import Backend

    for backend, options, message in (
        ("csr,lucene", {}, "is more than one backend"),
        ("qdrnt", {}, "unknown backend 'qdrnt'"),
        ("csr", {"k": 10}, "takes no 'k'"),
        ("csr", {"tmeout": 10}, "tmeout"),
    ):
        with pytest.raises(UsageError, match=message):
            Backend(backend, **options)


def test_a_search_needs_the_documents_of_its_task() -> None:
    import mteb

    from datasets import Dataset
    from harness.integrations.mteb import Backend

    about = mteb.get_task("SciFact").metadata
    queries = Dataset.from_dict({"id": ["1"], "text": ["a"]})
    with pytest.raises(UsageError, match="no documents of mteb:SciFact@test were indexed"):
        Backend("csr").search(queries, task_metadata=about, hf_split="test", hf_subset="default", top_k=3)


def test_the_example_names_an_unknown_backend_without_a_traceback(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["mteb_task.py", "nosuch"])
    with pytest.raises(SystemExit, match="unknown backend 'nosuch'"):
        runpy.run_path(str(repository / "examples" / "mteb_task.py"), run_name="__main__")
