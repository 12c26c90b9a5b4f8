"""The first screen of a page in a real Chromium: the answer, the table and the questions won and lost, unscrolled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_page import BrowserPage
from playwright.sync_api import Page, expect

import harness
from harness.pipeline.check.checked import CheckResult

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]
WORDS = ("apples", "pears", "trout", "salmon", "oats", "barley", "copper", "silver", "oak", "birch", "tea", "coffee")
LONG_LABEL = "langchain_retriever_of_the_search_team"


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> CheckResult:
    """Return a check of three backends on 36 questions, on 30 of which the last backend is worse and on 3 better."""
    folder = tmp_path_factory.mktemp("first")
    texts = {f"{word}-{number}": f"{word} {word} number{number}" for word in WORDS for number in range(3)}
    rows = [{"_id": name, "text": text} for name, text in texts.items()]
    chunks = folder / "chunks.jsonl"
    chunks.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    golden = [
        {"id": f"question-{number}", "question": f"{text}, and what else is known of it?", "expected": [name]}
        for number, (name, text) in enumerate(texts.items())
    ]
    golden[:3] = [row | {"question": f"nothing of these {number}"} for number, row in enumerate(golden[:3])]
    answers = {row["question"]: row["expected"] if number < 6 else ["tea-0"] for number, row in enumerate(golden)}
    return harness.check(
        golden,
        corpus=[str(chunks)],
        backends="csr,csr:b=0;k1=3",
        against={LONG_LABEL: lambda question, k: answers[question][:k]},
        metrics="MRR@3",
        k=3,
        timing=False,
        isolation="none",
        out=folder / "out",
    )


def bottom(page: Page, selector: str) -> float:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return box["y"] + box["height"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (1920, 1080)])
def test_the_answer_the_table_and_the_questions_are_in_view(
    show: Show, checked: CheckResult, width: int, height: int, scheme: str
) -> None:
    opened = show(checked.html(), viewport={"width": width, "height": height}, color_scheme=scheme)
    page = opened.page
    (answer,) = page.locator(".verdicts:visible strong").all_inner_texts()
    assert "best on MRR@3 over 36 questions" in answer
    assert "significant (adjusted p " in answer
    for selector in ("#verdict .verdicts", "#quality tbody tr:last-child"):
        assert bottom(page, selector) <= height, selector
    for name in ("won", "lost"):
        questions = page.locator("#won-and-lost figure", has_text=f"questions {name} against")
        expect(questions.locator("tbody tr").nth(1)).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    questions.locator("tbody th a").first.click()
    expect(page.locator("dialog.detail h3")).to_contain_text("what else is known of it?")
    assert opened.complaints == []


def test_a_check_against_a_baseline_shows_both_answers_with_their_tables(show: Show, tmp_path: Path) -> None:
    golden = [{"id": f"q{number}", "question": f"{number}", "expected": [f"d{number}"]} for number in range(30)]
    worse = {f"{number}": [f"d{number}"] if number > 12 else ["other"] for number in range(30)}
    options: dict[str, Any] = {"k": 3, "metrics": "MRR", "timing": False, "isolation": "none"}
    harness.check(golden, against={"mine": lambda question, k: [f"d{question}"]}, **options).save_baseline(
        tmp_path / "base.json"
    )
    backends = {"mine": lambda question, k: worse[question], "other": lambda question, k: [f"d{question}"]}
    page = show(harness.check(golden, against=backends, baseline=tmp_path / "base.json", **options).html()).page
    answers = page.locator("#verdict strong:visible").all_inner_texts()
    assert [answer.partition(" (")[0] for answer in answers] == [
        "Failed: worse beyond the allowed drop",
        "other is best on MRR@3 over 30 questions; other is 0.4333 above mine, significant",
    ]
    visible = page.locator("main section:visible[id]").evaluate_all("parts => parts.map((part) => part.id)")
    tables = ["baseline-quality", "baseline-changed", "quality", "won-and-lost"]
    assert visible == ["verdict", *tables, "queries", "again"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_shows_the_answer_and_the_top_of_the_table(show: Show, checked: CheckResult, scheme: str) -> None:
    page = show(checked.html(), viewport={"width": 400, "height": 800}, color_scheme=scheme).page
    assert bottom(page, "#verdict .verdicts") <= 800
    assert bottom(page, "#quality thead") <= 800
    assert page.evaluate("document.documentElement.scrollWidth") == 400
