"""The dossier by hand: rankings side by side, judged for that query, values under other judgments, and labels."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from regression_sides import AFTER, BEFORE, GRADES, backend, compare_one, read_one, result_of, side, write_one

from harness.data.labels import Label, SettledLabels, grades_of, read_labels, with_labels
from harness.data.memory import qrels_from_dict
from harness.errors import DataError, UsageError
from harness.pipeline.regress.compare_sides import CompareRules
from harness.pipeline.regress.rescoring import check_no_grades, lines_to_label
from harness.report.documents.query_changes import query_tables
from harness.report.documents.regress import change_document
from harness.results.regression_schema import Change, Dossier, RankedDocument
from harness.results.snapshot import ResultSnapshot

SECOND = 1 / math.log2(3)
"""What a relevant document at rank 2 adds to the DCG."""


@pytest.fixture
def before() -> ResultSnapshot:
    return side({"csr": BEFORE})


@pytest.fixture
def after() -> ResultSnapshot:
    return side({"csr": AFTER}, source="after")


def report_of(before: ResultSnapshot, after: ResultSnapshot, **how: object) -> Change:
    return compare_one(before, after, CompareRules(**how)).change  # type: ignore[arg-type]


def dossier_of(before: ResultSnapshot, after: ResultSnapshot, **how: object) -> Dossier:
    dossier = report_of(before, after, **how).backends[0].dossier
    assert dossier is not None
    return dossier


def judged_as(change: Change, **update: object) -> Change:
    """Return the same change of one backend, with every metric judged otherwise."""
    (backend,) = change.backends
    metrics = [metric.model_copy(update=update) for metric in backend.metrics]
    return change.model_copy(update={"backends": [backend.model_copy(update={"metrics": metrics})]})


def test_queries_are_told_most_changed_first(before: ResultSnapshot, after: ResultSnapshot) -> None:
    found = dossier_of(before, after)
    assert found.metric == "nDCG@2"
    assert found.counts.model_dump() == {"improved": 1, "worsened": 1, "unchanged": 1, "same_ranking": 1}
    assert found.changed_queries == 2
    assert [query.query for query in found.queries] == ["q2", "q3"]
    first = found.queries[0].values[0]
    assert (first.before, first.after, first.difference) == pytest.approx((SECOND, 0.0, -SECOND))
    assert found.queries[0].text == "second words"
    assert [query.query for query in dossier_of(before, after, queries=1).queries] == ["q2"]


DEEP = {"q1": [*(f"x{rank}" for rank in range(1, 12)), "a", "b"], "q2": ["y", "c"]}
"""Documents that are relevant to q1 lie at ranks 12 and 13, beyond the ten that a baseline keeps."""
SHALLOW = {"q1": [*(f"x{rank}" for rank in range(1, 12)), "b"], "q2": ["y", "c"]}
TWENTY = {"k": 20}


def test_relevant_documents_are_followed_to_depth_k() -> None:
    before, after = (
        side({"csr": DEEP}, resolved=TWENTY, metrics="AP"),
        side({"csr": SHALLOW}, source="after", resolved=TWENTY, metrics="AP"),
    )
    found = dossier_of(before, after)
    assert (found.relevant_depth, found.lost, found.gained) == (20, 1, 0)
    assert [(query.query, query.lost, query.gained) for query in found.queries] == [("q1", ["a"], [])]
    shown = {one.document: one for one in found.queries[0].documents}
    assert shown["a"] == RankedDocument(
        document="a", rank_before=12, rank_after=None, grade=2, absent_after="not found"
    )
    back = dossier_of(after, before)
    assert (back.lost, back.gained, back.queries[0].gained) == (0, 1, ["a"])


def test_relevant_documents_are_lost_from_what_the_metric_looks_at(tmp_path: Path) -> None:
    """Documents that fall out of the first two are found all the same, further down."""
    before = side({"csr": {"q1": ["a", "x", "b"], "q2": ["c"]}})
    after = side({"csr": {"q1": ["x", "y", "a", "b"], "q2": ["c"]}}, source="after")
    write_one(tmp_path / "short.json", before, depth=2)
    for earlier in (before, read_one(tmp_path / "short.json")):
        found = dossier_of(earlier, after)
        assert (found.metric, found.relevant_depth, found.lost, found.gained) == ("nDCG@2", 2, 1, 0)
        (query,) = found.queries
        assert (query.query, query.lost) == ("q1", ["a"])
        assert {value.metric: value.lost for value in query.values} == {"nDCG@2": ["a"], "AP": []}
        back = dossier_of(after, earlier)
        assert (back.lost, back.gained) == (0, 1)
    change = judged_as(report_of(before, after), verdict="worse")
    (detail,) = (one.detail for one in change_document(result_of(change)).verdicts if "relevant lost" in one.detail)
    assert detail.startswith("1 relevant lost from the first 2, 0 gained; ")


def test_a_table_counts_the_queries_that_the_verdict_counts() -> None:
    """Of two queries that lost, the dossier holds one; a second metric failed the gate."""
    before = side({"csr": {"q1": ["a", "b"], "q2": ["c"]}})
    after = side({"csr": {"q1": ["x", "a", "b"], "q2": ["x", "c"]}}, source="after")
    change = judged_as(report_of(before, after, queries=1), gate="failed")
    assert [metric.losses for metric in change.backends[0].metrics] == [2, 2]
    titles = [table.title.removeprefix("csr: queries that lost most in ") for table in query_tables(change)]
    assert titles[0] == "nDCG@2 (1 of 2)"
    assert "AP (1 of 2)" in titles


def test_a_baseline_keeps_the_ranks_of_relevant_documents_alone(tmp_path: Path) -> None:
    write_one(tmp_path / "deep.json", side({"csr": DEEP}, resolved=TWENTY, metrics="AP"))
    before = read_one(tmp_path / "deep.json")
    after = side(
        {"csr": {**SHALLOW, "q1": ["new", *SHALLOW["q1"][:-1]]}}, source="after", resolved=TWENTY, metrics="AP"
    )
    found = dossier_of(before, after)
    assert (found.depth, found.relevant_depth, found.lost, found.gained) == (10, 20, 2, 0)
    shown = {one.document: one for one in found.queries[0].documents}
    assert (shown["a"].rank_before, shown["a"].absent_after) == (12, "not found")
    assert (shown["new"].rank_before, shown["new"].absent_before) == (None, "not stored")
    # what was judged later may have been found then: nobody knows
    labelled = dossier_of(before, after, labels={None: [Label("q1", "x11", 1, "me")]})
    assert (labelled.lost, labelled.gained) == (2, 0)


def test_both_rankings_stand_side_by_side(before: ResultSnapshot, after: ResultSnapshot) -> None:
    query = dossier_of(before, after).queries[0]
    assert query.documents == [
        RankedDocument(document="y", rank_before=1, rank_after=1, grade=None),
        RankedDocument(document="w", rank_before=None, rank_after=2, grade=None, absent_before="not found"),
        RankedDocument(document="v", rank_before=None, rank_after=3, grade=None, absent_before="not found"),
        RankedDocument(document="c", rank_before=2, rank_after=4, grade=1),
        RankedDocument(document="z", rank_before=3, rank_after=None, grade=None, absent_after="not found"),
    ]
    assert (query.added, query.removed) == (["w", "v"], ["z"])
    shallow = dossier_of(before, after, depth=2)
    assert (shallow.depth, shallow.queries[0].added, shallow.queries[0].removed) == (2, ["w"], ["c"])


def test_judged_means_judged_for_that_query(before: ResultSnapshot, after: ResultSnapshot) -> None:
    found = dossier_of(before, after)
    third = found.queries[1]  # d, a, b: b is judged, but for q1
    assert (third.judged_before, third.judged_after) == (2, 2)
    assert found.judged_before == pytest.approx((2 / 3 + 1 / 3 + 2 / 3) / 3)
    assert found.judged_after == pytest.approx((2 / 3 + 1 / 4 + 2 / 3) / 3)


def test_values_if_all_unjudged_documents_were_relevant(before: ResultSnapshot, after: ResultSnapshot) -> None:
    second, third = (query.values for query in dossier_of(before, after).queries)
    assert (second[0].before_if_relevant, second[0].after_if_relevant) == pytest.approx((1.0, 1.0))
    # q3: b at rank 3 becomes relevant, so that two documents are, and the ideal is 1 + SECOND
    assert (third[0].before_if_relevant, third[0].after_if_relevant) == pytest.approx(
        (SECOND / (1 + SECOND), 1 / (1 + SECOND))
    )
    # q2, AP: y, c, z are relevant before, y, w, v, c now, of five in all: z is not found any more, w and v were not
    assert second[1].before_if_relevant == pytest.approx(3 / 5)
    assert second[1].after_if_relevant == pytest.approx(4 / 5)


def test_the_most_decisive_label_comes_first(before: ResultSnapshot, after: ResultSnapshot) -> None:
    found = dossier_of(before, after).to_label
    half = SECOND / (1 + SECOND)
    expected = {
        ("q2", "w"): SECOND,  # now at rank 2, as c was before: the difference would be 0
        ("q2", "y"): SECOND - half,
        ("q2", "v"): SECOND - half,
        ("q2", "z"): SECOND - half,
        ("q3", "b"): (1 / (1 + SECOND) - half) - (1 - SECOND),
    }
    assert {(one.query, one.document): one.swing for one in found} == pytest.approx(expected)
    assert (found[0].document, found[-1].document) == ("w", "b")
    assert [(one.rank_before, one.rank_after) for one in found if one.document == "z"] == [(3, None)]


def test_against_a_baseline_only_what_it_holds_is_computed(
    before: ResultSnapshot, after: ResultSnapshot, tmp_path: Path
) -> None:
    write_one(tmp_path / "one.json", before, depth=2)
    found = dossier_of(read_one(tmp_path / "one.json"), after)
    assert found.depth == 2
    ndcg, ap = found.queries[0].values
    assert (ndcg.before_if_relevant, ndcg.after_if_relevant) == pytest.approx((1.0, 1.0))
    assert (ap.before_if_relevant, ap.after_if_relevant) == (None, None)
    assert ap.before == 0.5
    assert found.to_label[0].document == "w"


def test_without_judgments_there_are_rankings_alone(
    tmp_path: Path, before: ResultSnapshot, after: ResultSnapshot
) -> None:
    for number, one in enumerate((before, after)):
        write_one(tmp_path / f"{number}.json", one)
    found = dossier_of(*(read_one(tmp_path / f"{number}.json") for number in range(2)))
    assert (found.judged_before, found.judged_after, found.to_label) == (None, None, [])
    query = found.queries[0]
    assert (query.judged_before, query.values[0].before_if_relevant, query.added) == (None, None, ["w", "v"])


def test_labels_go_out_and_come_back_and_both_sides_are_scored_with_them(
    before: ResultSnapshot, after: ResultSnapshot, tmp_path: Path
) -> None:
    path = tmp_path / "to-label.jsonl"
    path.write_bytes(lines_to_label(report_of(before, after), {("cranfield", "w"): "the text of w"}))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {
        "query_id": "q2", "doc_id": "w", "grade": None, "swing": pytest.approx(SECOND), "backend": "csr",
        "rank_before": None, "rank_after": 2, "query": "second words", "text": "the text of w",
    }  # fmt: skip
    check_no_grades(path)
    lines[0]["grade"] = 1
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    labels = read_labels([path])
    assert labels == {None: [Label("q2", "w", 1, str(path))]}
    report = report_of(before, after, labels=labels)
    assert report.data[0].labels == 1
    dossier = report.backends[0].dossier
    assert dossier is not None
    assert dossier.counts.worsened == 0  # c at rank 2 before, w at rank 2 now, both relevant
    assert {metric.metric for metric in report.backends[0].metrics} == {"nDCG@2", "AP"}
    with pytest.raises(UsageError, match="holds labels, which would be lost"):
        check_no_grades(path)


def test_a_baseline_is_scored_again_as_deep_as_it_is(
    before: ResultSnapshot, after: ResultSnapshot, tmp_path: Path
) -> None:
    write_one(tmp_path / "one.json", before, depth=2)
    report = report_of(read_one(tmp_path / "one.json"), after, labels={None: [Label("q2", "w", 1, "me")]})
    assert [metric.metric for metric in report.backends[0].metrics] == ["nDCG@2"]
    assert any("too few to score AP again" in one for one in report.warnings)
    baselines = [read_one(tmp_path / "one.json")] * 2
    with pytest.raises(UsageError, match="neither side holds any"):
        report_of(*baselines, labels={None: [Label("q2", "w", 1, "me")]})


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"query_id": "q", "doc_id": "d", "grade": null}'], "no line has a grade"),
        (['{"query_id": "q", "doc_id": "d", "grade": "1"}'], "line 1: the grade is"),
        (['{"query_id": "q", "doc_id": "d", "grade": 1.5}'], "line 1: the grade is"),
        (['{"query_id": "q", "grade": 1}'], "line 1: .*doc_id"),
        (['{"query_id": "q", "doc_id": "d", "grade": 1}', "{"], "line 2: not JSON"),
        (['{"query_id": "q", "doc_id": "d", "grade": 1}', '{"query_id": "q", "doc_id": "d", "grade": 0}'], "line 2"),
    ],
)
def test_faulty_labels_are_named_by_their_line(tmp_path: Path, lines: list[str], said: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match=said):
        read_labels([path])
    with pytest.raises(UsageError, match="No such file"):
        read_labels([tmp_path / "absent.jsonl"])


def test_a_label_adds_to_judgments_and_never_contradicts_them() -> None:
    qrels, added, other = qrels_from_dict(GRADES), {("q1", "a"): 2, ("q9", "n"): 1}, {("q3", "d"): 1}
    assert grades_of(with_labels(qrels, SettledLabels(added, (), added))) == {**GRADES, "q9": {"n": 1}}
    with pytest.raises(DataError, match="query 'q3', document 'd': judged 0, labelled 1"):
        with_labels(qrels, SettledLabels(other, (), other))


def test_the_dossier_is_ordered_by_the_metric_that_failed() -> None:
    first = side({"csr": BEFORE}, backends=[backend("csr")])
    wide = {f"q{number}": {"r": 1} for number in range(30)}
    texts = {query: query for query in wide}
    one = side({"csr": {query: ["x", "r"] for query in wide}}, grades=wide, texts=texts, metrics="P@2,RR")
    other = side({"csr": {query: ["x", "y", "r"] for query in wide}}, grades=wide, texts=texts, metrics="RR,P@2")
    assert dossier_of(first, first).metric == "nDCG@2"
    assert dossier_of(one, other).metric == "RR"


def test_queries_whose_rankings_hold_no_judged_document_are_told_all_the_same() -> None:
    before, after = {**BEFORE, "q2": ["y", "z"]}, {**BEFORE, "q2": ["w", "v"]}
    report = compare_one(side({"csr": before}), side({"csr": after}), CompareRules()).change
    dossier = report.backends[0].dossier
    assert dossier is not None
    assert [one.query for one in dossier.queries] == ["q2"]
    assert {one.document for one in dossier.to_label} == {"y", "z", "w", "v"}
