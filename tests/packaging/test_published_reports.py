"""The pages under `reports/` are small, hold no trace of the machine, and are those that the README shows."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

import pytest

PAGES = {
    "cacm.html": "harness compare --backends qdrant,lucene,csr ",
    "bm25s.html": "harness compare --backends csr,lucene,tantivy,sqlite,bm25s,lancedb-text --dataset cacm ",
    "vectors.html": "harness compare --backends flat,faiss,usearch,hnswlib,lancedb,milvus,pgvector,qdrant-dense,",
    "churn.html": "harness compare --backends 'lucene,qdrant,chroma,faiss:index=Flat,",
    "cacm-k1-b.html": "harness regress --baseline reports/baselines/cacm.json --set ",
}
DATA = re.compile(r'<script type="application/(json|gzip)" id="[^"]*">([^<]*)</script>')
PLACE = re.compile(r"(?<![\w<.])/(?:tmp|work|home|root|Users|opt|var|usr|mnt)/|file://")


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, repository: Path) -> Path:
    return repository / "reports" / request.param


def test_it_is_small_and_names_no_place_of_the_machine(page: Path) -> None:
    content = page.read_text(encoding="utf-8")
    # 650,000 without explanations of hits, which add as much at most
    assert page.stat().st_size < 1_300_000
    found = DATA.findall(content)
    data = [text if kind == "json" else gzip.decompress(base64.b64decode(text)).decode() for kind, text in found]
    assert len(data) >= 2
    for text in (DATA.sub("", content), *data):
        assert PLACE.search(text) is None
    assert "uncommitted" not in content


def test_its_command_is_the_one_that_is_documented(page: Path, repository: Path) -> None:
    begun = PAGES[page.name]
    assert begun in page.read_text(encoding="utf-8").replace("&#39;", "'")
    documented = (repository / "reports" / "README.md").read_text(encoding="utf-8")
    assert begun in documented
    assert f"> reports/{page.name}" in documented


def test_every_page_that_is_listed_is_looked_at(repository: Path) -> None:
    listed = (repository / "reports" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[(.+?\.html)\]", listed, re.MULTILINE)) == set(PAGES)


def test_the_picture_of_the_readme_is_there(repository: Path) -> None:
    picture = repository / "docs" / "pictures" / "report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000
    assert "docs/pictures/report.png" in (repository / "README.md").read_text(encoding="utf-8")
