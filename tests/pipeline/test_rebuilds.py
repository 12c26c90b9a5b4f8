"""`--rebuilds N`: builds of their own, what is told of their spread, what a failure says, and what is re-used."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path

import pytest
from engines_for_tests import BUILDS_MADE
from plan_texts import plan_text
from small_world import DOCUMENTS, write_cards, write_collection

import harness
from harness.data.progress import SilentDisplay
from harness.errors import UsageError
from harness.pipeline.planning import Preview, plan_for, preview
from harness.plan.config import CompareRequest
from harness.results.comparison import Comparison
from harness.results.schema import SpreadStats, TrialResult

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that names the folder of every build of ``MissesMore``."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(BUILDS_MADE, str(tmp_path / "made"))
    return tmp_path / "made"


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "small")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    engines = {"poor": "MissesMore", "good": "BruteForce", "losing": "LosesDocumentsLater", "broken": "StumblesLater"}
    engines |= {"forgetful": "ForgetsItsFilter"}
    return write_cards(tmp_path_factory.mktemp("cards"), **engines)


def compare(collection: Path, cards: Path, backends: str = "poor", **options: object) -> Comparison:
    given = {"k": 3, "metrics": "nDCG@10,R@3", "isolation": "none", **options}
    return harness.compare(backends, collection, cards=cards, **given)  # type: ignore[arg-type]


def spread_of(backend: TrialResult) -> SpreadStats:
    assert backend.spread is not None
    return backend.spread


def folders(made: Path) -> list[str]:
    return made.read_text(encoding="utf-8").splitlines()


def test_each_build_has_a_folder_of_its_own_and_the_first_is_the_result(
    collection: Path, cards: Path, made: Path
) -> None:
    compared = compare(collection, cards, rebuilds=3)
    (backend,) = compared.report.trials
    assert len(set(folders(made))) == 3
    assert not any(Path(folder).exists() for folder in folders(made))
    made.unlink()
    (alone,) = compare(collection, cards).report.trials
    assert compare(collection, cards).spread().empty
    assert (alone.spread, alone.metrics, alone.parity) == (None, backend.metrics, backend.parity)
    assert backend.parity is not None
    assert backend.parity.identical == 4, "later builds miss documents, and are not the result"


def test_the_spread_is_that_of_runs_which_miss_one_more_document_each(collection: Path, cards: Path) -> None:
    """The exact lists are q1 d2 d1 d6, q2 d4 d3, q3 nothing, q4 d2: build 2 lacks the first of each, build 3 two."""
    compared = compare(collection, cards, rebuilds=3)
    found = spread_of(compared.report.trials[0])
    run = compared.run("poor")
    assert [run.doc_ids[row] for row in run.rows.tolist()] == ["d2", "d1", "d6", "d4", "d3", "d2"]
    assert (found.builds, found.queries, found.identical, found.identical_share) == (3, 4, {"3": 1}, {"3": 0.25})
    second, third = (2 / 3 + 1 / 2 + 1 + 0) / 4, (1 / 3 + 0 + 1 + 0) / 4
    of_both = (1 / 2 + 0 + 1 + 1) / 4
    assert found.pairwise_overlap == pytest.approx({"3": (second + third + of_both) / 3})
    overlaps = [1.0, second, third]
    assert found.reference_overlap["3"].model_dump() == pytest.approx(in_words(overlaps))
    assert found.metrics["R@3"].model_dump() == pytest.approx(in_words([1.0, 1 / 6, 1 / 6]))
    assert set(found.metrics) == {"nDCG@10", "R@3"}
    frame = compared.spread()
    assert frame.loc[("poor", "R@3"), "mean"] == found.metrics["R@3"].mean
    assert frame.loc[("poor", "reference overlap@3"), "sd"] == found.reference_overlap["3"].sd
    assert [*frame.index.names, *frame.columns] == ["backend", "figure", "mean", "sd", "min", "max"]


def test_what_each_build_took_is_kept(collection: Path, cards: Path, tmp_path: Path) -> None:
    compared = compare(collection, cards, rebuilds=3, isolation="process")
    found, index = spread_of(compared.report.trials[0]), compared.report.trials[0].index
    assert index is not None
    first, second, third = found.build_stats
    assert [one.build for one in found.build_stats] == [1, 2, 3]
    assert (first.seconds, first.documents_per_second, first.bytes) == (
        index.seconds,
        index.documents_per_second,
        index.bytes,
    )
    assert first.peak_rss_bytes == index.peak_rss_bytes
    assert len({one.seconds for one in found.build_stats}) == 3, "each was timed by itself"
    assert all(one.peak_rss_bytes for one in found.build_stats)
    seconds = [float(one.seconds or 0) for one in found.build_stats]
    assert found.costs["seconds"].model_dump() == pytest.approx(in_words(seconds))
    assert [one.metrics["R@3"] for one in found.build_stats] == pytest.approx([1.0, 1 / 6, 1 / 6])
    assert third.reference_overlap["3"] < second.reference_overlap["3"] < first.reference_overlap["3"]
    frame = compared.builds()
    assert frame.loc[("poor", 2), "seconds"] == second.seconds
    assert frame.loc[("poor", 3), "reference overlap@3"] == third.reference_overlap["3"]
    assert compared.spread().loc[("poor", "bytes"), "max"] == max(one.bytes or 0 for one in found.build_stats)
    assert f",poor,spread.build.2.seconds,{second.seconds},,," in compared.render("csv")
    compared.save(tmp_path / "stored")
    assert harness.Comparison.load(tmp_path / "stored").report == compared.report


def test_without_times_builds_have_none(collection: Path, cards: Path) -> None:
    compared = compare(collection, cards, rebuilds=2, timing=False)
    found = spread_of(compared.report.trials[0])
    assert [(one.seconds, one.ready_seconds, one.documents_per_second) for one in found.build_stats] == [
        (None,) * 3
    ] * 2
    assert set(found.costs) == {"bytes", "log_bytes"}
    assert compare(collection, cards).builds().empty


def in_words(values: list[float]) -> dict[str, float]:
    return {
        "mean": statistics.mean(values),
        "sd": statistics.stdev(values),
        "min": min(values),
        "max": max(values),
    }


def test_without_judgments_and_beside_deterministic_engines(
    collection: Path, cards: Path, made: Path, tmp_path: Path
) -> None:
    compared = compare(collection, cards, "good,poor,rrf:good+poor", rebuilds=2)
    good, poor, fused = compared.report.trials
    assert (good.spread, fused.spread, spread_of(poor).builds) == (None, None, 2)
    assert "built once, not 2 times: its engine declares that every build gives the same rankings" in good.notes
    assert "no spread over 2 builds: it is made of the first build of each backend that it names" in fused.notes
    assert "Spread over 2 builds" in compared.render(verbose=True)
    made.unlink()
    unjudged = compare(write_collection(tmp_path / "unjudged", judged=False), cards, rebuilds=2)
    found = spread_of(unjudged.report.trials[0])
    assert (found.metrics, found.identical_share, set(found.reference_overlap)) == ({}, {"3": 0.25}, {"3"})


def test_a_stored_run_is_not_built(collection: Path, cards: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.trec"
    file.write_text("q1 Q0 d2 1 1.0 x\n")
    (backend,) = compare(collection, cards, f"run:{file}", rebuilds=2).report.trials
    assert backend.spread is None
    assert backend.notes == ["no spread over 2 builds: its run was read from a file"]


def test_as_many_builds_as_are_asked_for_are_reused(collection: Path, cards: Path, made: Path) -> None:
    three = spread_of(compare(collection, cards, rebuilds=3).report.trials[0])
    for asked, values in {3: [1.0, 1 / 6, 1 / 6], 2: [1.0, 1 / 6]}.items():
        (again,) = compare(collection, cards, rebuilds=asked, resume="missing").report.trials
        assert again.reused
        assert spread_of(again).builds == asked
        assert spread_of(again).metrics["R@3"].model_dump() == pytest.approx(in_words(values))
        assert (spread_of(again) == three) == (asked == 3)
    (alone,) = compare(collection, cards, resume="missing").report.trials
    assert (alone.reused, alone.spread) == (True, None)
    assert len(folders(made)) == 3, "nothing was built again"
    made.unlink()
    (more,) = compare(collection, cards, rebuilds=4, resume="always").report.trials
    assert (more.reused, spread_of(more).builds, len(folders(made))) == (False, 4, 4)


def test_one_stored_build_is_not_enough_for_several(collection: Path, cards: Path) -> None:
    compare(collection, cards, "poor,good")
    request = CompareRequest(
        backends="poor,good", dataset=str(collection), k=3, rebuilds=3, isolation="none", resume="always", cards=cards
    )
    poor, good = preview(plan_for(request))[0].look_ups
    assert (poor.stored, poor.builds, good.builds) == (None, 3, 1)
    assert poor.reason == "its stored outcome was measured without builds 2 to 3"
    assert good.stored is not None, "a deterministic engine needs no more than one"


def test_a_plan_says_how_often_it_builds(collection: Path, cards: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.trec"
    file.write_text("q1 Q0 d2 1 1.0 x\n")
    plan = plan_for(CompareRequest(backends=f"poor,good,run:{file}", dataset=str(collection), rebuilds=3, cards=cards))
    known = preview(plan)[0].look_ups
    assert [found.builds for found in known] == [3, 1, 0]
    text = plan_text([Preview(plan, known)], "table")
    assert "rebuilds=3" in text
    assert "3 builds" in text
    assert "1 build: the engine is deterministic" in text
    assert '"builds": 3' in plan_text([Preview(plan, known)], "json")
    assert "poor,(builds),3" in plan_text([Preview(plan, known)], "csv")
    assert "\n  3 builds\n" in plan_text([Preview(plan, known)], "markdown")
    assert "--rebuilds 3" in " ".join(plan.command())
    with pytest.raises(UsageError, match="--rebuilds is 0"):
        plan_for(CompareRequest(backends="good", dataset=str(collection), rebuilds=0, cards=cards))


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_build_that_fails_is_named(collection: Path, cards: Path, isolation: str) -> None:
    (backend,) = compare(collection, cards, "broken", rebuilds=3, isolation=isolation).report.trials
    assert backend.error is not None
    assert (backend.status, backend.error.type) == ("failed", "EngineFailureError")
    assert backend.error.message == "build 2 of 3: the graph is broken\n  mend it"


def test_a_build_that_loses_documents_fails(collection: Path, cards: Path) -> None:
    (backend,) = compare(collection, cards, "losing", rebuilds=2).report.trials
    assert backend.error is not None
    assert backend.error.type == "LostDocumentsError"
    assert backend.error.message.startswith("build 2 of 2: the engine lost 1 documents that are not empty: d2")


def test_a_build_that_ignores_the_filter_fails(collection: Path, cards: Path) -> None:
    records = [
        {"_id": name, "text": text, "metadata": {"odd": str(name in ("d1", "d3", "d5"))}}
        for name, text in DOCUMENTS.items()
    ]
    (collection / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (once,) = compare(collection, cards, "forgetful", filter="odd=True").report.trials
    assert once.error is None
    Path(os.environ[BUILDS_MADE]).unlink()
    (backend,) = compare(collection, cards, "forgetful", filter="odd=True", rebuilds=2).report.trials
    assert backend.error is not None
    assert backend.error.type == "RankingError"
    assert backend.error.message.startswith("build 2 of 2: 4 of 6 hits do not match the filter odd=True")


def test_a_failure_of_many_builds_is_none_of_few(collection: Path, cards: Path, made: Path) -> None:
    """Build 1 stands; builds 2 and later fail."""

    def status(rebuilds: int, resume: str) -> tuple[str, bool]:
        made.unlink(missing_ok=True)
        (backend,) = compare(collection, cards, "broken", rebuilds=rebuilds, resume=resume).report.trials
        return backend.status, backend.reused

    assert status(3, "never") == ("failed", False)
    assert status(3, "missing") == ("failed", True)
    assert status(4, "missing") == ("failed", True), "it would fail just so"
    assert status(1, "missing") == ("ok", False), "one build was never tried to its end"
    assert status(3, "missing") == ("failed", False)
    assert status(1, "missing") == ("ok", True), "the failure did not replace what finished"


class Phases(SilentDisplay):
    """Keeps the names of all phases."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def start(self, phase: str, total: int | None) -> None:
        self.seen.append(phase)


def test_progress_counts_the_builds(collection: Path, cards: Path) -> None:
    display = Phases()
    compare(collection, cards, rebuilds=2, display=display)
    searching = [phase for phase in display.seen if phase.startswith("build")]
    assert [phase for phase in searching if phase.endswith((": index", ": search"))] == [
        *("build 1 of 2: index", "build 1 of 2: search", "build 2 of 2: index", "build 2 of 2: search")
    ]
    alone = Phases()
    compare(collection, cards, display=alone)
    assert "index" in alone.seen
