"""The vector libraries in whole comparisons and checks: parity, causes, filters, and a FAISS file of somebody else."""

from __future__ import annotations

import json
from pathlib import Path

import faiss
import numpy as np
import pytest
from installed import skip_module_without
from small_world import DOCUMENTS, write_collection
from word_vectors import Words

import harness
from harness.testing.samples import random_texts

skip_module_without("faiss", "usearch", "hnswlib", "duckdb")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
MODEL = "model=python:word_vectors:Words"


def a_collection(folder: Path, documents: int) -> str:
    """As in the small world, with more documents: for lists and codes there must be some."""
    write_collection(folder)
    texts = {**DOCUMENTS, **{f"x{row}": text for row, text in enumerate(random_texts(11, documents))}}
    records = [{"_id": name, "text": text, "metadata": {"half": str(len(text) % 2)}} for name, text in texts.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    return str(folder)


def test_every_difference_is_explained(tmp_path: Path) -> None:
    exact = [f"flat:{MODEL}", f"faiss:{MODEL}", f"duckdb:{MODEL}", f"usearch:{MODEL};exact=true"]
    others = [
        f'faiss:{MODEL};index="IVF8,Flat"',
        f'faiss:{MODEL};index="IVF8,SQ4";nprobe=2',
        f"faiss:{MODEL};index=SQ4",
        f"usearch:{MODEL};datatype=e5m2",
        f"hnswlib:{MODEL}",
    ]
    compared = harness.compare([*exact, *others], a_collection(tmp_path / "some", 300), k=10, timing=False)
    trials = {trial.label: trial for trial in compared.report.trials}
    assert [trial.status for trial in trials.values()] == ["ok"] * 9
    parities = [trial.parity for trial in trials.values()]
    assert all(parity is not None and "unknown" not in parity.causes for parity in parities)
    assert [parity.tie_equivalent for parity in parities[:4]] == [4] * 4
    assert set(parities[4].causes) <= {"approximate search", "fewer hits"}
    assert set(parities[6].causes) == {"quantisation"}
    assert f"faiss:{MODEL};index=SQ4 finds" in compared.render("markdown")
    assert set(parities[5].causes) | set(parities[7].causes) <= {"quantisation", "quantisation, approximate search"}


def test_a_filter_leaves_what_matches(tmp_path: Path) -> None:
    dataset = a_collection(tmp_path / "some", 100)
    backends = [f"flat:{MODEL}", f"faiss:{MODEL}", f"hnswlib:{MODEL};ef=200", f"duckdb:{MODEL}"]
    compared = harness.compare(backends, dataset, k=10, timing=False, filter="half=1")
    wanted = compared.run(compared.report.trials[0].label)
    for trial in compared.report.trials[1:]:
        assert compared.run(trial.label).rows.tolist() == wanted.rows.tolist()


@pytest.mark.parametrize("described", ["Flat", "IVF4,Flat"])
def test_a_file_of_somebody_else(described: str, tmp_path: Path) -> None:
    dataset = a_collection(tmp_path / "some", 100)
    lines = [json.loads(line) for line in (tmp_path / "some" / "corpus.jsonl").read_text().splitlines()]
    vectors = np.ascontiguousarray(Words().encode([line["text"] for line in lines]), dtype=np.float32)
    faiss.normalize_L2(vectors)
    index = faiss.index_factory(vectors.shape[1], described, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "their.index"))
    (tmp_path / "their-ids.txt").write_text("\n".join(line["_id"] for line in lines))
    external = f"path={tmp_path / 'their.index'};id_file=their-ids.txt;nprobe=4;{MODEL}"
    compared = harness.compare([f"flat:{MODEL}", f"faiss:external=true;{external}"], dataset, k=10, timing=False)
    theirs = compared.report.trials[1]
    assert theirs.parity is not None, theirs.notes
    assert theirs.parity.tie_equivalent == theirs.parity.queries == 4
    question = {"id": "1", "question": DOCUMENTS["d4"], "expected_relevant_doc_ids": ["d4"]}
    checked = harness.check([question], against=f"faiss:{external}", k=1, require="Hit@1>=1")
    assert checked.report.verdict == "passed", checked.render()
