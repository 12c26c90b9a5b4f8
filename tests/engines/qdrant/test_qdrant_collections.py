"""Collections of a server: batches of queries, and what is said where one is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from installed import skip_module_without
from qdrant_stub import serve

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.qdrant.engine import QdrantEngine
from harness.engines.server_collection import COLLECTION_FILE
from harness.errors import EngineFailureError, EngineUnavailableError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import to_vectors
from harness.testing.samples import STEP_NS

skip_module_without("qdrant_client")

pytestmark = pytest.mark.integration
IDS = Ids.of(f"d{row}" for row in range(60))
DOCUMENTS = Inputs(IDS, sparse=to_vectors([{row % 7: 1.0 + row / 64, 7 + row % 5: 2.0} for row in range(60)], 12))
QUERIES = Inputs(
    Ids.of(f"q{row}" for row in range(7)), sparse=to_vectors([{row: 1.0} if row != 2 else {} for row in range(7)], 12)
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve() as stub:
        yield stub.url


def engine_at(url: str, **changed: ParameterValue) -> QdrantEngine:
    return QdrantEngine(
        {**find_cards("backends")["qdrant"].defaults, "url": url, "transport": "rest", "keep": True, **changed}
    )


def built(folder: Path, url: str, **changed: ParameterValue) -> QdrantEngine:
    engine = engine_at(url, **changed)
    engine.open(folder, IDS)
    engine.index(DOCUMENTS, RecordingProgress(), StepClock())
    return engine


def test_batches_answer_what_single_queries_answer_and_share_the_time(url: str, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    one, many = built(tmp_path / "one", url), built(tmp_path / "many", url, search_batch=3)
    alone, together = one.search(QUERIES, 5, StepClock()), many.search(QUERIES, 5, StepClock())
    assert (alone.queries_per_call, together.queries_per_call) == (1, 3)
    for single, batched in zip(alone[:3], together[:3], strict=True):
        assert np.array_equal(single, batched)
    assert np.diff(together.indptr)[2] == 0
    assert together.search_ns.tolist() == [STEP_NS // 3] * 6 + [STEP_NS]
    one.close()
    many.close()


def test_a_failure_names_the_query(url: str, tmp_path: Path) -> None:
    engine = built(tmp_path, url)
    engine._collection._client.delete_collection(engine._collection.name)  # type: ignore[union-attr]
    with pytest.raises(EngineFailureError, match=r"searching for query 'q0'.*"):
        engine.search(QUERIES, 5, StepClock())
    engine.close()


def test_a_collection_that_is_gone_is_named_on_reopening(url: str, tmp_path: Path) -> None:
    engine = built(tmp_path, url)
    engine._collection._client.delete_collection(engine._collection.name)  # type: ignore[union-attr]
    engine.close()
    with pytest.raises(EngineUnavailableError, match="does not exist any more"):
        engine_at(url).open(tmp_path, IDS)


def test_a_folder_that_names_no_collection_is_not_opened(url: str, tmp_path: Path) -> None:
    built(tmp_path, url).close()
    (tmp_path / COLLECTION_FILE).write_text("{}")
    with pytest.raises(EngineUnavailableError, match="does not say which collection"):
        engine_at(url).open(tmp_path, IDS)
