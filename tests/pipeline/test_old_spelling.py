"""``existing=true``, as ``external=true`` was called before, is read wherever a user or a stored file has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_world import DOCUMENTS, QUERIES, write_collection

import harness
from harness.data.types import SparseVectors
from harness.encoders import bm25
from harness.errors import UsageError
from harness.exact import SparseIndex
from harness.pipeline.check.against import parse_against
from harness.pipeline.regress.rerun import changed_backends
from harness.plan.backend_spec import parse_backends
from harness.results.baseline import save_baseline
from harness.text import count_terms, create_analyzer


def test_a_backend_expression(tmp_path: Path) -> None:
    old, new = (parse_backends(f"csr:{word}=true;path={tmp_path}") for word in ("existing", "external"))
    assert old == new
    assert old[0].label == f"csr:external=true;path={tmp_path}"
    (fused,) = parse_backends(f"rrf:csr+(csr:existing=true;path={tmp_path})")
    assert fused.components[1] == new[0]


def test_both_spellings_are_one_parameter(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="parameter 'external' is given twice"):
        parse_backends(f"csr:existing=true;external=true;path={tmp_path}")


def test_a_retriever_to_check() -> None:
    (given,) = parse_against(["chroma:existing=true;path=db"])
    assert given.backend == "chroma:existing=true;path=db"


def test_a_changed_setting(tmp_path: Path) -> None:
    specs = parse_backends(f"csr:external=true;path={tmp_path}")
    assert changed_backends(specs, ["csr:existing=false"]) == [f"csr:external=false;path={tmp_path}"]


@pytest.mark.integration
def test_a_baseline_of_an_earlier_version(tmp_path: Path) -> None:
    """It runs again, pairs with its own labels, and no setting seems to have changed."""
    collection = write_collection(tmp_path / "small")
    counts = count_terms(create_analyzer("whitespace"), [list(DOCUMENTS.values())], list(QUERIES.values()))
    weights = SparseVectors.from_scipy(bm25.document_weights(counts, k1=0.9, b=0.4, k1_plus_1=True).to_scipy())
    SparseIndex.build(weights, idf="bm25").save(tmp_path / "index")
    (tmp_path / "index" / "ids.txt").write_text("".join(f"{one}\n" for one in DOCUMENTS))
    stem = f"csr:external=true;analyzer=whitespace;path={tmp_path / 'index'};id_file="
    backends = ["csr:analyzer=whitespace", stem + "ids.txt", stem + "./ids.txt"]
    baseline = tmp_path / "baseline.json"
    save_baseline(harness.compare(backends, collection, k=3, isolation="none"), baseline)
    written = baseline.read_text()
    former = written.replace("external=true", "existing=true").replace('"external": ', '"existing": ')
    former = former.replace("embedded, external index", "embedded, existing index")
    assert former.count("existing") > written.count("existing") + 5
    baseline.write_text(former)
    report = harness.regress(baseline).change
    assert [one.paired_by for one in report.backends] == ["label"] * 3
    assert [one for one in report.settings if one.section in ("parameters", "engine", "plan")] == []
