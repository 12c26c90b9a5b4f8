"""Chroma in the process: what is recorded of its graph, how scores come about, and what it does silently."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.chroma.engine import ChromaEngine
from harness.engines.interface import SearchResult
from harness.errors import BackendError, EngineUnavailableError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import embed_words, random_unit_vectors
from harness.testing.samples import random_texts

skip_module_without("chromadb")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["chroma"].defaults
COUNT = 1_500
IDS = Ids.of(f"d{row}" for row in range(COUNT))
DOCUMENTS = Inputs(IDS, dense=random_unit_vectors(1, COUNT, 32))
QUERIES = Inputs(Ids.of(f"q{row}" for row in range(20)), dense=random_unit_vectors(2, 20, 32))


@contextmanager
def opened(folder: Path, ids: Ids = IDS, **changed: ParameterValue) -> Iterator[ChromaEngine]:
    folder.mkdir(exist_ok=True)
    with closing(ChromaEngine({**DEFAULTS, **changed})) as engine:
        engine.open(folder, ids)
        yield engine


def built(folder: Path, documents: Inputs = DOCUMENTS, **changed: ParameterValue) -> dict[str, object]:
    """The state of a new index."""
    with opened(folder, documents.ids, **changed) as engine:
        return dict(engine.index(documents, RecordingProgress(), StepClock()).state)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index by the defaults, to copy."""
    folder = tmp_path_factory.mktemp("whole")
    built(folder)
    return folder


def found(engine: ChromaEngine, k: int = 10, queries: Inputs = QUERIES) -> SearchResult:
    return engine.search(queries, k, StepClock())


def test_parameters_are_read_back_where_chroma_tells_them(tmp_path: Path) -> None:
    given = {"ef_construction": 50, "ef_search": 70, "max_neighbors": 8, "sync_threshold": 500, "resize_factor": 1.5}
    state = built(tmp_path, **given, similarity="l2", num_threads=1, hnsw_batch_size=200, upsert_batch=9_999)
    assert {name: state[name] for name in given} == given
    assert (state["space"], state["dimensions"]) == ("l2", 32)
    assert state["not_told"] == "num_threads, batch_size"
    assert state["upsert_batch"] == state["max_batch_size"], "no more than the client takes at once"


def test_what_is_in_the_graph_is_the_count_of_records(tmp_path: Path) -> None:
    state = built(tmp_path)
    assert (state["vectors_in_graph"], state["vectors_in_graph_from"]) == (
        COUNT,
        "the number of records: Chroma does not report it",
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"sync_threshold": 400, "upsert_batch": 300}, None),
        ({"sync_threshold": 6_000}, None),  # more than the client takes in one batch
        ({"flush": False}, "whether answers change at the next opening cannot be known"),
        ({"flush": False, "sync_threshold": 5_000}, "its 1,500 records are not in the graph on disk"),
    ],
)
def test_a_graph_that_is_made_anew_at_each_opening_is_told(
    tmp_path: Path, changed: dict[str, ParameterValue], said: str | None
) -> None:
    """Measured: of such a collection most rankings of two openings differ, of one that is written whole none."""
    built(tmp_path, **changed)
    answers = []
    for _ in range(2):
        with opened(tmp_path, ef_search=10, **changed) as engine:
            answers.append(found(engine).rows)
            notes = engine.caveats(10).notes
    assert (notes == ()) if said is None else (notes[0].startswith(said) and len(notes) == 1)
    assert np.array_equal(*answers) == (said is None)


def test_another_ef_search_needs_no_other_build(tmp_path: Path) -> None:
    built(tmp_path, ef_search=1, max_neighbors=4, ef_construction=10)
    exact = np.argsort(-QUERIES.dense @ DOCUMENTS.dense.T, axis=1)[:, :5]
    recalls = []
    for ef in (1, 1_500, 1):
        with opened(tmp_path, ef_search=ef, max_neighbors=4, ef_construction=10) as engine:
            rows = found(engine, 5).rows.reshape(20, 5)
        recalls.append(np.mean([len(set(one) & set(best)) for one, best in zip(rows, exact, strict=True)]) / 5)
    assert recalls[0] < 0.9 < recalls[1]
    assert recalls[2] == recalls[0]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_distances_become_scores_by_the_stated_rule(similarity: str, tmp_path: Path) -> None:
    lengths = np.linspace(0.5, 3, 60, dtype=np.float32)[:, None]
    documents = Inputs(Ids.of(f"d{row}" for row in range(60)), dense=random_unit_vectors(3, 60, 8) * lengths)
    queries = Inputs(Ids.of(["q", "the first document"]), dense=np.stack([lengths[:8, 0], documents.dense[0]]))
    with opened(tmp_path, documents.ids, similarity=similarity, ef_search=60) as engine:
        engine.index(documents, RecordingProgress(), StepClock())
        hits = found(engine, 5, queries)
    products = queries.dense.astype(float) @ documents.dense.T.astype(float)
    lengths_of = [np.linalg.norm(one.dense.astype(float), axis=1) for one in (queries, documents)]
    exact = {
        "dot": products,
        "cosine": products / np.outer(*lengths_of),
        "l2": -np.square(queries.dense[:, None].astype(float) - documents.dense[None]).sum(axis=2),
    }[similarity]
    rows, scores = hits.rows.reshape(2, 5), hits.scores.reshape(2, 5)
    assert np.allclose(scores, np.take_along_axis(exact, rows, axis=1), rtol=0, atol=3e-6)
    assert not np.signbit(scores[scores == 0]).any()
    assert rows[1, 0] == 0 or similarity == "dot"


def test_fewer_hits_than_asked_for_are_left_as_they_are(tmp_path: Path) -> None:
    """The dot product is no metric: a graph by it leaves vectors out of reach where lengths differ."""
    documents = Inputs(Ids.of(f"d{row}" for row in range(300)), dense=embed_words(random_texts(11, 300)))
    queries = Inputs(Ids.of(f"q{row}" for row in range(20)), dense=embed_words(random_texts(12, 20)))
    with opened(tmp_path, documents.ids, similarity="dot") as engine:
        engine.index(documents, RecordingProgress(), StepClock())
        reached = np.diff(found(engine, 300, queries).indptr)
    assert reached.max() < 300, "every vector was reached: Chroma is another one"


def test_a_path_that_is_made_again_holds_nothing_of_before(tmp_path: Path) -> None:
    built(tmp_path / "index")
    shutil.rmtree(tmp_path / "index")
    few = Inputs(Ids.of(["a", "b"]), dense=random_unit_vectors(5, 2, 7))
    with opened(tmp_path / "index", few.ids) as engine:
        report = engine.index(few, RecordingProgress(), StepClock())
        assert (report.indexed, len(found(engine, 5, few).rows)) == (2, 4)


def test_records_that_get_lost_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chromadb.api.models.Collection import Collection

    upsert = Collection.upsert

    def losing(self: Collection, ids: list[str], embeddings: np.ndarray, metadatas: None) -> None:
        kept = [place for place, one in enumerate(ids) if one not in ("7", "1203")]
        upsert(self, ids=[ids[place] for place in kept], embeddings=embeddings[kept], metadatas=metadatas)

    monkeypatch.setattr(Collection, "upsert", losing)
    with opened(tmp_path) as engine:
        report = engine.index(DOCUMENTS, RecordingProgress(), StepClock())
    assert (report.indexed, report.missing_rows.tolist()) == (COUNT - 2, [7, 1203])


@pytest.mark.parametrize(
    "name", ["data_level0.bin", "length.bin", "link_lists.bin", "header.bin", "index_metadata.pickle", "chroma.sqlite3"]
)
def test_files_that_became_shorter_are_noticed(name: str, whole: Path, tmp_path: Path) -> None:
    """Chroma opens most of them, and answers from what is left."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    (path,) = tmp_path.rglob(name)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(EngineUnavailableError, match=rf"is damaged: '.*{name}' has [\d,]+ of the"), opened(tmp_path):
        pass


@pytest.mark.parametrize("name", ["index_metadata.pickle", "chroma-files.json"])
def test_a_file_that_is_gone_is_noticed(name: str, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    (path,) = tmp_path.rglob(name)
    path.unlink()
    with pytest.raises(EngineUnavailableError, match=rf"is damaged: .*{name}"), opened(tmp_path):
        pass


def test_settings_lying_about_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("CHROMA_API_IMPL=chromadb.api.fastapi.FastAPI\nANONYMIZED_TELEMETRY=true\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHROMA_API_IMPL", "chromadb.api.fastapi.FastAPI")
    from harness.engines.chroma.connection import persistent_client

    with persistent_client(tmp_path / "index", "default_database") as client:
        assert client.get_settings().anonymized_telemetry is False
        assert client.list_collections() == []


def test_what_a_mode_or_the_engine_cannot_do_is_refused(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, ParameterValue], str]] = [
        ({"keep": True}, "keep cannot be set with mode=embedded"),
        ({"url": "http://host", "flush": False}, "flush cannot be set with mode=server"),
        ({"external": True, "collection": "c"}, "no folder is named, and mode=embedded"),
        (
            {"external": True, "collection": "c", "path": "p", "url": "http://host"},
            "a folder is opened in the process, and mode=server",
        ),
    ]
    for given, message in wrong:
        with pytest.raises(RejectedInputError, match=message):
            ChromaEngine({**DEFAULTS, **given})
    with closing(ChromaEngine(DEFAULTS)) as engine, pytest.raises(RejectedInputError, match="no external index"):
        engine.attach(tmp_path, RecordingProgress())


def test_errors_of_the_engine_are_translated(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    database = tmp_path / "chroma" / "chroma.sqlite3"
    database.write_bytes(b"no database" * database.stat().st_size)
    with pytest.raises(BackendError, match="Chroma failed while opening the collection"), opened(tmp_path):
        pass
