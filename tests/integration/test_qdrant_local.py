"""The client's local mode: the code path of a server, answered in the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.adapters.qdrant import QdrantEngine
from harness.adapters.qdrant_client_store import COLLECTION_FILE
from harness.errors import EngineFailureError, EngineUnavailableError
from harness.protocols import Inputs, ParameterValue
from harness.registry import find_cards
from harness.testing import RecordingProgress, StepClock
from harness.testing.drive import STEP_NS
from harness.testing.oracle import to_vectors
from harness.types import Ids

pytest.importorskip("qdrant_client", reason="the extra 'qdrant' is not installed")
pytestmark = pytest.mark.integration
IDS = Ids.of(f"d{row}" for row in range(60))
DOCUMENTS = Inputs(IDS, sparse=to_vectors([{row % 7: 1.0, 7 + row % 5: 2.0} for row in range(60)], 12))
QUERIES = Inputs(
    Ids.of(f"q{row}" for row in range(7)), sparse=to_vectors([{row: 1.0} if row != 2 else {} for row in range(7)], 12)
)


def built(folder: Path, **changed: ParameterValue) -> QdrantEngine:
    engine = QdrantEngine({**find_cards("backends")["qdrant"].defaults, "mode": "local", **changed})
    engine.open(folder, IDS)
    engine.index(DOCUMENTS, RecordingProgress(), StepClock())
    return engine


def test_it_says_that_it_is_not_qdrant(tmp_path: Path) -> None:
    engine = QdrantEngine({**find_cards("backends")["qdrant"].defaults, "mode": "local"})
    info = engine.open(tmp_path, IDS)
    engine.close()
    assert (info.name, info.mode) == ("qdrant-client's local mode", "local")
    assert info.note.startswith("this is not Qdrant")


def test_batches_answer_what_single_queries_answer_and_share_the_time(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    one, many = built(tmp_path / "one"), built(tmp_path / "many", search_batch=3)
    alone, together = one.search(QUERIES, 5, StepClock()), many.search(QUERIES, 5, StepClock())
    assert (alone.queries_per_call, together.queries_per_call) == (1, 3)
    for single, batched in zip(alone[:3], together[:3], strict=True):
        assert np.array_equal(single, batched)
    assert np.diff(together.indptr)[2] == 0
    assert together.search_ns.tolist() == [STEP_NS // 3] * 6 + [STEP_NS]
    one.close()
    many.close()


def test_a_failure_names_the_query_and_the_mode(tmp_path: Path) -> None:
    engine = built(tmp_path)
    engine._store._client.delete_collection(engine._store.collection)  # type: ignore[union-attr]
    with pytest.raises(EngineFailureError, match=r"local mode failed while searching for query 'q0': .*not found"):
        engine.search(QUERIES, 5, StepClock())
    engine.close()


def test_a_collection_that_is_gone_is_named_on_reopening(tmp_path: Path) -> None:
    engine = built(tmp_path)
    engine._store._client.delete_collection(engine._store.collection)  # type: ignore[union-attr]
    engine.close()
    with pytest.raises(EngineUnavailableError, match="does not exist any more"):
        QdrantEngine({**find_cards("backends")["qdrant"].defaults, "mode": "local"}).open(tmp_path, IDS)


def test_a_folder_that_names_no_collection_is_not_opened(tmp_path: Path) -> None:
    built(tmp_path).close()
    (tmp_path / COLLECTION_FILE).write_text("{}")
    with pytest.raises(EngineUnavailableError, match="does not say which collection"):
        QdrantEngine({**find_cards("backends")["qdrant"].defaults, "mode": "local"}).open(tmp_path, IDS)
