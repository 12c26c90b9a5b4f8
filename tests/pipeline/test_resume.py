"""`--resume`: what is taken from an earlier comparison, what runs again, and what a reader is told."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from small_world import write_cards, write_collection
from warm_harness import harness_command

import harness
from harness.pipeline.planning import plan_for, preview
from harness.pipeline.resume import LookUp, differences
from harness.plan.config import CompareRequest
from harness.results.comparison import Comparison
from harness.results.schema import TrialResult
from harness.store import environment
from harness.store.cache import JSON, Cache, file_digest
from harness.store.cache_entries import Entry, list_entries

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

CSR = "csr:analyzer=whitespace"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return Cache()


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "small")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    engines = {"good": "BruteForce", "crashing": "Segfaults", "absent": "Unavailable", "hanging": "Hangs"}
    return write_cards(tmp_path_factory.mktemp("cards"), **engines)


def compare(collection: Path, cards: Path, backends: str = "good", **options: object) -> TrialResult:
    """In this process, which is quicker than a worker, unless an engine dies or never ends."""
    isolation = "process" if backends in ("crashing", "hanging") else "none"
    given = {"k": 3, "isolation": isolation, **options}
    return harness.compare(backends, collection, cards=cards, **given).report.trials[0]  # type: ignore[arg-type]


def stored(cache: Cache) -> list[Entry]:
    return [entry for entry in list_entries(cache) if entry.kind == "trials"]


def outcomes(cache: Cache) -> dict[str, str]:
    return {entry.about: entry.state for entry in stored(cache)}


def command(collection: Path, cards: Path, backends: str, *arguments: str) -> list[str]:
    return ["compare", "--backends", backends, "--dataset", str(collection), "--cards", str(cards), "--k", "3",
            *arguments]  # fmt: skip


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*harness_command(), *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_a_finished_trial_is_reused_with_all_it_measured(cache: Cache, collection: Path, cards: Path) -> None:
    first = compare(collection, cards)
    assert (first.reused, outcomes(cache)) == (False, {"good on small": "finished"})
    again = compare(collection, cards, resume="missing", metrics="AP,RR@10", ties="engine", seed=7)
    assert (again.reused, again.measured_at) == (True, first.measured_at)
    assert (again.index, again.search, again.parity) == (first.index, first.search, first.parity)
    assert again.metrics["AP"].mean == first.metrics["AP"].mean
    assert again.notes[0] == f"re-used from an earlier comparison, measured {first.measured_at}"
    now = compare(collection, cards)
    assert not now.reused
    assert now.search != first.search
    assert len(stored(cache)) == 1


def test_backends_that_differ_in_threads_have_outcomes_of_their_own(cache: Cache, collection: Path) -> None:
    words = {"isolation": "none", "k": 3}

    def reused(backends: str, level: str) -> list[tuple[str, bool]]:
        result = harness.compare(backends, collection, resume=level, **words).report.trials  # type: ignore[arg-type]
        return [(backend.label, backend.reused) for backend in result]

    one, two = f"{CSR};threads=1", f"{CSR};threads=2"
    assert reused(f"{one},{two}", "always") == [(one, False), (two, False)]
    assert reused(f"{one},{two}", "missing") == [(one, True), (two, True)]
    assert len(stored(cache)) == 2


def test_what_this_very_comparison_stored_is_never_reused(cache: Cache, collection: Path, tmp_path: Path) -> None:
    engines = write_cards(tmp_path / "cards", good="BruteForce")
    card = engines / "backends" / "good.toml"
    patience = '[parameters.patience]\ntype = "int"\ndefault = 1\nscope = "engine"\nhelp = "s"\naffects = "nothing"\n'
    card.write_text(f"{card.read_text()}\n{patience}")
    given = {"cards": engines, "isolation": "none", "k": 3}
    for reused in (False, True):
        result = harness.compare("good,good:patience=2", collection, resume="always", **given)  # type: ignore[arg-type]
        assert [backend.reused for backend in result.report.trials] == [reused, reused]
    assert len(stored(cache)) == 1


def test_the_name_of_a_collection_and_its_judgments_change_no_key(
    cache: Cache, collection: Path, cards: Path, tmp_path: Path
) -> None:
    compare(collection, cards)
    other = tmp_path / "other"
    shutil.copytree(collection, other)
    shutil.rmtree(other / "qrels")
    assert compare(other, cards, resume="missing").reused
    assert len(stored(cache)) == 1


def look_up(collection: Path, cards: Path, backends: str = "good", **options: object) -> LookUp:
    """What a comparison would do, without running it."""
    given = {"backends": backends, "dataset": str(collection), "cards": cards, "k": 3, "isolation": "none", **options}
    (found,) = preview(plan_for(CompareRequest(**given)))[0].look_ups  # type: ignore[arg-type]
    return found


def test_untimed_outcomes_are_never_shown_as_timed(cache: Cache, collection: Path, cards: Path) -> None:
    compare(collection, cards, timing=False)
    assert look_up(collection, cards, timing=False, resume="missing").stored is not None
    for level in ("missing", "failed", "always"):
        found = look_up(collection, cards, resume=level)
        assert (found.stored, found.reason) == (None, "its stored outcome was measured without times")
    assert not compare(collection, cards, resume="always").reused
    assert look_up(collection, cards, resume="missing").stored is not None


def test_a_load_that_was_never_measured_is_measured(cache: Cache, collection: Path, cards: Path) -> None:
    compare(collection, cards, CSR)
    found = look_up(collection, cards, CSR, resume="always", concurrency="1,2", cold=True)
    lacking = "its stored outcome was measured without 1 clients (processes), 2 clients (processes), a cold pass"
    assert (found.stored, found.reason) == (None, lacking)
    swept = compare(collection, cards, CSR, resume="always", concurrency="1", load_seconds=0.2)
    assert (swept.reused, [level.clients for level in swept.closed_loop]) == (False, [1])
    assert look_up(collection, cards, CSR, resume="always", concurrency="1", load_seconds=9).stored is not None
    assert look_up(collection, cards, CSR, resume="always", concurrency="1", clients="threads").stored is None


def test_a_failed_load_level_is_a_failure_to_repeat(cache: Cache, collection: Path, cards: Path) -> None:
    compare(collection, cards, CSR, concurrency="1", load_seconds=0.2)
    found = look_up(collection, cards, CSR, resume="failed", concurrency="1", load_seconds=0.2)
    assert found.stored is not None
    (entry,) = stored(cache)
    described = json.loads((entry.path / "load/LoadRecords.json").read_text())
    described["levels"][0]["failures"] = ["the worker was killed"]
    (entry.path / "load/LoadRecords.json").write_text(json.dumps(described))
    manifest = json.loads((entry.path / "manifest.json").read_text())
    changed = entry.path / "load/LoadRecords.json"
    manifest["files"]["load/LoadRecords.json"] = {"bytes": changed.stat().st_size, "sha256": file_digest(changed)}
    (entry.path / "manifest.json").write_text(json.dumps(manifest))
    for level in ("failed", "always"):
        found = look_up(collection, cards, CSR, resume=level, concurrency="1", load_seconds=0.2)
        assert found.reason == "a measurement of its stored outcome failed: the worker was killed"
        assert found.stored is None
    assert look_up(collection, cards, CSR, resume="missing", concurrency="1", load_seconds=0.2).stored is not None


@pytest.mark.parametrize("change", ["k", "parameter", "sample", "document", "query"])
def test_whatever_changes_the_hits_is_another_trial(cache: Cache, collection: Path, cards: Path, change: str) -> None:
    compare(collection, cards)
    options: dict[str, object] = {"resume": "always"}
    backends = "good:k1=1.5" if change == "parameter" else "good"
    if change in ("document", "query"):
        path = collection / ("corpus.jsonl" if change == "document" else "queries.jsonl")
        path.write_text(path.read_text().replace("dog", "fox"))
    if change == "k":
        options["k"] = 2
    if change == "sample":
        options["sample_queries"] = 3
    assert not compare(collection, cards, backends, **options).reused
    assert len(stored(cache)) == 2


def test_failures_are_kept_and_run_again_on_request(cache: Cache, collection: Path, cards: Path) -> None:
    first = compare(collection, cards, "crashing")
    assert outcomes(cache) == {"crashing on small": "failed"}
    kept = compare(collection, cards, "crashing", resume="missing")
    assert (kept.reused, kept.status, kept.measured_at) == (True, "failed", first.measured_at)
    assert kept.error == first.error
    for level in ("failed", "always"):
        assert not compare(collection, cards, "crashing", resume=level).reused


def test_a_failure_of_this_machine_is_never_stored(cache: Cache, collection: Path, cards: Path) -> None:
    assert compare(collection, cards, "absent").status == "failed"
    assert outcomes(cache) == {}


def test_a_deadline_that_was_missed_is_no_outcome_under_another(cache: Cache, collection: Path, cards: Path) -> None:
    first = compare(collection, cards, "hanging", deadline=1.5)
    assert first.error is not None
    assert first.error.type == "EngineTimeoutError", first.error.message
    assert compare(collection, cards, "hanging", deadline=1.5, resume="missing").reused
    assert not compare(collection, cards, "hanging", deadline=1.0, resume="missing").reused


def test_a_limit_that_is_missed_later_does_not_replace_what_finished(
    cache: Cache, collection: Path, cards: Path
) -> None:
    compare(collection, cards)
    failed = compare(collection, cards, memory_limit="1MiB", isolation="process")
    assert failed.error is not None
    assert failed.error.type == "MemoryLimitError", failed.error.message
    assert compare(collection, cards, resume="missing").reused


def test_times_of_other_conditions_are_reused_on_request_only(
    cache: Cache, collection: Path, cards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(collection, cards)
    here = environment.machine()
    monkeypatch.setattr(environment, "machine", lambda: replace(here, processor="another", cores=64))
    marked = compare(collection, cards, resume="always")
    note = f"cores {here.cores}, now 64; processor {here.processor}, now another"
    assert marked.notes[1] == f"its times and memory were measured under other conditions: {note}"
    assert not compare(collection, cards, resume="missing").reused
    repeated = compare(collection, cards, resume="always", repeat=2)
    assert repeated.notes[1] == "its times and memory were measured under other conditions: repeat 1, now 2"
    assert not compare(collection, cards, resume="missing", repeat=2).reused
    assert compare(collection, cards, resume="missing", timing=False).reused  # no times are shown, none have to stand


def test_a_damaged_outcome_is_not_used(
    cache: Cache, collection: Path, cards: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compare(collection, cards)
    (entry,) = stored(cache)
    (entry.path / "StoredOutcome.0.npy").write_bytes(b"")
    assert not compare(collection, cards, resume="missing").reused
    assert "is damaged and is not used: the checksum of 'StoredOutcome.0.npy' is wrong" in caplog.text
    assert stored(cache)[0].fault() is None


def test_a_run_of_somebody_else_is_never_stored(cache: Cache, collection: Path, cards: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.trec"
    file.write_text("q1 Q0 d2 1 1.0 x\n")
    result = compare(collection, cards, f"run:{file}", resume="always")
    assert (result.reused, result.measured_at, outcomes(cache)) == (False, None, {})


def test_a_dry_run_names_the_key_and_analyses_nothing(cache: Cache, collection: Path, cards: Path) -> None:
    def trials(level: str) -> list[dict[str, object]]:
        shown = run(*command(collection, cards, "good,absent", "--resume", level, "--dry-run", "--format", "json"))
        found: list[dict[str, object]] = json.loads(shown.stdout)["trials"]
        return found

    good, absent = trials("missing")
    assert (good["reused"], good["reason"]) == (False, "no outcome is stored")
    assert {entry.kind for entry in list_entries(cache)} == {"texts"}
    first = compare(collection, cards, isolation="process")
    assert [entry.name for entry in stored(cache)] == [good["key"]]
    good, absent = trials("missing")
    assert (good["reused"], good["reason"]) == (True, f"finished on {first.measured_at}")
    assert not absent["reused"]
    good, _ = trials("never")
    assert (good["reused"], good["reason"]) == (False, "--resume never")
    shown = run(*command(collection, cards, "good", "--resume", "missing", "--dry-run")).stdout
    assert f"is re-used: finished on {first.measured_at}, key {good['key']}" in " ".join(shown.split())


def test_an_unknown_level_is_refused(collection: Path, cards: Path) -> None:
    refused = run(*command(collection, cards, "good", "--resume", "sometimes"))
    assert refused.returncode == 2
    assert "known: never, missing, failed, always" in refused.stderr


def test_ctrl_c_says_what_can_be_resumed(cache: Cache, collection: Path, cards: Path) -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from harness.cli.app import main\nmain()"
    )
    words = [sys.executable, "-c", program, *command(collection, cards, "good,hanging", "--isolation", "none")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while not stored(cache):
                assert time.monotonic() < deadline, "no backend finished"
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    advice = "1 of 2 backends had finished, and their outcomes are stored: run again with --resume missing"
    assert error.endswith(f"harness: interrupted\n  {advice}\n")
    assert compare(collection, cards, resume="missing").reused


def test_two_processes_on_one_cache_and_one_folder(cache: Cache, collection: Path, cards: Path, tmp_path: Path) -> None:
    out = tmp_path / "results" / "one"
    words = [*harness_command(), *command(collection, cards, "good,good:k1=1.5", "--out", str(out))]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    ended = sorted((process.returncode, err) for process in both for _, err in [process.communicate(timeout=120)])
    assert [code for code, _ in ended] == [0, 2]
    assert f"'{out}' already holds a result" in ended[1][1]
    assert "--resume missing" in ended[1][1]
    assert [path.name for path in out.parent.iterdir()] == ["one"]
    assert Comparison.load(out).failed == []
    assert Comparison.load(out).run("good").rows.size
    assert outcomes(cache) == {"good on small": "finished", "good:k1=1.5 on small": "finished"}
    assert all(entry.fault() is None for entry in list_entries(cache))
    assert list((cache.root / "work").iterdir()) == []
    again = run(*command(collection, cards, "good,good:k1=1.5", "--resume", "missing", "--out", f"{out}-2"))
    assert again.returncode == 0
    assert [backend.reused for backend in Comparison.load(f"{out}-2").report.trials] == [True, True]


def test_two_processes_without_a_folder_write_two(cache: Cache, collection: Path, cards: Path, tmp_path: Path) -> None:
    words = [*harness_command(), *command(collection, cards, "good")]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(words, cwd=tmp_path, stdout=pipe, stderr=pipe) for _ in range(2)]
    for process in both:
        process.communicate(timeout=120)
    assert [process.returncode for process in both] == [0, 0]
    folders = list((tmp_path / "reports").iterdir())
    assert len(folders) == 2
    assert all(Comparison.load(folder).failed == [] for folder in folders)


def test_another_warm_up_changes_no_trial_without_times() -> None:
    def under(*, timing: bool, warm_up: float) -> dict[str, dict[str, JSON]]:
        return {"machine": {}, "versions": {}, "timing": {"timing": timing, "warm_up": warm_up}}

    short = under(timing=False, warm_up=1.0)
    assert list(differences(short, under(timing=False, warm_up=5.0))) == []
    assert list(differences(short, under(timing=True, warm_up=5.0))) == ["timing False, now True"]
    timed = under(timing=True, warm_up=1.0)
    assert list(differences(timed, under(timing=True, warm_up=5.0))) == ["warm_up 1.0, now 5.0"]
