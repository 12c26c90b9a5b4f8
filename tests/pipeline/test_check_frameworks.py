"""`check --against langchain:…`, `llamaindex:…`, `haystack:…`: retrievers by import path."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import qdrant_stub
from installed import skip_without
from warm_process import WARM
from warm_workers import worker_starter

import harness
from harness.errors import UsageError
from harness.pipeline.check.against import parse_against
from harness.pipeline.check.checked import Checked
from harness.worker import spawn

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the libraries: whatever they deprecate of one another
    pytest.mark.usefixtures("workers_with_the_libraries"),
]
CHUNKS = {"fruit": "apples and ripe pears", "fish": "trout and smoked salmon", "road": "round wheels and tar"}
GOLDEN = [
    {"id": "a", "question": "ripe pears", "expected": ["fruit"]},
    {"id": "b", "question": "smoked salmon", "expected": ["fish"]},
    {"id": "c", "question": "round wheels", "expected": ["road"]},
]
MODULE = "retrievers_of_frameworks"
LIBRARIES = (
    "haystack.components.retrievers.in_memory", "haystack.document_stores.in_memory", "langchain_chroma",
    "langchain_postgres", "langchain_qdrant", "llama_index.core", "llama_index.vector_stores.qdrant",
)  # fmt: skip
FRAMEWORKS = "haystack", "langchain", "llama_index", "pyterrier"


@pytest.fixture(scope="module")
def workers_with_the_libraries() -> Iterator[None]:
    """Each retriever has a worker of its own; haystack alone takes seconds to import."""
    with pytest.MonkeyPatch.context() as patch:
        if WARM:
            patch.setattr(spawn, "start_worker", worker_starter(*LIBRARIES))
        yield


@pytest.fixture(autouse=True)
def chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"_id": name, "text": text}) for name, text in CHUNKS.items()]
    (tmp_path / "chunks.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1] / "support"))


def checked(*against: str, **options: object) -> Checked:
    return harness.check(GOLDEN, against=list(against), k=2, require="MRR@2>=1", timing=False, **options)


@pytest.fixture(scope="module")
def asked() -> Callable[[str], Checked]:
    """A check of a retriever by its expression, once for all tests that look at it.

    The libraries of a retriever, which runs in a worker, concern no other process.
    """

    @functools.cache
    def ask(against: str) -> Checked:
        before = set(sys.modules)
        result = checked(against)
        assert not {name for name in set(sys.modules) - before if name.startswith(FRAMEWORKS)}
        return result

    return ask


def notes_of(result: Checked) -> str:
    return "\n".join(note for trial in result.report.trials for note in trial.notes)


@pytest.mark.parametrize(
    ("package", "name", "store"),
    [
        ("langchain_chroma", "langchain:{}:chroma_retriever;id_key=source", "Chroma, collection 'notes', "),
        ("langchain_qdrant", "langchain:{}:qdrant_store;id_key=source", "Qdrant, collection 'notes', :memory: "),
        ("langchain_core", "langchain:{}:fixed_retriever;id_key=source", "it takes no number of documents"),
        ("llama_index.core", "llamaindex:{}:llama_index;id_key=source", "Qdrant, collection 'notes'"),
        ("llama_index.core", "llamaindex:{}:llama_retriever;id_key=ref_doc_id", "Qdrant, collection 'notes'"),
        ("haystack", "haystack:{}:haystack_pipeline;id_key=source", "haystack.InMemoryDocumentStore"),
        ("haystack", "haystack:{}:haystack_component;id_key=source", "it takes no number of documents"),
        ("pyterrier", "pyterrier:{}:pyterrier_pipeline", "it takes no number of documents"),
    ],
)
def test_a_retriever_is_asked_as_it_is(asked: Callable[[str], Checked], package: str, name: str, store: str) -> None:
    skip_without(package)
    result = asked(name.format(MODULE))
    assert result.report.verdict == "passed", result.render()
    assert store in notes_of(result)
    run = result.hits[result.report.trials[0].dataset, result.report.trials[0].label]
    assert {len(run.rows[run.of_query(query)]) for query in range(3)} == {2}


def test_a_store_that_was_indexed_again_under_new_ids_is_invalid() -> None:
    """Of three questions, although so few may all be missed: every id of the store is known."""
    skip_without("langchain_chroma")
    golden = [{**question, "expected": [f"old-{question['id']}"]} for question in GOLDEN]
    result = harness.check(golden, against=f"langchain:{MODULE}:chroma_retriever", k=2, timing=False)
    assert result.report.verdict == "invalid"
    (problem,) = result.report.preflight
    assert problem.message.startswith("no expected id is in the vector store behind it: all of its ids are others (")
    assert problem.fix.startswith("expect a field of the metadata")
    assert "nothing-judged" not in [warning.check for warning in result.report.warnings]
    assert "it is set to return 4 documents, and was asked for 2" in notes_of(result)


@pytest.mark.parametrize(
    ("package", "name", "similarity"),
    [
        ("langchain_chroma", "langchain:{}:chroma_retriever_in_an_odd_folder;id_key=source", "l2"),
        ("langchain_qdrant", "langchain:{}:qdrant_server_store;id_key=source", "cosine"),
        ("langchain_community", "langchain:{}:langchain_faiss;id_key=source", "dot"),
        ("langchain_community", "langchain:{}:langchain_lancedb;id_key=source", "l2"),
        ("langchain_postgres", "langchain:{}:langchain_pgvector;id_key=source", "cosine"),
        ("langchain_postgres", "langchain:{}:langchain_pgvector_store;id_key=source", "cosine"),
    ],
)
def test_the_search_of_the_store_is_held_against_an_exact_one(
    package: str, name: str, similarity: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In the same check, by the object's own embeddings, with no corpus and no model named."""
    skip_without(package)
    if package == "langchain_postgres":
        monkeypatch.setenv("POSTGRES_OF_RETRIEVERS", request.getfixturevalue("postgres_url"))
    with qdrant_stub.serve() as server:
        monkeypatch.setenv("QDRANT_OF_RETRIEVERS", server.url)
        result = harness.check(GOLDEN, against=name.format(MODULE), k=2, require="parity>=1", timing=False)
    assert result.report.verdict == "passed", result.render(verbose=True)
    parity = result.report.trials[0].parity
    assert parity is not None
    assert (parity.different, parity.queries, parity.reference, parity.mode) == (0, 3, "dense", similarity)
    assert "with exact search of the 3 vectors that the store gives back" in notes_of(result)


@pytest.mark.parametrize(
    ("package", "name", "reason"),
    [
        (
            "langchain_community",
            "retriever_that_drops_a_hit",
            "not those of the store's own search for 3 of 3 questions",
        ),
        (
            "langchain_community",
            "retriever_with_a_threshold",
            "(its own settings: search_type=similarity_score_threshold, score_threshold)",
        ),
        ("langchain_chroma", "chroma_retriever_with_mmr", "(its own settings: search_type=mmr, lambda_mult)"),
    ],
)
def test_the_parity_of_the_store_is_not_that_of_a_retriever_with_other_hits(
    package: str, name: str, reason: str
) -> None:
    skip_without(package)
    against = f"langchain:{MODULE}:{name};id_key=source"
    result = harness.check(GOLDEN, against=against, k=2, require="parity>=1", timing=False)
    (required,) = result.report.requirements
    assert (result.report.verdict, required.passed, result.report.trials[0].parity) == ("invalid", None, None)
    assert reason in required.reason
    assert "exact up to ties for 3 of 3 questions, which says nothing of the retriever: " in notes_of(result)


@pytest.mark.parametrize(
    ("package", "name", "reason"),
    [
        ("langchain_qdrant", "langchain:{}:qdrant_store;id_key=source", "qdrant-client searches it in Python"),
        ("haystack", "haystack:{}:haystack_pipeline;id_key=source", "the harness searches Qdrant, Chroma, FAISS"),
        (
            "langchain_community",
            "langchain:{}:store_without_embeddings;id_key=source",
            "does not show how it encodes questions",
        ),
        ("langchain_community", "langchain:{}:store_of_another_model;id_key=source", "3 dimensions"),
    ],
)
def test_why_the_search_of_the_store_is_not_held_against_an_exact_one(
    asked: Callable[[str], Checked], package: str, name: str, reason: str
) -> None:
    skip_without(package)
    result = asked(name.format(MODULE))
    assert result.report.trials[0].parity is None
    (note,) = [note for note in result.report.trials[0].notes if "is not held against an exact one: " in note]
    assert reason in note
    assert "\n" not in note


def test_a_store_that_searches_wrongly_differs_from_the_exact_search() -> None:
    """An index of lists that looks into one of four: some of the nearest vectors are in others."""
    skip_without("langchain_community")
    result = harness.check(
        [{"id": "a", "question": "apples tar trout", "expected": ["fruit"]}],
        against=f"langchain:{MODULE}:store_of_lists;id_key=source",
        k=4,
        timing=False,
    )
    parity = result.report.trials[0].parity
    assert parity is not None
    assert (parity.different, parity.causes) == (1, {"approximate search": 1})


@pytest.mark.parametrize(
    ("package", "backend", "message"),
    [
        (
            "langchain_chroma",
            "langchain:{}:chroma_retriever;id_key=sorce",
            "no 'sorce' in its metadata (there is: source)",
        ),
        ("haystack", "haystack:{}:lines", "is a list, and no retriever of Haystack"),
        ("haystack", "langchain:{}:haystack_pipeline", "is a Pipeline, and no retriever of LangChain"),
        ("haystack", "llamaindex:{}:broken", "RuntimeError: no index today"),
        ("haystack", "llamaindex:{}:lama_index", "did you mean 'llama_index'?"),
        ("haystack", "haystack:no_such_module:retriever", "No module named 'no_such_module'"),
    ],
)
def test_what_is_wrong_is_named(package: str, backend: str, message: str) -> None:
    skip_without(package)
    result = checked(backend.format(MODULE))
    assert result.report.verdict == "invalid"
    assert message in " ".join(result.render(verbose=True).split()), result.render(verbose=True)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("langchain:my_app.retriever", "write langchain:MODULE:RETRIEVER, as langchain:my_app:retriever"),
        ("llamaindex:app:index;key=id", "'key' is no option of llamaindex:MODULE:RETRIEVER"),
        ("haystack:app:pipe;id_key=", "'id_key' is no option"),
        ("haystack:app:pipe;id_key=a;id_key=b", "is given twice"),
    ],
)
def test_malformed_expressions_are_refused(expression: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_against([expression])
    assert message in str(caught.value)


def test_a_name_may_stand_before_a_framework() -> None:
    (backend,) = parse_against(["mine=llamaindex:app.search:index;id_key=ref_doc_id"])
    called = backend.called
    assert called is not None
    assert (backend.label, called.framework, called.target) == ("mine", "llamaindex", "app.search:index")
    assert called.id_key == "ref_doc_id"
    assert backend.shown == "mine=llamaindex:app.search:index;id_key=ref_doc_id"
