"""Saved reference indexes through the whole of a comparison: ids, notes, parity, and what is refused."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import orjson
import pytest
from small_world import DOCUMENTS, QUERIES, write_collection
from warm_harness import harness_command

import harness
from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.types import Ids, SparseVectors
from harness.encoders import bm25
from harness.engines.csr import CsrEngine
from harness.engines.interface import ExpectedContent, SearchResult
from harness.errors import BackendError
from harness.exact import SparseIndex
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.results.schema import TrialResult
from harness.testing import RecordingProgress
from harness.text import count_terms, create_analyzer

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("data") / "small")


def vectors(*, k1: float = 0.9, more: Sequence[str] = ()) -> SparseVectors:
    """What the backend's encoder makes of the collection, and of further documents over the same terms."""
    counts = count_terms(create_analyzer("whitespace"), [list(DOCUMENTS.values())], list(QUERIES.values()))
    made = bm25.document_weights(counts, k1=k1, b=0.4, k1_plus_1=True).to_scipy()
    if not more:
        return SparseVectors.from_scipy(made)
    from scipy.sparse import vstack

    return SparseVectors.from_scipy(vstack([made, made[: len(more)]]))


def save(folder: Path, documents: SparseVectors, ids: Sequence[str]) -> str:
    SparseIndex.build(documents, idf="bm25").save(folder)
    (folder / "ids.txt").write_text("".join(f"{one}\n" for one in ids))
    return f"csr:external=true;analyzer=whitespace;path={folder}"


def attach_and_compare(engine: CsrEngine, content: ExpectedContent) -> None:
    engine.attach(Path(), RecordingProgress())
    engine.mismatch(content, RecordingProgress())


def searched(expression: str, collection: Path) -> TrialResult:
    return harness.compare([expression], collection, k=3).report.trials[0]


def test_an_index_of_the_collection_is_held_against_its_oracle(collection: Path, tmp_path: Path) -> None:
    comparison = harness.compare(
        [save(tmp_path / "i", vectors(), list(DOCUMENTS)), "csr:analyzer=whitespace"], collection, k=3
    )
    external, new = comparison.report.trials
    assert external.metrics == new.metrics
    assert external.parity is not None
    assert external.parity.bit_equal == external.parity.queries == 4
    assert external.index is not None
    assert external.index.external_index is not None
    assert external.index.external_index.no_reference is None
    assert (external.index.external_index.in_dataset, external.index.external_index.not_in_dataset) == (6, 0)
    assert external.index.documents_sent is external.index.seconds is external.index.documents_per_second is None
    assert external.phases is not None
    assert external.phases.index_seconds is external.phases.ready_seconds is None
    assert external.index.bytes > 0
    assert external.index.state["existing"] is True
    assert external.engine is not None
    assert external.engine.mode == "embedded, external index"
    assert any("had the same SHA-256 before and after" in note for note in external.notes)
    (row,) = [line for line in comparison.render("markdown").splitlines() if "6 external" in line]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[cells.index("6 external") + 1 :][:2] == ["–", "–"]


def test_a_part_of_the_collection_in_another_order_is_held_too(collection: Path, tmp_path: Path) -> None:
    ids = ["d6", "d2", "d1"]
    part = vectors().take(np.array([list(DOCUMENTS).index(one) for one in ids]))
    backend = searched(save(tmp_path / "i", part, ids), collection)
    assert backend.parity is not None
    assert backend.parity.bit_equal == 4
    assert "3 documents of the dataset are not in it: d3, d4, d5" in backend.notes


def test_documents_that_the_collection_lacks_are_hits_by_their_own_ids(collection: Path, tmp_path: Path) -> None:
    more = ["other 1", "other 2"]
    comparison = harness.compare([save(tmp_path / "i", vectors(more=more), [*DOCUMENTS, *more])], collection, k=8)
    (backend,) = comparison.report.trials
    assert backend.parity is None
    assert "not compared with a reference: 2 of the index's 8 documents are not in the dataset" in backend.notes
    assert "2 of its documents are not in the dataset: other 1, other 2" in backend.notes
    run = comparison.run(backend.label)
    assert {"other 1", "other 2"} <= set(run.doc_ids.take(run.rows))


def test_other_weights_are_searched_without_an_oracle(collection: Path, tmp_path: Path) -> None:
    backend = searched(save(tmp_path / "i", vectors(k1=2.0), list(DOCUMENTS)), collection)
    assert backend.status == "ok"
    assert backend.parity is None
    assert any("documents have other weights than the encoder gives" in note for note in backend.notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("one id twice", "several documents have the same id"),
        ("an id missing", "1 of 6 documents have no id"),
        ("too few ids", "names 5 documents, the index holds 6"),
        ("no ids", "the documents' ids cannot be read"),
        ("no idf", "was saved with no IDF"),
        ("not an index", "there is no saved index"),
        ("other columns", "has other columns than the encoder gives it"),
        ("another vocabulary", "the index has 22 dimensions, the encoder 99"),
    ],
)
def test_what_would_be_nonsense_is_refused(tmp_path: Path, change: str, said: str) -> None:
    ids, folder, asked = list(DOCUMENTS), tmp_path / "i", vectors()
    save(folder, vectors(), ids)
    match change:
        case "one id twice":
            save(folder, vectors(), [*ids[:-1], ids[0]])
        case "an id missing":
            save(folder, vectors(), ["", *ids[1:]])
        case "too few ids":
            save(folder, vectors(), ids[1:])
        case "no ids":
            (folder / "ids.txt").unlink()
        case "no idf":
            SparseIndex.build(vectors()).save(folder)
        case "not an index":
            (folder / "header.json").unlink()
        case "other columns":
            asked = asked.take(np.array([1, 0, 2, 3, 4, 5]))
        case "another vocabulary":
            asked = SparseVectors(np.zeros(7, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), 99)
    parameters: dict[str, ParameterValue] = {
        **find_cards("backends")["csr"].defaults,
        "external": True,
        "path": str(folder),
    }
    inputs = Inputs(Ids.of(ids), sparse=asked)
    with closing(CsrEngine(parameters)) as engine, pytest.raises(BackendError) as refusal:
        attach_and_compare(engine, ExpectedContent(np.arange(6, dtype=np.int32), inputs, inputs))
    assert said in str(refusal.value)
    assert "delete" not in str(refusal.value), "the index is the user's"


def test_the_command_line_searches_an_external_index(collection: Path, tmp_path: Path) -> None:
    expression = save(tmp_path / "i", vectors(), list(DOCUMENTS))
    command = ["compare", "--backends", expression, "--dataset", str(collection), "--format", "json"]
    done = subprocess.run(
        [*harness_command(), *command, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "an external index of 6 documents, 4 queries searched" in " ".join(done.stderr.split())
    (backend,) = orjson.loads(done.stdout)["trials"]
    assert backend["index"]["external_index"]["files"] == 7
    assert backend["parity"]["bit_equal"] == 4


def test_the_command_line_ends_with_3_when_no_id_is_known(collection: Path, tmp_path: Path) -> None:
    expression = save(tmp_path / "i", vectors(), [f"x{row}" for row in range(6)])
    done = subprocess.run(
        [*harness_command(), "compare", "--backends", expression, "--dataset", str(collection)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 3
    assert "the index has 'x0', 'x1', 'x2', the dataset 'd1', 'd2', 'd3'" in " ".join(
        (done.stdout + done.stderr).split()
    )


def test_an_index_that_changes_while_it_is_searched_fails_the_backend(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expression, search = save(tmp_path / "i", vectors(), list(DOCUMENTS)), CsrEngine.search

    def write_and_search(self: CsrEngine, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        (tmp_path / "i" / "notes.txt").write_text("somebody is here")
        return search(self, queries, k, clock)

    monkeypatch.setattr(CsrEngine, "search", write_and_search)
    comparison = harness.compare([expression], collection, k=3, isolation="none")
    (backend,) = comparison.report.trials
    assert comparison.failed == [expression]
    assert backend.error is not None
    assert backend.error.type == "IndexChangedError"
    assert "changed while it was searched: notes.txt" in backend.error.message


@pytest.mark.parametrize(
    ("engine", "isolation", "reason"),
    [
        ("WritesAndRaises", "process", "an unexpected error: KeyError: 'inner detail'"),
        ("WritesAndIsKilled", "process", "the worker was killed by signal SIGKILL"),
        ("WritesAndExits", "none", "the engine called Python's exit with 0"),
    ],
)
def test_a_change_is_told_however_the_search_ends(
    collection: Path, tmp_path: Path, repository: Path, engine: str, isolation: str, reason: str
) -> None:
    card = (repository / "backends" / "csr.toml").read_text().replace('name = "csr"', 'name = "rude"')
    (tmp_path / "backends").mkdir()
    changed = card.replace("harness.engines.csr:CsrEngine", f"engines_on_external:{engine}")
    (tmp_path / "backends" / "rude.toml").write_text(changed)
    expression = save(tmp_path / "i", vectors(), list(DOCUMENTS)).replace("csr:", "rude:")
    comparison = harness.compare([expression], collection, k=3, isolation=isolation, cards=tmp_path)
    error = comparison.report.trials[0].error
    assert error is not None
    assert error.type == "IndexChangedError"
    assert f"changed while it was searched: mine.txt; the search failed too: {reason}" in error.message


def test_a_relative_path_and_home_are_the_users(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "i", vectors(), list(DOCUMENTS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    backends = [f"csr:external=true;analyzer=whitespace;path={path}" for path in ("i", "~/i")]
    comparison = harness.compare(backends, collection, k=3, isolation="none")
    assert [backend.status for backend in comparison.report.trials] == ["ok", "ok"]
