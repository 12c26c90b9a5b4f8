"""Columns of a table: which are shown at all, and how wide sentences may be on the page."""

from __future__ import annotations

from harness.document.cells import ABSENT, BACKEND, number, text, with_content
from harness.document.model import Column, Document, Section, Table
from harness.report.html.render import render_page


def test_columns_that_hold_nothing_in_any_row_are_left_out() -> None:
    columns = [BACKEND, Column("p50 ms"), Column("recall"), Column("cause", numeric=False)]
    rows = [
        [text("csr"), number(None), number(0.0), text("")],
        [text("qdrant"), text(ABSENT), number(None), text("")],
    ]
    shown = with_content(Table("Search", columns, rows, ["a legend", "p50 ms: of one client"]))
    assert [column.name for column in shown.columns] == ["backend", "recall"]
    assert [[cell.text for cell in row] for row in shown.rows] == [["csr", "0.0000"], ["qdrant", ABSENT]]
    assert shown.legend == ["a legend"]


def test_the_column_that_names_the_rows_stays_and_so_does_a_table_without_rows() -> None:
    unnamed = with_content(Table("", [BACKEND, Column("n")], [[text(""), number(None)]]))
    assert [column.name for column in unnamed.columns] == ["backend"]
    assert with_content(Table("", [BACKEND, Column("n")], [])).rows == []


def test_only_sentences_may_break_on_the_page() -> None:
    columns = [BACKEND, Column("n"), Column("causes", numeric=False, folds=True)]
    table = Table("Changes", columns, [[text("qdrant"), number(1), text("deleted documents in the statistics")]])
    page = render_page(Document("", "", sections=[Section("requested", "", [table], open=True)]))
    text_of_cell = "deleted documents in the statistics"
    assert f'<td class="sentence plain"><span title="{text_of_cell}">{text_of_cell}</span>' in page
    assert page.count('class="sentence') == 1
