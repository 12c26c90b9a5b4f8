"""Documents to judge: the pool, its order, the labels that settle a sign, and the page and files around it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from explorers import qrels_of, run_of
from judged_results import QUERIES, TEXTS, small_result

import harness
from harness.cli.app import _build
from harness.data.labels import grades_of
from harness.data.memory import qrels_from_dict
from harness.data.ranking import TieRule
from harness.data.types import Ids
from harness.errors import UsageError
from harness.metrics import QuerySet, parse_metric, score
from harness.report.rankings import judging_pool
from harness.report.rankings.explorer import Explorer
from harness.report.rankings.judging_pool import BOUNDED, PoolRules, unbounded
from harness.report.rankings.of_comparison import comparison_explorers
from harness.results.comparison import Comparison

RULES = PoolRules(depth=5, budget=1000, seed=42, ties=TieRule.TREC_EVAL, metric=parse_metric("nDCG@5"))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return small_result(tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="module")
def explorer(result: Comparison) -> Explorer:
    return comparison_explorers(result)[0]


def test_the_pool_is_every_unjudged_first_hit_once(explorer: Explorer) -> None:
    pool = judging_pool.judging_pool([explorer], RULES)
    expected = {
        (query, document)
        for run in explorer.runs
        for row, query in enumerate(run.query_ids)
        for document in run.doc_ids.take(run.rows[run.of_query(row)][:5])
    }
    assert explorer.qrels is not None
    grades = grades_of(explorer.qrels)
    unjudged = {(query, document) for query, document in expected if document not in grades[query]}
    chosen = [(one.query, document) for one in pool.queries for document in one.documents]
    assert (set(chosen), len(chosen)) == (unjudged, len(unjudged))
    assert (pool.pooled, pool.judged) == (len(expected), len(expected) - len(unjudged))


def test_the_budget_takes_the_most_decisive_documents_and_the_seed_orders_them(explorer: Explorer) -> None:
    full, few = (judging_pool.judging_pool([explorer], RULES._replace(budget=budget)) for budget in (1000, 6))
    other = judging_pool.judging_pool([explorer], RULES._replace(seed=7))
    assert sum(len(one.documents) for one in few.queries) == 6
    assert few.queries[0].query == full.queries[0].query
    by_query = {one.query: one.documents for one in other.queries}
    assert all(set(one.documents) == set(by_query[one.query]) for one in full.queries)
    assert any(one.documents != by_query[one.query] for one in full.queries)
    rescoring = judging_pool._Rescoring(explorer, grades_of(explorer.qrels), RULES.metric, RULES.ties)  # type: ignore[arg-type]
    swings = []
    for query in (full.queries[0].query, full.queries[-1].query):
        documents = next(one.documents for one in full.queries if one.query == query)
        now, *then = rescoring._differences([(query, ()), *((query, [document]) for document in documents)])
        swings.append(max(abs(float(value[0] - now[0])) for value in then))
    assert swings[0] > swings[1]


@pytest.mark.parametrize("name", BOUNDED)
def test_extremes_are_those_of_all_labels(explorer: Explorer, name: str) -> None:
    """By brute force: each set of relevant documents of a query, on both sides."""
    assert explorer.qrels is not None
    rescoring = judging_pool._Rescoring(
        explorer, grades_of(explorer.qrels), parse_metric(f"{name}@4"), TieRule.TREC_EVAL
    )
    rules = RULES._replace(metric=rescoring.metric)
    for one in judging_pool.judging_pool([explorer], rules).queries:
        candidates = [judging_pool._Candidate(0, one.query, document, 1) for document in one.documents]
        rescoring.add_swings(candidates)
        now, low, high = rescoring.extremes(one.query, candidates)
        subsets = [
            (one.query, chosen)
            for size in range(len(one.documents) + 1)
            for chosen in itertools.combinations(one.documents, size)
        ]
        values = rescoring._differences(subsets)
        np.testing.assert_allclose([low, high], [values.min(axis=0), values.max(axis=0)], atol=1e-12)
        np.testing.assert_allclose(now, values[0])


@pytest.mark.parametrize("name", BOUNDED)
def test_the_number_of_labels_is_the_first_after_which_no_label_turns_the_sign(explorer: Explorer, name: str) -> None:
    metric = parse_metric(f"{name}@3")
    rules = RULES._replace(metric=metric)
    pool = judging_pool.judging_pool([explorer], rules)
    assert explorer.qrels is not None
    rescoring = judging_pool._Rescoring(explorer, grades_of(explorer.qrels), metric, rules.ties)
    total = sum(float(value[0]) for value in rescoring.present().values())
    assert total != 0
    sign, labels, needed = np.sign(total), 0, None
    ranges = {}
    for one in pool.queries:
        candidates = [judging_pool._Candidate(0, one.query, document, 1) for document in one.documents]
        rescoring.add_swings(candidates)
        now, low, high = (float(value[0]) for value in rescoring.extremes(one.query, candidates))
        ranges[one.query] = now * sign, min(low * sign, high * sign)
    for position in range(len(pool.queries) + 1):
        judged = {one.query for one in pool.queries[:position]}
        rest = sum(now if query in judged else worst for query, (now, worst) in ranges.items())
        rest += sum(float(v[0]) * sign for query, v in rescoring.present().items() if query not in ranges)
        if rest > 1e-12:
            needed = labels
            break
        labels += len(pool.queries[position].documents) if position < len(pool.queries) else 0
    assert needed
    assert pool.settled[0].startswith(f"If the first {needed:,} documents are irrelevant, no further label can turn")
    few = judging_pool.judging_pool([explorer], rules._replace(budget=1))
    assert few.settled[0].startswith(f"These documents are too few to settle the sign of the difference in {name}@3")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["P@2", "R@2", "nDCG@3"])
def test_no_assignment_of_labels_turns_a_settled_sign(seed: int, name: str) -> None:
    """By brute force over all labels of three small queries: after the number no sign turns, and one does before it."""
    random, documents = np.random.default_rng(seed), [f"d{number}" for number in range(4)]
    queries = ["q0", "q1", "q2"]
    runs = [
        run_of({query: random.permutation(documents)[: random.integers(2, 4)].tolist() for query in queries})
        for _ in range(3)
    ]
    judged = {query: {document: int(random.integers(0, 2)) for document in documents if random.random() < 0.4}
              for query in queries}  # fmt: skip
    explorer = Explorer(
        Ids.of(queries), ["x", "y", "z"], runs, qrels=qrels_of({q: of or {"d9": 1} for q, of in judged.items()})
    )
    metric = parse_metric(name)
    rules = RULES._replace(metric=metric, depth=3, budget=1000, seed=seed)
    pool = judging_pool.judging_pool([explorer], rules)
    order = [(one.query, document) for one in pool.queries for document in one.documents]
    assert explorer.qrels is not None
    present = grades_of(explorer.qrels)

    def signs(relevant: Sequence[tuple[str, str]]) -> list[float]:
        grades = {query: dict(of_query) for query, of_query in present.items()}
        for query, document in relevant:
            grades[query][document] = 1
        means = [
            score(run, qrels_from_dict(grades), [metric], unjudged=True, queries=QuerySet.JUDGED).values.sum()
            for run in runs
        ]
        return [float(np.sign(round(mean - means[0], 9))) for mean in means[1:]]

    now = signs([])

    def turns(after: int) -> bool:
        rest = order[after:]
        subsets = itertools.chain.from_iterable(itertools.combinations(rest, size) for size in range(len(rest) + 1))
        return any(sign and then != sign for subset in subsets for sign, then in zip(now, signs(subset), strict=True))

    text = " ".join(pool.settled)
    if not any(now):
        assert "no number of labels settles" in text
        return
    assert "too few" not in text, "all of the pool are on the page"
    stated = re.search(r"If the first (\d+) documents", text)
    bounds = [0, *itertools.accumulate(len(one.documents) for one in pool.queries)]
    number = int(stated[1]) if stated is not None else 0
    assert not turns(number)
    assert number == 0 or turns(bounds[bounds.index(number) - 1])


def test_no_number_is_given_without_a_bound(explorer: Explorer) -> None:
    for metric, depth, reason in (
        ("AP@5", 5, "the range of AP@5 over all labels of a query is not known; choose P, R (recall), nDCG or DCG"),
        ("nDCG", 5, "the range of nDCG over all labels"),
        ("P@10", 5, "P@10 looks at more hits than the first 5; raise the depth"),
    ):
        rules = RULES._replace(metric=parse_metric(metric), depth=depth)
        assert unbounded([explorer], rules).startswith(reason)
    assert "cannot be scored again" in unbounded([explorer], RULES._replace(metric=None))


def test_the_page_names_no_backend_and_loads_nothing(result: Comparison, tmp_path: Path) -> None:
    assert result.folder is not None
    page = harness.judge(result.folder, depth=5, budget=12)
    assert page.documents == 12
    assert "by-length" not in page.html
    assert "csr" not in page.html
    assert "default-src &#39;none&#39;" in page.html
    assert "http" not in page.html.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    done = CliRunner().invoke(
        _build(), ["judge", str(result.folder), "--budget", "12", "--page", str(tmp_path / "p.html")]
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith("12 documents of ")
    assert (tmp_path / "p.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_labelled_documents_are_judged_and_a_result_without_texts_is_refused(
    result: Comparison, tmp_path: Path
) -> None:
    assert result.folder is not None
    everything = harness.judge(result.folder, budget=10_000)
    lines = [
        {"dataset": "data", "query_id": one.query, "doc_id": document, "grade": 0}
        for one in everything.pool.queries
        for document in one.documents
    ]
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines[3:]), encoding="utf-8")
    rest = harness.judge(result.folder, budget=10_000, labels=labels)
    assert (rest.documents, rest.findings) == (3, [])
    old = {**lines[0], "text_digest": "0" * 12}
    labels.write_text("".join(json.dumps(line) + "\n" for line in [old, *lines[1:]]), encoding="utf-8")
    again = harness.judge(result.folder, budget=10_000, labels=labels)
    assert [one.documents for one in again.pool.queries] == [[old["doc_id"]]]
    assert [one.check for one in again.findings] == ["label-of-changed-text"]
    done = CliRunner().invoke(
        _build(), ["judge", str(result.folder), "--labels", str(labels), "--page", str(tmp_path / "p")]
    )
    assert "1 label is of a text that has changed since, and left out" in done.stderr
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(UsageError, match=r"all .* documents among the first 10 hits are judged"):
        harness.judge(result.folder, labels=labels)
    dataset = harness.Dataset.of(TEXTS, QUERIES, {"q0": {"d0": 1}})
    harness.compare("csr", dataset, k=3, timing=False, isolation="none", no_text=True, out=tmp_path / "no-text")
    with pytest.raises(UsageError, match="documents cannot be judged without their texts"):
        harness.judge(tmp_path / "no-text")
