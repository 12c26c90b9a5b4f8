"""Judging sessions in a real Chromium: 30 documents by keys, kept, saved, loaded, and scored; and in a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from browser_page import BrowserPage
from explorers import TEXTS, corpus_of, qrels_of, small_explorer, small_page
from judged_results import TEXTS as RESULT_TEXTS
from judged_results import small_result
from playwright.sync_api import Page, expect

import harness
from harness.data.labels import Label, label_lines
from harness.data.problems import Problems
from harness.data.texts import text_digest
from harness.errors import DataError
from harness.report.html.render import render_page
from harness.report.judging import JudgingPage
from harness.results.comparison import Comparison

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return small_result(tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="module")
def judging(result: Comparison) -> JudgingPage:
    assert result.folder is not None
    return harness.judge(result.folder, budget=30)


def save(page: Page, path: Path) -> list[dict[str, object]]:
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save labels").click()
    assert saved.value.suggested_filename == "labels.jsonl"
    path.write_bytes(Path(saved.value.path()).read_bytes())
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def press_tab_to(page: Page, name: str) -> None:
    """Go on with the Tab key until a control with this text has the focus."""
    for _ in range(80):
        if page.evaluate("document.activeElement.textContent") == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never comes to {name}")


def accessible_names(page: Page) -> list[tuple[str, str]]:
    """Roles and names as Chromium gives them to a screen reader."""
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    return [
        (node["role"]["value"], node["name"]["value"]) for node in nodes if not node["ignored"] and node.get("name")
    ]


def test_thirty_documents_are_judged_by_keys_saved_loaded_and_scored(
    show: Show, judging: JudgingPage, result: Comparison, tmp_path: Path
) -> None:
    opened = show(judging.html, locale="en")
    page = opened.page
    page.get_by_label("Your name").fill("anna")
    page.get_by_label("Your name").blur()
    for number in range(30):
        expect(page.locator("#count")).to_have_text(f"{number} of 30 documents judged")
        page.keyboard.press(str(number % 2))
    expect(page.get_by_role("status")).to_have_text("All documents are judged: save the labels.")
    labels = save(page, tmp_path / "labels.jsonl")
    expect(page.get_by_role("status")).to_contain_text("To count them: harness compare … --labels labels.jsonl")
    pairs = [(one.query, document) for one in judging.pool.queries for document in one.documents]
    assert [(one["query_id"], one["doc_id"], one["grade"], one["by"], one["dataset"]) for one in labels] == [
        (query, document, number % 2, "anna", "data") for number, (query, document) in enumerate(pairs)
    ]
    assert all(str(one["time"]).startswith("20") and len(str(one["text_digest"])) == 12 for one in labels)

    page.reload()
    page.wait_for_selector("html[data-ready]")
    expect(page.locator("#count")).to_have_text("30 of 30 documents judged")
    assert page.get_by_label("Your name").input_value() == "anna"

    assert result.folder is not None
    change = harness.diff(result.folder, result.folder, labels=tmp_path / "labels.jsonl").change
    assert change.data[0].labels == 30
    again = harness.compare(
        {"plain": "csr:b=0", "by-length": "csr:b=1"}, str(result.folder.parent / "data"),
        k=10, metrics="nDCG@5,P@5", timing=False, isolation="none", labels=tmp_path / "labels.jsonl",
    )  # fmt: skip
    assert again.report.dataset.judgments == result.report.dataset.judgments + 30
    assert again.metrics().loc["plain", "P@5"] > result.metrics().loc["plain", "P@5"]
    assert (opened.complaints, [one for one in opened.requests if not one.startswith(("file:", "blob:"))]) == ([], [])


def test_labels_are_loaded_if_they_are_of_these_texts_and_later(
    show: Show, judging: JudgingPage, tmp_path: Path
) -> None:
    page = show(judging.html, locale="en").page
    page.keyboard.press("1")
    (first,) = save(page, tmp_path / "first.jsonl")
    others = [(one.query, document) for one in judging.pool.queries for document in one.documents][1:4]
    lines = [
        {**first, "grade": 0, "time": "2001-01-01T00:00:00Z"},
        {"query_id": others[0][0], "doc_id": others[0][1], "grade": 1, "by": "m", "model": "m", "prompt_digest": "p"},
        {"query_id": others[1][0], "doc_id": others[1][1], "grade": 1, "text_digest": "of-another"},
        {"query_id": others[2][0], "doc_id": others[2][1], "grade": None},
        {"query_id": "elsewhere", "doc_id": "d", "grade": 1},
    ]
    file = tmp_path / "other.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + "not JSON\n", encoding="utf-8")
    page.get_by_label("Load labels").set_input_files(file)
    left = "left out: 1 of other documents, 1 of texts that have changed, 1 earlier than yours"
    expect(page.get_by_role("status")).to_have_text(f"1 label loaded; {left}, 1 invalid (line 6: not JSON).")
    saved = save(page, tmp_path / "second.jsonl")
    assert [(one["grade"], one.get("model"), one.get("prompt_digest")) for one in saved] == [
        (1, None, None),
        (1, "m", "p"),
    ]
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#count")).to_have_text("1 of 30 documents judged")


TIMES = ["2026-05-01", "2026-05-01T10:00:00Z", "2026-05-01 10:00:00.123456", "20260501T1000", "2026-05-01T10",
         "2026-05-01T10:00:00,5+0130", "0001-01-01T00:00-23:59", "2024-02-29", "yesterday", "2026-02-29", "2026-13-01",
         "2026-05-01T24:00", "2026-05-01T10:60", "2026-05-01T10:00:60", "2026-05-01T10:00+24:00", "0000-01-01",
         "2026-05-01T10:00:00z", "2026-0501", "May 1, 2026", "2026", "2026-05-01Z", "", " "]  # fmt: skip
LABEL: dict[str, object] = {"query_id": "q", "doc_id": "d", "grade": 1}
LINES = [
    *(json.dumps(LABEL | {"time": time}) for time in TIMES),
    *(
        json.dumps(LABEL | {field: value})
        for field in ("dataset", "query_id", "doc_id", "by", "time", "text_digest", "model", "prompt_digest", "grade")
        for value in (None, "", "text", 5, 1.5, True, [], {"x": "a value that is longer than forty characters"}, -1)
    ),
    *(json.dumps(LABEL | {"grade": grade}) for grade in (2.0, -(2**31), 2**31, 2**31 - 1, "2")),
    *(json.dumps({key: value for key, value in LABEL.items() if key != field}) for field in LABEL),
    *("not JSON", "[]", "5", "null", "{}", '{"query_id": "q", "doc_id": "d", "grade": NaN}'),
    '{"query_id": "q", "doc_id": "d", "grade": 1, "by": "\\ud800"}',
]


def script() -> str:
    return (Path(harness.__file__).parent / "report" / "html" / "assets" / "judging.js").read_text(encoding="utf-8")


def test_the_page_refuses_the_lines_that_labels_refuses(tab: Page, tmp_path: Path) -> None:
    outcome_of = """line => {
        try { const label = readLabel(line); return [JSON.stringify(label.grade), moment(label.time)]; }
        catch (error) { return error.message; }
    }"""
    tab.goto("about:blank")
    outcomes, path = (
        tab.evaluate(f"lines => {{ {script()}\nreturn lines.map({outcome_of}); }}", LINES),
        tmp_path / "labels",
    )
    for line, outcome in zip(LINES, outcomes, strict=True):
        path.write_text(line, encoding="utf-8")
        problems = Problems(str(path))
        labels = [label for _, _, label in label_lines(path, problems)]
        try:
            problems.raise_if_any()
        except DataError as error:
            reason = str(error).split("line 1: ")[1].split("\n")[0].split("not JSON")[0]
            assert isinstance(outcome, str), line
            assert outcome.startswith(reason or "not JSON"), line
            continue
        assert outcome[0] == (str(labels[0].grade) if labels else "null"), (line, outcome)
        if labels and labels[0].time != Label("q", "d", 1, "").time:
            assert outcome[1] == pytest.approx(labels[0].time.timestamp() * 1000, abs=0.01), line


def test_a_label_must_name_one_of_several_datasets(tab: Page) -> None:
    tab.goto("about:blank")
    loads = "new Labels({ name: '', datasets: ['a', 'b'], queries: [] }).load(lines).problems"
    problems = tab.evaluate(f"lines => {{ {script()}\nreturn {loads}; }}", f"\n{json.dumps(LABEL)}\n")
    assert problems == ["line 2: it names none of 2 datasets"]


def test_a_defect_on_loading_is_not_blamed_on_the_file(tab: Page) -> None:
    tab.goto("about:blank")
    defect = """async () => {
        const labels = { load() { throw new TypeError("a defect"); } };
        const page = { file: { files: [new File(["{}"], "labels.jsonl")] }, labels, say(text) { this.said = text; } };
        return await Judging.prototype.load.call(page).then(() => page.said, (error) => error.message);
    }"""
    assert tab.evaluate(f"() => {{ {script()}\nreturn ({defect})(); }}") == "a defect"


def test_invalid_labels_are_named_on_loading_and_never_saved(show: Show, result: Comparison, tmp_path: Path) -> None:
    assert result.folder is not None
    html = (result.folder / "report.html").read_text(encoding="utf-8")
    page = show(html, "#judge", locale="en").page
    file, status = tmp_path / "loaded.jsonl", page.get_by_role("status")
    first, second = (
        {"query_id": one.query, "doc_id": document, "grade": 1, "by": "anna", "time": "2026-05-01T10:00:00"}
        for one in harness.judge(result.folder, budget=1_000).pool.queries[:2]
        for document in one.documents[:1]
    )
    rows = [
        first,
        second | {"time": "yesterday"},
        {"query_id": "q0", "doc_id": "d0", "grade": 0, "by": "anna"},
        first | {"grade": 0, "time": "2026-05-01T12:00:00+02:00"},
        *[second | {"grade": 0.5}] * 4,
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page.get_by_label("Load labels").set_input_files(file)
    same = f"line 4: document '{first['doc_id']}' has another grade for query '{first['query_id']}' before by 'anna'"
    expect(status).to_have_text(
        "1 label loaded; left out: 7 invalid (line 2: the time 'yesterday' is not of the form 2026-05-01T10:00:00Z; "
        f"line 3: query 'q0', document 'd0': judged 1, labelled 0; {same} at the same time; "
        "line 5: the grade is 0.5, not a whole number; line 6: the grade is 0.5, not a whole number; 2 more)."
    )
    assert [(one["doc_id"], one["grade"], one["time"]) for one in save(page, tmp_path / "saved.jsonl")] == [
        (first["doc_id"], 1, "2026-05-01T10:00:00")
    ]
    assert harness.diff(result.folder, result.folder, labels=tmp_path / "saved.jsonl").change.data[0].labels == 1
    file.write_bytes('{"query_id": "é"}'.encode("latin-1"))
    page.get_by_label("Load labels").set_input_files(file)
    expect(status).to_have_text("No label is loaded: the file is compressed, or not UTF-8.")


def test_buttons_and_keys_move_grade_and_undo(
    show: Show, judging: JudgingPage, violations: Callable[[Page], list[str]]
) -> None:
    opened = show(judging.html, viewport={"width": 400, "height": 800}, locale="en")
    page, document = opened.page, opened.page.locator("#document-name")
    expect(document).to_contain_text("Document 1 of 30")
    page.keyboard.press("k")
    expect(document).to_contain_text("Document 1 of 30")
    page.get_by_role("group", name="Grade").get_by_role("button", name="1").click()
    expect(document).to_contain_text("Document 2 of 30")
    assert page.evaluate("document.activeElement.matches('article')")
    page.get_by_role("button", name="Previous", exact=False).first.click()
    expect(page.get_by_role("button", pressed=True)).to_have_text("1relevant")
    page.keyboard.press("n")
    expect(document).to_contain_text("Document 2 of 30")
    page.keyboard.press("j")
    page.keyboard.press("p")
    expect(document).to_contain_text("Document 2 of 30")
    page.keyboard.press("p")
    expect(document).to_contain_text("Document 30 of 30")
    page.keyboard.press("u")
    expect(document).to_contain_text("Document 1 of 30")
    expect(page.locator("#count")).to_have_text("0 of 30 documents judged")
    page.keyboard.press("1")
    page.keyboard.press("k")
    page.keyboard.press("1")
    expect(page.get_by_role("status")).to_have_text("Grade taken back.")
    page.get_by_label("Your name").press("1")
    expect(page.locator("#count")).to_have_text("0 of 30 documents judged")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert violations(page) == []
    assert opened.complaints == []
    names = accessible_names(page)
    document_name = document.inner_text()
    for expected in (
        ("textbox", "Your name"), ("button", "Save labels"), ("button", "Load labels"), ("group", "Grade"),
        ("progressbar", "0 of 30 documents judged"), ("button", "0 not relevant"), ("button", "1 relevant"),
        ("article", document_name), ("region", "Text of the document"), ("button", "Next unjudged"), ("button", "Undo"),
    ):  # fmt: skip
        assert any(role == expected[0] and name.startswith(expected[1]) for role, name in names), (expected, names)
    assert not [role for role, name in names if role in ("button", "textbox", "progressbar") and not name]


def test_the_documents_of_a_report_are_judged_blind_by_keys_alone(
    show: Show, result: Comparison, violations: Callable[[Page], list[str]], tmp_path: Path
) -> None:
    assert result.folder is not None
    html = (result.folder / "report.html").read_text(encoding="utf-8")
    opened = show(html, viewport={"width": 400, "height": 800}, locale="en")
    page, count, document = opened.page, opened.page.locator("#count"), opened.page.locator("#document-name")
    press_tab_to(page, "Judge the documents shown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    pooled = harness.judge(result.folder, budget=1).pool
    expect(count).to_have_text(f"{pooled.judged} of {pooled.pooled} documents judged")
    first = document.inner_text()
    page.keyboard.press("1")
    page.keyboard.press("0")
    page.keyboard.press("1")
    expect(page.get_by_role("status")).to_have_text(f"Graded 1. {pooled.judged + 3} of {pooled.pooled} judged.")
    page.keyboard.press("u")
    expect(count).to_have_text(f"{pooled.judged + 2} of {pooled.pooled} documents judged")
    third = document.inner_text()
    page.keyboard.press("n")
    page.keyboard.press("p")
    expect(document).to_have_text(third)
    page.keyboard.press("p")
    expect(document).to_contain_text(f"Document {pooled.pooled}")
    seen = [page.title(), page.inner_text("body"), *(name for _, name in accessible_names(page))]
    assert not [text for text in seen for name in ("by-length", "plain", "csr") if name in text]
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert violations(page) == []
    judged = page.evaluate("[...document.querySelectorAll('.grades button')].map((button) => button.disabled)")
    assert judged == [False, False]

    press_tab_to(page, "Save labels")
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text(
        "2 labels. Saved as labels.jsonl. 2 labels without a name: enter yours, and save again. "
        "To count them: harness compare … --labels labels.jsonl"
    )
    path = tmp_path / "labels.jsonl"
    path.write_bytes(Path(saved.value.path()).read_bytes())
    labels = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [one["grade"] for one in labels] == [1, 0]
    assert first.endswith(f": {labels[0]['doc_id']}")
    assert all(one["text_digest"] == text_digest(RESULT_TEXTS[one["doc_id"]]) for one in labels)
    assert harness.diff(result.folder, result.folder, labels=path).change.data[0].labels == 2

    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Judge the documents shown")).to_be_focused()
    assert "by-length" in page.inner_text("body")
    page.go_back()
    expect(count).to_have_text(f"{pooled.judged + 2} of {pooled.pooled} documents judged")

    again = show(html, "#judge", locale="en").page
    expect(again.locator("#count")).to_have_text(f"{pooled.judged} of {pooled.pooled} documents judged")
    again.get_by_label("Load labels").set_input_files(path)
    expect(again.get_by_role("status")).to_have_text("2 labels loaded.")
    expect(again.locator("#count")).to_have_text(f"{pooled.judged + 2} of {pooled.pooled} documents judged")
    assert opened.complaints == []


def test_a_report_and_the_page_of_its_result_share_grades(
    show: Show, result: Comparison, judging: JudgingPage, tmp_path: Path
) -> None:
    assert result.folder is not None
    page = show((result.folder / "report.html").read_text(encoding="utf-8"), "#judge", locale="en").page
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    before = int(page.locator("progress").get_attribute("value") or 0)
    judging_page = tmp_path / "judge.html"
    judging_page.write_text(judging.html, encoding="utf-8")
    other = page.context.new_page()
    other.goto(judging_page.as_uri())
    other.wait_for_selector("html[data-ready]")
    other.get_by_label("Your name").fill("ben")
    expect(page.get_by_label("Your name")).to_have_value("ben")
    other.get_by_label("Your name").blur()
    other.keyboard.press("1")
    expect(page.locator("#count")).to_contain_text(f"{before + 1} of ")
    (label,) = save(page, tmp_path / "labels.jsonl")
    first = judging.pool.queries[0]
    assert (label["query_id"], label["doc_id"], label["by"]) == (first.query, first.documents[0], "ben")
    page.keyboard.press("0")
    page.keyboard.press("u")
    other.reload()
    expect(other.locator("#count")).to_have_text("1 of 30 documents judged")


def test_documents_are_graded_where_they_stand_in_the_rankings(
    show: Show, violations: Callable[[Page], list[str]]
) -> None:
    opened = show(render_page(small_page(), [small_explorer()]), locale="en")
    page = opened.page
    page.get_by_label("Grade in the rankings").check()
    page.locator(".row", has_text="red pumps").click()
    hits = page.locator(".hit[data-slot='1']")
    hits.first.click()
    page.keyboard.press("2")
    expect(page.locator(".document").get_by_role("status")).to_have_text("Graded 2.")
    assert [badge.inner_text() for badge in page.locator(".hit[data-slot='1'] .badge").all()] == ["2", "2"]
    assert violations(page) == []
    page.get_by_role("button", name="2 more relevant").click()
    expect(page.locator(".document").get_by_role("status")).to_have_text("Grade taken back.")
    assert [badge.inner_text() for badge in page.locator(".hit[data-slot='1'] .badge").all()] == ["?", "?"]
    page.locator(".hit[data-slot='3']").first.click()
    page.keyboard.press("1")
    expect(page.locator(".document .grades")).to_contain_text("Judged 0 in this result: labels add to judgments")
    expect(page.locator(".document .grades button").first).to_be_disabled()
    assert opened.complaints == []


def test_documents_without_their_text_are_counted_and_listed_queries_are_judged(show: Show) -> None:
    explorer = small_explorer(corpus=corpus_of({name: f"{TEXTS[name]} {'x' * 2000}" for name in ("d1", "d2")}))
    page = show(render_page(small_page(), [explorer]), locale="en").page
    page.get_by_label("Search queries").fill("q1")
    expect(page.locator(".row")).to_have_count(1)
    page.get_by_role("button", name="Judge the documents shown").click()
    expect(page.locator("#count")).to_have_text("0 of 2 documents judged")
    expect(page.locator("#judging .lead")).to_contain_text(
        "The texts of 7 more unjudged documents are not in this file"
    )
    expect(page.locator(".judged-document")).to_contain_text("The text goes on: its beginning is shown.")
    page.get_by_role("button", name="Back to the report").click()
    page.get_by_label("Search queries").fill("nothing like this")
    page.get_by_role("button", name="Judge the documents shown").click()
    expect(page.locator("#judging .lead")).to_contain_text("No text of a listed query's documents is in this file.")


def test_a_models_grades_are_marked_and_a_persons_replaces_them(
    show: Show, violations: Callable[[Page], list[str]]
) -> None:
    explorer = small_explorer()
    human = qrels_of({"q1": {"d25": 1, "d3": 0}, "q2": {"d19": 1}, "q3": {"d0": 1}, "q4": {"d0": 1}})
    assert explorer.qrels is not None
    labelled = replace(explorer, qrels=replace(explorer.qrels, human=human))
    page = show(render_page(small_page(), [labelled]), locale="en").page
    page.get_by_label("Grade in the rankings").check()
    page.locator(".row", has_text="red pumps").click()
    assert page.locator(".hit .by-model").all_inner_texts() == ["2"]
    expect(page.locator(".by-model").first).to_have_attribute("title", "relevant, grade 2 by a model, not by a person")
    assert violations(page) == []
    page.locator(".hit", has=page.locator(".by-model")).click()
    page.keyboard.press("1")
    expect(page.locator(".document").get_by_role("status")).to_have_text("Graded 1.")
    expect(page.locator(".by-model")).to_have_count(0)


def test_grades_get_the_name_that_is_entered_after_them(show: Show, judging: JudgingPage, tmp_path: Path) -> None:
    page = show(judging.html, locale="en").page
    page.keyboard.press("1")
    (nameless,) = save(page, tmp_path / "nameless.jsonl")
    assert "by" not in nameless
    expect(page.get_by_role("status")).to_contain_text("1 label without a name: enter yours, and save again.")
    page.get_by_label("Your name").fill("anna")
    (label,) = save(page, tmp_path / "named.jsonl")
    assert label["by"] == "anna"
    page.get_by_label("Your name").fill("ben")
    page.get_by_label("Your name").blur()
    page.keyboard.press("0")
    assert [one["by"] for one in save(page, tmp_path / "both.jsonl")] == ["anna", "ben"]
