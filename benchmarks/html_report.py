"""How large the page of a comparison gets, and how fast a browser is with it: 5 backends, 10,000 queries.

Collection, rankings and judgments are synthetic and seeded: documents of words drawn by Zipf's law, rankings that are
noisy copies of one another, four metrics computed by the harness. The page is made five times; then Chromium opens it
from disk, and the list is filtered, searched, sorted and opened, each several times. A step's time is what its event
keeps the page busy, with the styles and the layout of what it drew; that of opening a query ends before its texts come.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.data.types import Corpus, Ids, Qrels, Queries, Run
from harness.document.model import Document
from harness.metrics import parse_metric, score
from harness.report.html.render import render_page
from harness.report.rankings.explorer import Explorer

MEASURES = ("nDCG@10", "AP", "R@100", "RR@10")
WORDS_IN_A_DOCUMENT, WORDS_IN_A_QUERY, JUDGED, VOCABULARY = 90, 6, 3, 60_000


def main() -> None:
    """Make the page and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--backends", type=int, default=5)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    parser.add_argument("--out", type=Path, help="keep the page here")
    given = parser.parse_args()
    page, explorer = Document("Synthetic", "", [], [], [""], ""), synthetic(given)
    times, html = [], ""
    for _ in range(given.repeat):
        begun = time.perf_counter()
        html = render_page(page, [explorer])
        times.append(time.perf_counter() - begun)
    with tempfile.TemporaryDirectory() as folder:
        path = given.out or Path(folder) / "report.html"
        path.write_text(html, encoding="utf-8")
        print(f"| size, MB | {path.stat().st_size / 1e6:.2f} |")
        print(f"| made in, s | {statistics.median(times):.2f} |")
        with_texts = html.split("Texts of documents are here for ")[1].split(" queries")[0]
        print(f"| queries with texts | {with_texts.removeprefix('the ')} |")
        if given.chromium is None:
            print("no Chromium: what a browser does was not measured")
        else:
            in_browser(path, given.chromium, given.repeat)


def synthetic(given: argparse.Namespace) -> Explorer:
    """Rankings of one base order with more and more noise; the first relevant document is usually near the top."""
    rng = np.random.default_rng(42)
    words = np.array([f"{'aeiou'[n % 5]}{n:x}" for n in range(VOCABULARY)])
    ids = Ids.of(f"doc-{n:07d}" for n in range(given.documents))
    queries = Ids.of(f"query-{n:05d}" for n in range(given.queries))
    base = rng.integers(0, given.documents, (given.queries, 2 * given.k))
    runs = []
    for number in range(given.backends):
        noise = rng.normal(0, 0.4 * number + 1e-3, base.shape) + np.arange(base.shape[1]) / 12
        runs.append(_run(queries, ids, np.take_along_axis(base, np.argsort(noise, axis=1), axis=1), given.k))
    relevant = base[np.arange(given.queries)[:, None], rng.integers(0, 30, (given.queries, JUDGED))]
    qrels = _qrels(queries, ids, relevant)
    measures = [parse_metric(name) for name in MEASURES]
    values = np.stack([score(run, qrels, measures).values.T for run in runs])
    return Explorer(
        query_ids=queries,
        labels=[f"backend-{number}" for number in range(given.backends)],
        runs=runs,
        metrics=list(MEASURES),
        values=values,
        queries=Queries(queries, _texts(rng, words, given.queries, WORDS_IN_A_QUERY), ""),
        qrels=qrels,
        corpus=Corpus(ids, _texts(rng, words, given.documents, WORDS_IN_A_DOCUMENT), ""),
    )


def _texts(rng: np.random.Generator, words: np.ndarray, count: int, length: int) -> pa.ChunkedArray:
    drawn = np.minimum(rng.zipf(1.3, (count, length)) - 1, VOCABULARY - 1)
    return pa.chunked_array([[" ".join(row) for row in words[drawn].tolist()]])


def _run(queries: Ids, ids: Ids, ranked: np.ndarray, k: int) -> Run:
    rows = [list(dict.fromkeys(row))[:k] for row in ranked.tolist()]
    indptr = np.cumsum([0, *map(len, rows)])
    flat = np.fromiter((doc for row in rows for doc in row), np.int32)
    scores = np.concatenate([30 / (1 + np.arange(len(row), dtype=np.float32) / 7) for row in rows])
    jitter = 1 + np.random.default_rng(len(flat)).uniform(-1e-4, 1e-4, len(scores))
    return Run(queries, ids, indptr.astype(np.int64), flat, np.float32(scores * jitter))


def _qrels(queries: Ids, ids: Ids, relevant: np.ndarray) -> Qrels:
    rows = [sorted(set(row)) for row in relevant.tolist()]
    flat = np.fromiter((doc for row in rows for doc in row), np.int32)
    return Qrels(queries, ids, np.cumsum([0, *map(len, rows)]), flat, np.ones(len(flat), np.int32))


def in_browser(path: Path, chromium: str, repeat: int) -> None:
    """Open the page, and take the times of what people do with it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        loads = []
        for _ in range(repeat):
            page = browser.new_page()
            begun = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("[role=option]", state="attached")
            loads.append(1000 * (time.perf_counter() - begun))
        report("opened until the list is there", loads)

        def step(what: str, act: Callable[[int], str]) -> None:
            report(what, [page.evaluate(_timed(act(turn))) for turn in range(repeat + 1)][1:])

        step("filter", lambda _: _filter("regressed"))
        step("filter unjudged", lambda _: _filter("unjudged"))
        step("other pair of backends", lambda turn: _select("select-b", turn % 4 + 1))
        step("sort", lambda turn: _select("select-sort", ("loss", "gain", "id")[turn % 3]))
        step("search, one more letter", lambda turn: f"type({'query-0123'[: 5 + turn]!r})")
        step("search documents, one more letter", lambda turn: f"type({'doc-00123'[: 3 + turn]!r})")
        page.evaluate(_timed("type('')"))
        step("open a query", lambda turn: f"document.querySelectorAll('[role=option]')[{turn % 6}].click()")
        browser.close()


def _filter(name: str) -> str:
    return f"document.querySelector('[data-filter={name}]').click()"


def _select(name: str, value: str | int) -> str:
    return f"choose({name!r}, {str(value)!r})"


def _timed(act: str) -> str:
    return f"""async () => {{
      const fire = (node, name) => node.dispatchEvent(new Event(name, {{ bubbles: true }}));
      const choose = (id, value) => {{
        const node = document.getElementById(id); node.value = value; fire(node, "change"); }};
      const type = (text) => {{
        const node = document.getElementById("search"); node.value = text; fire(node, "input"); }};
      const frame = () => new Promise((done) => requestAnimationFrame(done));
      await frame();
      const begun = performance.now();
      {act};
      document.body.getBoundingClientRect();
      const worked = performance.now() - begun;
      await frame();
      return worked;
    }}"""


def report(what: str, milliseconds: list[float]) -> None:
    """A line of the table: the median and the worst."""
    print(f"| {what}, ms | {statistics.median(milliseconds):.0f} (worst {max(milliseconds):.0f}) |")


if __name__ == "__main__":
    main()
