from __future__ import annotations

from typing import Any

import pytest
from sample_report import sample_report

from harness.reporting.differences import differences, legend_of_differences, mark_of
from harness.results.schema import Report


def report(*updates: dict[str, Any], reference: str | None = "qdrant") -> Report:
    whole = sample_report()
    rows = [whole.comparisons[0].model_copy(update=update) for update in updates]
    resolved = {**whole.plan.resolved, "reference": reference}
    return whole.model_copy(update={"comparisons": rows, "plan": whole.plan.model_copy(update={"resolved": resolved})})


@pytest.mark.parametrize(
    ("verdict", "within_ties", "mark"),
    [
        ("better", False, "▲"),
        ("worse", False, "▼"),
        ("undecided", False, "~"),
        ("same", False, "="),
        ("same", True, "="),
        ("worse", True, "≈"),
        ("undecided", True, "≈"),
    ],
)
def test_every_verdict_has_a_mark_with_a_meaning(verdict: str, within_ties: bool, mark: str) -> None:
    one = report({"verdict": verdict, "within_ties": within_ties})
    assert mark_of(one.comparisons[0]) == mark
    (meaning,) = legend_of_differences(one)
    assert meaning.startswith(f"{mark}: ")


def test_rows_are_backends_under_a_reference_and_pairs_without_one() -> None:
    update = {"metric": "AP", "difference": -0.25, "verdict": "worse", "within_ties": False}
    (table,) = differences(report(update), ["AP", "P@5"])
    assert (table.title, table.columns) == ("Differences from qdrant", ("backend", "AP", "P@5"))
    assert table.rows == (("lucene:model=ql", "−0.2500 ▼", "–"),)
    assert "worse than qdrant" in legend_of_differences(report(update))[0]
    (table,) = differences(report(update, reference=None), ["AP"])
    assert (table.title, table.rows) == ("Differences between backends", (("lucene:model=ql − qdrant", "−0.2500 ▼"),))
    assert "worse than the one after the minus sign" in legend_of_differences(report(update, reference=None))[0]


def test_without_pairs_there_is_no_table() -> None:
    assert differences(report(), ["AP"]) == []
    assert legend_of_differences(report()) == []
