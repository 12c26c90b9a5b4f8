"""A baseline: what it keeps, that it reads back to the last digit, and that git shows what changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from regression_sides import AFTER, BEFORE, backend, read_one, side, with_dataset, write_one

from harness.errors import ResultError, UsageError
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.results.baseline import check_baseline_target, describe_baseline, read_baseline, write_baseline


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "baselines" / "one.json"


def test_everything_reads_back_to_the_last_digit(path: Path) -> None:
    given = side({"csr": BEFORE}, latencies={"csr": {"q1": [100, 200], "q2": [300, 301]}})
    write_one(path, given)
    found = read_one(path)
    assert found.figures == given.figures
    assert found.report == given.report
    assert found.latencies == {"csr": {"q1": [100, 200], "q2": [300, 301]}}
    assert found.digests == given.digests
    assert found.first("csr", 10) == {query: list(ranking) for query, ranking in BEFORE.items()}
    assert found.depth == 10
    assert found.qrels is None
    assert (
        found.relevant_ranks("csr")
        == given.relevant_ranks("csr")
        == {
            "q1": {"a": 1, "b": 2},
            "q2": {"c": 2},
            "q3": {"a": 2},
        }
    )
    assert found.texts == {}
    assert b"first words" not in path.read_bytes()


def test_only_the_first_documents_are_kept_in_the_order_in_which_they_are_scored(path: Path) -> None:
    write_one(path, side({"csr": BEFORE}), depth=2)
    found = read_one(path)
    assert found.first("csr", 10) == {"q1": ["a", "b"], "q2": ["y", "c"], "q3": ["d", "a"]}


def test_relevant_documents_are_kept_to_depth_k_though_few_documents_are(path: Path) -> None:
    """A document that is lost at rank 700 is no longer one of which nothing is known."""
    write_one(path, side({"csr": {**BEFORE, "q2": ["y", "w", "v", "c"]}}), depth=1)
    found = read_one(path)
    assert found.first("csr", 10)["q2"] == ["y"]
    assert found.relevant_ranks("csr") == {"q1": {"a": 1, "b": 2}, "q2": {"c": 4}, "q3": {"a": 2}}
    write_one(path, side({"csr": {**BEFORE, "q2": ["y", "w"], "q3": []}}, resolved={"k": 1}))
    assert read_one(path).relevant_ranks("csr") == {"q1": {"a": 1}, "q2": {}, "q3": {}}


def test_what_was_not_kept_is_not_taken_for_not_found(path: Path) -> None:
    """A result without judgments has no ranks of relevant documents."""
    unjudged = replace(side({"csr": BEFORE}), qrels=None)
    write_one(path, unjudged)
    assert read_one(path).stored_ranks is None


def test_a_baseline_of_several_datasets(path: Path) -> None:
    one = side({"csr": BEFORE})
    other = with_dataset(side({"csr": AFTER}), name="other")
    trials = [trial.model_copy(update={"dataset": "other"}) for trial in other.report.trials]
    other = replace(other, report=other.report.model_copy(update={"trials": trials}))
    datasets = [*one.report.datasets, *other.report.datasets]
    whole = one.report.model_copy(update={"datasets": datasets, "trials": [*one.report.trials, *trials]})
    write_baseline(path, whole, [one, other])
    assert describe_baseline(path) == f"that of csr on cranfield, other from {one.report.created}"
    read = read_baseline(path)
    assert [found.report.dataset.name for found in read] == ["cranfield", "other"]
    for found, given in zip(read, (one, other), strict=True):
        assert found.figures == given.figures
        assert found.first("csr", 10) == given.first("csr", 10)
        assert found.relevant_ranks("csr") == given.relevant_ranks("csr")
    assert [found.report.dataset.name for found in read_snapshots(path)] == ["cranfield", "other"]


def test_the_same_result_gives_the_same_bytes_and_a_changed_ranking_changes_its_line_alone(path: Path) -> None:
    write_one(path, side({"csr": BEFORE}))
    first = path.read_bytes()
    write_one(path, side({"csr": BEFORE}))
    assert path.read_bytes() == first
    write_one(path, side({"csr": {**BEFORE, "q2": AFTER["q2"]}}))
    pairs = zip(first.splitlines(), path.read_bytes().splitlines(), strict=True)
    changed = [now for then, now in pairs if then != now]
    assert len(changed) == 1
    line = json.loads(changed[0].rstrip(b","))
    assert len(line.pop("order_digest")) == len(line.pop("scores_digest")) == 16
    assert line == {
        "backend": "csr",
        "query": "q2",
        "values": {"nDCG@2": 0.0, "AP": 0.25},
        "documents": ["y", "w", "v", "c"],
        "ranks": {"c": 4},
    }


def test_what_a_baseline_is_of_is_told_even_where_it_is_damaged(path: Path) -> None:
    given = side({"csr": BEFORE})
    write_one(path, given)
    assert describe_baseline(path) == f"that of csr on {given.report.dataset.name} from {given.report.created}"
    path.write_text(path.read_text()[:-40])
    assert describe_baseline(path) == "one that cannot be read"


def test_no_baseline_is_made_of_a_result_in_which_a_backend_failed(path: Path) -> None:
    failed = backend("csr", status="failed")
    with pytest.raises(UsageError, match="csr failed"):
        write_one(path, side({}, backends=[failed]))
    assert not path.exists()


def test_what_is_no_baseline_is_never_replaced(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"mine": 1}')
    with pytest.raises(ResultError, match="is not a baseline"):
        check_baseline_target(path)
    with pytest.raises(ResultError, match="is not a baseline"):
        write_one(path, side({"csr": BEFORE}))
    assert path.read_text() == '{"mine": 1}'
    assert [one.name for one in path.parent.iterdir()] == ["one.json"]


@pytest.mark.parametrize(("name", "said"), [("one.txt", ".json file"), ("folder.json", "is a folder")])
def test_a_baseline_is_a_json_file(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(UsageError, match=said):
        check_baseline_target(tmp_path / name)


def test_a_file_that_is_absent_damaged_or_newer_is_named(path: Path) -> None:
    with pytest.raises(ResultError, match="no baseline and no result folder at"):
        read_snapshots(path)
    write_one(path, side({"csr": BEFORE}))
    whole = json.loads(path.read_bytes())
    kept = whole["datasets"]["cranfield"]
    first, *others = kept["rankings"]
    gone = [{**line, "values": {"Gone@5": 1.0}} for line in kept["rankings"]]
    for change, said in (
        ({"schema": 99}, "has schema 99"),
        ({"kind": "compare"}, "is not a baseline"),
        ({"depth": -1}, "is damaged: depth"),
        (of(kept, [{**first, "values": {"AP": 1.0}}, *others]), "unequally many queries: 3 of AP, 2 of nDCG@2"),
        (of(kept, [{**first, "backend": "other"}]), "no backend 'other' on 'cranfield'"),
        (of(kept, gone), "a metric that is not known here: unknown metric 'Gone'"),
    ):
        path.write_text(json.dumps({**whole, **change}))
        with pytest.raises(ResultError, match=said):
            read_snapshots(path)
    path.write_text("{")
    with pytest.raises(ResultError, match="is not JSON"):
        read_snapshots(path)


def of(kept: dict[str, object], rankings: object) -> dict[str, object]:
    return {"datasets": {"cranfield": {**kept, "rankings": rankings}}}


def test_a_table_in_place_of_a_result_is_called_by_its_name(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"query": ["q1"], "score": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(ResultError, match="is a Parquet table, and not a baseline of harness") as caught:
        read_snapshots(tmp_path / "other.parquet")
    assert caught.value.fix == "name a result folder that harness wrote, or a baseline, a .json file"
