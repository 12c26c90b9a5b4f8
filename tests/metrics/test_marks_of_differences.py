from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sample_report import sample_report

from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids
from harness.metrics import Measure, QueryCounts, QuerySet, Scores
from harness.report.differences import differences, legend_of_differences, mark_of
from harness.results.assess import Assessed
from harness.results.differences import paired_differences
from harness.results.schema import Result
from harness.stats import Change, judge_family


def report(*updates: dict[str, Any], reference: str | None = "qdrant") -> Result:
    whole = sample_report()
    rows = [whole.differences[0].model_copy(update=update) for update in updates]
    resolved = {**whole.plan.resolved, "reference": reference}
    return whole.model_copy(update={"differences": rows, "plan": whole.plan.model_copy(update={"resolved": resolved})})


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
    assert mark_of(one.differences[0]) == mark
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


def test_the_legend_counts_the_comparisons_in_which_a_query_differs() -> None:
    moved: dict[str, Any] = {"verdict": "undecided", "within_ties": False}
    unchanged = {"verdict": "same", "within_ties": False, "wins": 0, "losses": 0, "p": 1.0, "p_adjusted": 1.0}
    assert "Holm's correction for the 2 comparisons of this table;" in legend_of_differences(report(moved, moved))[0]
    found = legend_of_differences(report(moved, unchanged))
    assert "for the 1 of 2 comparisons of this table in which a query differs;" in found[0]


def test_one_family_in_comparisons_and_in_judgements() -> None:
    """Nine metrics that no query changes leave the p of the tenth as it is, in `compare` as in `regress`."""
    rng = np.random.default_rng(1)
    before = rng.random((20, 10))
    after = before.copy()
    after[:, 4] -= rng.normal(0.1, 0.15, 20)
    sides = [SimpleNamespace(dataset="d", label=name) for name in ("one", "other")]
    found = paired_differences([assessed(before), assessed(after)], sides, "one", 7)  # type: ignore[arg-type]
    changed = [row for row in found if row.wins + row.losses]
    assert [row.metric for row in changed] == ["P@5"]
    assert changed[0].p_adjusted == changed[0].p
    assert {(row.verdict, row.p_adjusted) for row in found if row not in changed} == {("same", 1.0)}
    judged = judge_family([Change(*both, 0.0, None) for both in zip(before.T, after.T, strict=True)], seed=7)
    assert [one.p_adjusted for one in judged] == [row.p_adjusted for row in found]


def assessed(values: Float64Array) -> Assessed:
    """Values of 20 queries on P@1 to P@10."""
    measures = tuple(Measure("P", place) for place in range(1, 11))
    counts = QueryCounts(judged=20, relevant=20, answered=20, evaluated=20, unjudged=0)
    ids = Ids.of([f"q{place}" for place in range(20)])
    scores = Scores(measures, ids, values, values, values, counts, TieRule.TREC_EVAL, QuerySet.RELEVANT)
    return Assessed(SimpleNamespace(), scores, None)  # type: ignore[arg-type]
