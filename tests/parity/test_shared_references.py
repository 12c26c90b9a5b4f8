"""Backends that claim the same scores are held against one reference, built and searched once."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_world import write_cards, write_collection

import harness
from harness.data.progress import SilentDisplay
from harness.exact import SparseIndex
from harness.worker import exact_search


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []

    class Counting:
        @staticmethod
        def build(*arguments: object, **options: object) -> SparseIndex:
            calls.append("build")
            return SparseIndex.build(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(exact_search, "SparseIndex", Counting)
    return calls


@pytest.mark.parametrize(
    ("backends", "indexes"),
    [("good,twin", 1), ("good,twin,good:k1=2.0", 2), ("good:k1=2.0,good,twin:k1=2.0", 2)],
)
def test_each_oracle_is_built_once(built: list[str], tmp_path: Path, backends: str, indexes: int) -> None:
    collection = write_collection(tmp_path / "small")
    cards = write_cards(tmp_path / "cards", good="BruteForce", twin="BruteForce")
    report = harness.compare(backends, collection, cards=cards, k=3, isolation="none").report
    assert len(built) == indexes
    alone = {
        label: harness.compare(label, collection, cards=cards, k=3, isolation="none") for label in backends.split(",")
    }
    assert [backend.parity for backend in report.trials] == [
        alone[backend.label].report.trials[0].parity for backend in report.trials
    ]


def test_one_query_agrees_and_several_agree(tmp_path: Path) -> None:
    class Lines(SilentDisplay):
        def done(self, label: str, said: str) -> None:
            lines.append(said)

    lines: list[str] = []
    collection = write_collection(tmp_path / "small")
    cards = write_cards(tmp_path / "cards", good="BruteForce")
    for queries in (1, 2):
        options = {"k": 3, "isolation": "none", "timing": False, "sample_queries": queries, "display": Lines()}
        harness.compare("good", collection, cards=cards, **options)
    assert [line for line in lines if "exact reference" in line] == [
        "1 of 1 query agrees with the exact reference",
        "2 of 2 queries agree with the exact reference",
    ]
