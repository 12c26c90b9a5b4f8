"""Pitfalls in whole comparisons and checks: reported where everything else is, and silent on honest collections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz

import harness
from harness.cli.evaluate import evaluate as eval_verb
from harness.loaders.trec_write import write_qrels, write_run
from harness.results.comparison import Comparison

pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.fixture(scope="module")
def bundled() -> dict[str, Comparison]:
    return {name: harness.compare("csr", name, timing=False, isolation="none") for name in ("cacm", "chunking-eval")}


@pytest.mark.parametrize("name", ["cacm", "chunking-eval"])
def test_bundled_collections_have_no_finding(bundled: dict[str, Comparison], name: str) -> None:
    assert bundled[name].report.findings == []


@pytest.mark.parametrize("name", ["cacm", "chunking-eval"])
def test_eval_with_its_own_metrics_is_silent_on_them(
    bundled: dict[str, Comparison], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,), qrels = bundled[name].runs.values(), bundled[name].qrels
    assert qrels is not None
    write_run(tmp_path / "run.trec", run, "csr")
    write_qrels(tmp_path / "qrels.tsv", qrels)
    eval_verb(qrels=tmp_path / "qrels.tsv", run=[tmp_path / "run.trec"])
    assert "P@10" in (printed := capsys.readouterr()).out
    assert "warning" not in printed.out + printed.err
    assert harness.evaluate(tmp_path / "run.trec", tmp_path / "qrels.tsv").findings == ()
    eval_verb(qrels=tmp_path / "qrels.tsv", run=[tmp_path / "run.trec"], format="trec_eval")
    assert "warning" not in capsys.readouterr().err


def test_a_metric_is_judged_when_it_is_named(bundled: dict[str, Comparison]) -> None:
    (run,), qrels = bundled["chunking-eval"].runs.values(), bundled["chunking-eval"].qrels
    assert qrels is not None
    assert [one.check for one in harness.evaluate(run, qrels, "P@10").findings] == ["metric-without-support"]


@pytest.mark.parametrize(("options", "expected"), [({}, []), ({"metrics": "R@100"}, ["metric-without-support"])])
def test_a_comparison_judges_metrics_that_are_named(options: dict[str, Any], expected: list[str]) -> None:
    """TREC-COVID has 493.5 relevant documents a query: R@100 stays below 0.5, and is among the default metrics."""
    documents = {f"d{n}": f"note {n} on subject{n % 6}" for n in range(320)}
    grades = {f"q{n}": {f"d{row}": int(row >= 10 * n) for row in range(320)} for n in range(6)}
    dataset = harness.Dataset.of(documents, {f"q{n}": f"subject{n}" for n in range(6)}, grades)
    found = harness.compare("csr", dataset, timing=False, **options).report.findings
    assert [one.check for one in found if one.check == "metric-without-support"] == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty documents, one relevant for each of ten queries; every third document is next to empty."""
    made = tmp_path_factory.mktemp("data") / "notes"
    (made / "qrels").mkdir(parents=True)
    texts = [f"note {n} on subject{n} and area{n % 7}" if n % 3 else "nan" for n in range(30)]
    corpus = [{"_id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    queries = [{"_id": f"q{n}", "text": f"what of subject{n}"} for n in range(10)]
    for name, records in (("corpus", corpus), ("queries", queries)):
        (made / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (made / "qrels" / "test.tsv").write_text("".join(f"q{n}\td{n}\t1\n" for n in range(10)))
    return made


@pytest.fixture(scope="module")
def comparison(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    run = folder.parent / "reranked.trec"
    lines = [f"q{n} Q0 d{n} 1 0.5 t\nq{n} Q0 d{n + 1} 2 0.9 t\n" for n in range(10)]
    run.write_text("".join(lines))
    out = tmp_path_factory.mktemp("out") / "result"
    return harness.compare(f"csr,run:{run}", folder, metrics="nDCG@10,P@10", out=out, timing=False)


def test_a_comparison_stores_what_was_found(comparison: Comparison) -> None:
    assert comparison.folder is not None
    stored = Comparison.load(comparison.folder).report.findings
    assert stored == comparison.report.findings
    found = {(one.check, one.backend is None): one for one in stored}
    empty = found["near-empty-documents", True]
    assert empty.message.startswith("10 of 30 documents have no text")
    assert empty.examples == ["'d0' is 'nan'", "'d3' is 'nan'", "'d6' is 'nan'"]
    assert found["metric-without-support", True].message.startswith("P@10 can be at most 0.100")
    unsorted = found["unsorted-results", False]
    assert unsorted.backend is not None
    assert "reranked" in unsorted.backend
    assert "scores rise down the list in 10 of 10 queries" in unsorted.message


@pytest.mark.parametrize("format_name", ["table", "markdown", "json"])
def test_every_format_for_people_shows_it(comparison: Comparison, format_name: str) -> None:
    assert "10 of 30 documents have no text" in comparison.render(format_name)


def test_the_page_begins_with_it(comparison: Comparison) -> None:
    page = comparison.html()
    assert 0 < page.index("10 of 30 documents") < page.index("matches the exact reference")
    assert "(near-empty-documents)" in page


def test_a_check_warns_of_its_corpus(folder: Path) -> None:
    golden = [
        {"id": f"q{n}", "question": f"what of subject{n}", "expected_relevant_doc_ids": [f"d{n}"]} for n in (1, 2)
    ]
    report = harness.check(golden, corpus=folder, backends="csr", k=5, timing=False).report
    (warning,) = [one for one in report.warnings if one.check == "near-empty-documents"]
    assert warning.message.startswith("10 of 30 documents")
    assert warning.dataset == "notes"
    assert report.verdict == "passed"


@pytest.mark.parametrize(("idf", "expected"), [("false", ["raw-weights"]), ("true", [])])
def test_counts_of_terms_in_place_of_learned_weights(
    tmp_path: Path, folder: Path, idf: str, expected: list[str]
) -> None:
    counts = np.where(np.random.default_rng(0).random((30, 40)) < 0.5, 1.0, 0.0) + np.eye(30, 40)
    for role, matrix, letter in (("documents", counts, "d"), ("queries", counts[:10], "q")):
        save_npz(tmp_path / f"{role}.npz", csr_array(matrix.astype(np.float32)))
        (tmp_path / f"{role}.ids.txt").write_text("".join(f"{letter}{n}\n" for n in range(len(matrix))))
    made = harness.compare(
        f"csr-splade:model=precomputed:{tmp_path};idf={idf}", folder, metrics="nDCG@10", timing=False
    )
    assert [one.check for one in made.report.findings if one.backend is not None] == expected
