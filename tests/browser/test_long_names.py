"""Pages of every kind on a telephone, with labels, ids, names and texts of 200 characters without a space."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from browser_page import BrowserPage

import harness

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]
WIDTH = 400


def long(word: str) -> str:
    return f"{word}_{'0123456789' * 20}"[:200]


FIRST, SECOND = long("a_retriever"), long("another_retriever")
NAMES = [long(f"question{number}") for number in range(8)]
RETRIEVERS: Mapping[str, Callable[[str, int], list[str]]] = {
    FIRST: lambda question, k: [long(f"document{question}")],
    SECOND: lambda question, k: [long("other"), long(f"document{question}")],
}
OVERFLOWS = """() => {
  const { clientWidth: width, scrollWidth } = document.documentElement;
  const clips = (node) => ["auto", "hidden", "scroll"].includes(getComputedStyle(node).overflowX);
  const isClipped = (node) => node !== null && node !== document.body && (clips(node) || isClipped(node.parentElement));
  const runsOut = (node) => {
    const { left, right, width: ownWidth } = node.getBoundingClientRect();
    return ownWidth > 0 && (right > width + 1 || left < -1) && !isClipped(node.parentElement);
  };
  const nodes = [...document.querySelectorAll("body *")].filter((node) => !node.closest(".skip"));
  const visible = nodes.filter((node) => node.checkVisibility());
  const named = (node) => `${node.tagName}.${node.getAttribute("class")}: ${node.textContent.slice(0, 40)}`;
  const cells = visible.filter((node) => node.matches("figure.table tr > *, .detail tr > *"));
  return {
    out: visible.filter(runsOut).map(named),
    wide: cells.filter((cell) => cell.getBoundingClientRect().width > 0.75 * width).map(named),
    high: cells.filter((cell) => cell.getBoundingClientRect().height > 200).map(named),
    width: scrollWidth,
  };
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("long") / long("folder")
    questions = [str(number) for number in range(len(NAMES))]
    golden = [
        {"id": name, "question": question, "expected": [long(f"document{question}")], "kind": long("kind")}
        for name, question in zip(NAMES, questions, strict=True)
    ]
    settings = {"k": 3, "timing": False, "isolation": "none"}
    checks = {
        part: harness.check(
            golden, against=dict(order), out=folder / part, slice=["kind"], require=["Hit@1>=0.9"], **settings
        )
        for part, order in (("before", RETRIEVERS.items()), ("after", reversed(RETRIEVERS.items())))
    }
    documents = {long(f"document{question}"): f"{long('word')} number{question}" for question in questions}
    queries = dict(zip(NAMES, [f"{long('word')} number{question}" for question in questions], strict=True))
    grades = {name: {document: 1} for name, document in zip(NAMES, documents, strict=True)}
    datasets = [harness.Dataset.of(documents, queries, grades, name=long(name)) for name in ("first", "second")]
    backends = ["csr", f"{FIRST}=csr:k1=3", "csr:b=0"]
    compared = harness.compare(backends, datasets, out=folder / "compared", metrics="AP,nDCG@3", **settings)
    alone = harness.compare(backends, datasets[0], out=folder / "alone", metrics="AP", **settings)
    return {
        "check": checks["before"].html(),
        "diff": harness.diff(folder / "before", folder / "after").html(),
        "compare several": compared.html(),
        "compare": alone.html(),
    }


@pytest.mark.parametrize("kind", ["check", "diff", "compare several", "compare"])
def test_nothing_runs_out_of_a_telephone(show: Show, pages: Mapping[str, str], kind: str) -> None:
    page = show(pages[kind], viewport={"width": WIDTH, "height": 800}).page
    fine = {"out": [], "wide": [], "high": [], "width": WIDTH}
    for selector in ("#verdict .verdicts", "main figure.table thead"):
        box = page.locator(selector).first.bounding_box()
        assert box is not None
        assert box["y"] < 800, f"{selector} is on the first screen"
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate(OVERFLOWS) == fine
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = false")
    page.locator(".row").first.click()
    page.locator(".ranking .hit").first.click()
    assert page.evaluate(OVERFLOWS) == fine
