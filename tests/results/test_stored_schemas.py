"""Stored files of every version of every schema are still read, and mean what they meant."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from pydantic import BaseModel

from harness.data.types import Run
from harness.errors import ResultError
from harness.pipeline.check.checked import Checked
from harness.results.baseline import SCHEMA_VERSION as BASELINE_VERSION
from harness.results.baseline import Baseline, read_baseline
from harness.results.comparison import Comparison
from harness.results.schema import SCHEMA_VERSION, Result
from harness.results.stored import file_name, read_change, read_report
from harness.results.upgrade import StoredJson, read_stored_json, validated

STORED = Path(__file__).parent / "stored"


def read_whole_baseline(folder: Path) -> BaseModel:
    path = folder / "baseline.json"
    read_baseline(path)
    return validated(read_stored_json(path, "a baseline", missing=ResultError("no baseline")), Baseline)


class Kind(NamedTuple):
    """A stored file: its name, the version that is written now, and how it is read from its folder."""

    file: str
    version: int
    read: Callable[[Path], BaseModel]


KINDS = {
    "comparison": Kind("report.json", SCHEMA_VERSION, read_report),
    "check": Kind("report.json", SCHEMA_VERSION, read_report),
    "regression": Kind("regression.json", SCHEMA_VERSION, read_change),
    "baseline": Kind("baseline.json", BASELINE_VERSION, read_whole_baseline),
}


@pytest.mark.parametrize("name", KINDS)
def test_there_is_a_file_of_every_version(name: str) -> None:
    found = {path.name for path in STORED.glob(f"{name}-*.json")}
    assert found == {f"{name}-{version}.json" for version in range(1, KINDS[name].version + 1)}


@pytest.mark.parametrize("path", sorted(STORED.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_of_any_version_is_read_as_the_newest(path: Path, tmp_path: Path) -> None:
    name = path.stem.partition("-")[0]
    kind = KINDS[name]
    shutil.copy(path, tmp_path / kind.file)
    read = json.loads(kind.read(tmp_path).model_dump_json(by_alias=True))
    assert read == json.loads((STORED / f"{name}-{kind.version}.json").read_bytes())


@pytest.mark.parametrize("name", KINDS)
def test_a_figure_of_the_first_version_means_what_it_meant(name: str) -> None:
    """Names and places changed, numbers and texts did not: no file lost any.

    A label of a check on several corpora lost its corpus, which stands beside it.
    """
    first, newest = (STORED / f"{name}-{version}.json" for version in (1, KINDS[name].version))
    former, now = (Counter(leaves(json.loads(path.read_bytes()))) for path in (first, newest))
    assert set(former - now) == {f'"csr on {corpus}"' for corpus in ("corpus", "chunks") if name == "check"}


def leaves(value: object) -> Iterator[str]:
    """Return every number and text of a file, as JSON, but for names and the version of the schema."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item) if name != "schema" else ()
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield json.dumps(value)


def test_every_kind_of_record_of_the_first_version_is_read(tmp_path: Path) -> None:
    shutil.copy(STORED / "comparison-1.json", tmp_path / "report.json")
    report = read_report(tmp_path)
    (frontier,) = report.frontiers
    assert (frontier.dataset, frontier.metric, [point.loss for point in frontier.points]) == (
        "small", "nDCG@10", [0.0, 0.0625],
    )  # fmt: skip
    swept, external, reranked = report.trials[1:]
    assert swept.spread is not None
    assert swept.spread.reference_overlap["5"].mean == 0.96875
    assert [build.reference_overlap for build in swept.spread.each] == [{"5": 1.0}, {"5": 0.9375}]
    assert external.parameters["external"] is True
    assert external.index is not None
    assert external.index.external_index is not None
    index = external.index.external_index
    assert (index.in_dataset, index.not_in_dataset, index.examples) == (5, 2, ["x1", "x2"])
    assert index.no_reference == "the index holds 2 documents that the collection lacks"
    assert reranked.stages is not None
    assert reranked.stages.reranking is not None
    assert reranked.stages.reranking.upper_bound == {"nDCG@10": 0.96}
    assert [finding.dataset for finding in report.findings] == ["small"]


def test_corpora_and_backends_with_documents_of_their_own_are_datasets(tmp_path: Path) -> None:
    shutil.copy(STORED / "check-1.json", tmp_path / "report.json")
    report = read_report(tmp_path)
    assert [(info.name, info.documents) for info in report.datasets] == [("corpus", 6), ("chunks", 12), ("golden", 0)]
    places = [("csr", "corpus"), ("csr", "chunks"), ("mine", "golden")]
    given = report.plan.given
    assert given["corpus"] == ["corpus=small/corpus.jsonl", "chunks=small/chunks.jsonl"]
    assert (given["golden"], given["k"], given["timing"]) == ("golden.jsonl", 5, False)
    assert [info.label for info in report.backends] == ["csr", "mine"]
    assert [(trial.label, trial.dataset) for trial in report.trials] == places
    assert [(row.backend, row.dataset) for row in report.requirements] == places
    assert [(problem.backend, problem.dataset) for problem in report.warnings] == [(None, "chunks"), ("mine", None)]
    mine = report.trials[-1]
    assert (mine.parameters["against"], mine.milliseconds.p95) == ("mine=http://127.0.0.1:8000/search", 4.5)
    (piece,) = report.trials[1].slices
    assert (piece.value, piece.metrics["Hit@5"].metric) == ("en", "Success@5")


@pytest.mark.parametrize(
    "damage", [{"dataset": 3}, {"backends": [3]}, {"backends": [{"metrics": 3}]}, {"backends": {}}]
)
def test_a_damaged_file_of_the_first_version_is_named(damage: dict[str, object], tmp_path: Path) -> None:
    stored = json.loads((STORED / "comparison-1.json").read_bytes())
    (tmp_path / "report.json").write_text(json.dumps({**stored, **damage}), encoding="utf-8")
    with pytest.raises(ResultError, match=r"report\.json' is damaged: "):
        read_report(tmp_path)


def test_a_sweep_that_was_stored_without_its_frontier_has_one() -> None:
    """Results of the first version began without: what is derived from their backends stands in its place."""
    stored = json.loads((STORED / "folders" / "comparison-1" / "report.json").read_bytes())
    stored["plan"]["given"]["sweep"] = ["csr:k1=0.9,1.2"]
    stored["frontiers"] = None
    (frontier,) = validated(StoredJson(Path("report.json"), 1, "compare", stored), Result).frontiers
    assert (frontier.dataset, frontier.name, frontier.metric) == ("tiny", "csr, k1", "nDCG@10")
    assert [(point.value, point.backend) for point in frontier.points] == [("1.2", "csr:k1=1.2")]
    assert frontier.points[0].on_frontier


def test_a_folder_of_the_first_version_is_read() -> None:
    """It holds one dataset: no table names it, and no folder is called after it."""
    found = Comparison.load(STORED / "folders" / "comparison-1")
    assert (found.report.dataset.name, [one.label for one in found.report.backends]) == ("tiny", ["csr", "csr:k1=1.2"])
    assert found.values["dataset"].unique().to_pylist() == ["tiny"]
    assert found.latencies is not None
    for table in (found.values, found.agreement, found.latencies):
        assert table.schema.names[:2] == ["dataset", "backend"]
        assert table["backend"].unique().to_pylist() == ["csr", "csr:k1=1.2"]
    means = found.metrics().loc["csr"]
    assert found.per_query().query("backend == 'csr'").groupby("metric")["value"].mean().to_dict() == means.to_dict()
    assert ranked(found.run("csr:k1=1.2")) == {"q1": ["d1", "d3"], "q2": ["d3", "d2"], "q3": ["d4"]}
    assert found.qrels is not None
    assert dict(zip(found.qrels.query_ids, np.diff(found.qrels.indptr), strict=True)) == {"q1": 2, "q2": 2, "q3": 1}
    assert found.queries is not None
    assert found.queries.texts.to_pylist() == ["quick fox", "dog", "lakes"]


def test_a_check_of_the_first_version_is_read() -> None:
    found = Checked.load(STORED / "folders" / "check-1")
    assert found.passed
    assert ranked(found.runs["csr"])["g1"][0] == "d1"


def test_hits_of_a_check_of_the_first_version_on_several_corpora_are_found(tmp_path: Path) -> None:
    shutil.copytree(STORED / "folders" / "check-1", tmp_path / "old")
    stored = json.loads((tmp_path / "old" / "report.json").read_bytes())
    (subject,), (corpus,) = stored["subjects"], stored["corpora"]
    stored["subjects"] = [{**subject, "label": f"csr on {name}", "corpus": name} for name in ("tiny", "other")]
    stored["corpora"] = [corpus, {**corpus, "name": "other"}]
    (tmp_path / "old" / "report.json").write_text(json.dumps(stored))
    (run,) = (tmp_path / "old" / "runs").iterdir()
    for name in ("tiny", "other"):
        shutil.copy(run, run.with_name(f"{file_name(f'csr on {name}')}.trec.gz"))
    run.unlink()
    found = Checked.load(tmp_path / "old")
    assert list(found.hits) == [("tiny", "csr"), ("other", "csr")]
    assert ranked(found.run("csr", "other"))["g1"][0] == "d1"


def test_a_folder_of_the_first_version_is_saved_as_one_of_today(tmp_path: Path) -> None:
    first = Comparison.load(STORED / "folders" / "comparison-1")
    saved = Comparison.load(first.save(tmp_path / "new").folder or "")
    assert saved.report == first.report
    assert saved.values.equals(first.values)
    assert ranked(saved.run("csr")) == ranked(first.run("csr"))
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "latencies.parquet",
        "parity.parquet",
        "per_query.parquet",
        "qrels",
        "queries",
        "report.html",
        "report.json",
        "runs",
    ]


def ranked(run: Run) -> dict[str, list[str]]:
    """Return the documents of each query, as they stand in the run."""
    return {query: run.doc_ids.take(run.rows[run.of_query(row)]) for row, query in enumerate(run.query_ids)}
