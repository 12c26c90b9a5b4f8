"""A collection that the harness left on a server (keep=true) is searched later by its name, under the document ids."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from installed import skip_without
from small_world import DOCUMENTS, QUERIES, write_collection
from warm_harness import harness_command

import harness

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


def kept_and_searched(backend: str, dataset: Path) -> None:
    first = harness.compare(f"{backend};keep=true", dataset, k=5)
    (made,) = first.report.trials
    assert made.error is None
    assert made.index is not None
    collection = made.index.state["collection"]
    again = harness.compare(f"{backend};external=true;collection={collection}", dataset, k=5)
    (found,) = again.report.trials
    assert found.error is None
    assert found.index is not None
    assert found.index.external_index is not None
    assert (found.index.external_index.in_dataset, found.index.documents_indexed) == (len(DOCUMENTS), len(DOCUMENTS))
    assert found.parity is not None
    assert (found.parity.queries, found.parity.different) == (len(QUERIES), 0)
    before, after = first.run(made.label), again.run(found.label)
    assert before.doc_ids.take(before.rows) == after.doc_ids.take(after.rows)


@pytest.mark.parametrize(("backend", "model"), [("qdrant", ""), ("qdrant-dense", ";model=random")])
def test_its_name_is_printed(backend: str, model: str, tmp_path: Path) -> None:
    skip_without("qdrant_client")
    from qdrant_stub import serve

    with serve() as stub:
        command = [*harness_command(), "compare", "--dataset", write_collection(tmp_path / "small"), "--k", "5"]
        command += [
            "--backends",
            f"{backend}:url={stub.url};transport=rest;keep=true{model}",
            "--out",
            tmp_path / "out",
        ]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("kept: ")]
    (collection,) = re.findall(r"collection '(harness-[^']*)'", line)
    use = f"{backend}:url={stub.url};external=true;collection={collection}{model}"
    assert line.endswith(f": collection '{collection}' at {stub.url}; search it with {use}")


def test_a_kept_index_of_terms_is_said_to_hold_no_texts(tmp_path: Path) -> None:
    """Searching it as an external index would hold texts against the terms that the harness made of them."""
    from opensearch_stub import serve

    with serve() as stub:
        command = [*harness_command(), "compare", "--dataset", write_collection(tmp_path / "small"), "--k", "5"]
        command += ["--backends", f"elasticsearch:url={stub.url};keep=true", "--out", tmp_path / "out"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("kept: ")]
    assert re.search(r": index 'harness-[^']*' at http", line)
    assert line.endswith("; it holds the harness's terms, not texts, so it cannot be searched as an external index")


def test_of_qdrant(tmp_path: Path) -> None:
    skip_without("qdrant_client")
    from qdrant_stub import serve

    with serve() as stub:
        kept_and_searched(f"qdrant:url={stub.url};transport=rest", write_collection(tmp_path / "small"))


def test_of_chroma(chroma_url: str, tmp_path: Path) -> None:
    skip_without("chromadb")
    kept_and_searched(f"chroma:url={chroma_url};model=random", write_collection(tmp_path / "small"))


def test_of_milvus(tmp_path: Path) -> None:
    skip_without("pymilvus")
    from milvus_server import serving

    with serving(tmp_path) as server:
        kept_and_searched(f"milvus:url={server.url};model=random", write_collection(tmp_path / "small"))
