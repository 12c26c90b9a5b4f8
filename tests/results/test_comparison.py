"""A comparison in Python: of one dataset, and of several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.errors import UnknownNameError, UsageError
from harness.results.comparison import Comparison
from harness.results.schema import Leaderboard, LeaderboardRow

ONE = Path(__file__).parent / "stored" / "folders" / "comparison-1"
LABELS = ["csr", "csr:k1=1.2"]


@pytest.fixture(scope="module")
def two() -> Comparison:
    """Two datasets: a stored one, and the same under another name with half its values."""
    first = Comparison.load(ONE)
    info, report = first.report.dataset, first.report
    runs = {label: first.run(label) for label in LABELS}
    content = replace(first.contents["tiny"], runs=runs)
    moved = [
        trial.model_copy(
            update={
                "dataset": "half",
                "metrics": {
                    name: value.model_copy(update={"mean": value.mean / 2}) for name, value in trial.metrics.items()
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
            "leaderboard": Leaderboard(families={}, datasets=["tiny", "half"], metrics=["AP"], rows=rows),
        }
    )
    return Comparison(
        whole,
        both(first.values),
        both(first.agreement),
        {"tiny": content, "half": content},
        None,
        both(first.latencies),
    )


def both(table: pa.Table | None) -> pa.Table:
    assert table is not None
    other = table.set_column(0, "dataset", pa.array(["half"] * len(table), pa.string()))
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


def test_a_leaderboard_has_a_column_for_each_dataset(two: Comparison) -> None:
    board = two.leaderboard()
    assert board.index.to_list() == [("AP", "csr"), ("AP", "csr:k1=1.2")]
    assert list(board.columns) == ["rank", "mean", "ci_low", "ci_high", "mean_rank", "wins", "datasets", "tiny", "half"]
    assert Comparison.load(ONE).leaderboard().empty


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
