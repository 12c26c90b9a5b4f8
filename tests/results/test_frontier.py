"""The frontier of a sweep: found from the report alone, and only where there is something to weigh."""

from __future__ import annotations

import json

import pytest
from sample_report import SWEEPS, sample_report, swept_report

from harness.document.figures import Tradeoff
from harness.plan.sweeps import PlannedSweep, parse_sweep
from harness.report.documents.compare import comparison_document
from harness.report.documents.comparison_figures import swept_frontiers
from harness.report.documents.parity_tables import frontier_notes, frontier_tables
from harness.report.formats import render
from harness.results.frontier import frontier_mask, frontier_stats


@pytest.mark.parametrize(
    ("points", "best"),
    [
        ([], []),
        ([(0.5, 1.0)], [True]),
        ([(0.5, 1.0), (0.5, 1.0)], [True, True]),
        ([(0.5, 1.0), (0.5, 2.0)], [True, False]),
        ([(0.5, 1.0), (0.6, 1.0)], [False, True]),
        ([(0.5, 1.0), (0.6, 2.0), (0.55, 3.0)], [True, True, False]),
        ([(0.5, 1.0, 9.0), (0.6, 2.0, 9.0), (0.55, 3.0, 8.0)], [True, True, True]),
        ([(0.5, 1.0, 9.0), (0.5, 1.0, 8.0)], [False, True]),
    ],
)
def test_only_what_nothing_beats_is_on_the_frontier(points: list[tuple[float, ...]], best: list[bool]) -> None:
    assert frontier_mask(points) == best


def test_values_find_their_backends_however_they_were_written() -> None:
    (one,) = swept_report().frontiers
    assert (one.name, one.metric) == ("chroma, ef_search", "nDCG@10")
    assert [(point.value, point.backend) for point in one.points] == [
        ("10", "chroma:ef_search=10"),
        ("50", "chroma:ef_search=50"),
        ("100", "chroma:ef_search=100"),
        ("400", "chroma:ef_search=400"),
    ]
    assert [point.on_frontier for point in one.points] == [True, True, False, False]


def test_a_value_of_a_backend_with_another_label_has_its_point() -> None:
    report = swept_report()
    sweeps = [PlannedSweep("chroma", "ef_search", {"100": "chroma:ef_search=10", "50": "gone"})]
    (one,) = frontier_stats(sweeps, report.datasets, report.trials)
    assert [(point.value, point.backend) for point in one.points] == [("100", "chroma:ef_search=10")]


def test_json_has_the_points_of_the_frontier() -> None:
    (sweep,) = json.loads(render(swept_report(), "json"))["frontiers"]
    assert (sweep["backend"], sweep["parameter"], sweep["metric"]) == ("chroma", "ef_search", "nDCG@10")
    assert sweep["points"][0] == {
        "backend": "chroma:ef_search=10",
        "value": "10",
        "quality": 0.3,
        "loss": pytest.approx(-0.1),
        "recall": 0.4,
        "p50_ms": 0.1,
        "p95_ms": 0.2,
        "bytes": 3145728,
        "on_frontier": True,
        "on_recall_frontier": True,
    }
    assert [point["on_frontier"] for point in sweep["points"]] == [True, True, False, False]
    assert (sweep["points"][3]["quality"], sweep["points"][3]["loss"]) == (None, None)
    (untimed,) = json.loads(render(swept_report(timed=False), "json"))["frontiers"]
    assert not any(point["on_frontier"] for point in untimed["points"])
    assert json.loads(render(sample_report(), "json"))["frontiers"] == []


def test_without_judgments_the_recall_decides() -> None:
    (one,) = swept_report(judged=False).frontiers
    assert one.metric == "recall@1000"
    assert [point.quality for point in one.points] == [0.4, pytest.approx(0.8), pytest.approx(0.8), None]
    assert [point.on_frontier for point in one.points] == [True, True, False, False]
    (table,) = frontier_tables(swept_report(judged=False))
    assert [row[-1].text for row in table.rows] == ["●", "●", "", "–"]
    assert len(table.legend) == 1


def test_the_table_shows_what_is_weighed_and_the_legend_what_the_mark_means() -> None:
    (table,) = frontier_tables(swept_report())
    names = [column.name for column in table.columns]
    assert names[:5] == ["ef_search", "nDCG@10", "loss", "recall@10", "recall@1000"]
    assert [row[-1].text for row in table.rows] == ["● ○", "● ○", "", "–"]
    assert [cell.text for cell in table.rows[0][:3]] == ["10", "0.3000", "−0.1000"]
    assert table.rows[0][2].below == "[−0.1100, −0.0900]"
    assert table.rows[3][1].text == "failed"
    assert {len(row) for row in table.rows} == {len(table.columns)}
    legend, of_recall = table.legend
    assert legend.endswith("no other value has at least its nDCG@10 and at most its p95 and size of the index")
    assert of_recall == "○ the same with recall of the exact best 1000 for nDCG@10"


def test_a_smaller_index_is_on_the_frontier_and_one_that_several_values_search_has_one_size() -> None:
    report = swept_report()
    trials = []
    builders = (None, None, "chroma:ef_search=50", None)
    for trial, size, builder in zip(report.trials, (300, 200, 100, 100), builders, strict=True):
        assert trial.index is not None
        index = trial.index.model_copy(update={"bytes": size, "built_by": builder})
        trials.append(trial.model_copy(update={"index": index}))
    (shared,) = frontier_stats(SWEEPS, report.datasets, trials)
    assert [point.bytes for point in shared.points] == [300, 200, 200, 100]
    assert [point.on_frontier for point in shared.points] == [True, True, False, False]
    own = [trial.model_copy(update={"index": trial.index.model_copy(update={"built_by": None})}) for trial in trials]  # type: ignore[union-attr]
    (smaller,) = frontier_stats(SWEEPS, report.datasets, own)
    assert [point.on_frontier for point in smaller.points] == [True, True, True, False]
    untold = [trial.model_copy(update={"index": None}) for trial in trials]
    (by_time,) = frontier_stats(SWEEPS, report.datasets, untold)
    assert [point.on_frontier for point in by_time.points] == [True, True, False, False]


def test_pictures_show_recall_against_latency_and_size() -> None:
    report = swept_report()
    drawn = swept_frontiers(report)
    assert [figure.title for figure in drawn] == ["Recall against p95, chroma, ef_search"]  # all have one size
    drawing = drawn[0].drawing
    assert isinstance(drawing, Tradeoff)
    assert [(spot.label, spot.quality, spot.cost) for spot in drawing.spots][:2] == [
        ("10", 0.4, 0.2),
        ("50", pytest.approx(0.8), 0.8),
    ]
    assert [spot.label for spot in drawing.frontier] == ["10", "50"]


def test_without_times_there_is_no_frontier_and_a_note_says_so() -> None:
    report = swept_report(timed=False)
    assert frontier_tables(report) == []
    assert list(frontier_notes(report)) == ["no frontier of chroma, ef_search: no latencies were measured"]


def test_a_comparison_without_a_sweep_says_nothing_of_frontiers() -> None:
    assert sample_report().frontiers == []
    assert "frontier" not in str(comparison_document(sample_report()).sections)


def test_a_sweep_is_taken_apart() -> None:
    one, other = parse_sweep("lucene:k1=1.2;b=0.2, 0.4"), parse_sweep("csr: k1=1,2")
    assert (one.backend, one.values) == ("lucene:k1=1.2", {"b": ("0.2", "0.4")})
    assert (other.backend, other.values) == ("csr", {"k1": ("1", "2")})


def test_recall_has_a_frontier_of_its_own_where_the_metric_tells_nothing_apart() -> None:
    report = swept_report()
    metrics = report.trials[0].metrics
    (one,) = frontier_stats(
        SWEEPS,
        report.datasets,
        [trial.model_copy(update={"metrics": metrics if trial.metrics else {}}) for trial in report.trials],
    )
    assert [point.on_frontier for point in one.points] == [True, False, False, False]
    assert [point.on_recall_frontier for point in one.points] == [True, True, False, False]


def test_a_grid_has_a_column_for_each_parameter() -> None:
    report = swept_report()
    labels = {f"{value};'a;{number}'": f"chroma:ef_search={value}" for number, value in enumerate((10, 50, 100, 400))}
    grid = [PlannedSweep("chroma", "ef_search;note", labels)]
    (frontier,) = frontier_stats(grid, report.datasets, report.trials)
    assert (frontier.name, frontier.points[1].values) == ("chroma, ef_search, note", ["50", "'a;1'"])
    (table,) = frontier_tables(report.model_copy(update={"frontiers": [frontier]}))
    assert table.title == "Frontier of chroma, ef_search, note"
    assert [column.name for column in table.columns][:3] == ["ef_search", "note", "nDCG@10"]
    assert [[cell.text for cell in row[:2]] for row in table.rows] == [
        ["10", "'a;0'"], ["50", "'a;1'"], ["100", "'a;2'"], ["400", "'a;3'"],
    ]  # fmt: skip
    assert {len(row) for row in table.rows} == {len(table.columns)}
