"""Every textual format of one report, compared with files: `pytest --update-golden` writes them anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sample_report import sample_report, swept_report

from harness.errors import UnknownNameError
from harness.reporting.render import FORMATS, render
from harness.reporting.tables import header, notes
from harness.results.schema import FilterInfo, Report


@pytest.mark.parametrize("format_name", FORMATS)
def test_report(format_name: str, golden: Callable[[str], None]) -> None:
    golden(render(sample_report(), format_name))


def test_report_of_filtered_searches(golden: Callable[[str], None]) -> None:
    report = sample_report()
    info = FilterInfo(
        fields={"section": "news", "year": "1971"}, matching=70, selectivity=0.05, relevant=612, relevant_matching=31
    )
    filtered = report.model_copy(update={"dataset": report.dataset.model_copy(update={"filter": info})})
    golden("\n".join([header(filtered), *notes(filtered)]) + "\n")


@pytest.mark.parametrize("format_name", ["table", "markdown"])
def test_frontier_of_a_sweep(format_name: str, golden: Callable[[str], None]) -> None:
    golden(render(swept_report(), format_name))


def test_the_frontier_in_csv() -> None:
    lines = [line for line in render(swept_report(), "csv").splitlines() if ",frontier," in line]
    assert lines[:4] == [
        "chroma:ef_search=10,frontier,value,10",
        "chroma:ef_search=10,frontier,quality,0.3",
        "chroma:ef_search=10,frontier,p50_ms,0.1",
        "chroma:ef_search=10,frontier,on_frontier,True",
    ]
    assert "chroma:ef_search=100,frontier,on_frontier,False" in lines


def test_json_reads_back_as_the_same_report() -> None:
    assert Report.model_validate_json(render(sample_report(), "json")) == sample_report()


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown format 'tabel'"):
        render(sample_report(), "tabel")
