"""`--filter` through the command line: what is found, what the report says, and what is stored for resuming."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from small_world import DOCUMENTS, write_collection
from warm_harness import harness_command

import harness
from harness.results.comparison import Comparison

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
SECTIONS = {"d1": "news", "d2": "news", "d3": "garden", "d4": "garden", "d6": "garden"}
BACKENDS = ["csr", "flat:model=random"]
if importlib.util.find_spec("chromadb") is not None:
    BACKENDS.append("chroma:model=random")
if importlib.util.find_spec("qdrant_edge") is not None:
    BACKENDS.append("qdrant-dense:model=random")
LUCENE = importlib.util.find_spec("jnius_config") is not None
if LUCENE:
    BACKENDS += ["lucene-hnsw:model=random", "lucene"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_collection(tmp_path_factory.mktemp("data") / "sections")
    records = [{"_id": name, "text": text, "metadata": _of(name)} for name, text in DOCUMENTS.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def _of(name: str) -> dict[str, str]:
    return {"section": SECTIONS[name]} if name in SECTIONS else {}


@pytest.fixture(scope="module")
def comparison(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    out = tmp_path_factory.mktemp("out") / "result"
    command = [*harness_command(), "compare", "--backends", ",".join(BACKENDS), "--dataset"]
    command += [str(collection), "--filter", "section=garden", "--k", "5", "--no-timing", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "filter section=garden: 3 documents match (50.00%)" in " ".join(done.stdout.split())
    assert "of 4 relevant judgments 2 are of documents that match the filter" in " ".join(done.stdout.split())
    return Comparison.load(out)


def test_every_backend_returns_what_matches_and_agrees_with_the_filtered_list(comparison: Comparison) -> None:
    for label in BACKENDS:
        run = comparison.run(label)
        assert {run.doc_ids[int(row)] for row in run.rows} <= {"d3", "d4", "d6"}
        parity = comparison.trial(label).parity
        assert parity is not None
        assert parity.different == 0
        assert not [note for note in comparison.trial(label).notes if "fewer" in note]
    for label in [label for label in BACKENDS if "model=random" in label]:
        assert np.diff(comparison.run(label).indptr).tolist() == [3] * 4
    assert comparison.trial("csr").index is not None
    assert comparison.trial("csr").index.documents_indexed == len(DOCUMENTS)  # type: ignore[union-attr]


def test_the_report_says_what_the_filter_leaves(comparison: Comparison) -> None:
    info = comparison.report.dataset.filter
    assert info is not None
    assert info.fields == {"section": "garden"}
    assert (info.matching, info.selectivity, info.relevant, info.relevant_matching) == (3, 0.5, 4, 2)
    assert comparison.report.plan.arguments["filter"] == ["section=garden"]
    assert "--filter" in comparison.report.command


def test_another_filter_is_another_trial(collection: Path) -> None:
    def ask(**options: str) -> bool:
        return harness.compare("csr", collection, k=4, timing=False, resume="missing", **options).trial("csr").reused  # type: ignore[arg-type]

    assert not ask(filter="section=news")
    assert ask(filter="section=news")
    assert not ask(filter="section=garden")
    assert not ask()


def test_a_stored_run_of_other_documents_fails(collection: Path, tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("q1 Q0 d1 1 2.0 x\nq1 Q0 d6 2 1.0 x\n")
    compared = harness.compare(["csr", f"run:{tmp_path / 'a.trec'}"], collection, k=5, filter="section=garden")
    assert compared.failed == [f"run:{tmp_path / 'a.trec'}"]
    (tmp_path / "b.trec").write_text("q1 Q0 d6 1 1.0 x\n")
    compared = harness.compare([f"run:{tmp_path / 'b.trec'}"], collection, k=5, filter="section=garden")
    assert compared.failed == []


def test_an_external_index_is_refused_when_planning(collection: Path, tmp_path: Path) -> None:
    external = f"external=true;path={tmp_path}"
    command = [*harness_command(), "compare", "--backends", f"csr,csr:{external}", "--dataset"]
    done = subprocess.run(
        [*command, str(collection), "--filter", "section=news"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"backend 'csr:{external}': --filter" in done.stderr


@pytest.mark.skipif(not LUCENE, reason="the extra 'lucene' is not installed")
def test_expanded_queries_are_filtered_too(collection: Path) -> None:
    backends = ["lucene:rm3=true;rm3_fb_docs=2", "lucene:axiom=true;axiom_n=2;axiom_r=2"]
    compared = harness.compare(backends, collection, k=5, filter="section=garden", timing=False)
    assert compared.failed == []
    for backend in backends:
        run = compared.run(backend)
        assert run.hits > 0
        assert {run.doc_ids[int(row)] for row in run.rows} <= {"d3", "d4", "d6"}


def test_clients_under_load_filter_too(collection: Path) -> None:
    options = {"k": 5, "filter": "section=garden", "concurrency": "2", "load_seconds": 0.2}
    level = harness.compare("csr", collection, **options).trial("csr").closed_loop[0]  # type: ignore[arg-type]
    assert (level.errors, level.different_queries, level.clients_failed) == (0, 0, 0)
