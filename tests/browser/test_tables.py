"""Tables and figures of the page in a real Chromium: sorted, hidden, copied, linked to their queries, and on paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from browser_page import BrowserPage
from explorers import small_explorer
from playwright.sync_api import expect

from harness.document.figures import Bar, Bars, Differences
from harness.document.model import Cell, Column, Document, Facts, Figure, Notes, Section, Table, Verdict
from harness.report.html.render import render_page

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]
METRIC = "nDCG@10"


def quality() -> Table:
    def row(label: str, mean: float | None, seconds: float) -> list[Cell]:
        shown = Cell("failed") if mean is None else Cell(f"{mean:.4f}", "▲", "0.1 – 0.9", "good", mean)
        return [Cell(label), shown, Cell(f"{seconds:,}", value=seconds)]

    columns = [Column("backend", numeric=False), Column(METRIC, best="highest"), Column("a, b|c", best="lowest")]
    return Table("Means", columns, [row("old", 0.25, 1000), row("new", 0.5, 20), row("gone", None, 3)], ["▲ better"])


def document(*blocks: object) -> Document:
    details = [
        Section("costs", "Costs", [quality()]),
        Section("made", "Provenance", [Facts("Made by", [("a", "b")])], detail=True),
    ]
    verdicts = [
        Verdict("bad", "gone failed", "it is gone"),
        Verdict("good", "new is better than old", "by far", answers=True),
        Verdict("unsure", "few queries", "have more"),
        Verdict("plain", "csr is fast"),
    ]
    return Document(
        "title", "subtitle", verdicts, [Section("quality", "Quality", blocks), *details], ["harness compare"], "made by"
    )


@pytest.fixture(scope="module")
def html() -> str:
    figures = [
        Figure(name, Bars(name, [Bar("old", high / 2, 0.1, high, 0), Bar("new", high, None, None, 1)]))
        for name, high in ((METRIC, 0.9), ("AP", 0.2))
    ]
    explorer = small_explorer()
    moved = explorer.values[1, 0, :4] - explorer.values[0, 0, :4]
    figures += [Figure(f"moved {factor}", Differences("new", "old", METRIC, factor * moved)) for factor in (1, 0.1)]
    return render_page(document(quality(), *figures, Notes(["a note"])), [explorer])


def first_cells(page: object) -> list[str]:
    return page.locator("#quality tbody th").all_inner_texts()  # type: ignore[attr-defined]


def test_a_table_sorts_by_any_column(show: Show, html: str) -> None:
    page = show(html).page
    mean = page.locator("#quality thead button", has_text=METRIC)
    mean.click()
    assert first_cells(page) == ["new", "old", "gone"]
    assert page.locator("#quality thead th").nth(1).get_attribute("aria-sort") == "descending"
    mean.click()
    assert first_cells(page) == ["old", "new", "gone"]
    page.locator("#quality thead button", has_text="backend").click()
    assert first_cells(page) == ["gone", "new", "old"]
    assert page.locator("#quality thead th").nth(1).get_attribute("aria-sort") is None
    page.locator("#quality thead button", has_text="a, b|c").click()
    assert first_cells(page) == ["old", "new", "gone"]


def test_the_best_of_each_column_is_marked(show: Show, html: str) -> None:
    page = show(html).page
    assert page.locator("#quality .best > *:first-child").all_inner_texts() == ["0.5000", "3"]
    assert "bold: the best of its column" in page.locator("#quality .legend").inner_text()
    assert page.locator("#quality td.best .mark").inner_text() == "▲"


def test_columns_and_rows_are_hidden_and_the_rest_is_copied(show: Show, html: str) -> None:
    opened = show(html, permissions=["clipboard-read", "clipboard-write"])
    page = opened.page
    figure = page.locator("#quality figure.table")
    figure.get_by_role("button", name="Copy CSV").click()
    expect(figure.get_by_role("status")).to_have_text("Copied as CSV.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == (
        'backend,nDCG@10,"a, b|c"\nold,0.2500 ▲ 0.1 – 0.9,"1,000"\nnew,0.5000 ▲ 0.1 – 0.9,20\ngone,failed,3\n'
    )
    figure.locator("summary").click()
    figure.get_by_label(METRIC).uncheck()
    figure.get_by_label("old", exact=True).uncheck()
    assert first_cells(page) == ["", "new", "gone"] or page.locator(
        "#quality tbody tr:visible th"
    ).all_inner_texts() == ["new", "gone"]
    expect(page.locator("#quality thead th").nth(1)).to_be_hidden()
    figure.get_by_role("button", name="Copy Markdown").click()
    expect(figure.get_by_role("status")).to_have_text("Copied as Markdown.")
    assert page.evaluate("navigator.clipboard.readText()") == (
        "| backend | a, b\\|c |\n| --- | --- |\n| new | 20 |\n| gone | 3 |\n"
    )
    assert opened.complaints == []


def test_numbers_and_bars_lead_to_their_queries(show: Show, html: str) -> None:
    opened = show(html)
    page = opened.page
    page.locator("#quality td a", has_text="0.5000").click()
    assert page.url.endswith("#b=new&metric=nDCG%4010")
    expect(page.locator("#select-b")).to_have_value("1")
    expect(page.locator("#search")).to_be_in_viewport()
    page.get_by_text("More on quality").click()
    page.locator("svg a", has_text="1 better").first.click()
    opened.expect_queries(["q2"])
    page.locator("svg a", has_text="old").first.click()
    expect(page.locator("#select-b")).to_have_value("0")
    opened.expect_queries(["q4", "q2", "q1", "q3", "q5"])


def test_figures_side_by_side_share_their_axes(show: Show, html: str) -> None:
    page = show(html).page
    bars, differences = (
        page.locator(f"#quality-more svg[aria-label^='{name}']").all() for name in ("Bars", "nDCG@10 of new")
    )
    for figures in (bars, differences):
        assert len(figures) == 2
        first, second = (figure.locator(".tick").all_text_contents() for figure in figures)
        assert first == second


def test_the_answer_and_one_table_are_shown_and_all_else_is_folded(show: Show, html: str) -> None:
    page = show(html).page
    expect(page.locator("#verdict strong:visible")).to_have_text("new is better than old")
    assert page.locator("main figure:visible").count() == 1
    expect(page.locator("#quality caption").first).to_be_visible()
    summaries = page.locator("#verdict summary, details.part > summary").all_inner_texts()
    assert summaries == ["gone failed; 2 more findings, 1 caution", "More on quality", "Costs", "Provenance"]
    page.locator("nav a", has_text="Costs").click()
    expect(page.locator("#costs table")).to_be_visible()
    page.locator("summary", has_text="gone failed").focus()
    page.keyboard.press("Enter")
    assert page.locator("#verdict strong:visible").all_inner_texts()[1:] == [
        "gone failed",
        "few queries",
        "csr is fast",
    ]


def test_a_link_into_a_folded_part_opens_it_and_paper_keeps_it_open(show: Show, html: str) -> None:
    page = show(html, "#made").page
    expect(page.locator("#made")).to_be_visible()
    expect(page.locator("#costs table")).to_be_hidden()
    page.evaluate("location.hash = 'costs'")
    expect(page.locator("#costs table")).to_be_visible()
    page.emulate_media(media="print")
    expect(page.locator("#costs table")).to_be_visible()
    expect(page.get_by_text("More on quality")).to_be_hidden()


def test_paper_has_the_answer_one_table_and_the_largest_changes(show: Show, html: str) -> None:
    page = show(html).page
    page.emulate_media(media="print")
    pdf = page.pdf(format="A4")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 4
    rows = page.locator(".print-only tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["q4", "q2", "q1"]
    assert rows[0] == "q4\tno pumps at all\t1.0000\t0.0000\t▼ −1.0000"
    expect(page.locator(".print-only")).to_be_visible()
    expect(page.locator("#quality figure.table")).to_be_visible()
    for hidden in ("#query-list", ".controls", "details", ".tools", "nav"):
        assert page.locator(f"{hidden}:visible").count() == 0, hidden


def test_the_first_column_of_a_table_stays_on_a_telephone(show: Show) -> None:
    columns = [Column("backend", numeric=False), *(Column(f"a longer name {number}") for number in range(12))]
    table = Table("wide", columns, [[Cell("qdrant"), *(Cell("0.1234") for _ in range(12))]])
    page = Document("t", "", [], [Section("s", "S", [table])], [], "")
    opened = show(render_page(page), viewport={"width": 400, "height": 800}).page
    opened.locator(".scroll").evaluate("one => { one.scrollLeft = 600; }")
    assert opened.locator("tbody th").bounding_box()["x"] == opened.locator(".scroll").bounding_box()["x"]
    assert opened.evaluate("document.documentElement.scrollWidth") == 400


@pytest.mark.parametrize("width", [400, 1400])
def test_a_hundred_backends_scroll_in_boxes_and_are_all_on_paper(show: Show, width: int) -> None:
    labels = [f"csr:k1={number / 10}" for number in range(100)]
    columns = [Column("backend", numeric=False), Column(METRIC)]
    table = Table("Means", columns, [[Cell(label), Cell("0.1234")] for label in labels])
    figure = Figure(METRIC, Bars(METRIC, [Bar(label, 0.5, 0.1, 0.9, 0) for label in labels]))
    facts = [Facts(label, [("a", "b")]) for label in labels]
    sections = [Section("quality", "Quality", [table, figure]), Section("made", "Provenance", facts, detail=True)]
    html = render_page(Document("t", "", [], sections, [], ""))
    page = show(html, viewport={"width": width, "height": 800}).page
    for summary in page.locator("details.part > summary").all():
        summary.click()
    heights = page.locator(".table > .scroll, .picture > .scroll, .blocks:has(> details)").evaluate_all(
        "boxes => boxes.map(box => [box.clientHeight, box.scrollHeight])"
    )
    assert len(heights) == 3
    assert all(shown <= 640 < content for shown, content in heights)
    assert page.evaluate("document.documentElement.scrollHeight") < 4000
    box = page.locator(".table > .scroll")
    box.focus()
    box.press("End")
    expect(page.locator("#quality tbody tr").last).to_be_in_viewport()
    tops = page.locator(".table > .scroll, #quality thead th:first-child").evaluate_all(
        "both => both.map(one => one.getBoundingClientRect().top)"
    )
    assert tops[0] == pytest.approx(tops[1], abs=1)
    page.emulate_media(media="print")
    (shown, content) = box.evaluate("one => [one.clientHeight, one.scrollHeight]")
    assert shown == content > 2000


def test_a_leaderboard_leads_to_the_queries_of_each_dataset(show: Show) -> None:
    columns = [Column("backend", numeric=False), Column("mean"), Column("first", best="highest"), Column("other")]
    rows = [[Cell(name), *(Cell(f"{value}", value=value) for value in (0.1, 0.2, 0.3))] for name in ("old", "new")]
    page = Document(
        "t", "", [], [Section("quality", "Quality", [Table(f"Leaderboard: {METRIC}, mean", columns, rows)])], [], ""
    )
    opened = show(render_page(page, [small_explorer(dataset="first"), small_explorer(dataset="other")]))
    opened.page.locator("#quality tbody tr").last.locator("a").last.click()
    assert opened.page.url.endswith("#b=new&metric=nDCG%4010&dataset=other")
    listed = opened.page.locator(".row .query-id")
    expect(listed).to_have_text([f"q{number} · other" for number in (4, 2, 1, 3, 5)])  # once the page has followed


def test_a_table_that_has_its_sections_name_does_not_say_it_again(show: Show) -> None:
    table = Table("Quality", [Column("backend", numeric=False)], [[Cell("csr")]])
    page = Document("t", "", [], [Section("quality", "Quality", [table])], [], "")
    opened = show(render_page(page)).page
    expect(opened.locator("caption")).to_be_hidden()
    expect(opened.get_by_role("region", name="Quality")).to_be_visible()


def test_short_labels_stand_in_the_page_and_long_ones_in_tips_links_and_copies(show: Show) -> None:
    long = f"new:{';'.join(f'parameter_{number}=a_long_value' for number in range(9))}"
    explorer = small_explorer()
    explorer = replace(explorer, labels=["old", long])
    table = Table("Means", quality().columns, [[Cell(long), Cell("0.5000", value=0.5), Cell("1", value=1)]])
    figure = Figure(f"{METRIC} of {long}", Bars(METRIC, [Bar(long, 0.5, None, None, 0)]))
    verdicts = [Verdict("bad", f"{long} failed", "it cannot\n  take another")]
    page = Document(f"data: {long}", "", verdicts, [Section("quality", "Quality", [table, figure])], [], "")
    page = replace(page, labels={long: "new[a=1]"})
    opened = show(render_page(page, [explorer]), viewport={"width": 400, "height": 800}).page
    assert opened.title() == "data: new[a=1]"
    opened.get_by_text("More on quality").click()
    for place in ("h1", "#verdict strong", "#quality tbody th", "#quality-more h3"):
        shown = opened.locator(place).first
        assert "new[a=1]" in shown.inner_text()
        assert "parameter_1" not in shown.inner_text()
        expect(shown.locator("abbr")).to_have_attribute("title", long)
    expect(opened.locator("#quality-more svg text.label")).to_have_text("new[a=1]")
    assert opened.locator("#verdict p").inner_text().splitlines() == ["it cannot", "take another"]
    assert opened.evaluate("document.documentElement.scrollWidth") == 400
    opened.get_by_text("Short labels in full").click()
    expect(opened.locator("#verdict dd")).to_have_text(long)
    opened.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    opened.get_by_role("button", name="Copy CSV").click()
    assert opened.evaluate("window.copied").splitlines()[1] == f"{long},0.5000,1"
    opened.locator("#quality td a").first.click(force=True)
    assert "b=new%3Aparameter_0" in opened.url
