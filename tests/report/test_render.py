"""Every textual format of one result, compared with files: `pytest --update-golden` writes them anew."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len
from sample_report import sample_report, swept_report

from harness.document.model import Cell, Column, Document, Notes, Section, Table, Verdict
from harness.errors import UnknownNameError
from harness.report.documents.compare import comparison_document, comparison_header, comparison_notes
from harness.report.documents.parity_tables import parity_tables
from harness.report.documents.quality import quality_table
from harness.report.formats import FORMATS, render
from harness.report.render.markdown import render_markdown
from harness.report.render.terminal import render_terminal
from harness.results.schema import FindingInfo, Result
from harness.results.schema_base import FilterInfo

LONG = "qdrant:shards=2;m=16;ef_construct=100;quantization=scalar"


@pytest.mark.parametrize("format_name", FORMATS)
def test_report(format_name: str, golden: Callable[[str], None]) -> None:
    golden(render(sample_report(), format_name))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_report_in_the_width_of_a_terminal(width: int, golden: Callable[[str], None]) -> None:
    text = render(sample_report(), "table", width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    golden(text)


@pytest.mark.parametrize("width", [80, None])
def test_whole_report(width: int | None, golden: Callable[[str], None]) -> None:
    text = render(sample_report(), "table", verbose=True, width=width)
    assert width is None or max(cell_len(line) for line in text.splitlines()) <= width
    golden(text)


@pytest.mark.parametrize("format_name", ["table", "markdown"])
def test_frontier_of_a_sweep(format_name: str, golden: Callable[[str], None]) -> None:
    golden(render(swept_report(), format_name))


def test_percentiles_stand_beside_the_number_of_their_samples() -> None:
    """And beside no rate in the frontier: one client's is that of the mean, which a single slow query decides."""
    tables = list(comparison_document(swept_report()).tables())
    timed = {table.title: names for table in tables if "p95 ms" in (names := [column.name for column in table.columns])}
    assert [title for title, names in timed.items() if "n" not in names] == []
    assert "queries/s" not in timed["Frontier of chroma, ef_search"]


def test_csv_says_nothing_of_the_frontier_where_nothing_was_timed() -> None:
    assert "on_frontier." in render(swept_report(), "csv")
    assert "on_frontier." not in render(swept_report(timed=False), "csv")


def test_report_of_filtered_searches(golden: Callable[[str], None]) -> None:
    report = sample_report()
    info = FilterInfo(
        fields={"section": "news", "year": "1971"}, matching=70, selectivity=0.05, relevant=612, relevant_matching=31
    )
    filtered = report.model_copy(update={"datasets": [report.dataset.model_copy(update={"filter": info})]})
    golden("\n".join([comparison_header(filtered), *comparison_notes(filtered)]) + "\n")


def test_a_finding_of_several_backends_is_written_once() -> None:
    report, labels = sample_report(), ["a", "b", "c", "d", "e", "f"]
    found = [
        FindingInfo(
            check="all-zero-metrics", dataset="d", backend=label, message=f"0, {label} hits", fix="look", examples=[]
        )
        for label in labels
    ]
    text = render(report.model_copy(update={"findings": found}), "table", verbose=True)
    assert text.count("all-zero-metrics") == 1
    assert "also b, c, d, e and f" in text
    found[1] = found[1].model_copy(update={"fix": "look elsewhere"})
    other = render(report.model_copy(update={"findings": found}), "table", verbose=True)
    assert "warning (all-zero-metrics): b: 0, b hits; fix: look elsewhere" in other


def test_csv_is_long_and_exact() -> None:
    rows = list(csv.DictReader(io.StringIO(render(sample_report(), "csv"))))
    assert list(rows[0]) == ["dataset", "backend", "metric", "mean", "low", "high", "n"]
    assert {row["dataset"] for row in rows} == {"cranfield"}
    by_name = {(row["backend"], row["metric"]): row for row in rows}
    assert len(by_name) == len(rows), "a number stands twice"
    quality = by_name["qdrant", "nDCG@10"]
    assert [float(quality[name]) for name in ("mean", "low", "high")] == pytest.approx([0.4, 0.35, 0.45])
    assert quality["n"] == "52"
    assert by_name["qdrant", "parity.bit_equal"]["mean"] == "40"
    assert by_name["lucene:model=ql", "search.milliseconds.p95"]["n"] == "128"
    assert by_name["lucene:model=ql", "difference.nDCG@10 from qdrant"]["mean"] == "-0.0213"
    assert by_name["broken", "failed"]["mean"] == "1.0"


def test_csv_has_losses_and_the_frontier() -> None:
    rows = {(row["backend"], row["metric"]): row for row in csv.DictReader(io.StringIO(render(swept_report(), "csv")))}
    loss = rows["chroma:ef_search=10", "loss.nDCG@10"]
    assert [float(loss[name]) for name in ("mean", "low", "high")] == pytest.approx([-0.1, -0.11, -0.09])
    assert rows["chroma:ef_search=10", "on_frontier.ef_search"]["mean"] == "1.0"
    assert rows["chroma:ef_search=100", "on_frontier.ef_search"]["mean"] == "0.0"


def test_json_reads_back_as_the_same_report() -> None:
    assert Result.model_validate_json(render(sample_report(), "json")) == sample_report()


def test_metrics_of_fewer_hits_than_they_name_are_marked() -> None:
    """trec_eval's users expect R@100 of 100 hits at least, and AP of a thousand."""
    report = sample_report()
    names = ("nDCG@10", "R@100", "AP", "NumRet")
    for k, marked in ((5, ["nDCG@10", "R@100", "AP"]), (100, ["AP"]), (1000, [])):
        plan = report.plan.model_copy(update={"resolved": {**report.plan.resolved, "k": k}})
        trials = [
            one.model_copy(update={"metrics": dict.fromkeys(names, next(iter(one.metrics.values())))})
            for one in report.trials
            if one.metrics
        ]
        cut = report.model_copy(update={"plan": plan, "trials": trials, "differences": []})
        table = quality_table(cut, "cranfield")
        assert table is not None
        assert [column.name.removesuffix("*") for column in table.columns if column.name.endswith("*")] == marked
        said = [line for line in table.legend if line.startswith("* ")]
        assert said == ([f"* {', '.join(marked)} of the {k} requested hits (--k)"] if marked else [])


def test_the_best_of_a_metric_is_bold() -> None:
    bold = "\x1b[1m"
    table = next(comparison_document(sample_report()).tables())
    assert [table.best(at) for at in (1, 2, 3)] == [0.4, None, 0.3125]
    text = render(sample_report(), "table", styled=True)
    assert f"{bold} 0.4000" in text.replace("\x1b[0m", "") or f"{bold}0.4000" in text
    assert f"{bold}0.3800" not in text


def test_one_row_or_equal_rows_have_no_best() -> None:
    column = Column("nDCG@10", best="highest")
    for values in ([0.5], [0.5, 0.5], [0.5, None], []):
        rows = [[Cell("a"), Cell("x", value=value)] for value in values]
        assert Table("t", [Column("backend"), column], rows).best(1) is None
    rows = [[Cell("a"), Cell("x", value=value)] for value in (3.0, 1.0, None)]
    assert Table("t", [Column("backend"), Column("p50 ms", best="lowest")], rows).best(1) == 1.0


def test_rows_are_sorted_the_best_first_in_every_table() -> None:
    document = comparison_document(sample_report())
    first = {table.title: [row[0].text for row in table.rows] for table in document.sorted_by("AP").tables()}
    assert first["Quality"] == ["lucene:model=ql", "qdrant", "broken"]
    assert first["Index"] == ["lucene:model=ql", "qdrant"]
    assert [row[0].text for row in next(document.sorted_by("p95 ms").tables()).rows][:2] == [
        "qdrant",
        "lucene:model=ql",
    ]
    with pytest.raises(UnknownNameError, match=r"(?s)column to sort by 'nDGC@10'.*did you mean 'nDCG@10'"):
        render(sample_report(), "table", sort="nDGC@10")


def test_long_labels_are_short_where_there_is_little_room() -> None:
    text = sample_report().model_dump_json(by_alias=True)
    for field in ("label", "a", "b", "reference", "backend"):
        text = text.replace(f'"{field}":"qdrant"', f'"{field}":"{LONG}"')
    report = Result.model_validate_json(text.replace('"short_label":"qdrant"', '"short_label":"#1"'))
    narrow = render(report, "table", width=80)
    assert max(cell_len(line) for line in narrow.splitlines()) <= 80
    assert f"#1 = {LONG}" in narrow
    assert narrow.count(LONG) == 1
    assert "lucene:model=ql is 0.0213 below #1, significant" in " ".join(narrow.split())
    wide = render(report, "table")
    assert "#1" not in wide
    assert LONG in wide


def test_a_sweep_with_long_settings_is_named_short_and_open_on_a_page() -> None:
    text, settings = swept_report().model_dump_json(by_alias=True), "chroma:model=random;space=cosine;threads=16"
    report = Result.model_validate_json(text.replace('"backend":"chroma"', f'"backend":"{settings}"'))
    document = comparison_document(report)
    assert document.labels[settings] == "chroma"
    assert "Frontier of chroma, ef_search" in render(report, "table", width=80)
    (section,) = [section for section in document.sections if section.anchor == "frontier"]
    assert section.open


def test_a_remedy_begins_a_line_of_markdown() -> None:
    verdict = Verdict("bad", "a failed", "it cannot output 1000 dimensions\n  take a lower one")
    assert "it cannot output 1000 dimensions<br>take a lower one" in render_markdown(Document("", "", [verdict]))


def test_what_finds_no_room_is_named_and_stands_in_the_whole_report() -> None:
    narrow = render(sample_report(), "table", width=80)
    assert "no room for 5 more columns: answered, more on nDCG@10, AP" in narrow
    assert "the range of the mean over all orders of tied documents: AP of qdrant" in narrow
    whole = render(sample_report(), "table", width=80, verbose=True)
    assert "no room" not in whole
    assert "Quality (continued)" in whole
    assert "answered" in whole


def test_a_table_that_goes_on_names_its_rows_again() -> None:
    columns = [Column("backend", numeric=False), Column("metric", numeric=False, names=True), *map(Column, "abcdef")]
    rows = [[Cell("csr"), Cell("AP"), *(Cell(f"{number}{'0' * 7}") for number in range(6))]]
    document = Document("", "", [], [Section("t", "T", [Table("Verdicts", columns, rows)])], [], "")
    lines = render_terminal(document, width=40, verbose=True).splitlines()
    heads = [line.split() for line in lines if line.startswith("backend")]
    assert heads == [["backend", "metric", *"ab"], ["backend", "metric", *"cd"], ["backend", "metric", *"ef"]]
    assert sum(line.startswith("csr      AP") for line in lines) == 3


def test_texts_give_way_before_columns_do() -> None:
    words = "why a verdict is what it is, in so many words that no terminal of eighty columns has them in one line"
    table = Table("t", [Column("backend", numeric=False), Column("why", numeric=False), Column("n", priority=1)], [])
    table = Table(table.title, table.columns, [[Cell("csr"), Cell(words), Cell("52", value=52)]])
    text = render_terminal(Document("", "", [], [Section("s", "S", [table])], [], ""), width=60)
    assert max(cell_len(line) for line in text.splitlines()) <= 60
    assert "52" in text
    assert " ".join(text.split("csr")[1].replace("52", "").split()) == words


def test_thousands_are_set_apart_in_counts_of_queries() -> None:
    report = sample_report()
    trial = next(one for one in report.trials if one.parity is not None)
    assert trial.parity is not None
    parity = trial.parity.model_copy(
        update=dict.fromkeys(("queries", "bit_equal", "identical", "tie_equivalent"), 1234)
    )
    (table,) = parity_tables([trial.model_copy(update={"parity": parity})])
    assert "1,234 queries" in table.title
    assert [cell.text for cell in table.rows[0][2:5]] == ["1,234"] * 3


def test_broken_lists_have_no_empty_lines() -> None:
    table = Table("", [Column("ids", numeric=False), Column("n")], [[Cell(", ".join([16 * "a", 16 * "b"])), Cell("1")]])
    drawn = render_terminal(Document("", "", (), [Section("", "", [table])], (), ""), width=24)
    assert f"{16 * 'a'},         1\n{16 * 'b'}\n" in drawn


def test_one_is_no_plural() -> None:
    report = sample_report()
    queries = report.dataset.queries.model_copy(update={"searched": 1})
    dataset = report.dataset.model_copy(update={"queries": queries, "documents": 1})
    single = report.model_copy(update={"datasets": [dataset]})
    assert " · 1 document" in comparison_header(single)
    assert " · 1 query · " in comparison_header(single)


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown format 'tabel'"):
        render(sample_report(), "tabel")


def test_long_lines_are_folded_to_a_terminal_and_nowhere_else() -> None:
    line = f"warning (a-check): {'numbers and what to do ' * 9}see /a/path/{'that-is-long/' * 6}"

    def shown(said: str, width: int | None) -> list[str]:
        document = Document("head", "", [], [Section("notes", "Notes", [Notes([said])])], [], "")
        return render_terminal(document, width=width).splitlines()[2:]

    folded = shown(line, 50)
    assert len(folded) > 4
    assert all(len(part) <= 50 for part in folded if "/" not in part)
    assert " ".join(part.strip() for part in folded) == line
    assert all(cell_len(part) <= 50 for part in shown("이것은 긴 문장입니다 " * 12, 50))
    assert shown(line, None) == [line]


@pytest.mark.parametrize("data", ["<img src=x>", "@somebody", "a|b", "*a* _b_ `c`", "https://x.y/z", "[a](b)", "#12"])
def test_markdown_shows_data_as_they_are(data: str) -> None:
    table = Table(data, [Column(data, numeric=False), Column(data)], [[Cell(data), Cell(data)]], [data])
    document = Document(data, data, [Verdict("bad", data, data)], [Section("s", data, [table])], [data], "", "v", data)
    page = MarkdownIt("gfm-like", {"linkify": False}).render(render_markdown(document))
    assert "<img src" not in page
    assert "<em>" not in page
    assert "<a " not in page
    assert page.count("<td") == 2
    if data[0] in "@h#":
        outside = page.replace(f"<code>{data}</code>", "").replace(f'<code class="language-text">{data}', "")
        assert data not in outside.split("-->", 1)[1]
