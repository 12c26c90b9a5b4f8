"""The real shard: what it refuses, what it leaves on disk, how its failures read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.index_folder import MANIFEST
from harness.engines.qdrant.engine import QdrantEngine
from harness.errors import EngineFailureError, EngineUnavailableError, LostDocumentsError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import to_vectors

client = pytest.importorskip("qdrant_edge", reason="the extra 'qdrant' is not installed")
pytestmark = pytest.mark.integration
IDS = Ids.of(f"d{row}" for row in range(400))
DOCUMENTS = Inputs(IDS, sparse=to_vectors([{row % 7: 1.0, 7 + row % 5: 2.0} for row in range(400)], 12))
QUERY = Inputs(Ids.of(["q"]), sparse=to_vectors([{0: 1.0, 8: 1.0}], 12))


def engine(**changed: ParameterValue) -> QdrantEngine:
    return QdrantEngine({**find_cards("backends")["qdrant"].defaults, **changed})


def built(folder: Path, **changed: ParameterValue) -> QdrantEngine:
    made = engine(**changed)
    made.open(folder, IDS)
    made.index(DOCUMENTS, RecordingProgress(), StepClock())
    return made


@pytest.mark.parametrize(
    "changed", [{"datatype": "float16"}, {"idf": False}, {"k1": 1.2}, {"on_disk": True}, {"batch_size": 7}]
)
def test_other_parameters_on_reopening_are_refused(tmp_path: Path, changed: dict[str, ParameterValue]) -> None:
    built(tmp_path).close()
    (name,) = changed
    with pytest.raises(RejectedInputError, match=f"{name}: built with"):
        engine(**changed).open(tmp_path, IDS)


def test_other_threads_on_reopening_are_fine(tmp_path: Path) -> None:
    built(tmp_path).close()
    again = engine(threads=2)
    again.open(tmp_path, IDS)
    assert len(again.search(QUERY, 5, StepClock()).rows) == 5
    again.close()


def test_points_that_vanished_are_noticed_on_reopening(tmp_path: Path) -> None:
    built(tmp_path).close()
    shard = client.EdgeShard.load(str(tmp_path / "shard"))
    shard.update(client.UpdateOperation.delete_points([3, 4]))
    shard.flush()
    shard.close()
    with pytest.raises(LostDocumentsError, match="398 of 400"):
        engine().open(tmp_path, IDS)


def test_a_shard_that_is_open_elsewhere_says_so(tmp_path: Path) -> None:
    first = built(tmp_path)
    with pytest.raises(EngineUnavailableError, match="another process or engine has this index open"):
        engine().open(tmp_path, IDS)
    first.close()


def test_a_panic_of_the_engine_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turbo8 is for dense vectors: Edge takes it for sparse ones, and panics when it optimises."""
    monkeypatch.setattr("harness.engines.qdrant.edge.member", lambda kind, name: client.VectorStorageDatatype.Turbo8)
    with pytest.raises(EngineFailureError, match="optimising the segments"):
        built(tmp_path, indexing_threshold_kb=1)


def test_bytes_are_allocated_blocks_and_the_log_is_apart(tmp_path: Path) -> None:
    with_log, without = built(tmp_path, batch_size=10), tmp_path / "shard" / "wal"
    storage = with_log.storage()
    apparent = sum(path.stat().st_size for path in (tmp_path / "shard").rglob("*") if path.is_file())
    assert 0 < storage.index_bytes < apparent / 4
    log = sum(path.stat().st_blocks * 512 for path in without.rglob("*") if path.is_file())
    assert storage.log_bytes == log > 0
    with_log.close()


def test_without_a_log_there_is_none(tmp_path: Path) -> None:
    made = built(tmp_path, wal=False)
    assert made.storage().log_bytes == 0
    made.close()


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from harness.engines.qdrant.engine import QdrantEngine
from harness.engines.interface import Inputs
from harness.registry.lookup import find_cards
from harness.testing import StepClock
from harness.testing.expected import to_vectors
from harness.data.types import Ids

class Killer:
    def start(self, phase, total): pass
    def advance(self, amount): os.kill(os.getpid(), signal.SIGKILL)

ids = Ids.of(f"d{row}" for row in range(400))
engine = QdrantEngine({**find_cards("backends")["qdrant"].defaults, "batch_size": 100})
engine.open(Path(sys.argv[1]), ids)
engine.index(Inputs(ids, sparse=to_vectors([{0: 1.0}] * 400, 1)), Killer(), StepClock())
"""


def test_a_build_that_was_killed_is_not_continued(tmp_path: Path, repository: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    killed = subprocess.run([sys.executable, "-c", INTERRUPTED, str(tmp_path)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "shard").is_dir()
    assert not (tmp_path / MANIFEST).exists()
    with pytest.raises(EngineUnavailableError, match="never finished"):
        engine().open(tmp_path, IDS)


CRAMPED = """
import resource, signal, sys
from pathlib import Path
from harness.engines.qdrant.engine import QdrantEngine
from harness.errors import EngineUnavailableError
from harness.engines.interface import Inputs
from harness.registry.lookup import find_cards
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import to_vectors
from harness.data.types import Ids

engine = QdrantEngine(find_cards("backends")["qdrant"].defaults)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    documents = Inputs(Ids.of(["a"]), sparse=to_vectors([{0: 1.0}], 1))
    engine.open(Path(sys.argv[1]), documents.ids)
    engine.index(documents, RecordingProgress(), StepClock())
except EngineUnavailableError as error:
    sys.exit(f"caught: {error}")
"""


def test_no_room_for_the_files_reads_well(tmp_path: Path, repository: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", CRAMPED, str(tmp_path)]
    result = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert result.stderr.startswith("caught: Qdrant Edge failed while creating a shard")
    assert "free disk space" in result.stderr
