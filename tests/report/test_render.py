"""Every textual format of one report, compared with files: `pytest --update-golden` writes them anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len
from sample_report import sample_report, swept_report

from harness.errors import UnknownNameError
from harness.report.cells import Table
from harness.report.differences import family_of
from harness.report.html.comparison_tables import quality_table
from harness.report.parity_tables import parity_tables
from harness.report.render import FORMATS, render, terminal_text
from harness.report.tables import header, notes
from harness.results.schema import FilterInfo, Result


@pytest.mark.parametrize("format_name", FORMATS)
def test_report(format_name: str, golden: Callable[[str], None]) -> None:
    golden(render(sample_report(), format_name))


def test_report_of_filtered_searches(golden: Callable[[str], None]) -> None:
    report = sample_report()
    info = FilterInfo(
        fields={"section": "news", "year": "1971"}, matching=70, selectivity=0.05, relevant=612, relevant_matching=31
    )
    filtered = report.model_copy(update={"datasets": [report.dataset.model_copy(update={"filter": info})]})
    golden("\n".join([header(filtered), *notes(filtered)]) + "\n")


def test_measures_of_fewer_hits_than_they_name_are_marked() -> None:
    """trec_eval's users expect R@100 of 100 hits at least, and AP of a thousand."""
    report = sample_report()
    names = ("nDCG@10", "R@100", "AP", "NumRet")
    for k, marked in ((5, "nDCG@10, R@100, AP"), (100, "AP"), (1000, "")):
        plan = report.plan.model_copy(update={"resolved": {**report.plan.resolved, "k": k}})
        backends = [
            one.model_copy(update={"metrics": dict.fromkeys(names, next(iter(one.metrics.values())))})
            for one in report.trials
            if one.metrics
        ]
        cut = report.model_copy(update={"plan": plan, "trials": backends, "differences": []})
        text = render(cut, "table")
        found = [line for line in text.splitlines() if line.startswith("*: ")]
        assert found == ([f"*: {marked} of the {k} hits that were asked for (--k)"] if marked else []), text
        page = quality_table(cut)
        names_of_page = [column.name.removesuffix("*") for column in page.columns if column.name.endswith("*")]
        assert ", ".join(names_of_page) == marked
        assert [line for line in page.legend if line.startswith("*: ")] == found


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
    assert Result.model_validate_json(render(sample_report(), "json")) == sample_report()


def test_titles_are_not_broken_where_the_table_is_narrower() -> None:
    report = sample_report()
    title = parity_tables(report)[0].title
    assert title in terminal_text("", [Table(title, ("a", "b"), (("1", "2"),))], [], terminal=False)


def test_thousands_are_set_apart_in_counts_of_queries() -> None:
    report = sample_report()
    of = next(backend for backend in report.trials if backend.parity is not None)
    assert of.parity is not None
    parity = of.parity.model_copy(update=dict.fromkeys(("queries", "bit_equal", "identical", "tie_equivalent"), 1234))
    table = parity_tables(report.model_copy(update={"trials": [of.model_copy(update={"parity": parity})]}))[0]
    assert "1,234 queries" in table.title
    assert table.rows[0][2:5] == ("1,234", "1,234", "1,234")


def test_one_is_no_plural() -> None:
    report = sample_report()
    queries = report.dataset.queries.model_copy(update={"searched": 1})
    single = report.model_copy(
        update={"datasets": [report.dataset.model_copy(update={"queries": queries, "documents": 1})]}
    )
    assert " · 1 document" in header(single)
    assert " · 1 query · " in header(single)
    assert family_of(report.model_copy(update={"differences": report.differences[:1]})).count("comparisons") == 0


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown format 'tabel'"):
        render(sample_report(), "tabel")


def test_long_lines_are_folded_to_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    line = f"warning (a-check): {'numbers and what to do ' * 9}see /a/path/{'that-is-long/' * 6}"
    folded = terminal_text("head", [], [line], terminal=True).splitlines()[1:]
    assert len(folded) > 4
    assert all(len(part) <= 50 for part in folded if "/" not in part)
    assert " ".join(part.strip() for part in folded) == line
    korean = "이것은 긴 문장입니다 " * 12
    assert all(cell_len(part) <= 50 for part in terminal_text("head", [], [korean], terminal=True).splitlines()[1:])
    assert terminal_text("head", [], [line], terminal=False).splitlines()[1:] == [line]
