"""`check --against langchain:…`, `llamaindex:…`, `haystack:…`: retrievers by import path."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from installed import skip_without
from warm_process import WARM
from warm_workers import worker_starter

import harness
from harness.errors import UsageError
from harness.pipeline.check.against import parse_against
from harness.pipeline.check.checked import CheckResult
from harness.testing.expected import embed_words
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
    "llama_index.core",
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


def checked(*against: str, **options: object) -> CheckResult:
    return harness.check(GOLDEN, against=list(against), k=2, require="MRR@2>=1", timing=False, **options)


@pytest.fixture(scope="module")
def asked() -> Callable[[str], CheckResult]:
    """A check of a retriever by its expression, once for all tests that look at it.

    The libraries of a retriever, which runs in a worker, concern no other process.
    """

    @functools.cache
    def ask(against: str) -> CheckResult:
        before = set(sys.modules)
        result = checked(against)
        assert not {name for name in set(sys.modules) - before if name.startswith(FRAMEWORKS)}
        return result

    return ask


def notes_of(result: CheckResult) -> str:
    return "\n".join(note for trial in result.report.trials for note in trial.notes)


@pytest.mark.parametrize(
    ("package", "name", "note"),
    [
        ("langchain_chroma", "langchain:{}:chroma_retriever;id_key=source", "it is configured to return 4 documents"),
        ("langchain_core", "langchain:{}:langchain_store;id_key=source", "LangChain's InMemoryVectorStore"),
        ("langchain_core", "langchain:{}:fixed_retriever;id_key=source", "it takes no number of documents"),
        ("llama_index.core", "llamaindex:{}:llama_index;id_key=source", "LlamaIndex's VectorStoreIndex"),
        (
            "llama_index.core",
            "llamaindex:{}:llama_retriever;id_key=ref_doc_id",
            "it is configured to return 1 documents",
        ),
        ("haystack", "haystack:{}:haystack_pipeline;id_key=source", "Haystack's Pipeline"),
        ("haystack", "haystack:{}:haystack_component;id_key=source", "it takes no number of documents"),
        ("pyterrier", "pyterrier:{}:pyterrier_pipeline", "it takes no number of documents"),
    ],
)
def test_a_retriever_is_asked_as_it_is(asked: Callable[[str], CheckResult], package: str, name: str, note: str) -> None:
    skip_without(package)
    result = asked(name.format(MODULE))
    assert result.report.verdict == "passed", result.render()
    assert note in notes_of(result)
    assert result.report.trials[0].parity is None
    run = result.hits[result.report.trials[0].dataset, result.report.trials[0].label]
    assert {len(run.rows[run.of_query(query)]) for query in range(3)} == {2}
    returned = [text for corpus in result.texts.values() for text in corpus.texts.to_pylist()]
    assert set(returned) <= set(CHUNKS.values())
    assert bool(returned) is (package != "pyterrier"), "PyTerrier returns ids alone"


def test_the_store_of_a_retriever_is_searched_next_to_it(tmp_path: Path) -> None:
    """The page says so: its parity is the store's, and its hits are the retriever's."""
    skip_without("langchain_chroma")
    vectors = tmp_path / "vectors"
    vectors.mkdir()
    np.save(vectors / "queries.npy", embed_words([question["question"] for question in GOLDEN]))
    (vectors / "queries.ids.txt").write_text("a\nb\nc\n")
    retriever = f"retriever=langchain:{MODULE}:chroma_retriever;id_key=source"
    store = f"store=chroma:path=chroma;collection=notes;id_key=source;similarity=l2;model=precomputed:{vectors}"
    checked(retriever)  # makes the store
    result = checked(retriever, store)
    assert result.report.verdict == "passed", result.render(verbose=True)
    asked, searched = result.report.trials
    assert asked.parity is None
    assert searched.parity is not None
    assert (searched.parity.different, searched.parity.queries, searched.parity.mode) == (0, 3, "l2")
    runs = [result.hits[trial.dataset, trial.label] for trial in (asked, searched)]
    lists = [[run.doc_ids.take(run.rows[run.of_query(query)]) for query in range(3)] for run in runs]
    assert lists[0] == lists[1]


FILES = [
    ("fruit.md", "apples and ripe pears"), ("fruit.md", "ripe apples fall"), ("fish.md", "trout and smoked salmon"),
    ("fish.md", "smoked trout"), ("road.md", "round wheels and tar"),
]  # fmt: skip
GOLDEN_OF_FILES = [{**question, "expected": [f"{question['expected'][0]}.md"]} for question in GOLDEN]


def write_files(folder: Path) -> None:
    """Chunks of files: each has a random id in its store, and its file in the metadata."""
    lines = [json.dumps({"_id": name, "text": text}) for name, text in FILES]
    (folder / "chunks.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("langchain_chroma", "langchain:{}:chroma_retriever"),
        ("langchain_core", "langchain:{}:langchain_store"),
        ("llama_index.core", "llamaindex:{}:llama_index"),
        ("haystack", "haystack:{}:haystack_pipeline"),
    ],
)
def test_files_are_expected_and_chunks_with_random_ids_are_returned(tmp_path: Path, package: str, name: str) -> None:
    skip_without(package)
    write_files(tmp_path)
    backend = name.format(MODULE)
    options = {"k": 2, "metrics": "Hit@2,MRR@2,Recall@2", "timing": False}
    by_field = harness.check(GOLDEN_OF_FILES, against=f"mine={backend}", match="field:metadata.source", **options)
    by_key = harness.check(GOLDEN_OF_FILES, against=f"mine={backend};id_key=source", **options)
    for result in (by_field, by_key):
        assert [value.mean for value in result.trial("mine").metrics.values()] == [1.0, 1.0, 1.0], result.render()
        assert result.report.golden_set.matched[0].matched == 3
    assert "several documents share a value of 'source'" in notes_of(by_key)


def test_a_store_with_random_ids_is_searched_by_file_and_by_text(tmp_path: Path) -> None:
    skip_without("langchain_chroma")
    write_files(tmp_path)
    vectors = tmp_path / "vectors"
    vectors.mkdir()
    np.save(vectors / "queries.npy", embed_words([question["question"] for question in GOLDEN]))
    (vectors / "queries.ids.txt").write_text("a\nb\nc\n")
    store = f"store=chroma:path=chroma;collection=notes;similarity=l2;model=precomputed:{vectors}"
    options = {"k": 2, "metrics": "Hit@2,MRR@2", "timing": False}
    harness.check(  # makes the store
        GOLDEN_OF_FILES, against=f"langchain:{MODULE}:chroma_store", match="field:metadata.source", **options
    )
    texts = [
        {"id": one["id"], "question": one["question"], "reference_contexts": [CHUNKS[one["expected"][0]]]}
        for one in GOLDEN
    ]
    for golden, expression, match in [
        (GOLDEN_OF_FILES, store, "field:metadata.source"),
        (GOLDEN_OF_FILES, store.replace(";similarity", ";id_key=source;similarity"), "exact"),
        (texts, store, "exact"),
    ]:
        result = harness.check(golden, against=expression, match=match, **options)
        assert [value.mean for value in result.trial("store").metrics.values()] == [1.0, 1.0], result.render()
        assert result.report.golden_set.matched[0].matched == 3
        assert result.trial("store").parity is not None
    with pytest.raises(UsageError, match="leave id_key= out"):
        harness.check(
            GOLDEN_OF_FILES, against=store.replace(";sim", ";id_key=source;sim"), match="field:source", **options
        )


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
        ("llamaindex:app:index;key=id", "'key' is not an option of llamaindex:MODULE:RETRIEVER"),
        ("haystack:app:pipe;id_key=", "'id_key' is not an option"),
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
    assert backend.displayed == "mine=llamaindex:app.search:index;id_key=ref_doc_id"
