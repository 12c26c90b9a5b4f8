"""`report.html` of a real comparison: beside the report, made again from a stored one, with and without texts."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from small_world import write_collection

from harness import compare
from harness.cli.app import _build
from harness.document.model import Cell, Column, Document, Section, Table
from harness.report.html.render import render_page
from harness.results.comparison import Comparison
from harness.results.stored_texts import with_documents

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


def cli(*arguments: str) -> str:

    result = CliRunner().invoke(_build(), ["report", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    options = {"metrics": "nDCG@10,AP", "k": 20, "timing": False, "isolation": "none"}
    out = tmp_path_factory.mktemp("html") / "result"
    return compare("csr,csr:k1=3;b=1", "cacm", out=out, **options)


class Reader(HTMLParser):
    """Texts, scripts and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.inside = ""
        self.texts: list[str] = []
        self.scripts: dict[str, str] = {}
        self.styles: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        if tag == "script":
            self.inside = f"script {dict(attrs).get('id', 'own')}"
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside.startswith("script"):
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data
        elif self.inside == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)


@pytest.fixture(scope="module")
def page(stored: Comparison) -> Reader:
    assert stored.folder is not None
    return Reader((stored.folder / "report.html").read_text(encoding="utf-8"))


def test_it_says_what_the_report_says(stored: Comparison, page: Reader) -> None:
    text = "\n".join(page.texts)
    for backend in stored.report.trials:
        for value in backend.metrics.values():
            assert f"{value.mean:.4f}" in text
    assert stored.report.dataset.sha256 in text
    assert "harness compare --backends" in text
    assert "csr:k1=3.0;b=1.0" in text
    assert stored.report.packages["numpy"] in text


def test_it_needs_no_network_and_runs_nothing_else(page: Reader) -> None:
    assert not [value for tag, name, value in page.attributes if name in ("src", "srcset", "action", "style", "onload")]
    links = {value for tag, name, value in page.attributes if name == "href"}
    assert all(link is not None and link.startswith(("#", "data:,")) for link in links)
    (policy,) = (value for tag, name, value in page.attributes if name == "content" and "default-src" in str(value))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy

    def digest(content: str) -> str:
        return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()

    assert re.findall(r"'sha256-([^']+)'", policy) == [digest(page.scripts["script own"]), digest("".join(page.styles))]


def test_pictures_have_words(page: Reader) -> None:
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    said = "\n".join(map(str, labels))
    for what in ("Bars of nDCG@10", "on 52 queries, sorted", "Recall by depth", "Overlap@10", "exact reference"):
        assert what in said


def test_a_stored_result_becomes_the_same_page(stored: Comparison) -> None:
    folder = stored.folder
    assert folder is not None
    assert cli(str(folder), "--format", "html") == (folder / "report.html").read_text(encoding="utf-8")


def test_without_texts(stored: Comparison, tmp_path: Path) -> None:
    assert stored.queries is not None
    text = stored.queries.texts[0].as_py()[:40]
    quiet = stored.save(tmp_path / "quiet", keep_text=False)
    assert quiet.folder is not None
    for page in (
        (quiet.folder / "report.html").read_text(encoding="utf-8"),
        cli(str(quiet.folder), "--format", "html"),
        cli(str(stored.folder), "--format", "html", "--no-text"),
    ):
        reader = Reader(page)
        assert text not in "\n".join(reader.texts)
        assert text not in _data(reader, "queries-data")
        assert reader.scripts["script texts-data"] == "[]"
    assert text in _data(Reader(stored.html()), "queries-data")


def _data(reader: Reader, name: str) -> str:
    content = reader.scripts[f"script {name}"]
    return content if content.startswith("{") else gzip.decompress(base64.b64decode(content)).decode()


def test_a_backend_that_failed_on_one_dataset_gave_no_answer_there(tmp_path: Path) -> None:
    datasets = [write_collection(tmp_path / name) for name in ("x", "y")]
    result = compare("csr,csr:k1=3;b=1", datasets, metrics="AP", k=5, timing=False, isolation="none")
    trials = [
        trial.model_copy(update={"status": "failed"}) if (trial.dataset, trial.label) == ("y", "csr") else trial
        for trial in result.report.trials
    ]
    failed = replace(result, report=result.report.model_copy(update={"trials": trials}))
    told = [
        {
            (query["dataset"], tuple(query.get("failed", ())))
            for query in json.loads(_data(Reader(html), "queries-data"))["queries"]
        }
        for html in (result.html(), failed.html())
    ]
    assert told == [{(0, ()), (1, ())}, {(0, ()), (1, (True, False))}]


def test_documents_of_another_dataset_are_not_taken(stored: Comparison) -> None:
    assert stored.folder is not None
    loaded = Comparison.load(stored.folder)
    dataset = loaded.report.dataset.model_copy(update={"provenance": {"corpus_sha256": "0" * 64}})
    from dataclasses import replace

    other = with_documents(replace(loaded, report=loaded.report.model_copy(update={"datasets": [dataset]})))
    assert other.corpus is None
    assert "'cacm' holds other documents now" in other.no_texts
    assert other.no_texts in other.html().replace("&#39;", "'")


def test_the_sign_of_a_difference_stays_with_the_name_in_a_heading() -> None:
    table = Table("Quality", [Column("backend", numeric=False), Column("− csr")], [[Cell("bm25s"), Cell("0")]])
    page = Document("", "", [], [Section("quality", "Quality", [table])], [], "")
    assert ">−\u00a0csr</span></th>" in render_page(page, [])
