"""Where, how many at a time and whether timed: none of it changes what comes out."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from installed import skip_without
from small_world import write_cards, write_collection
from warm_harness import harness_command

import harness
from harness.engines.interface import Capabilities
from harness.pipeline.run import warm_up_queries
from harness.plan.config import RunOptions
from harness.registry.lookup import find_cards, load_engine
from harness.results.comparison import Comparison
from harness.store import memory_budget
from harness.worker.executor import Executor, create_executor

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache", "warm_workers")]

BACKENDS = "good,good:k1=2.0,losing,crashing,good:b=0.1"


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("data") / "small")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    engines = {"good": "BruteForce", "losing": "LosesDocuments", "crashing": "Segfaults", "exiting": "Exits"}
    engines |= {"stumbling": "Stumbles", "garbage": "PrintsGarbage"}
    return write_cards(tmp_path_factory.mktemp("cards"), **engines)


@pytest.fixture(scope="module")
def untimed(collection: Path, cards: Path) -> Comparison:
    return harness.compare(BACKENDS, collection, k=3, cards=cards, timing=False)


def figures(comparison: Comparison) -> list[dict[str, Any]]:
    """Everything that the report says about backends, but for what the machine's state of the moment decides."""
    backends = [backend.model_dump() for backend in comparison.report.trials]
    for backend in backends:
        assert backend.pop("measured_at")
        if backend["index"] is not None:
            peaks = backend["index"].pop("peak_rss_bytes"), backend["index"].pop("peak_anonymous_bytes")
            if comparison.report.plan.arguments["timing"]:
                assert peaks[0] > peaks[1] >= 0
            else:  # trials share workers
                assert peaks == (None, None)
        if backend["error"] is not None:  # tracebacks hold addresses
            backend["error"].pop("log")
    return backends


def test_limits_hold_for_parts_of_the_exact_reference_too(
    collection: Path, cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that hangs on a node would never end."""
    limits: list[tuple[float | None, int | None]] = []

    def create(options: RunOptions) -> Executor:
        limits.append((options.deadline, options.memory_limit))
        return create_executor(options)

    monkeypatch.setattr("harness.pipeline.compare.create_executor", create)
    harness.compare("good", collection, k=3, cards=cards, timing=False, deadline=90, memory_limit="8GiB")
    assert limits == [(90.0, 8 * 1024**3)]


def test_references_are_searched_in_blocks_within_the_limit(
    untimed: Comparison, collection: Path, cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command's own process has a budget, and blocks of two documents give the same figures."""
    limits: list[int | None] = []

    def few_values(*_: object, **__: object) -> int:
        limits.extend(budget.limit_bytes for budget in memory_budget._budgets)
        return 6

    monkeypatch.setattr("harness.worker.exact_search.values_at_once", few_values)
    limited = harness.compare(BACKENDS, collection, k=3, cards=cards, timing=False, memory_limit="8GiB")
    assert limited.values.equals(untimed.values)
    assert limited.agreement.equals(untimed.agreement)
    assert limited.report.differences == untimed.report.differences
    assert set(limits) == {8 * 1024**3}


def test_side_by_side_nothing_changes(untimed: Comparison, collection: Path, cards: Path) -> None:
    together = harness.compare(BACKENDS, collection, k=3, cards=cards, timing=False, jobs=3)
    assert figures(together) == figures(untimed)
    assert [backend.label for backend in together.report.trials] == BACKENDS.split(",")
    assert together.report.differences == untimed.report.differences
    assert together.values.equals(untimed.values)
    assert together.agreement.equals(untimed.agreement)
    assert together.report.plan.arguments["jobs"] == 3
    assert "--jobs 3" in " ".join(together.report.command)


def test_without_timing_there_are_no_times(untimed: Comparison, collection: Path, cards: Path) -> None:
    backend = untimed.trial("good")
    assert backend.index is not None
    assert backend.search is not None
    assert backend.phases is None
    index = backend.index
    assert (index.seconds, index.ready_seconds, index.searchable_seconds, index.documents_per_second) == (None,) * 4
    search = backend.search
    assert (search.milliseconds, search.transfer_ms, search.qps, search.first_query_ms) == (None,) * 4
    assert (search.warm_up_queries, search.repeats) == (0, 1)
    assert untimed.timings().loc["good"].drop(["index_bytes", "peak_anonymous_bytes"]).isna().all()
    text = untimed.render("markdown")
    assert "no times were taken (--no-timing)" in text
    assert "one client" not in text
    timed = harness.compare("good", collection, k=3, cards=cards, warm_up=0)
    assert timed.report.trials[0].search is not None
    assert timed.report.trials[0].search.warm_up_queries == 0
    assert timed.metrics().loc["good"].equals(untimed.metrics().loc["good"])
    assert timed.timings().loc["good"].notna().all()


@pytest.mark.parametrize(
    ("queries", "repeat", "needed", "expected"),
    [(2, 1, 0, 2), (2, 5, 0, 10), (700, 2, 0, 1000), (2, 1, 1000, 1000), (2, 1, 5000, 1000), (700, 2, 1000, 1000)],
)
def test_warm_up_follows_the_work(queries: int, repeat: int, needed: int, expected: int) -> None:
    capabilities = Capabilities("sparse", True, True, True, True, warm_up_queries=needed)
    assert warm_up_queries(RunOptions(repeat=repeat), capabilities, queries) == expected
    assert warm_up_queries(RunOptions(repeat=repeat, warm_up=0), capabilities, queries) == 0
    assert warm_up_queries(RunOptions(timing=False), capabilities, queries) == 0


def test_a_virtual_machine_needs_more_queries_than_are_measured() -> None:
    cards = find_cards("backends")
    assert load_engine(cards["csr"]).capabilities.warm_up_queries == 0
    skip_without("jnius_config")
    lucene = [name for name in cards if name.startswith("lucene")]
    assert {load_engine(cards[name]).capabilities.warm_up_queries for name in lucene} == {1000}


def test_in_the_harness_s_own_process_the_results_are_the_same(
    untimed: Comparison, collection: Path, cards: Path
) -> None:
    alone = harness.compare("good,good:k1=2.0,losing", collection, k=3, cards=cards, isolation="none", timing=False)
    for label in ("good", "good:k1=2.0"):
        assert alone.trial(label).metrics == untimed.trial(label).metrics
        assert alone.trial(label).parity == untimed.trial(label).parity
        index = alone.trial(label).index
        assert index is not None
        assert (index.peak_rss_bytes, index.peak_anonymous_bytes) == (None, None)
    assert alone.trial("losing").error == untimed.trial("losing").error
    assert alone.report.plan.arguments["isolation"] == "none"
    assert "memory is not measured" in alone.render()


def test_in_the_harness_s_own_process_failures_stay_one_backend_s(collection: Path, cards: Path) -> None:
    given = "stumbling,exiting,good"
    comparison = harness.compare(given, collection, k=3, cards=cards, isolation="none")
    errors = [backend.error for backend in comparison.report.trials]
    assert errors[0] is not None
    assert errors[0].type == "EngineFailureError"
    assert "KeyError: 'inner detail'" in errors[0].message
    assert errors[0].log[-1] == "KeyError: 'inner detail'"
    assert errors[1] is not None
    assert "the engine called Python's exit with 0" in errors[1].message
    assert errors[2] is None


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_what_an_engine_prints_is_no_result(collection: Path, cards: Path, tmp_path: Path, isolation: str) -> None:
    options = ["--dataset", collection, "--cards", cards, "--k", "3", "--out", tmp_path / "r", "--no-timing"]
    command = [*harness_command(), "compare", "--backends", "garbage", "--isolation", isolation]
    done = subprocess.run([*command, *options, "--format", "json"], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "r" / "report.json").read_bytes()
    assert (b"no JSON at all" in done.stderr) == (isolation == "none")
