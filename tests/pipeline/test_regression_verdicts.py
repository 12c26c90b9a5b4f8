"""Verdicts and costs of two results: one family, the gate, the noise floor, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from regression_sides import AFTER, BEFORE, backend, compare_one, many, result_of, run_of, side
from sample_report import sample_report

from harness.data.ranking import ranking_digests
from harness.data.types import Run
from harness.document.model import Notes, Outcome, Verdict
from harness.errors import UnknownNameError
from harness.pipeline.regress.compare_sides import CompareRules
from harness.pipeline.regress.cost_changes import cost_changes
from harness.pipeline.regress.pairing import ComparedDataset, Pair, Pairing, unknown_relation
from harness.pipeline.regress.verdicts import Rules, judge_pairs, sentence
from harness.report.documents.query_changes import query_tables
from harness.report.documents.regress import change_document
from harness.results.regression_schema import Change, CostChange, MetricJudgement
from harness.results.schema import SpreadStats, SpreadValue, StageStats
from harness.results.snapshot import ResultSnapshot
from harness.stats import compare_pairs, judge

CSR = Pair("csr", "csr")
FUSED = StageStats(method="rrf", components=["chroma", "lucene"], components_ms=None, method_ms=None)


def compared(before: ResultSnapshot, after: ResultSnapshot, queries: Sequence[str]) -> ComparedDataset:
    """Two results of one backend on one dataset."""
    pairing = Pairing({CSR: "label"}, (), ())
    relation = unknown_relation(before, after).model_copy(update={"judgments": "same"})
    return ComparedDataset(before, after, relation, queries, pairing=pairing)


def judged(before: Any, after: Any, rules: Rules, **changes: Any) -> list[MetricJudgement]:
    """Verdicts on figures of one backend; ``changes`` of both backends."""
    base = side({"csr": BEFORE}, backends=[backend("csr", **changes)])
    sides = [replace(base, figures={"csr": figures}) for figures in (before, after)]
    queries = list(next(iter(before.values())))
    return judge_pairs([compared(*sides, queries)], rules).metrics[0][CSR]


def test_an_identical_result_is_the_same_and_nothing_is_tested() -> None:
    one = side({"csr": BEFORE, "lucene": BEFORE})
    report = compare_one(one, one, CompareRules()).change
    metrics = [metric for found in report.backends for metric in found.metrics]
    assert [metric.metric for metric in metrics] == ["nDCG@2", "AP"] * 2
    assert {(metric.verdict, metric.gate, metric.reason) for metric in metrics} == {
        ("same", "not judged", "equal on every query")
    }
    assert (report.gate, report.tests, report.settings) == ("not judged", 0, [])
    tolerant = compare_one(one, one, CompareRules(Rules(rule="tolerance"))).change
    assert (tolerant.gate, tolerant.decision, tolerant.rule) == ("passed", "passed", "tolerance")


def test_a_verdict_is_that_of_the_statistics_with_all_their_figures() -> None:
    before, after = many(60, -0.05)
    (found,) = judged(before, after, Rules(margin=0.02, allowed_drop=0.01))
    values = [np.array(list(one["nDCG@10"].values())) for one in (before, after)]
    expected = judge(*values, margin=0.02, allowed_drop=0.01, seed=42)
    paired = compare_pairs(*values, 42)
    assert paired.interval is not None
    assert (found.verdict, found.gate) == ("worse", "failed")
    assert (found.before, found.after) == pytest.approx(tuple(float(one.mean()) for one in values))
    assert (found.difference, found.ci_low, found.ci_high) == (paired.difference, *paired.interval)
    assert (found.p, found.p_adjusted, found.effect) == (expected.p, expected.p_adjusted, paired.effect)
    assert (found.wins, found.ties, found.losses, found.queries) == (paired.wins, paired.ties, paired.losses, 60)
    assert (found.detectable, found.queries_needed) == (expected.detectable, None)
    assert found.gate_p == expected.gate.p_adjusted
    assert found.reason == "more than 0.01 lower, by the one-sided test of the gate"


def test_a_drop_that_is_allowed_passes_the_gate_and_is_called_worse_all_the_same() -> None:
    before, after = many(60, -0.05)
    (found,) = judged(before, after, Rules(margin=0.0, allowed_drop=0.2))
    assert (found.verdict, found.gate, found.reason) == ("worse", "passed", "significantly lower")


def test_noise_neither_fails_the_gate_nor_is_called_the_same() -> None:
    before, after = many(10, -0.005, seed=3)
    (found,) = judged(before, after, Rules())
    assert (found.verdict, found.gate) == ("undecided", "passed")
    assert found.queries_needed is not None
    assert found.queries_needed > 10
    assert found.detectable is not None
    assert found.detectable > abs(found.difference)


def test_without_a_gate_the_verdict_is_that_of_the_two_sided_test() -> None:
    before, after = many(60, -0.05)
    (found,) = judged(before, after, Rules(allowed_drop=None))
    assert (found.verdict, found.gate, found.allowed_drop) == ("worse", None, None)


def test_what_did_not_change_costs_the_rest_no_power() -> None:
    before, after = many(60, -0.012, seed=5)
    alone = judged(before, after, Rules())
    constant = {f"R@{depth}": before["nDCG@10"] for depth in range(1, 30)}
    together = judged({**before, **constant}, {**after, **constant}, Rules())
    assert together[0].p_adjusted == alone[0].p_adjusted == alone[0].p
    assert {one.verdict for one in together[1:]} == {"same"}


def test_the_spread_of_builds_excuses_a_difference() -> None:
    before, after = many(60, -0.02)
    plain = judged(before, after, Rules())[0]
    value = SpreadValue(mean=0.5, sd=0.03, min=0.47, max=0.53)
    spread = SpreadStats(
        builds=3, queries=60, identical={}, identical_share={}, pairwise_overlap={}, reference_overlap={},
        metrics={"nDCG@10": value}, costs={}, build_stats=[],
    )  # fmt: skip
    noisy = judged(before, after, Rules(), spread=spread)[0]
    assert (plain.verdict, plain.noise_floor) == ("worse", None)
    assert (noisy.verdict, noisy.gate) == ("undecided", "passed")
    assert noisy.queries_needed is None
    assert noisy.reason.startswith("builds with the same settings differ as much")
    # two independent builds: the variances add up, and so do the degrees of freedom of equal ones
    assert noisy.noise_floor == pytest.approx(2.1318467863266495 * np.hypot(0.03, 0.03))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"deterministic": False}, {"deterministic": False}, "no noise floor for chroma: every build gives diffe"),
        ({}, {"deterministic": False}, "no noise floor for chroma: every build gives diffe"),
        ({"deterministic": False, "stages": FUSED}, {"stages": FUSED}, "no noise floor for chroma: it is made of"),
        ({"deterministic": True}, {"deterministic": True}, ""),
        ({}, {}, ""),
    ],
    ids=["both", "the later one", "a fusion", "neither", "nothing built"],
)
def test_a_difference_that_may_be_of_builds_alone_is_said(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    one, other = (side({"chroma": BEFORE}, backends=[backend("chroma", **facts)]) for facts in (before, after))
    warnings = compare_one(one, other, CompareRules()).change.warnings
    assert [warning[: len(said)] for warning in warnings] == ([said] if said else [])


def test_a_check_is_told_how_to_measure_the_noise() -> None:
    facts = {"deterministic": False}
    one = replace(side({"chroma": BEFORE}, backends=[backend("chroma", **facts)]), kind="check")
    (warning,) = compare_one(one, one, CompareRules()).change.warnings
    assert warning.endswith("harness compare --rebuilds 3 measures it")


def test_the_overlap_with_the_oracle_is_judged_where_a_side_is_not_exact() -> None:
    before, after = many(40, 0.0)
    names = list(before["nDCG@10"])
    rng = np.random.default_rng(1)
    recall = dict(zip(names, rng.uniform(0.7, 0.9, 40).tolist(), strict=True))
    ones = dict.fromkeys(names, 1.0)
    exact = judged({**before, "reference overlap@10": ones}, {**after, "reference overlap@10": ones}, Rules())
    assert [one.metric for one in exact] == ["nDCG@10"]
    lossy = judged({**before, "reference overlap@10": ones}, {**after, "reference overlap@10": recall}, Rules())
    assert [(one.metric, one.gate) for one in lossy] == [("nDCG@10", "passed"), ("reference overlap@10", None)]
    assert lossy[1].verdict == "worse"
    gated = judged({"reference overlap@10": ones}, {"reference overlap@10": recall}, Rules())
    assert gated[0].gate == "failed"  # without judgments there is nothing else to gate on
    named = Rules(allowed={"reference overlap@10": 0.5})
    allowed = judged({**before, "reference overlap@10": ones}, {**after, "reference overlap@10": recall}, named)
    assert [one.gate for one in allowed] == ["passed", "passed"]


def test_sums_are_not_judged_and_an_unknown_metric_is_refused() -> None:
    before, after = many(20, 0.0)
    counts = {"NumRel": dict.fromkeys(before["nDCG@10"], 3.0)}
    assert [one.metric for one in judged({**before, **counts}, {**after, **counts}, Rules())] == ["nDCG@10"]
    with pytest.raises(UnknownNameError, match="unknown metric of both results 'MAP'"):
        judged(before, after, Rules(allowed={"MAP": 0.1}))


def test_a_failed_backend_makes_the_gate_invalid_and_keeps_the_others() -> None:
    before = side({"csr": BEFORE, "lucene": BEFORE})
    after = side(
        {"csr": BEFORE},
        backends=[backend("csr"), backend("lucene", status="failed", error=sample_report().trials[-1].error)],
    )
    report = compare_one(before, after, CompareRules()).change
    assert [one.status for one in report.backends] == ["ok", "failed"]
    assert report.backends[1].error is not None
    assert report.backends[1].error.startswith("failed now: ")
    assert report.gate == "invalid"
    assert compare_one(before, after, CompareRules(Rules(allowed_drop=None))).change.gate is None


def test_a_gate_that_nothing_was_judged_by_is_invalid() -> None:
    before, after = side({"csr": BEFORE}, metrics="AP"), side({"csr": BEFORE}, metrics="nDCG@2")
    report = compare_one(before, after, CompareRules()).change
    assert report.gate == "invalid"
    assert report.warnings == [
        "not judged, because the later result lacks the metric: AP",
        "not judged, because the earlier result lacks the metric: nDCG@2",
    ]
    assert change_document(result_of(report)).verdicts[0].headline == "Invalid: nothing was judged of csr"
    (case,) = change_document(result_of(report)).suites[0].cases
    assert (case.outcome, case.message) == (Outcome.ERROR, "there is no metric that both results know")
    assert [one.title for one in change_document(result_of(report)).annotations] == ["csr was not judged"]
    ungated = compare_one(before, after, CompareRules(Rules(allowed_drop=None))).change
    assert (ungated.gate, change_document(result_of(ungated)).suites[0].cases) == (None, [])


def test_a_metric_that_one_side_lacks_is_named_and_the_others_are_judged() -> None:
    before, after = side({"csr": BEFORE}, metrics="AP,nDCG@2"), side({"csr": BEFORE}, metrics="AP")
    report = compare_one(before, after, CompareRules(Rules(rule="tolerance"))).change
    assert report.gate == "passed"
    assert report.warnings == ["not judged, because the later result lacks the metric: nDCG@2"]


def test_what_is_worse_and_has_no_gate_is_told_beside_a_pass() -> None:
    metric, _ = many(40, 0.0)
    overlap = {name: dict.fromkeys(metric["nDCG@10"], value) for name, value in (("before", 1.0), ("after", 0.8))}
    base = side({"csr": BEFORE})
    digests = dict.fromkeys(metric["nDCG@10"], "0")
    before, after = (
        replace(base, figures={"csr": {**metric, "reference overlap@10": values}}, digests=digests)
        for values in overlap.values()
    )
    report = compare_one(before, after, CompareRules()).change
    (passed, *_) = change_document(result_of(report)).verdicts
    assert passed.headline == "Passed: nothing is worse beyond the allowed drop (0)"
    assert passed.detail == "Worse without a gate: reference overlap@10 of csr."
    plain = compare_one(before, after, CompareRules(Rules(allowed_drop=None))).change
    (compared, fell, same) = change_document(result_of(plain)).verdicts
    assert compared.headline.startswith("Worse: reference overlap@10 of csr (−0.2000) over 40 queries")
    assert fell.headline == f"csr: {plain.backends[0].metrics[1].sentence}"
    assert same.headline == "The same: nDCG@10 of csr"
    (answer,) = change_document(
        result_of(compare_one(before, before, CompareRules(Rules(allowed_drop=None))).change)
    ).verdicts
    assert answer.headline == "The same: every metric is equal on every query, over 40 queries", "and no second list"


@pytest.mark.parametrize(
    ("fell", "rose", "tone", "headline"),
    [
        ([], [], "good", "The same: every metric is equal on every query, over 40 queries"),
        (["AP"], [], "bad", "Worse: AP of csr (−0.2000) over 40 queries"),
        (["AP"], ["RR"], "bad", "Worse: AP of csr (−0.2000) over 40 queries; better: RR of csr (+0.2000)"),
        ([], ["AP"], "good", "Better: AP of csr (+0.2000) over 40 queries; nothing is worse"),
    ],
)
def test_without_a_gate_the_answer_is_whether_the_later_result_is_worse(
    fell: list[str], rose: list[str], tone: str, headline: str
) -> None:
    names = list(many(40, 0.0)[0]["nDCG@10"])
    changes = {"AP": -0.2 if "AP" in fell else 0.2 if "AP" in rose else 0.0, "RR": 0.2 if "RR" in rose else 0.0}
    verdict = ungated({metric: dict.fromkeys(names, change) for metric, change in changes.items()})
    assert (verdict.tone, verdict.headline, verdict.answers) == (tone, headline, True)
    assert verdict.detail == "No gate decides (--max-drop makes one)."


def test_without_a_gate_nothing_is_claimed_of_a_change_that_may_be_chance() -> None:
    names = list(many(40, 0.0)[0]["nDCG@10"])
    verdict = ungated({"AP": dict.fromkeys(names[:1], -0.4)})
    assert verdict.tone == "plain"
    assert verdict.headline == (
        "Not decided: nothing is shown to be worse or better over 40 queries; the largest change is AP of csr, −0.0100 "
        "(p 1.000)"
    )
    (verdict, *_) = change_document(
        result_of(
            compare_one(
                side({"csr": BEFORE}, metrics="AP"),
                side({"csr": BEFORE}, metrics="nDCG@2"),
                CompareRules(Rules(allowed_drop=None)),
            ).change
        )
    ).verdicts
    assert (verdict.tone, verdict.headline) == ("unsure", "Not judged: there is no metric to compare")


def test_without_a_gate_a_backend_that_failed_is_not_the_same() -> None:
    same, _ = many(40, 0.0)
    base = replace(side({"csr": BEFORE}, metrics="nDCG@10"), digests=dict.fromkeys(same["nDCG@10"], "0"))
    both = replace(base, figures={"csr": same})
    report = compare_one(both, both, CompareRules(Rules(allowed_drop=None))).change
    failed = report.backends[0].model_copy(
        update={"before": "lucene", "after": "lucene", "status": "failed", "error": "failed now", "metrics": []}
    )
    change = report.model_copy(update={"backends": [*report.backends, failed]})
    answer = change_document(result_of(change)).verdicts[0]
    assert (answer.tone, answer.answers) == ("unsure", True)
    assert answer.headline == "The same: every metric is equal on every query, over 40 queries; not judged: lucene"


def ungated(changes: Mapping[str, Mapping[str, float]]) -> Verdict:
    """Return the answer without a gate, of metrics that are 0.5 on 40 queries before these changes."""
    base = side({"csr": BEFORE})
    names = list(many(40, 0.0)[0]["nDCG@10"])
    digests = dict.fromkeys(names, "0")
    before = {metric: dict.fromkeys(names, 0.5) for metric in changes}
    after = {metric: {name: 0.5 + change.get(name, 0.0) for name in names} for metric, change in changes.items()}
    sides = [replace(base, figures={"csr": figures}, digests=digests) for figures in (before, after)]
    rules = CompareRules(Rules(allowed_drop=None, margin=0.001))
    return change_document(result_of(compare_one(*sides, rules).change)).verdicts[0]


def test_a_pass_says_that_a_mean_fell_where_no_test_shows_it() -> None:
    same, _ = many(40, 0.0)
    lower = {
        name: {query: value - 0.5 * (place == 0) for place, (query, value) in enumerate(of.items())}
        for name, of in same.items()
    }
    base = replace(side({"csr": BEFORE}), digests=dict.fromkeys(same["nDCG@10"], "0"))
    before, after = (replace(base, figures={"csr": figures}) for figures in (same, lower))
    report = compare_one(before, after, CompareRules()).change
    (metric,) = report.backends[0].metrics
    assert (metric.verdict, metric.gate) == ("undecided", "passed")
    assert change_document(result_of(report)).verdicts[0].headline == (
        "Passed: nothing is shown to be worse beyond the allowed drop (0); 1 mean fell further, which may be chance"
    )
    rises = compare_one(after, before, CompareRules()).change
    assert rises.backends[0].metrics[0].verdict == "undecided"
    assert change_document(result_of(rises)).verdicts[0].headline == (
        "Passed: nothing is worse beyond the allowed drop (0)"
    )


def test_of_data_without_judgments_an_exact_backend_is_judged_by_its_overlap() -> None:
    base, exact = side({"csr": BEFORE}), {"reference overlap@10": dict.fromkeys(("q1", "q2", "q3"), 1.0)}
    one = replace(base, figures={"csr": exact})
    report = compare_one(one, one, CompareRules(Rules(rule="tolerance"))).change
    (metric,) = report.backends[0].metrics
    assert (metric.metric, metric.verdict, metric.gate) == ("reference overlap@10", "same", "passed")
    assert report.gate == "passed"


def timed(factor: float, **changes: Any) -> ResultSnapshot:
    rng = np.random.default_rng(0)
    times = (rng.lognormal(13, 0.3, (40, 2)) * factor).astype(int).tolist()
    latencies = {"csr": {f"q{number}": samples for number, samples in enumerate(times)}}
    return side({"csr": BEFORE}, latencies=latencies, **changes)


def costs(before: ResultSnapshot, after: ResultSnapshot) -> Mapping[str, CostChange]:
    queries = [f"q{number}" for number in range(40)]
    return {cost.cost: cost for cost in cost_changes(compared(before, after, queries), CSR, 42)}


@pytest.mark.parametrize(
    ("factor", "latency", "rate"),
    [(1.0, "same", "same"), (1.1, "same", "same"), (2.0, "higher", "lower"), (0.5, "lower", "higher")],
)
def test_latency_is_compared_query_by_query(factor: float, latency: str, rate: str) -> None:
    found = costs(timed(1.0), timed(factor))
    assert {found[name].verdict for name in ("p50_ms", "p95_ms", "mean_ms")} == {latency}
    assert found["qps"].verdict == rate
    p50 = found["p50_ms"]
    assert p50.ratio == pytest.approx(factor, rel=1e-4)
    assert p50.ci_low is not None
    assert p50.ci_high is not None
    assert p50.ci_low <= factor * 1.0001
    assert p50.ci_high >= factor * 0.9999
    assert (p50.samples_before, p50.samples_after) == (80, 80)


def test_the_percentiles_are_those_of_all_raw_samples() -> None:
    before = timed(1.0)
    samples = np.sort(np.ravel(list(before.latencies["csr"].values()))) / 1e6
    found = costs(before, before)
    assert found["p50_ms"].before == samples[39]  # the smallest that half of 80 do not exceed
    assert found["p95_ms"].before == samples[75]
    assert found["qps"].before == pytest.approx(1000 / samples.mean())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"machine": sample_report().machine.model_copy(update={"cores": 64})}, "another machine: cores 2, now 64"),
        ({"resolved": {"k": 1000}}, "k was 10, and is 1000"),
        ({"resolved": {"isolation": "none"}}, "isolation was process, and is none"),
        ({"backends": [backend("csr", reused=True)]}, "re-used"),
    ],
)
def test_what_cannot_be_compared_is_marked_with_the_reason(changes: Mapping[str, Any], said: str) -> None:
    found = costs(timed(1.0), timed(2.0, **changes))
    assert {one.verdict for one in found.values()} == {"x"}
    assert {one.ratio for one in found.values()} == {None}
    assert all(said in str(one.reason) for one in found.values())
    assert "index_bytes" in found


def test_costs_that_a_side_lacks_are_left_out() -> None:
    found = costs(timed(1.0), side({"csr": BEFORE}))
    assert set(found) == {"index_seconds", "index_bytes", "qps with 1 clients", "qps with 4 clients"}
    assert {one.verdict for one in found.values()} == {"same"}
    bare = side({"csr": BEFORE}, backends=[backend("csr", index=None, closed_loop=[])])
    assert cost_changes(compared(bare, timed(1.0), []), CSR, 1) == []


def tied_run(rankings: Mapping[str, Sequence[tuple[str, float]]]) -> Run:
    run = run_of({query: [document for document, _ in hits] for query, hits in rankings.items()})
    scores = [score for hits in rankings.values() for _, score in hits]
    return replace(run, scores=np.array(scores, dtype=np.float32))


TIED = {"q1": [("a", 2.0), ("b", 1.0), ("c", 1.0)], "q2": [("y", 1.0)]}


@pytest.mark.parametrize(
    ("hits", "only_ties"),
    [
        ([("a", 2.0), ("c", 1.0), ("b", 1.0)], True),
        ([("a", 2.0), ("c", 1.0), ("d", 1.0)], True),  # the cut went through the group
        ([("a", 2.0), ("b", 1.0), ("c", 1.0)], False),  # equal rankings cannot explain it
        ([("d", 2.0), ("b", 1.0), ("c", 1.0)], False),
        ([("a", 2.0), ("b", 1.0), ("c", 0.5)], False),
        ([("a", 2.0), ("b", 1.0)], False),
        ([], False),
    ],
)
def test_a_difference_that_ties_account_for_is_none(hits: list[tuple[str, float]], only_ties: bool) -> None:
    base = side({"csr": BEFORE}, resolved={"k": 3})
    runs = tied_run(TIED), tied_run({**TIED, "q1": hits} if hits else {"q2": TIED["q2"]})
    figures = {"R@3": {"q1": 1.0, "q2": 0.5}}, {"R@3": {"q1": 0.2, "q2": 0.5}}
    sides = [
        replace(base, figures={"csr": values}, hits=lambda _, run=run: run)
        for values, run in zip(figures, runs, strict=True)
    ]
    (found,) = judge_pairs([compared(*sides, ["q1", "q2"])], Rules()).metrics[0][CSR]
    assert (found.verdict == "same") is only_ties
    assert (found.reason == "the rankings differ only in the order of documents with equal scores") is only_ties
    kept = {"csr": ranking_digests(runs[0], 3)}
    for digests, verdict in ((kept, found.verdict), ({"csr": {}}, "undecided")):
        baseline = replace(sides[0], depth=1, stored_digests=digests)
        (told,) = judge_pairs([compared(baseline, sides[1], ["q1", "q2"])], Rules()).metrics[0][CSR]
        assert told.verdict == verdict


def golden_change(queries: int, lost: int, rules: Rules, *, metrics: Sequence[str] = ("Hit@5", "Recall@5")) -> Change:
    """A golden set whose questions were all found before, and of which some are lost now."""
    names = [f"q{number}" for number in range(queries)]
    before = dict.fromkeys(names, 1.0)
    after = {name: float(number >= lost) for number, name in enumerate(names)}
    base = replace(side({"csr": BEFORE}), digests=dict.fromkeys(names, "0"), texts={})
    sides = [replace(base, figures={"csr": dict.fromkeys(metrics, values)}) for values in (before, after)]
    return compare_one(*sides, CompareRules(rules)).change


@pytest.mark.parametrize("lost", range(5))
@pytest.mark.parametrize(("decided", "decision"), [("pass", "passed"), ("fail", "failed"), ("invalid", "invalid")])
def test_a_gate_of_four_questions_is_not_judged_whatever_they_lose(lost: int, decided: Any, decision: str) -> None:
    change = golden_change(4, lost, Rules(when_not_judged=decided))
    assert (change.gate, change.decision) == ("not judged", decision)
    reason = (
        "too few queries: if all 4 queries lost everything, the chance of that would be 6.2%, and a gate fails below "
        "5%; 5 queries are the fewest that can"
    )
    assert {(one.gate, one.gate_reason, one.total_loss_p) for one in change.backends[0].metrics} == {
        ("not judged", reason, 0.5**4)
    }
    document = change_document(result_of(change))
    assert document.outcome == "not judged"
    assert document.verdicts[0].headline == (
        f"Not judged: the gate would have passed even after the loss of everything; counts as {decision} "
        f"(--when-not-judged {decided})"
    )
    assert ("Not judged: Hit@5 of csr and Recall@5 of csr", reason) in [
        (one.headline, one.detail) for one in document.verdicts
    ]
    (suite,) = document.suites
    outcome = Outcome.FAILURE if decided == "fail" else Outcome.SKIPPED
    assert {(case.outcome, case.message) for case in suite.cases} == {(outcome, f"not judged: {reason}")}
    assert bool(document.annotations) == (decided != "pass")
    assert not [one for one in document.values if one.metric.startswith("passed.")]


@pytest.mark.parametrize(("lost", "gate"), [(0, "passed"), (5, "failed")])
def test_equal_metrics_count_once_so_that_five_questions_are_judged(lost: int, gate: str) -> None:
    metrics = ("Hit@5", "Recall@5", "MRR@1", "nDCG@1")
    change = golden_change(5, lost, Rules(), metrics=metrics)
    assert (change.gate, change.tests) == (gate, 1 if lost else 0)
    assert {(one.gate, one.gate_reason) for one in change.backends[0].metrics} == {(gate, "")}
    assert all("comparisons" not in one.sentence for one in change.backends[0].metrics)


@pytest.mark.parametrize(("lost", "gate"), [(0, "passed"), (1, "passed"), (2, "failed")])
def test_a_tolerance_is_judged_by_the_means(lost: int, gate: str) -> None:
    """Of 20 questions one may be lost; that no test shows the loss of two is said beside it."""
    change = golden_change(20, lost, Rules(allowed_drop=0.05, rule="tolerance"))
    assert (change.gate, change.decision, change.rule) == (gate, gate, "tolerance")
    document = change_document(result_of(change))
    allowed = "the allowed drop (0.05)"
    if gate == "passed":
        assert document.verdicts[0].headline == f"Passed: no mean fell by more than {allowed}"
    else:
        assert document.verdicts[0].headline == (
            f"Failed: the mean fell by more than {allowed}: Hit@5 of csr, Recall@5 of csr"
        )
        assert {one.verdict for one in change.backends[0].metrics} == {"undecided"}
        assert [one.tone for one in document.verdicts] == ["bad", "bad"]
        assert document.verdicts[1].headline.startswith(
            "csr: Hit@5 and Recall@5 fell by 0.100, more than the allowed 0.05 (rule: tolerance): 1.000 → 0.900, 2 "
        )
        assert document.verdicts[1].detail.endswith(
            "undecided by the test: too few queries differ (2 of 20) for a test to show it"
        )
        (annotation,) = document.annotations
        assert annotation.title == "Hit@5 and Recall@5 failed on csr"
        assert annotation.message.startswith("Hit@5 and Recall@5 fell by 0.1000, more than the allowed 0.05")
    failures = [case.name for suite in document.suites for case in suite.cases if case.outcome is Outcome.FAILURE]
    assert failures == (["Hit@5", "Recall@5"] if gate == "failed" else [])


def test_a_failure_by_tolerance_says_so_first_and_its_statistics_after() -> None:
    document = change_document(result_of(golden_change(3, 3, Rules(allowed_drop=0.02, rule="tolerance"))))
    case = document.suites[0].cases[0]
    assert case.message == (
        "Hit@5 fell by 1.0000, more than the allowed 0.02 (rule: tolerance): 1.0000 → 0.0000 (−1.0000 [−1.0000, "
        "−1.0000]) over 3 queries; undecided by the test: too few queries differ (3 of 3) for a test to show it"
    )
    assert [(one.tone, one.headline.split(" fell by")[0]) for one in document.verdicts[1:]] == [
        ("bad", "csr: Hit@5 and Recall@5")
    ]


def test_the_size_of_a_fall_is_never_rounded_to_the_allowed_one() -> None:
    (metric,) = judged(
        {"nDCG@10": {"q1": 0.5, "q2": 0.5}}, {"nDCG@10": {"q1": 0.47999, "q2": 0.47999}},
        Rules(allowed_drop=0.02, rule="tolerance"),
    )  # fmt: skip
    assert metric.sentence.startswith("nDCG@10 fell by 0.02001, more than the allowed 0.02 (rule: tolerance): ")


@pytest.mark.parametrize(
    ("differences", "reason"),
    [
        ([-1.0, -0.2, -0.5], "too few queries differ (3 of 3) for a test to show it"),
        ([0.0, 0.0, 0.5, 0.25], "too few queries differ (2 of 4) for a test to show it"),
        ([-0.5], "too few queries differ (1 of 1) for a test to show it"),
        ([-0.5, 0.25, -0.5, 0.4], "the differences scatter too much for so few queries"),
        ([-0.5] * 9 + [0.4] * 6, "the differences scatter too much for so few queries"),
    ],
)
def test_only_differences_that_scatter_are_said_to(differences: Sequence[float], reason: str) -> None:
    names = [f"q{number}" for number in range(len(differences))]
    before = dict.fromkeys(names, 0.5)
    after = {name: 0.5 + difference for name, difference in zip(names, differences, strict=True)}
    (metric,) = judged({"nDCG@10": before}, {"nDCG@10": after}, Rules())
    assert (metric.verdict, metric.reason) == ("undecided", reason)


def test_metrics_with_other_values_are_told_apart() -> None:
    before = {f"q{number}": 1.0 for number in range(20)}
    lost = {**before, "q1": 0.0, "q2": 0.0}
    half = {**before, "q1": 0.5, "q2": 0.5}
    base = replace(side({"csr": BEFORE}), digests=dict.fromkeys(before, "0"), texts={})
    names = ("Hit@5", "MRR@5", "Recall@5")
    sides = [
        replace(base, figures={"csr": dict.fromkeys(names, before)}),
        replace(base, figures={"csr": {"Hit@5": lost, "MRR@5": half, "Recall@5": lost}}),
    ]
    change = compare_one(*sides, CompareRules(Rules(allowed_drop=0.01, rule="tolerance"))).change
    document = change_document(result_of(change))
    told = [one.headline.split(" fell by")[0] for one in document.verdicts[1:]]
    assert told == ["csr: Hit@5 and Recall@5", "csr: MRR@5"]
    titles = [table.title for table in query_tables(change) if "lost most" in table.title]
    assert titles == [
        "csr: queries that lost most in Hit@5 and Recall@5 (2 of 2)",
        "csr: queries that lost most in MRR@5 (2 of 2)",
    ]


@pytest.mark.parametrize(
    ("values", "rules", "said"),
    [
        (0.0, Rules(), "there is nothing to lose: the mean was 0"),
        (
            0.3,
            Rules(allowed_drop=0.3),
            "losing everything would be allowed: the mean was 0.300, and the allowed drop is",
        ),
        (0.3, Rules(allowed_drop=0.5, rule="tolerance"), "losing everything would be allowed: the mean was 0.300"),
    ],
)
def test_many_queries_are_not_judged_either_where_any_loss_is_allowed(values: float, rules: Rules, said: str) -> None:
    same = {"AP": {f"q{number}": values for number in range(100)}}
    (found,) = judged(same, same, rules)
    assert found.gate == "not judged"
    assert found.gate_reason.startswith(said)


def test_one_query_is_too_few_for_any_test() -> None:
    (found,) = judged({"AP": {"q1": 1.0}}, {"AP": {"q1": 0.0}}, Rules())
    assert (found.gate, found.gate_reason) == (
        "not judged", "too few queries: no test can show a loss with 1 query",
    )  # fmt: skip


def test_a_failed_metric_decides_before_one_that_is_not_judged() -> None:
    names = [f"q{number}" for number in range(20)]
    rare = {name: float(number < 2) for number, name in enumerate(names)}
    base = replace(side({"csr": BEFORE}), digests=dict.fromkeys(names, "0"))
    before = replace(base, figures={"csr": {"nDCG@5": dict.fromkeys(names, 0.9), "P@1": rare}})
    after = replace(base, figures={"csr": {"nDCG@5": dict.fromkeys(names, 0.1), "P@1": rare}})
    failed = compare_one(before, after, CompareRules()).change
    assert ([one.gate for one in failed.backends[0].metrics], failed.gate) == (["failed", "not judged"], "failed")
    calm = compare_one(before, before, CompareRules()).change
    assert ([one.gate for one in calm.backends[0].metrics], calm.gate) == (["passed", "not judged"], "not judged")


def test_a_backend_that_nothing_is_compared_with_is_an_error_of_the_report() -> None:
    """Its exit code is 3, and so says the file for continuous integration."""
    change = golden_change(20, 0, Rules())
    trial = next(one for one in sample_report().trials if one.status == "failed")
    suites = change_document(result_of(change).model_copy(update={"trials": [trial]})).suites
    assert [(case.name, case.outcome) for case in suites[-1].cases] == [("runs", Outcome.ERROR)]


def test_a_backend_that_failed_is_skipped_where_there_is_no_gate() -> None:
    before = side({"csr": BEFORE})
    after = side({}, backends=[backend("csr", status="failed", error=sample_report().trials[-1].error)])
    for rules, outcome in ((Rules(allowed_drop=None), Outcome.SKIPPED), (Rules(), Outcome.ERROR)):
        (case,) = (
            change_document(result_of(compare_one(before, after, CompareRules(rules)).change, "diff")).suites[0].cases
        )
        assert (case.name, case.outcome) == ("is compared", outcome)


def test_ties_excuse_the_gate_and_no_ranking_that_is_not_cut_may_lack_a_document() -> None:
    before, after = many(60, -0.05)
    one, other = [(document, 1.0) for document in "ab"], [(document, 1.0) for document in "ac"]
    for k, verdict, gate in ((2, "same", "passed"), (3, "worse", "failed")):
        base = side({"csr": BEFORE}, resolved={"k": k})
        runs = [tied_run(dict.fromkeys(before["nDCG@10"], hits)) for hits in (one, other)]
        sides = [
            replace(base, figures={"csr": values}, hits=lambda _, run=run: run)
            for values, run in zip((before, after), runs, strict=True)
        ]
        (found,) = judge_pairs([compared(*sides, list(before["nDCG@10"]))], Rules()).metrics[0][CSR]
        assert (found.verdict, found.gate) == (verdict, gate)


def remarks(report: Change) -> Sequence[str]:
    (section,) = (one for one in change_document(result_of(report)).sections if one.anchor == "notes")
    (notes,) = section.blocks
    assert isinstance(notes, Notes)
    return notes.lines


def test_where_nothing_is_tested_nothing_is_said_of_tests() -> None:
    one = side({"csr": BEFORE})
    said = " ".join(remarks(compare_one(one, one, CompareRules()).change))
    assert "difference: after − before" in said
    assert "Holm over 0" not in said
    assert "two-sided" not in said


def test_intervals_over_few_queries_come_with_a_caution() -> None:
    before, after = side({"csr": BEFORE}), side({"csr": AFTER})
    said = [line for line in remarks(compare_one(before, after, CompareRules()).change) if "caution" in line]
    assert len(said) == 1
    assert "over 3 queries" in said[0]


def judged_metric(**changes: object) -> MetricJudgement:
    judged = MetricJudgement(
        metric="R@1000",
        queries=50,
        before=0.887,
        after=0.874,
        difference=-0.013,
        ci_low=-0.02,
        ci_high=-0.004,
        test="randomisation",
        p=0.03,
        p_adjusted=0.04,
        effect=-0.3,
        wins=1,
        ties=41,
        losses=8,
        margin=0.01,
        equivalence_p=0.5,
        noise_floor=None,
        detectable=0.0123,
        queries_needed=None,
        verdict="worse",
        allowed_drop=0.0,
        gate="failed",
        gate_p=0.026,
        reason="",
    )
    return judged.model_copy(update=changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            (
                "R@1000 fell by 0.013 (0.887 → 0.874): 8 queries lost, 1 gained; allowed 0; "
                "chance of this without a change 2.6%"
            ),
        ),
        (
            {"allowed_drop": 0.005, "gate_p": 0.0001},
            (
                "R@1000 fell by 0.013 (0.887 → 0.874): 8 queries lost, 1 gained; allowed 0.005; "
                "chance of this if only 0.005 were lost under 0.1%"
            ),
        ),
        (
            {"allowed_drop": None, "gate": None, "gate_p": None, "verdict": "undecided", "losses": 1},
            (
                "R@1000 fell by 0.013 (0.887 → 0.874): 1 query lost, 1 gained; chance of this without a change 4.0%; "
                "50 queries would have shown a difference of 0.012"
            ),
        ),
        (
            {
                "allowed_drop": None,
                "gate": None,
                "gate_p": None,
                "verdict": "undecided",
                "queries": 3,
                "detectable": 1.9,
            },
            (
                "R@1000 fell by 0.013 (0.887 → 0.874): 8 queries lost, 1 gained; chance of this without a change 4.0%; "
                "3 queries are too few to show any difference"
            ),
        ),
        (
            {"before": 0.874, "after": 0.8743, "difference": 0.0003, "verdict": "same", "gate": "passed"},
            (
                "R@1000 rose by 0.0003 (0.8740 → 0.8743): 8 queries lost, 1 gained; allowed 0; "
                "chance of this without a change 4.0%; 50 queries would have shown a difference of 0.012"
            ),
        ),
        (
            {"before": 0.8870, "after": 0.8866, "difference": -0.0004},
            (
                "R@1000 fell by 0.0004 (0.8870 → 0.8866): 8 queries lost, 1 gained; allowed 0; "
                "chance of this without a change 2.6%"
            ),
        ),
        (
            {"before": 0.88651, "after": 0.88649, "difference": -0.00002},
            (
                "R@1000 fell by 0.00002 (0.88651 → 0.88649): 8 queries lost, 1 gained; allowed 0; "
                "chance of this without a change 2.6%"
            ),
        ),
        ({"wins": 0, "losses": 0, "difference": 0.0}, "R@1000 is 0.874 as before: no query differs"),
    ],
)
def test_a_verdict_is_said_in_plain_words(changes: dict[str, object], said: str) -> None:
    assert sentence(judged_metric(**changes)) == said


def test_a_corrected_chance_says_over_how_many_comparisons() -> None:
    gated = sentence(judged_metric(), comparisons=12, gated_comparisons=4)
    assert gated.endswith("chance of this without a change 2.6% after correction for 4 comparisons")
    free = sentence(judged_metric(allowed_drop=None, gate=None, gate_p=None), comparisons=12)
    assert free.endswith("chance of this without a change 4.0% after correction for 12 comparisons")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gate_p": 1.0}, "allowed 0; no evidence of a change after correction for 4 comparisons"),
        ({"gate_p": 0.9996}, "allowed 0; no evidence of a change after correction for 4 comparisons"),
        ({"gate_p": 0.998}, "chance of this without a change 99.8% after correction for 4 comparisons"),
        (
            {"gate_p": 1.0, "allowed_drop": 0.02},
            "no evidence that more than 0.02 were lost after correction for 4 comparisons",
        ),
        (
            {"p_adjusted": 1.0, "allowed_drop": 0.02, "gate": "passed", "difference": 0.013},
            "no evidence of a change after correction for 12 comparisons",
        ),
    ],
)
def test_a_chance_of_all_is_said_to_be_no_evidence(changes: dict[str, object], said: str) -> None:
    """A corrected p ends at 1, which is no chance that anybody could name."""
    assert sentence(judged_metric(**changes), comparisons=12, gated_comparisons=4).endswith(said)


def test_short_labels_are_unique_among_the_backends_of_both_results() -> None:
    """Also among backends that are not compared: none of them is named by the short label of another."""
    before, after, lost = ("sqlite:fields=title^3+text", "sqlite:fields=title^9+text", "sqlite")
    one = side({"csr": BEFORE})
    report = compare_one(one, one, CompareRules()).change
    (change,) = report.backends
    renamed = change.model_copy(update={"before": before, "after": after})
    document = change_document(result_of(report.model_copy(update={"backends": [renamed], "only_before": [lost]})))
    assert document.labels == {before: "sqlite[title^3+text]", after: "sqlite[title^9+text]"}
