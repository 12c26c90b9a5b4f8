from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sample_report import sample_report

from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids
from harness.document.model import Table
from harness.metrics import Metric, QueryCounts, QuerySet, Scores
from harness.report.documents.quality import pair_tables, quality_table
from harness.results.differences import paired_differences
from harness.results.schema import Result
from harness.results.scored import ScoredTrial
from harness.stats import Change, judge_family


def report(*updates: dict[str, Any], reference: str | None = "qdrant") -> Result:
    whole = sample_report()
    rows = [whole.differences[0].model_copy(update=update) for update in updates]
    resolved = {**whole.plan.resolved, "reference": reference}
    return whole.model_copy(update={"differences": rows, "plan": whole.plan.model_copy(update={"resolved": resolved})})


def quality(result: Result) -> Table:
    table = quality_table(result, "cranfield")
    assert table is not None
    return table


def meanings(table: Table) -> list[str]:
    return [line for line in table.legend if line[0] in "▲▼~=≈"]


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
    table = quality(one)
    assert [cell.mark for row in table.rows for cell in row if cell.mark] == [mark]
    (meaning,) = meanings(table)
    assert meaning.startswith(f"{mark} ")


def test_rows_are_backends_under_a_reference_and_pairs_without_one() -> None:
    update = {"metric": "AP", "difference": -0.25, "verdict": "worse", "within_ties": False}
    table = quality(report(update))
    assert [column.name for column in table.columns] == ["backend", "nDCG@10", "AP", "− qdrant", "answered"]
    assert [(row[3].text, row[3].mark) for row in table.rows] == [("", ""), ("−0.2500", "▼"), ("–", "")]
    assert "worse than qdrant" in meanings(table)[0]
    assert pair_tables(report(update), "cranfield") == []
    (table,) = pair_tables(report(update, reference=None), "cranfield")
    assert (table.title, table.rows[0][0].text) == ("Differences between backends", "lucene:model=ql − qdrant")
    assert [(cell.text, cell.mark) for cell in table.rows[0][1:]] == [("–", ""), ("−0.2500", "▼")]
    assert "worse than the one after the minus sign" in meanings(table)[0]


def test_without_pairs_there_is_no_table() -> None:
    assert pair_tables(report(reference=None), "cranfield") == []
    assert meanings(quality(report())) == []
    assert [column.name for column in quality(report()).columns] == ["backend", "nDCG@10", "AP", "answered"]


def test_the_legend_counts_the_comparisons_in_which_a_query_differs() -> None:
    moved: dict[str, Any] = {"verdict": "undecided", "within_ties": False}
    unchanged = {"verdict": "same", "within_ties": False, "wins": 0, "losses": 0, "p": 1.0, "p_adjusted": 1.0}
    assert "Holm's correction for 2 comparisons" in meanings(quality(report(moved, moved)))[0]
    found = meanings(quality(report(moved, unchanged)))
    assert "for the 1 of 2 comparisons in which a query differs" in found[0]
    assert "for 1 comparison" in meanings(quality(report(moved)))[0]


def test_one_family_in_comparisons_and_in_judgements() -> None:
    """Nine metrics that no query changes leave the p of the tenth as it is, in `compare` as in `regress`."""
    rng = np.random.default_rng(1)
    before = rng.random((20, 10))
    after = before.copy()
    after[:, 4] -= rng.normal(0.1, 0.15, 20)
    found = paired_differences([scored("one", before), scored("other", after)], "d", "one", 7)
    changed = [row for row in found if row.wins + row.losses]
    assert [row.metric for row in changed] == ["P@5"]
    assert changed[0].p_adjusted == changed[0].p
    assert {(row.verdict, row.p_adjusted) for row in found if row not in changed} == {("same", 1.0)}
    judged = judge_family([Change(*both, 0.0, None) for both in zip(before.T, after.T, strict=True)], seed=7)
    assert [one.p_adjusted for one in judged] == [row.p_adjusted for row in found]


def scored(label: str, values: Float64Array) -> ScoredTrial:
    """Values of 20 queries on P@1 to P@10."""
    measures = tuple(Metric("P", place) for place in range(1, 11))
    counts = QueryCounts(judged=20, relevant=20, answered=20, evaluated=20, unjudged=0)
    ids = Ids.of([f"q{place}" for place in range(20)])
    scores = Scores(measures, ids, values, values, values, counts, TieRule.TREC_EVAL, QuerySet.RELEVANT)
    outcome = SimpleNamespace(trial=SimpleNamespace(label=label))
    return ScoredTrial(outcome, scores, None)  # type: ignore[arg-type]
