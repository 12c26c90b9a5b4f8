"""What is measured on a finished index, end to end: real client processes, engines made for tests."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from small_world import QUERIES, write_cards, write_collection
from warm_harness import harness_command

import harness
from harness.document.figures import Saturation
from harness.errors import UsageError
from harness.report.documents.comparison_figures import comparison_figures
from harness.results.comparison import Comparison
from harness.results.schema import TrialResult

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache", "warm_workers")]

ENGINES = {
    "shared": "Shared",
    "locked": "Locked",
    "dying": "SecondClientDies",
    "gone": "NeverReopens",
    "failing": "FailsUnderLoad",
    "other": "AnswersOtherwise",
    "each-other": "AnswersDifferQueryByQuery",
    "server": "Server",
    "short-lived": "DiesWhileHeld",
    "slow": "Slow",
}

WITH_TERMS = len(QUERIES) - 1  # one has no term that a document has


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("data") / "small")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cards(tmp_path_factory.mktemp("cards"), module="engines_under_load", **ENGINES)


def only(comparison: Comparison) -> TrialResult:
    (backend,) = comparison.report.trials
    return backend


@pytest.mark.parametrize(("name", "copies"), [("shared", [0, 0]), ("locked", [0, 2])])
def test_clients_ask_together_and_get_the_same_answers(
    name: str, copies: list[int], collection: Path, cards: Path
) -> None:
    found = harness.compare(name, collection, k=3, cards=cards, concurrency="1,3", load_seconds=0.3)
    levels = only(found).closed_loop
    assert [level.clients for level in levels] == [1, 3]
    assert [level.index_copies for level in levels] == copies
    for level in levels:
        assert level.kind == "processes"
        assert (level.errors, level.clients_failed, level.error, level.different_queries) == (0, 0, None, 0)
        assert level.milliseconds is not None
        assert level.milliseconds.n >= level.clients * WITH_TERMS
        assert level.qps is not None
        assert level.qps > 0
        assert level.seconds is not None
        assert 0.2 < level.seconds < 3
        assert level.busy_share is not None
        assert 0 < level.busy_share <= 1
        assert level.peak_rss_bytes is not None
        assert level.peak_rss_bytes > level.clients * 10_000_000
    assert found.unmeasured == []
    assert "Search, clients in closed loop" in found.render(verbose=True)


def test_threads_share_one_engine_where_it_says_so(collection: Path, cards: Path) -> None:
    by_threads: dict[str, Any] = {"k": 3, "cards": cards, "concurrency": [2], "clients": "threads", "load_seconds": 0.2}
    (level,) = harness.compare("shared", collection, **by_threads).trial("shared").closed_loop
    assert (level.kind, level.clients, level.index_copies, level.different_queries) == ("threads", 2, 0, 0)
    with pytest.raises(UsageError, match="use --clients processes"):
        harness.compare(["shared", "locked"], collection, **by_threads)


def test_a_client_that_dies_is_counted_and_the_others_are_measured(collection: Path, cards: Path) -> None:
    found = harness.compare("dying", collection, k=3, cards=cards, concurrency="3", load_seconds=0.2)
    (level,) = only(found).closed_loop
    assert (level.clients_failed, level.errors) == (1, 0)
    assert level.error is not None
    assert "SIGKILL" in level.error
    assert level.milliseconds is not None
    assert level.milliseconds.n >= 2 * WITH_TERMS
    assert any("3 clients: 1 of 3 client processes failed" in note for note in only(found).notes)
    assert "0 + 1 clients" in found.render(verbose=True)


def test_failed_queries_are_counted_and_are_no_samples(collection: Path, cards: Path) -> None:
    found = harness.compare("failing", collection, k=3, cards=cards, concurrency="2", cold=True, load_seconds=0.2)
    (level,), cold = only(found).closed_loop, only(found).cold
    assert level.milliseconds is not None
    assert level.errors > 0
    assert level.error == "searching query 'q2' failed"
    assert found.failed == []
    assert found.unmeasured == ["failing"]  # one query in four
    assert cold is not None
    assert cold.milliseconds is not None
    assert (cold.milliseconds.n, cold.errors) == (WITH_TERMS - 1, 1)


def test_other_answers_than_the_single_clients_are_told(collection: Path, cards: Path) -> None:
    found = harness.compare("other", collection, k=3, cards=cards, concurrency="2", load_seconds=0.2)
    (level,) = only(found).closed_loop
    assert level.different_queries == 2  # the others have one hit or none
    assert "2 clients: 2 queries were answered differently than for one client" in only(found).notes


def test_queries_that_any_client_answers_otherwise_are_counted(collection: Path, cards: Path) -> None:
    found = harness.compare("each-other", collection, k=3, cards=cards, concurrency="2", load_seconds=0.2)
    (level,) = only(found).closed_loop
    assert level.different_queries == 2  # one for each client


def test_a_measurement_that_fails_whole_leaves_the_results_and_the_exit_code_says_so(
    collection: Path, cards: Path, tmp_path: Path
) -> None:
    command = [*harness_command(), "compare", "--backends", "gone", "--dataset", str(collection)]
    command += ["--cards", str(cards), "--out", str(tmp_path / "out"), "--cold", "--concurrency", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3
    (backend,) = json.loads((tmp_path / "out" / "report.json").read_text())["trials"]
    assert backend["status"] == "ok"
    assert backend["metrics"]["AP"]["mean"] > 0.5
    assert (backend["cold"]["milliseconds"], backend["cold"]["error"]) == (None, "the index is gone")
    assert backend["closed_loop"][0]["clients_failed"] == 2
    assert "cold pass: 1 of 1 client processes failed: the index is gone" in " ".join(done.stdout.split())


def test_a_cold_pass_is_a_new_process_and_every_query_once(collection: Path, cards: Path) -> None:
    found = harness.compare("locked", collection, k=3, cards=cards, cold=True, repeat=2)
    cold = only(found).cold
    assert cold is not None
    assert cold.milliseconds is not None
    assert cold.milliseconds.n == WITH_TERMS
    assert cold.open_seconds is not None
    assert cold.open_seconds > 0
    assert cold.first_query_ms is not None
    assert cold.resident_share is None or 0 <= cold.resident_share <= 1
    assert "Search, cold" in found.render(verbose=True)


def test_a_server_is_asked_at_a_fixed_rate_while_its_index_is_there(collection: Path, cards: Path) -> None:
    found = harness.compare(
        "server", collection, k=3, cards=cards, concurrency="2", rate="80", cold=True, load_seconds=0.5
    )
    backend = only(found)
    assert backend.cold is None
    (closed,), (fixed,) = backend.closed_loop, backend.open_loop
    assert (closed.clients_failed, closed.index_copies) == (0, 0)
    assert (fixed.rate, fixed.arrivals, fixed.clients, fixed.kind) == (80.0, "poisson", 2, "processes")
    assert 12 < fixed.queries < 60
    assert fixed.milliseconds is not None
    assert fixed.milliseconds.n == fixed.queries
    assert fixed.service_ms is not None
    assert fixed.service_ms.p50 <= fixed.milliseconds.p50
    assert (fixed.errors, fixed.unserved, fixed.different_queries) == (0, 0, 0)
    assert "Search, queries at a fixed rate" in found.render(verbose=True)
    assert any("--cold" in note for note in backend.notes)


def test_clients_end_with_the_server_whose_index_they_ask(collection: Path, cards: Path) -> None:
    started = time.monotonic()
    found = harness.compare("short-lived", collection, k=3, cards=cards, concurrency="2", load_seconds=120)
    assert time.monotonic() - started < 60
    error = only(found).error
    assert error is not None
    assert "killed by signal SIGKILL" in error.message


def test_queries_at_a_fixed_rate_wait_for_the_first_free_process_of_an_embedded_backend(
    collection: Path, cards: Path
) -> None:
    backend = only(
        harness.compare("locked", collection, k=3, cards=cards, rate="20", concurrency="2", load_seconds=0.5)
    )
    assert backend.error is None
    (fixed,) = backend.open_loop
    assert (fixed.clients, fixed.kind, fixed.clients_failed, fixed.unserved) == (2, "processes", 0, 0)
    assert fixed.milliseconds is not None
    assert fixed.milliseconds.n == fixed.queries
    assert backend.knee is None


def test_rates_rise_until_a_backend_is_saturated_and_the_knee_is_marked(
    collection: Path, cards: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"k": 3, "cards": cards, "concurrency": "1", "load_seconds": 0.05, "resume": "missing"}
    found = harness.compare("slow", collection, rate="sweep", **options)
    trial = only(found)
    rates = [level.rate for level in trial.open_loop]
    assert rates == sorted(set(rates))
    knee = trial.knee
    assert knee is not None
    assert knee.limit is not None  # a search takes 20 ms at least, so that doubling ends
    assert knee.unsustained_rate in rates
    assert knee.rate is None or knee.rate in rates
    assert max(rates) >= 4 * min(rates), "a busy machine is saturated early"
    shown = found.render(verbose=True)
    assert "Search, the knee of rates up to saturation" in shown
    assert f"knee.unloaded_p99_ms,{knee.unloaded_p99_ms}" in found.render("csv")
    (drawn,) = [
        figure for figure in comparison_figures(found, {})["requested"] if isinstance(figure.drawing, Saturation)
    ]
    (row,) = drawn.drawing.rows
    assert [round(point[0], 6) for point in row.points] == [round(level.qps or 0, 6) for level in trial.open_loop]
    assert row.knee == (rates.index(knee.rate) if knee.rate is not None else None)
    found.save(tmp_path / "out")
    assert only(Comparison.load(tmp_path / "out")).knee == knee
    again = only(harness.compare("slow", collection, rate="sweep", **options))
    assert again.reused
    assert again.knee == knee
    assert not only(harness.compare("slow", collection, rate="20", **options)).reused


def test_levels_are_checked_before_anything_runs(collection: Path, cards: Path) -> None:
    with pytest.raises(UsageError, match="--concurrency 0"):
        harness.compare("shared", collection, cards=cards, concurrency="0")


def test_a_stored_trial_keeps_what_was_measured_on_its_index(collection: Path, cards: Path) -> None:
    def again() -> Comparison:
        return harness.compare(
            "shared:k1=3.0",
            collection,
            k=3,
            cards=cards,
            cold=True,
            concurrency="2",
            load_seconds=0.2,
            resume="missing",
        )

    first, second = again(), again()
    assert any("re-used from an earlier comparison" in note for note in only(second).notes)
    assert only(second).closed_loop == only(first).closed_loop
    assert only(second).cold == only(first).cold
