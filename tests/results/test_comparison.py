"""A comparison in Python: of one dataset, and of several."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import harness
from harness.errors import UnknownNameError, UsageError
from harness.results.comparison import Comparison
from harness.results.schema import Leaderboard, LeaderboardRow

DATASET = harness.Dataset.of(
    {"d1": "quick brown fox", "d2": "lazy dog", "d3": "quick dog", "d4": "rivers lakes"},
    {"q1": "quick fox", "q2": "dog", "q3": "lakes"},
    {"q1": {"d1": 2, "d3": 1}, "q2": {"d2": 1, "d3": 1}, "q3": {"d4": 1}},
    name="tiny",
)
LABELS = ["csr", "csr:k1=1.2"]


@pytest.fixture(scope="module")
def one() -> Comparison:
    return harness.compare(LABELS, DATASET, k=3, metrics="nDCG@10,AP,R@3", isolation="none", warm_up=0.01)


@pytest.fixture(scope="module")
def two(one: Comparison) -> Comparison:
    """Two datasets: one that was compared, and the same under another name with half its values."""
    info, report = one.report.dataset, one.report
    runs = {label: one.run(label) for label in LABELS}
    content = replace(one.contents["tiny"], runs=runs)
    moved = [
        trial.model_copy(
            update={
                "dataset": "half",
                "metrics": {
                    name: value.model_copy(update={part: getattr(value, part) / 2 for part in ("mean", "min", "max")})
                    for name, value in trial.metrics.items()
                },
            }
        )
        for trial in report.trials
    ]
    rows = [
        LeaderboardRow(
            backend=label,
            metric="AP",
            rank=1,
            mean=0.75,
            ci_low=None,
            ci_high=None,
            datasets=2,
            values={"tiny": 1.0, "half": 0.5},
        )
        for label in LABELS
    ]
    whole = report.model_copy(
        update={
            "datasets": [info, info.model_copy(update={"name": "half"})],
            "trials": [*report.trials, *moved],
            "leaderboard": Leaderboard(
                families={},
                datasets=["tiny", "half"],
                metrics=["AP"],
                rows=rows,
                search_seconds={"csr": {"tiny": 1.0, "half": 0.5}, "csr:k1=1.2": {"tiny": 1.0, "half": None}},
            ),
        }
    )
    return Comparison(
        whole,
        both(one.values),
        both(one.agreement),
        {"tiny": content, "half": content},
        None,
        both(one.latencies),
    )


def both(table: pa.Table | None) -> pa.Table:
    assert table is not None
    other = table.set_column(0, "dataset", pa.array(["half"] * len(table), pa.string()))
    if "value" in other.schema.names:
        position = other.schema.get_field_index("value")
        other = other.set_column(position, "value", pc.multiply(other["value"], 0.5))
    return pa.concat_tables([table, other])


def test_frames_of_several_datasets_say_which(two: Comparison) -> None:
    means = two.metrics()
    assert means.index.names == ["dataset", "backend"]
    assert means.loc[("tiny", "csr"), "AP"] == 2 * means.loc[("half", "csr"), "AP"]
    assert two.timings().index.names == two.parity().index.names == ["dataset", "backend"]
    assert list(two.spread().columns) == ["mean", "sd", "min", "max"]
    assert two.builds().empty
    assert two.frontier().empty
    assert set(two.per_query()["dataset"]) == set(two.agreement_per_query()["dataset"]) == {"tiny", "half"}


def test_a_leaderboard_has_a_column_for_each_dataset(one: Comparison, two: Comparison) -> None:
    board = two.leaderboard()
    assert board.index.to_list() == [("AP", "csr"), ("AP", "csr:k1=1.2")]
    first, last = ["rank", "mean", "ci_low", "ci_high"], ["mean_rank", "wins", "datasets"]
    assert list(board.columns) == [*first, "on tiny", "on half", *last]
    assert one.leaderboard().empty


@pytest.mark.parametrize("name", ["mean", "rank", "wins", "on tiny"])
def test_a_dataset_may_have_any_name_in_frames_and_csv(name: str, two: Comparison) -> None:
    board = two.report.leaderboard
    assert board is not None
    rows = [
        row.model_copy(update={"values": {"tiny": row.values["tiny"], name: row.values["half"]}}) for row in board.rows
    ]
    timed = {label: {"tiny": of["tiny"], name: of["half"]} for label, of in board.search_seconds.items()}
    board = board.model_copy(update={"rows": rows, "datasets": ["tiny", name], "search_seconds": timed})
    infos = [info.model_copy(update={"name": info.name.replace("half", name)}) for info in two.report.datasets]
    trials = [trial.model_copy(update={"dataset": trial.dataset.replace("half", name)}) for trial in two.report.trials]
    report = two.report.model_copy(update={"leaderboard": board, "datasets": infos, "trials": trials})
    renamed = replace(two, report=report)
    frame = renamed.leaderboard()
    assert frame["mean"].to_list() == [row.mean for row in rows]
    assert frame[f"on {name}"].to_list() == [row.values[name] for row in rows]
    shown = list(csv.DictReader(io.StringIO(renamed.render("csv"))))
    keys = [(row["dataset"], row["backend"], row["metric"]) for row in shown]
    assert len(set(keys)) == len(keys)
    across = "mean over datasets" if name == "mean" else "mean"
    means = {row["backend"]: row["mean"] for row in shown if (row["dataset"], row["metric"]) == (across, "AP")}
    assert means == {row.backend: str(row.mean) for row in rows}
    ranks = {row["backend"]: row["mean"] for row in shown if (row["dataset"], row["metric"]) == (across, "rank.AP")}
    assert ranks == {row.backend: str(row.rank) for row in rows}
    seconds = {
        row["dataset"]: row["mean"] for row in shown if (row["backend"], row["metric"]) == ("csr", "search_seconds")
    }
    assert seconds == {"tiny": "1.0", name: "0.5", across: "1.5"}
    assert (across, "csr:k1=1.2", "search_seconds") in keys


def test_one_of_several_datasets_is_a_comparison_of_its_own(two: Comparison) -> None:
    half = two.on("half")
    assert half.report.dataset.name == "half"
    assert half.metrics().index.to_list() == LABELS
    assert set(half.per_query()["dataset"]) == {"half"}
    assert half.latencies is not None
    assert set(half.latencies["dataset"].to_pylist()) == {"half"}
    assert half.run("csr").hits == two.run("csr", "half").hits
    assert half.report.leaderboard is None
    assert {row.dataset for row in two.on("tiny").report.differences} == {"tiny"}


def test_what_is_of_one_dataset_is_not_guessed(two: Comparison) -> None:
    for ask in (lambda: two.qrels, lambda: two.run("csr"), lambda: two.trial("csr"), lambda: two.corpus):
        with pytest.raises(UsageError, match="several datasets: tiny, half"):
            ask()
    with pytest.raises(UnknownNameError, match="unknown dataset 'hal'"):
        two.on("hal")
    assert two.trial("csr", "half").dataset == "half"
    for look_up in (two.trial, two.run):
        with pytest.raises(UnknownNameError, match=r"(?s)unknown backend 'cssr'.*did you mean 'csr'\? known: .*csr"):
            look_up("cssr", "half")


def test_several_datasets_are_stored_and_read_back(two: Comparison, tmp_path: Path) -> None:
    saved = two.on("half").save(tmp_path / "half")
    assert saved.folder is not None
    again = Comparison.load(saved.folder)
    assert again.report == two.on("half").report
    assert again.values.equals(two.on("half").values)
    assert np.array_equal(again.run("csr").scores, two.run("csr", "half").scores)
    assert again.qrels is not None
    assert again.queries is not None
    assert again.queries.texts.to_pylist() == ["quick fox", "dog", "lakes"]


def test_failures_are_told_apart_by_dataset(two: Comparison) -> None:
    trials = [
        one.model_copy(update={"status": "failed"}) if one.dataset == "half" else one for one in two.report.trials
    ]
    failing = replace(two, report=two.report.model_copy(update={"trials": trials}))
    assert failing.failed == ["csr on half", "csr:k1=1.2 on half"]
    assert failing.on("half").failed == LABELS
