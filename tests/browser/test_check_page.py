"""The page of a check in a real Chromium: its verdict, its filters, and a question with what it expects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_page import BrowserPage
from click.testing import CliRunner
from playwright.sync_api import expect

import harness
from harness.document.model import Figure, Notes
from harness.pipeline.check.checked import CheckResult
from harness.pipeline.check.run_check import with_corpora
from harness.report.documents.check import check_document
from harness.results.check_schema import PreflightProblem

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]

HACK = '<img src=x onerror="window.hacked = true"></script><script>window.hacked = true</script>'
TEXTS = {
    "fruit#0": "apples and pears grow on trees",
    "fruit#1": "apples are pressed for juice and pears too",
    "fish#0": f"trout swim in rivers {HACK}",
    "fish#1": "salmon swim upstream to spawn",
    f"odd#{HACK}": "apples apples pears juice",
}
QUESTIONS: list[dict[str, Any]] = [
    {"id": "late", "question": "apples pears juice", "expected": ["fruit", "fish"], "lang": "en"},
    {"id": "first", "question": f"salmon spawn {HACK}", "expected": ["fish"], "lang": HACK},
    {"id": "missed", "question": "trout rivers", "expected": ["fruit"], "lang": "en"},
    {"id": "none", "question": "who invented the wheel", "expected": []},
]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("check")


@pytest.fixture(scope="module")
def checked(place: Path) -> CheckResult:
    return harness.check(
        lines(place / "golden.jsonl", QUESTIONS),
        corpus=[str(lines(place / "chunks.jsonl", [{"_id": name, "text": text} for name, text in TEXTS.items()]))],
        backends="csr",
        k=3,
        match="document",
        delimiter="#",
        require=["Hit@3>=0.9", "Hit@3>=0.1"],
        slice=["lang"],
        isolation="none",
        out=place / "failed",
    )


def test_verdict_filters_and_what_is_expected(show: Show, checked: CheckResult) -> None:
    opened = show(checked.html())
    page = opened.page
    verdicts = page.locator(".verdicts strong").all_text_contents()
    assert verdicts == ["Failed: 1 of 2 requirements not met", "Hit@3>=0.9 failed on csr"]
    assert page.locator(".chip").evaluate_all("chips => chips.map((one) => one.dataset.filter)") == [
        "missed", "late", "first", "nothing",
    ]  # fmt: skip
    for name, listed in {"missed": ["missed"], "late": ["late"], "first": ["first"], "nothing": ["none"]}.items():
        page.locator(f"[data-filter={name}]").click()
        opened.expect_queries(listed, name)
        page.locator(f"[data-filter={name}]").click()
    page.locator("[data-filter=late]").click()
    page.locator(".row").first.click()
    ranks = page.locator(".expected tbody tr td:last-child").all_inner_texts()
    assert ranks == ["2", "not found"]
    assert page.locator(".expected .doc").all_inner_texts() == ["fruit#1", "fish#0", "fish#1"]
    expect(page.locator(".state")).to_have_text("first expected at rank 2")
    expect(page.locator(".document .doc")).to_have_text("fish#0")
    expect(page.locator(".document .text")).to_have_text(TEXTS["fish#0"])
    expect(page.locator(".document .ranks")).to_have_text("Rank: csr not found")
    assert page.locator(".ranking .badge.relevant").count() == 1
    assert page.locator(".badge.unjudged").count() == 0
    page.locator(".ranking .hit").first.click()
    expect(page.locator(".document .text")).to_have_text("apples apples pears juice")
    assert page.evaluate("window.hacked") is None
    assert opened.complaints == []


def test_alternatives_are_joined_and_none_is_missed_beside_another(show: Show) -> None:
    given = [{"id": "q", "question": "pie", "expected": [["a", "b"], ["c", "d"]]}]
    found = harness.check(given, against={"mine": lambda question, k: ["x", "b", "y"]}, k=3, isolation="none")
    opened = show(found.html())
    page = opened.page
    page.locator(".row").first.click()
    names = page.locator(".expected tbody th").all_inner_texts()
    assert [names[0], names[2], names[3]] == ["a", "c", "or d"]
    assert names[1].split()[0] == "or"
    assert page.locator(".expected .doc").all_inner_texts() == ["b"]
    assert page.locator(".expected tbody td").all_inner_texts() == ["not found", "2", "not found", "not found"]
    assert page.locator(".expected td.bad").count() == 2
    assert opened.complaints == []


def test_the_list_is_as_high_as_its_questions_and_says_who_got_nothing(show: Show, checked: CheckResult) -> None:
    answers = {"apple pie": ["fruit#1"]}
    given = [{"id": str(n), "question": text, "expected": ["fruit#1"]} for n, text in enumerate(["apple pie", "soup"])]
    found = harness.check(given, against={"mine": lambda question, k: answers.get(question, [])}, k=3, isolation="none")
    page = show(found.html()).page
    rows = page.locator(".row").all_inner_texts()
    assert [row.split("\n")[-1] for row in rows] == ["✕ no hits", "✓ first"]
    assert page.locator(".list").bounding_box()["height"] == 2 * 54 + 44 + 2


def test_questions_that_failed_are_not_among_those_that_missed(show: Show) -> None:
    def retrieve(question: str, k: int) -> list[str]:
        if question == "broken":
            raise ConnectionError("down")
        return {"found": ["a"], "missed": ["b"]}.get(question, [])

    names = ("found", "missed", "broken", "nothing")
    given = [{"id": name, "question": name, "expected": ["a"]} for name in names]
    checked = harness.check(given, against={"mine": retrieve}, k=3, isolation="none")
    assert [one.failed for one in checked.report.trials[0].questions] == [False, False, True, False]
    opened = show(checked.html())
    page = opened.page
    for name, listed in {"missed": ["missed", "nothing"], "failed": ["broken"], "first": ["found"]}.items():
        page.locator(f"[data-filter={name}]").click()
        opened.expect_queries(listed, name)
        page.locator(f"[data-filter={name}]").click()
    page.locator("[data-filter=failed]").click()
    assert "! no answer" in page.locator(".row").first.inner_text()
    page.locator(".row").first.click()
    assert page.locator(".expected tbody td").all_inner_texts() == ["no answer"]
    expect(page.locator(".state")).to_have_text("! the backend failed: no answer")
    assert opened.complaints == []


def test_a_stored_check_becomes_the_same_page(checked: CheckResult, place: Path) -> None:
    written = (place / "failed" / "report.html").read_text(encoding="utf-8")
    assert with_corpora(CheckResult.load(place / "failed")).html() == written == checked.html()
    assert html_of(place / "failed") == written


def test_without_texts(checked: CheckResult, show: Show) -> None:
    opened = show(checked.html(keep_text=False), "#q=first")
    expect(opened.page.locator(".detail h3")).to_have_text("first")
    assert "left out" in opened.page.locator("#queries .lead").inner_text()
    opened.page.locator(".ranking .hit").first.click()
    expect(opened.page.locator(".document")).to_contain_text("not in this file")


def test_an_invalid_check_says_what_to_do(place: Path) -> None:
    found = harness.check(
        lines(place / "gone.jsonl", [{"id": "q", "question": "apples", "expected": ["no-such-chunk"]}]),
        corpus=[str(lines(place / "few.jsonl", [{"_id": "a", "text": "apples"}]))],
        backends="csr",
        isolation="none",
    )
    page = found.html()
    assert "Invalid: no backend was queried" in page
    assert page.count("no backend was queried") == 1
    assert "correct the ids of the golden set" in page
    assert "no-such-chunk" in page
    assert 'queries-data">' not in page


def test_two_corpora_keep_their_documents_apart(place: Path, show: Show) -> None:
    whole = lines(place / "whole.jsonl", [{"_id": "a", "text": "one apple"}, {"_id": "b", "text": "pears"}])
    other = lines(place / "other.jsonl", [{"_id": "a", "text": "another apple"}])
    found = harness.check(
        lines(place / "few-golden.jsonl", [{"id": "q", "question": "apple", "expected": ["a"]}]),
        corpus=[f"whole={whole}", f"other={other}"],
        backends="csr",
        isolation="none",
    )
    page = show(found.html(), "#q=q").page
    assert page.locator(".ranking .doc").all_inner_texts() == ["a · whole", "a · other"]
    page.locator(".ranking .hit").last.click()
    expect(page.locator(".document .text")).to_have_text("another apple")
    expect(page.locator(".why .command")).to_have_text("harness explain RESULT --query q --corpus other --doc a")


def test_a_retriever_of_ones_own_that_repeats_itself(place: Path, show: Show) -> None:
    def same(_: str, k: int) -> list[str]:
        return ["fruit#1", "fruit#0"][:k]

    found = harness.check(
        lines(place / "golden.jsonl", QUESTIONS),
        corpus=[str(lines(place / "chunks.jsonl", [{"_id": name, "text": text} for name, text in TEXTS.items()]))],
        against={"mine": same},
        backends="csr",
        k=3,
        match="document",
        delimiter="#",
        isolation="none",
    )
    page = show(found.html(), "#q=first").page
    verdicts = page.locator(".verdicts strong").all_text_contents()
    assert verdicts[:2] == ["Invalid: not everything could be judged", "csr: Hit@3 0.6667 over 3 questions"]
    assert verdicts[2].startswith("mine: all 4 answers are the same")
    assert page.locator("#verdict summary").inner_text().startswith("mine: all 4 answers are the same")
    assert page.locator("#select-metric option").count() == 4
    mine = page.locator(".ranking").last
    assert mine.locator(".doc").all_inner_texts() == ["fruit#1", "fruit#0"]
    assert mine.locator(".score").all_inner_texts() == ["", ""]
    assert page.locator(".ranking").first.locator(".score").first.inner_text() != ""


def html_of(folder: Path) -> str:

    from harness.cli.app import _build

    done = CliRunner().invoke(_build(), ["report", str(folder), "--format", "html"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_missed_question_shows_what_it_expects_and_where_the_exact_reference_has_it(
    tmp_path: Path, show: Show
) -> None:
    texts = {f"d{n}": f"apples {'pears ' * (4 - n)}and {'more words ' * n}".strip() for n in range(5)}
    found = harness.check(
        [{"id": "deep", "question": "pears", "expected": ["d3"]}],
        corpus=[str(lines(tmp_path / "few.jsonl", [{"_id": name, "text": text} for name, text in texts.items()]))],
        backends="csr",
        k=2,
        isolation="none",
    )
    assert found.report.trials[0].questions[0].expected[0].reference_rank == 4
    page = show(found.html(), "#q=deep").page
    expect(page.locator(".summary")).to_have_text("✕ Nothing expected is found")
    assert page.locator(".expected tbody td").all_inner_texts() == ["not found\n4 in the exact reference"]
    expect(page.locator(".document .text")).to_have_text(texts["d3"])


def test_what_is_required_is_drawn_first(checked: CheckResult) -> None:
    last = list(checked.report.trials[0].metrics)[-1]
    required = [one.model_copy(update={"quantity": last}) for one in checked.report.requirements]
    report = checked.report.model_copy(update={"requirements": required})
    figures = [block for section in check_document(report).sections for block in section.blocks]
    titles = [block.title for block in figures if isinstance(block, Figure)]
    assert titles[:2] == [f"{last}, with 95 % intervals", "Hit@3, with 95 % intervals"]


def test_a_warning_is_one_note_with_its_examples_and_its_fix(checked: CheckResult) -> None:
    warning = PreflightProblem(
        check="odd-ids",
        backend=None,
        dataset=None,
        message="2 ids are odd",
        examples=["one", "other"],
        fix="look at them",
    )
    report = checked.report.model_copy(update={"warnings": [warning]})
    (said,) = (
        line
        for section in check_document(report).sections
        for block in section.blocks
        if isinstance(block, Notes)
        for line in block.lines
        if "odd" in line
    )
    assert said.splitlines() == ["warning (odd-ids): 2 ids are odd", "    one", "    other", "  fix: look at them"]


def test_hits_of_a_question_are_judged_on_the_page(show: Show, checked: CheckResult) -> None:
    opened = show(checked.html(), "#judge", locale="en")
    page = opened.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Judge the documents shown")
    hostile = page.locator(".judged-document", has_text="window.hacked")
    for _ in range(20):
        if hostile.count() == 0:
            page.keyboard.press("j")
    expect(hostile).to_have_count(1)
    page.keyboard.press("n")
    page.keyboard.press("1")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save labels").click()
    expect(page.get_by_role("status")).to_contain_text("To count them: harness check … --labels labels.jsonl")
    (line,) = [json.loads(line) for line in Path(saved.value.path()).read_text(encoding="utf-8").splitlines()]
    assert set(line) == {"query_id", "doc_id", "grade", "time", "text_digest"}
    assert line["doc_id"] in TEXTS
    assert page.evaluate("window.hacked") is None
    assert opened.complaints == []
