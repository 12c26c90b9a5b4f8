"""A second stage whose pairs are scored by several jobs: the very batches, and so the very bits, of one job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from harness.data.dataset import Dataset
from harness.data.memory import run_from_dict
from harness.data.progress import Progress, SilentDisplay
from harness.data.types import Float32Array
from harness.plan.config import CompareRequest
from harness.plan.plan import make_plan
from harness.rerank import rerankers
from harness.rerank.reranker import Reranker
from harness.rerank.stage import RerankedRun
from harness.store.cache import Cache
from harness.store.columns import save_table
from harness.worker import second_stages
from harness.worker.dispatch import run_job
from harness.worker.process import FinishedProcess
from harness.worker.second_stages import SecondStage

DOCUMENTS, QUERIES = 40, 7


class OfBatches(Reranker):
    """Scores that depend on the whole batch that a pair is in."""

    group = 16

    def identity(self) -> dict[str, Any]:
        return {"of": "batches"}

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        whole = sum(
            len(query) * len(document) + ord(query[-1]) for query, document in zip(queries, documents, strict=True)
        )
        out[:] = [len(document) / (1 + whole + position) for position, document in enumerate(documents)]
        progress.advance(len(queries))


class Paid(OfBatches):
    paid = True


class Slots:
    """An executor of so many threads of this process."""

    def __init__(self, count: int) -> None:
        self.count, self.jobs = count, 0

    def slots(self, device: str = "cpu") -> int:
        return self.count

    def run(self, folder: Path, progress: Progress) -> FinishedProcess:
        self.jobs += 1
        run_job(folder, progress)
        return FinishedProcess(None, None, ())


def reranked(folder: Path, executor: Slots) -> tuple[Any, RerankedRun]:
    folder.mkdir()
    corpus = {f"d{n}": f"a document {'long ' * (n % 5)}number {n}" for n in range(DOCUMENTS)}
    queries = {f"q{n}": f"query {n}" for n in range(QUERIES)}
    dataset = Dataset.of(corpus, queries, {"q0": {"d0": 1}})
    for name, part in (("corpus", dataset.corpus), ("queries", dataset.queries)):
        save_table(folder / f"{name}.arrow", pa.table({"id": part.ids.values, "text": part.texts}))
    hits = {f"q{number}": {f"d{n}": float(-n) for n in range(5 + number)} for number in range(QUERIES)}
    plan = make_plan(CompareRequest(backends="csr|keywords:candidates=20"), lucene_available=False)
    trial = next(trial for trial in plan.trials if trial.spec.name == "keywords")
    stage = SecondStage(
        dataset, folder / "corpus.arrow", folder / "queries.arrow", Cache(folder), executor, folder, SilentDisplay()
    )
    return stage.run(trial, run_from_dict(hits))


@pytest.fixture(params=[2, 3, 50])
def slots(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def use(patch: pytest.MonkeyPatch, kind: type[Reranker]) -> None:
    for module in (rerankers, second_stages):
        patch.setattr(module, "create_reranker", lambda name, parameters: kind())


def test_scores_are_those_of_one_job(tmp_path: Path, slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, OfBatches)
    one, several = Slots(1), Slots(slots)
    run, whole = reranked(tmp_path / "one", one)
    divided_run, divided = reranked(tmp_path / "several", several)
    assert (one.jobs, several.jobs) == (1, min(slots, 4))  # 56 pairs in groups of 16
    assert len(whole.scores) == sum(range(5, 12))
    np.testing.assert_array_equal(divided.scores, whole.scores)
    np.testing.assert_array_equal(divided_run.rows, run.rows)
    assert divided.scored == whole.scored == len(whole.scores)


def test_calls_that_cost_money_are_counted_by_one_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Paid)
    executor = Slots(3)
    reranked(tmp_path / "paid", executor)
    assert executor.jobs == 1
