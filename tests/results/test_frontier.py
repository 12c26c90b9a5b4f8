"""The frontier of a sweep: found from the report alone, and only where there is something to weigh."""

from __future__ import annotations

import json

import pytest
from sample_report import sample_report, swept_report

from harness.plan.expressions import Swept, swept
from harness.report.documents.compare import comparison_document
from harness.report.documents.parity_tables import frontier_notes, frontier_tables
from harness.report.formats import render
from harness.results.frontier import on_frontier


@pytest.mark.parametrize(
    ("points", "best"),
    [
        ([], []),
        ([(0.5, 1.0)], [True]),
        ([(0.5, 1.0), (0.5, 1.0)], [True, True]),
        ([(0.5, 1.0), (0.5, 2.0)], [True, False]),
        ([(0.5, 1.0), (0.6, 1.0)], [False, True]),
        ([(0.5, 1.0), (0.6, 2.0), (0.55, 3.0)], [True, True, False]),
    ],
)
def test_only_what_nothing_beats_is_on_the_frontier(points: list[tuple[float, float]], best: list[bool]) -> None:
    assert on_frontier(points) == best


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


def test_json_has_the_points_whatever_version_stored_the_report() -> None:
    (sweep,) = json.loads(render(swept_report(), "json"))["frontiers"]
    assert (sweep["backend"], sweep["parameter"], sweep["metric"]) == ("chroma", "ef_search", "nDCG@10")
    assert sweep["points"][0] == {
        "backend": "chroma:ef_search=10",
        "value": "10",
        "quality": 0.3,
        "loss": pytest.approx(-0.1),
        "p50_ms": 0.1,
        "on_frontier": True,
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


def test_the_table_shows_what_is_weighed_and_the_legend_what_the_mark_means() -> None:
    (table,) = frontier_tables(swept_report())
    names = [column.name for column in table.columns]
    assert names[:5] == ["ef_search", "nDCG@10", "loss", "recall@10", "recall@1000"]
    assert [row[-1].text for row in table.rows] == ["●", "●", "", "–"]
    assert [cell.text for cell in table.rows[0][:3]] == ["10", "0.3000", "−0.1000"]
    assert table.rows[0][2].below == "[−0.1100, −0.0900]"
    assert table.rows[3][1].text == "failed"
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert any("on the frontier: no other value has at least its nDCG@10" in line for line in table.legend)


def test_without_times_there_is_no_frontier_and_a_note_says_so() -> None:
    report = swept_report(timed=False)
    assert frontier_tables(report) == []
    assert list(frontier_notes(report)) == ["no frontier of chroma, ef_search: no latencies were measured"]


def test_a_comparison_without_a_sweep_says_nothing_of_frontiers() -> None:
    assert sample_report().frontiers == []
    assert "frontier" not in str(comparison_document(sample_report()).sections)


def test_a_sweep_is_taken_apart() -> None:
    assert swept("lucene:k1=1.2;b=0.2, 0.4") == Swept("lucene:k1=1.2", "b", ("0.2", "0.4"))
    assert swept("csr: k1=1,2") == Swept("csr", "k1", ("1", "2"))
