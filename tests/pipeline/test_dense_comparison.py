"""Dense backends through the whole of a comparison: recall, causes, what means lose, and external indexes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from warm_harness import harness_command

import harness
from harness.exact import DenseIndex

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
DOCUMENTS, QUERIES, RELEVANT = 60, 8, 4


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each query's relevant documents are those whose vectors are nearest: exact search finds them all."""
    folder = tmp_path_factory.mktemp("data") / "dense"
    vectors = folder / "vectors"
    (folder / "qrels").mkdir(parents=True)
    vectors.mkdir()
    generator = np.random.default_rng(2)
    queries = generator.standard_normal((QUERIES, 16)).astype(np.float32)
    documents = generator.standard_normal((DOCUMENTS, 16)).astype(np.float32)
    lines = ["query-id\tcorpus-id\tscore"]
    for query in range(QUERIES):
        for place in range(RELEVANT):
            row = query * RELEVANT + place
            documents[row] = queries[query] + 0.1 * documents[row]
            lines.append(f"q{query}\td{row}\t1")
    for name, count, array in (("corpus", DOCUMENTS, documents), ("queries", QUERIES, queries)):
        ids = [f"{name[0].replace('c', 'd')}{row}" for row in range(count)]
        records = [json.dumps({"_id": one, "title": "", "text": f"text of {one}"}) for one in ids]
        (folder / f"{name}.jsonl").write_text("".join(f"{record}\n" for record in records))
        role = "documents" if name == "corpus" else "queries"
        np.save(vectors / f"{role}.npy", array)
        (vectors / f"{role}.ids.txt").write_text("".join(f"{one}\n" for one in ids))
    (folder / "qrels" / "test.tsv").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The card of flat for an engine that misses documents."""
    folder = tmp_path_factory.mktemp("cards")
    (folder / "backends").mkdir()
    card = (repository / "backends" / "flat.toml").read_text()
    card = card.replace('name = "flat"', 'name = "blind"').replace(
        "harness.engines.flat:FlatEngine", "dense_engines:HalfBlind"
    )
    own = card.replace('use = ["external"]\n', "").split("[external_index]")
    (folder / "backends" / "blind.toml").write_text(
        own[0] + own[1][own[1].index("[parameters.similarity]") : own[1].index("[parameters.path]")]
    )
    return folder


def model(collection: Path) -> str:
    return f"model=precomputed:{collection / 'vectors'}"


def test_a_graph_that_misses_documents_is_told_by_its_recall_and_its_loss(collection: Path, cards: Path) -> None:
    comparison = harness.compare(
        [f"flat:{model(collection)}", f"blind:{model(collection)}"], collection, k=20, cards=cards, isolation="none"
    )
    exact, blind = comparison.report.trials
    assert exact.parity is not None
    assert blind.parity is not None
    assert (exact.parity.reference, exact.parity.mode, exact.parity.bit_equal) == ("dense", "cosine", QUERIES)
    assert exact.metrics["R@100"].mean == 1.0
    assert {name: loss.difference for name, loss in exact.parity.loss.items()} == dict.fromkeys(exact.metrics, 0.0)
    assert 0.3 < blind.parity.overlap["20"] < 0.7
    assert blind.parity.causes == {"approximate search": QUERIES}
    for name, loss in blind.parity.loss.items():
        assert loss.exact == exact.metrics[name].mean
        assert loss.difference == pytest.approx(blind.metrics[name].mean - exact.metrics[name].mean)
        assert loss.ci_low is not None
        assert loss.ci_high is not None
        assert loss.ci_low <= loss.difference <= loss.ci_high
    assert blind.parity.loss["R@100"].difference == -0.5
    text = comparison.render(verbose=True)
    assert "Recall against exact dense search, 8 queries" in text
    assert "recall@10" in text
    assert "full scan" in text
    assert "Loss against exact dense search" in text
    assert "Parity with the exact reference" not in text


@pytest.mark.parametrize("similarity", ["dot", "l2"])
def test_other_similarities_have_oracles_of_their_own(collection: Path, similarity: str) -> None:
    backends = [f"flat:{model(collection)};similarity={one}" for one in ("cosine", similarity)]
    comparison = harness.compare(backends, collection, k=70, isolation="none")
    assert [one.parity.mode for one in comparison.report.trials if one.parity] == ["cosine", similarity]
    assert [one.parity.bit_equal for one in comparison.report.trials if one.parity] == [QUERIES] * 2


def saved(collection: Path, folder: Path) -> DenseIndex:
    documents = np.load(collection / "vectors" / "documents.npy")
    index = DenseIndex.build(documents)
    index.save(folder)
    (folder / "ids.txt").write_text((collection / "vectors" / "documents.ids.txt").read_text())
    return index


def test_the_command_line_searches_an_external_index(collection: Path, tmp_path: Path) -> None:
    saved(collection, tmp_path / "index")
    expression = f"flat:{model(collection)};external=true;path={tmp_path / 'index'}"
    command = [*harness_command(), "compare", "--backends", expression, "--dataset", str(collection)]
    done = subprocess.run(
        [*command, "--k", "10", "--out", str(tmp_path / "out"), "--isolation", "none", "--verbose"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "60 external" in done.stdout
    (backend,) = harness.Comparison.load(tmp_path / "out").report.trials
    assert backend.parity is not None
    assert backend.parity.bit_equal == QUERIES


def test_an_external_index_of_other_vectors_has_no_oracle(collection: Path, tmp_path: Path) -> None:
    saved(collection, tmp_path)
    vectors = np.load(collection / "vectors" / "documents.npy")
    vectors[5, 0] += 1
    DenseIndex.build(vectors).save(tmp_path)
    expression = f"flat:{model(collection)};external=true;path={tmp_path}"
    (backend,) = harness.compare([expression], collection, k=5, isolation="none").report.trials
    assert backend.parity is None
    assert any("1 documents have other vectors than the encoder gives, 'd5' first" in note for note in backend.notes)
