"""Lucene indexes that somebody else made: Anserini's, those of other fields, and those that cannot be taken."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
import pytest
from installed import skip_module_without
from lucene_indexes import add, delete, index_collection, run_anserini, writer
from small_world import DOCUMENTS, QUERIES, write_collection

import harness
from harness.data.dataset import Dataset
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.interface import ExpectedContent, IndexHandle, SearchResult
from harness.engines.lucene.bm25 import LuceneEngine
from harness.errors import BackendError, EngineUnavailableError, RejectedInputError
from harness.loaders import load_dataset
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.results.schema import TrialResult
from harness.testing import RecordingProgress
from harness.text import count_terms
from harness.text.lucene_analyzer import LuceneAnalyzer

skip_module_without("jnius_config")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
DEFAULTS = find_cards("backends")["lucene"].defaults
BODY = {"field": "body", "id_field": "docid"}


@pytest.fixture(scope="module")
def cacm() -> Dataset:
    return load_dataset("cacm")


@pytest.fixture(scope="module")
def anserini(cacm: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CACM in ``index``, and the small collection in ``small/index`` beside it, both by one Java."""
    folder = tmp_path_factory.mktemp("anserini")
    documents = dict(zip(cacm.corpus.ids, cacm.corpus.texts.to_pylist(), strict=True))
    large = index_collection(folder, documents, "-storeDocvectors", "-storeRaw")
    run_anserini(large, index_collection(folder / "small", DOCUMENTS))
    return folder / "index"


@contextmanager
def attached(folder: Path, **parameters: ParameterValue) -> Iterator[tuple[LuceneEngine, IndexHandle]]:
    engine = LuceneEngine({**DEFAULTS, "external": True, "path": str(folder), **parameters})
    with closing(engine):
        yield engine, engine.attach(folder / "not used", RecordingProgress())


def refused(folder: Path, **parameters: ParameterValue) -> str:
    with pytest.raises(BackendError) as refusal, attached(folder, **parameters):
        pass
    return str(refusal.value)


def texts(ids: Sequence[str], values: Sequence[str]) -> Inputs:
    return Inputs(Ids.of(ids), texts=pa.chunked_array([pa.array(list(values), pa.string())]))


def content(ids: Sequence[str], documents: Sequence[str], queries: Sequence[str]) -> ExpectedContent:
    counts = count_terms(LuceneAnalyzer("english"), [list(documents)], list(queries))
    rows = np.arange(len(ids), dtype=np.int32)
    return ExpectedContent(rows, texts(ids, documents), texts([f"q{n}" for n in range(len(queries))], queries), counts)


def other_fields(folder: Path, documents: dict[str, str]) -> Path:
    with writer(folder) as made:
        add(made, [{"docid": one, "body": text} for one, text in documents.items()])
    return folder


def searched(engine: LuceneEngine, queries: Sequence[str], k: int = 10) -> SearchResult:
    return engine.search(texts([f"q{n}" for n in range(len(queries))], queries), k, perf_counter_ns)


def test_an_index_of_anserini_gives_the_published_figures_and_bit_equal_scores(anserini: Path) -> None:
    expression = f"lucene:external=true;path={anserini}"
    comparison = harness.compare([expression], "cacm", k=1000, ties="engine", metrics="AP,P@30", timing=False)
    (backend,) = comparison.report.trials
    assert backend.parity is not None
    assert backend.parity.bit_equal == backend.parity.queries == 64
    assert (round(backend.metrics["AP"].mean, 4), round(backend.metrics["P@30"].mean, 4)) == (0.3123, 0.1942)
    assert backend.index is not None
    assert backend.index.external_index is not None
    assert backend.index.external_index.files == len(list(anserini.iterdir()))
    assert (backend.index.documents_indexed, backend.index.seconds) == (3204, None)


@pytest.fixture(scope="module")
def own(cacm: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The harness's own index, with term vectors."""
    folder = tmp_path_factory.mktemp("own")
    with closing(LuceneEngine({**DEFAULTS, "rm3": True})) as engine:
        engine.open(folder, cacm.corpus.ids)
        engine.index(Inputs(cacm.corpus.ids, texts=cacm.corpus.texts), RecordingProgress(), perf_counter_ns)
    return folder


@pytest.mark.parametrize("model", [{"rm3": True}, {"axiom": True}, {"rm3": True, "model": "ql"}])
def test_an_index_of_anserini_serves_feedback(
    anserini: Path, own: Path, cacm: Dataset, model: dict[str, ParameterValue]
) -> None:
    """It reads the term vectors that -storeDocvectors left."""
    queries = texts([f"q{n}" for n in range(2)], cacm.queries.texts[:2].to_pylist())
    with closing(LuceneEngine({**DEFAULTS, **model})) as fresh:
        fresh.open(own, cacm.corpus.ids)
        expected = fresh.search(queries, 100, perf_counter_ns)
    with attached(anserini, **model) as (engine, opened):
        found = engine.search(queries, 100, perf_counter_ns)
        rows = cacm.corpus.ids.rows_of(opened.ids)[found.rows]
    assert np.array_equal(rows, expected.rows)
    assert np.array_equal(found.scores, expected.scores)


def test_an_index_without_the_empty_documents_is_proven_too(anserini: Path, tmp_path: Path) -> None:
    """Anserini drops them: the index holds a part of the collection, and its reference is made of that part."""
    collection = write_collection(tmp_path / "small")
    backend = compared(f"lucene:external=true;path={anserini.parent / 'small' / 'index'}", collection)
    assert backend.index is not None
    assert (backend.index.documents_indexed, backend.index.missing) == (5, ["d5"])
    assert "1 documents of the dataset are not in it, because they are empty: d5" in backend.notes
    assert backend.parity is not None
    assert backend.parity.bit_equal == len(QUERIES)


def compared(expression: str, collection: Path) -> TrialResult:
    return harness.compare([expression], collection, k=5, timing=False, isolation="none").report.trials[0]


def test_fields_of_other_names_and_another_order_are_held_against_their_own_oracle(tmp_path: Path) -> None:
    collection = write_collection(tmp_path / "small")
    index = other_fields(tmp_path / "index", dict(reversed(DOCUMENTS.items())))
    backend = compared(f"lucene:external=true;path={index};field=body;id_field=docid", collection)
    assert backend.parity is not None
    assert backend.parity.bit_equal == len(QUERIES)


def test_an_index_of_another_analyzer_is_searched_without_an_oracle(tmp_path: Path) -> None:
    collection = write_collection(tmp_path / "small")
    index = other_fields(tmp_path / "index", DOCUMENTS)
    expression = f"lucene:external=true;path={index};field=body;id_field=docid;analyzer=lucene-german"
    backend = compared(expression, collection)
    assert (backend.status, backend.parity) == ("ok", None)
    (reason,) = [note for note in backend.notes if note.startswith("not compared with a reference: ")]
    assert "terms, the dataset's part of it" in reason


def test_every_statistic_that_scores_depend_on_is_compared(tmp_path: Path) -> None:
    held = {"a": "cat dog", "b": "cat bird"}
    folder = other_fields(tmp_path / "index", held)
    changes = {
        "cat dog bird / cat bird": "the index has 4 terms",
        "cat dog / cat bird bird": "the index has 4 terms",
        "cat dog cat bird / ": "the index has 2 documents with terms",
        "cat / dog cat bird": "other lengths than the analyzer gives them",
        "cat dog / cat fish": "other terms than the analyzer makes",
        "cat bird / cat dog": "the term 'bird' has other postings",
        "dog dog / cat bird": "the term 'cat' has other postings",
    }
    with attached(folder, **BODY) as (engine, _):
        assert engine.mismatch(content("ab", list(held.values()), ["cat", "bird dog"]), RecordingProgress()) is None
        for change, reason in changes.items():
            found = engine.mismatch(content("ab", change.split(" / "), ["cat", "bird dog"]), RecordingProgress())
            assert found is not None
            assert reason in found, change


def test_deleted_documents_are_no_hits_and_leave_no_oracle(tmp_path: Path) -> None:
    with writer(tmp_path / "index") as made:
        add(made, [{"docid": one, "body": text} for one, text in (("a", "cat"), ("b", "cat dog"), ("c", "dog"))])
        made.commit()
        delete(made, "docid", "b")
    with attached(tmp_path / "index", **BODY) as (engine, opened):
        assert opened.ids.to_list() == ["a", "c"]
        assert opened.state["deleted_documents"] == 1
        found = searched(engine, ["cat dog"])
        assert sorted(opened.ids.take(found.rows)) == ["a", "c"]
        reason = engine.mismatch(content("ac", ["cat", "dog"], ["cat"]), RecordingProgress())
    assert reason == "1 documents are deleted but not merged away, and Lucene's statistics still count them"


def test_texts_of_few_documents_are_read_alone(tmp_path: Path) -> None:
    documents = {f"d{number:03}": f"text {number}" for number in range(250)}
    with writer(tmp_path / "index") as made:
        add(made, [{"docid": one, "body": text, "contents": text} for one, text in documents.items()])
    with attached(tmp_path / "index", **BODY) as (engine, opened):
        for count in (1, 2, 250):
            rows = np.arange(count, dtype=np.int32)
            expected = [documents[name] for name in opened.ids.take(rows)]
            assert engine.stored_texts(rows) == expected
        assert engine.reader.stored_texts("absent", [0]) == [None]


def test_wrong_fields_are_refused_with_those_that_are_there(tmp_path: Path) -> None:
    folder = other_fields(tmp_path / "index", {"a": "cat"})
    assert "no document of the index has the text field 'contents'" in (said := refused(folder, id_field="docid"))
    assert "body, docid" in said
    assert "no document of the index has the stored field 'id'" in (said := refused(folder, field="body"))
    assert "the first document stores docid" in said
    assert "the index stores none for 'body'" in refused(folder, **BODY, rm3=True)


def test_a_named_field_that_documents_lack_or_share_is_no_id(tmp_path: Path) -> None:
    with writer(tmp_path / "absent") as made:
        add(made, [{"docid": "a", "body": "cat"}, {"body": "dog"}, {"docid": "c", "body": "dog"}])
    with attached(tmp_path / "absent", **BODY) as (_, lacked):
        assert (lacked.ids.to_list(), lacked.values.to_pylist()) == (["0", "1", "2"], ["a", None, "c"])
    with writer(tmp_path / "twice") as made:
        add(made, [{"docid": "a", "body": "cat"}, {"docid": "b", "body": "dog"}, {"docid": "a", "body": "dog"}])
    with attached(tmp_path / "twice", **BODY) as (_, shared):
        assert (shared.ids.to_list(), shared.values.to_pylist()) == (["0", "1", "2"], ["a", "b", "a"])


def test_an_index_that_a_writer_holds_is_read_as_it_was_committed(tmp_path: Path) -> None:
    with writer(tmp_path / "index") as made:
        add(made, [{"docid": "a", "body": "cat"}])
        made.commit()
        add(made, [{"docid": "b", "body": "cat"}])
        assert (tmp_path / "index" / "write.lock").exists()
        with attached(tmp_path / "index", **BODY) as (engine, opened):
            assert opened.ids.to_list() == ["a"]
            assert searched(engine, ["cat"]).rows.tolist() == [0]


def patched(folder: Path, before: bytes, after: bytes) -> None:
    """Change the file that names the segments, and mend its checksum, which the last eight bytes hold."""
    (path,) = folder.glob("segments_*")
    content = path.read_bytes()
    assert content.count(before) >= 1
    assert len(before) == len(after)
    changed = content.replace(before, after)[:-8]
    path.write_bytes(changed + struct.pack(">Q", zlib.crc32(changed)))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b"\x08segments\x00\x00\x00\x0a", b"\x08segments\x00\x00\x00\x05", "IndexFormatTooOldException"),
        (b"\x08segments\x00\x00\x00\x0a", b"\x08segments\x00\x00\x00\x63", "IndexFormatTooNewException"),
        (b"\x08Lucene99", b"\x08Lucene42", "with name 'Lucene42' does not exist"),
    ],
)
def test_an_index_of_another_lucene_is_refused_and_nobody_is_told_to_delete_it(
    tmp_path: Path, before: bytes, after: bytes, said: str
) -> None:
    folder = other_fields(tmp_path / "index", {"a": "cat"})
    patched(folder, before, after)
    with pytest.raises(EngineUnavailableError) as refusal, attached(folder, **BODY):
        pass
    assert said in str(refusal.value), str(refusal.value)
    assert "name the Anserini jar that made it (jar=)" in str(refusal.value)
    assert "delete" not in str(refusal.value)


def test_a_damaged_file_is_refused_and_nobody_is_told_to_delete_it(tmp_path: Path) -> None:
    """Lucene opens and searches such an index without a word."""
    folder = other_fields(tmp_path / "index", {"a": "cat", "b": "dog"})
    (path,) = folder.glob("*.cfs")
    content = path.read_bytes()
    place = content.index(b"catdog")
    path.write_bytes(content[:place] + b"cow" + content[place + 3 :])
    said = refused(folder, **BODY)
    assert "CorruptIndexException: checksum failed" in said, said
    assert said.endswith("the index is damaged: take a backup of it, or make it again")


def test_a_field_that_no_query_can_find_anything_in_is_refused(tmp_path: Path) -> None:
    """It would be scored 0, as if it were bad."""
    folder = other_fields(tmp_path / "index", {"a": "cats sat"})
    with attached(folder, **{**BODY, "field": "docid"}) as (engine, _):
        with pytest.raises(RejectedInputError) as refusal:
            engine.mismatch(content(["a"], ["cats sat"], ["a cat", "zeppelin"]), RecordingProgress())
        assert "the field 'docid' has terms such as 'a', and none that" in str(refusal.value)
        assert "'cat' first\n  name the field (field=) and the analyzer" in str(refusal.value)
        unknown = content(["a"], ["cats sat"], ["zeppelin"])
        assert engine.mismatch(unknown, RecordingProgress()) is not None, "such queries say nothing of the index"


def test_a_folder_without_an_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = refused(tmp_path / "empty")
    assert "IndexNotFoundException" in said
    assert "delete" not in said


def test_an_index_is_attached_only_when_one_is_named() -> None:
    with (
        closing(LuceneEngine(DEFAULTS)) as engine,
        pytest.raises(RejectedInputError, match="no external index is named"),
    ):
        engine.attach(Path(), RecordingProgress())
