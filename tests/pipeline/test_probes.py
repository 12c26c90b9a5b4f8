"""A probe of one module and one line: it measures, is stored for `--resume`, and stands in every form of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_world import write_cards, write_collection

import harness
from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.data.types import Int64Array
from harness.document.cells import BACKEND, count
from harness.document.model import Column, Table, Value
from harness.pipeline.planning import plan_for, preview
from harness.pipeline.probes import PROBES, probes_of
from harness.pipeline.probes.probe import Probe, ProbedTrial, label_cell
from harness.plan.config import CompareRequest
from harness.plan.plan import Plan, Trial, make_plan
from harness.report.documents.compare import comparison_document
from harness.report.documents.plan import plan_document
from harness.report.render.markdown import render_markdown
from harness.results.comparison import Comparison
from harness.results.schema import TrialResult
from harness.results.scored import ScoredTrial
from harness.worker.outcome import Outcome

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


@dataclass(frozen=True, eq=False, slots=True)
class FileSizes:
    """Sizes of the files of a trial, int64."""

    sizes: Int64Array


class FilesProbe(Probe[FileSizes]):
    """Count the files of a trial while they are there."""

    name = "files"
    record = FileSizes
    runs_made = 0

    def applies_to(self, trial: Trial, plan: Plan) -> bool:
        return True

    def run(self, probed: ProbedTrial, progress: Progress) -> FileSizes:
        type(self).runs_made += 1
        files = [path for path in probed.folder.rglob("*") if path.is_file()]
        return FileSizes(np.array([path.stat().st_size for path in files], dtype=np.int64))

    def planned(self, plan: Plan) -> str:
        return "sizes of files"

    def levels(self, plan: Plan) -> list[str]:
        return ["sizes of files"]

    def summarise(self, scored: ScoredTrial, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        record = self.measured(scored.outcome.measurements)
        return {} if record is None else {"files": {"count": len(record.sizes), "bytes": int(record.sizes.sum())}}

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        rows = [[label_cell(trial), count(_count(trial))] for trial in trials]
        return [Table("Files of the trial", [BACKEND, Column("files")], rows)]

    def values(self, trial: TrialResult) -> Iterator[Value]:
        yield Value(trial.dataset, trial.label, "files.count", _count(trial))


def _count(trial: TrialResult) -> int:
    files = trial.probes["files"]
    assert isinstance(files, dict)
    assert isinstance(files["count"], int)
    return files["count"]


@pytest.fixture
def registered() -> Iterator[None]:
    FilesProbe.runs_made = 0
    PROBES.append(FilesProbe())
    yield
    PROBES.pop()


@pytest.mark.usefixtures("registered")
def test_a_probe_measures_is_stored_and_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    cards, collection = write_cards(tmp_path / "cards", good="BruteForce"), write_collection(tmp_path / "small")
    out = tmp_path / "out"
    first = harness.compare("good", collection, cards=cards, k=3, isolation="none", out=out)
    again = harness.compare("good", collection, cards=cards, k=3, isolation="none", resume="missing")
    (trial,) = Comparison.load(out).report.trials
    assert FilesProbe.runs_made == 1
    assert _count(trial) >= 1
    assert again.report.trials[0].reused
    assert first.report.trials[0].probes == again.report.trials[0].probes == trial.probes
    shown = comparison_document(again.report)
    assert "| `good` † |" in render_markdown(shown).partition("Files of the trial")[2]
    assert [value.mean for value in shown.values if value.metric == "files.count"] == [_count(trial)]


@pytest.mark.usefixtures("registered")
def test_a_plan_names_what_a_probe_will_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    cards, collection = write_cards(tmp_path / "cards", good="BruteForce"), write_collection(tmp_path / "small")
    asked = CompareRequest(dataset=str(collection), backends="good", cards=cards, k=3, resume="missing")
    probe = PROBES.pop()
    harness.compare("good", collection, cards=cards, k=3, isolation="none")
    PROBES.append(probe)
    (planned,) = preview(plan_for(asked))
    assert planned.look_ups[0].reason == "its stored outcome was measured without sizes of files"
    assert "sizes of files" in render_markdown(plan_document([planned]))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, []),
        ({"rebuilds": 2}, ["rebuilds"]),
        ({"cold": True}, ["load"]),
        ({"rate": "sweep"}, ["load"]),
        ({"concurrency": "1,2"}, ["load"]),
        ({"churn": "insert=10%"}, ["churn"]),
        ({"filter_sweep": "0.5"}, ["filtering"]),
        ({"backends": "rrf:csr+(csr:k1=2)"}, ["combining"]),
    ],
)
def test_only_probes_that_a_plan_asks_for_take_part(options: dict[str, Any], names: list[str]) -> None:
    plan = make_plan(CompareRequest(**{"backends": "csr", **options}), lucene_available=False)
    assert {probe.name for probe in probes_of(plan)} == {"indexing", "searching", *names}


def test_a_stored_measurement_takes_part_without_its_option() -> None:
    plan = make_plan(CompareRequest(backends="csr"), lucene_available=False)
    (trial,) = plan.trials
    stored = Outcome(trial, measurements={"load": object()})
    assert "load" in {probe.name for probe in probes_of(plan, [stored])}
