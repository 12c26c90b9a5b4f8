"""Fusions in a comparison: real workers, stored runs, references made of exact lists, and times that add up."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from small_world import write_cards, write_collection
from warm_harness import harness_command

import harness
from harness.data import ranking
from harness.data.types import Run
from harness.rerank import fusion
from harness.results.comparison import Comparison

pytestmark = pytest.mark.usefixtures("warm_workers")

FUSED = "rrf:good+length;k=10"
NESTED = "minmax:(rrf:good+length;k=10)+(good:k1=2.0);weights=0.3+0.7"


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_collection(tmp_path_factory.mktemp("data") / "small")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cards(tmp_path_factory.mktemp("cards"), good="BruteForce", length="ByLength", absent="Unavailable")


@pytest.fixture(scope="module")
def comparison(collection: Path, cards: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    out = tmp_path_factory.mktemp("out") / "result"
    asked = [FUSED, "good", NESTED, "dbsf:good+(good:k1=2.0)", "rrf:good+absent"]
    return harness.compare(asked, collection, k=4, cards=cards, out=out, repeat=2, isolation="none")


def columns(run: Run) -> list[list[object]]:
    return [list(run.query_ids), run.indptr.tolist(), run.doc_ids.take(run.rows), run.scores.tolist()]


def test_components_run_once_and_are_shown(comparison: Comparison) -> None:
    assert [backend.label for backend in comparison.report.trials] == [
        "good",
        "length",
        "rrf:good+length;k=10.0",
        "good:k1=2.0",
        "minmax:(rrf:good+length;k=10.0)+(good:k1=2.0);weights=0.3+0.7",
        "dbsf:good+(good:k1=2.0)",
        "absent",
        "rrf:good+absent",
    ]
    notes = comparison.report.plan.resolved["notes"]
    assert "length runs, and is shown, as a component of rrf:good+length;k=10.0" in notes


def test_a_fusion_is_that_of_its_components_runs(comparison: Comparison) -> None:
    good, length, other = (comparison.run(label) for label in ("good", "length", "good:k1=2.0"))
    fused = ranking.cut(fusion.rrf([good, length], k=10), 4)
    assert columns(comparison.run("rrf:good+length;k=10.0")) == columns(fused)
    expected = ranking.cut(fusion.min_max([fused, other], weights=[0.3, 0.7]), 4)
    found = comparison.run("minmax:(rrf:good+length;k=10.0)+(good:k1=2.0);weights=0.3+0.7")
    assert columns(found) == columns(expected)


def test_the_oracle_is_the_fusion_of_the_exact_lists(comparison: Comparison) -> None:
    exact = comparison.trial("dbsf:good+(good:k1=2.0)").parity
    assert exact is not None
    assert (exact.reference, exact.mode, exact.queries, exact.tie_equivalent) == ("fusion", "dbsf", 4, 4)
    assert exact.causes == {}
    moved = comparison.trial("rrf:good+length;k=10.0").parity
    assert moved is not None
    assert moved.different > 0
    assert moved.causes == {"hits of length": 4}
    nested = comparison.trial("minmax:(rrf:good+length;k=10.0)+(good:k1=2.0);weights=0.3+0.7").parity
    assert nested is not None
    assert set(nested.causes) == {"hits of rrf:good+length;k=10.0"}


def test_times_are_those_of_the_components_added_up(comparison: Comparison) -> None:
    stages = comparison.trial("rrf:good+length;k=10.0").stages
    assert stages is not None
    assert (stages.method, stages.components) == ("rrf", ["good", "length"])
    assert stages.components_ms is not None
    assert stages.method_ms is not None
    assert stages.components_ms.n == 4 * 2
    parts = [comparison.trial(label).search for label in stages.components]
    assert all(part is not None and part.milliseconds is not None and part.transfer_ms is not None for part in parts)
    assert stages.method_ms > 0
    assert comparison.trial("rrf:good+length;k=10.0").search is None
    nested = comparison.trial("minmax:(rrf:good+length;k=10.0)+(good:k1=2.0);weights=0.3+0.7").stages
    assert nested is not None
    assert nested.components_ms is not None
    assert nested.components_ms.mean > stages.components_ms.mean + stages.method_ms


def test_a_fusion_of_what_failed_fails_and_says_why(comparison: Comparison) -> None:
    failed = comparison.trial("rrf:good+absent")
    assert failed.error is not None
    assert failed.error.type == "MissingHitsError"
    assert "it is made of absent, which failed" in failed.error.message


def test_stored_runs_are_fused_without_searching_again(
    comparison: Comparison, collection: Path, tmp_path: Path
) -> None:
    assert comparison.folder is not None
    folder = comparison.folder / "runs" / comparison.report.dataset.name
    runs = {label: folder / f"{label}.trec.gz" for label in ("good", "length")}
    again = harness.compare(
        [f"rrf:(run:{runs['good']})+(run:{runs['length']});k=10"], collection, k=4, isolation="none"
    )
    found = again.run(again.report.trials[-1].label)
    first = comparison.run("rrf:good+length;k=10.0")
    for query in range(4):
        one, other = first.of_query(query), found.of_query(list(found.query_ids).index(first.query_ids[query]))
        assert first.doc_ids.take(first.rows[one]) == found.doc_ids.take(found.rows[other])
        np.testing.assert_array_equal(first.scores[one], found.scores[other])
    stages = again.report.trials[-1].stages
    assert stages is not None
    assert stages.components_ms is None
    assert again.report.trials[-1].parity is None


def test_on_the_command_line(collection: Path, cards: Path, tmp_path: Path) -> None:
    out = tmp_path / "result"
    command = [*harness_command(), "compare", "--backends", "dbsf:good+(good:k1=2.0)", "--no-timing"]
    options = ["--dataset", str(collection), "--cards", str(cards), "--k", "4", "--verbose", "--out", str(out)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "Made of other backends" in done.stdout
    assert "good + good:k1=2.0" in done.stdout
    report = json.loads((out / "report.json").read_text())
    assert report["trials"][2]["stages"]["components_ms"] is None  # no times were taken
    dry = subprocess.run([*command, *options[:-2], "--dry-run"], capture_output=True, text=True, timeout=60, check=True)
    assert "made of good, good:k1=2.0; weights=" in dry.stdout
    assert "combined again from its components each time" in dry.stdout
