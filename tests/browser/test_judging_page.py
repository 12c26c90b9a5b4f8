"""A judging session in a real Chromium: 30 documents by keys, undone, kept, saved, loaded, and scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from browser_page import BrowserPage
from judged_results import small_result
from playwright.sync_api import Page, expect

import harness
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
        {"query_id": others[0][0], "doc_id": others[0][1], "grade": 1},
        {"query_id": others[1][0], "doc_id": others[1][1], "grade": 1, "text_digest": "of-another"},
        {"query_id": others[2][0], "doc_id": others[2][1], "grade": None},
        {"query_id": "elsewhere", "doc_id": "d", "grade": 1},
    ]
    file = tmp_path / "other.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + "not JSON\n", encoding="utf-8")
    page.get_by_label("Load labels").set_input_files(file)
    left = "left out: 1 of other documents, 1 of texts that have changed, 1 earlier than yours, 1 malformed."
    expect(page.get_by_role("status")).to_have_text(f"1 label loaded; {left}")
    assert [one["grade"] for one in save(page, tmp_path / "second.jsonl")] == [1, 1]
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#count")).to_have_text("1 of 30 documents judged")


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
