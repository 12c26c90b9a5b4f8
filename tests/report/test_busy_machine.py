"""Times of a busy machine are marked wherever they are shown, and no backend is the fastest then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sample_report import sample_report, swept_report
from small_world import write_cards, write_collection

import harness
from harness.document.busy import BUSY, busy_sentence
from harness.report.documents.compare import comparison_document
from harness.report.formats import render
from harness.results.schema import Result
from harness.results.schema_costs import OtherProcessesInfo
from harness.store.cpu_use import CpuReading


def phase(name: str = "search", used: float | None = 1.5, *, busy: bool = True) -> OtherProcessesInfo:
    return OtherProcessesInfo(
        phase=name, seconds=3.0, cores=2, used_cores=used, load_before=12.0, load_after=11.0, busy=busy
    )


def on_busy_machine(report: Result, *phases: OtherProcessesInfo) -> Result:
    trials = [trial.model_copy(update={"other_processes": [*phases]}) for trial in report.trials]
    return report.model_copy(update={"trials": trials})


def test_a_quiet_machine_is_not_mentioned() -> None:
    report = on_busy_machine(sample_report(), phase(busy=False))
    assert "busy" not in render(report, "table", verbose=True)
    assert BUSY not in render(report, "markdown")


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_each_row_of_times_is_marked_and_the_legend_says_how_busy(form: str) -> None:
    report = on_busy_machine(sample_report(), phase(), phase("2 clients", 1.9))
    shown = render(report, form, verbose=True)
    assert "the machine was busy while" in shown
    assert "other processes used up to 1.9 of 2 cores (2 clients)" in shown.replace("\\", "")
    document = comparison_document(report)
    timed = [table for table in document.tables() if any(column.timed for column in table.columns)]
    assert len(timed) >= 3
    for table in timed:
        assert all(BUSY in row[0].mark for row in table.rows), table.title
        assert any(line.startswith(f"{BUSY}: the machine was busy") for line in table.legend), table.title
        assert not any(column.best for column in table.columns if column.timed), table.title
    untimed = [table for table in document.tables() if table not in timed]
    assert not any(BUSY in row[0].mark for table in untimed for row in table.rows)


def test_no_backend_is_the_fastest() -> None:
    quiet, busy = swept_report(), on_busy_machine(swept_report(), phase())
    said = [verdict.headline for verdict in comparison_document(quiet).verdicts]
    assert any("has the lowest median latency" in line for line in said)
    said = [verdict.headline for verdict in comparison_document(busy).verdicts]
    assert not any("has the lowest median latency" in line or "answers most queries" in line for line in said)
    assert any("the machine was busy" in line for line in said)


def test_the_frontier_of_a_sweep_is_marked_too() -> None:
    (table,) = [
        table
        for table in comparison_document(on_busy_machine(swept_report(), phase())).tables()
        if table.title.startswith("Frontier")
    ]
    assert [row[0].mark for row in table.rows][:3] == [BUSY] * 3
    assert not any(column.best for column in table.columns if column.timed)


def test_the_load_is_named_where_nothing_else_is_known() -> None:
    report = on_busy_machine(sample_report(), phase(used=None))
    assert busy_sentence(report.trials).endswith("a load of 12.0 on 2 cores before search")


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let a second pass between two readings, in which other processes use so many of two cores."""

    def let(used_cores: float) -> None:
        second = 0

        def read() -> CpuReading:
            nonlocal second
            second += 1
            return CpuReading(float(second), second * used_cores, 0.0, 2, 12.0)

        monkeypatch.setattr("harness.worker.trial.read_cpu", read)

    return let


@pytest.mark.parametrize(("used_cores", "busy"), [(0.125, False), (1.5, True)])
def test_a_comparison_stores_what_others_took(
    tmp_path: Path, readings: Callable[[float], None], used_cores: float, *, busy: bool
) -> None:
    readings(used_cores)
    cards, collection = write_cards(tmp_path / "cards", good="BruteForce"), write_collection(tmp_path / "small")
    backends = ["good", "good|keywords"]
    compared = harness.compare(backends, collection, cards=cards, k=3, isolation="none", out=tmp_path / "out")
    first, second = compared.report.trials
    assert [(one.phase, one.used_cores, one.busy) for one in first.other_processes] == [
        ("indexing", used_cores, busy),
        ("search", used_cores, busy),
    ]
    assert [one.phase for one in second.other_processes] == ["search"], "its times are those of its component too"
    assert bool(compared.report.trials[0].busy_phases) is busy
    untimed = harness.compare("good", collection, cards=cards, k=3, isolation="none", timing=False)
    assert untimed.report.trials[0].other_processes == []
