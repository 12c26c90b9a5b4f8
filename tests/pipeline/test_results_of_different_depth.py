"""Results of different depth are compared by what both hold: the figures of a search to the smaller depth."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from regression_sides import read_one, side, write_one

import harness
from harness.errors import UsageError
from harness.pipeline.check.checked import CheckResult
from harness.pipeline.regress.compare_sides import CompareRules, compare_sides
from harness.pipeline.regress.verdicts import Rules
from harness.results.regression_schema import Change
from harness.results.snapshot import ResultSnapshot

WORDS = ["apple", "brick", "cedar", "drums", "eagle", "flute", "grape", "house", "igloo", "jelly"]
QUICK = {"timing": False, "isolation": "none"}
CHUNKS = [f"{document}#{chunk}" for document in range(12) for chunk in range(3)]
TEXTS = {chunk: f"{WORDS[int(chunk[0])]} {WORDS[int(chunk[-1])]} part {chunk}" for chunk in CHUNKS}
IDS = [
    {"expected": ["1#0", "2#1"]},
    {"expected": {"3#0": 2, "4#1": 1}, "forbidden": ["5#0", "6#0"]},
    {"expected": [["1#1", "2#2"], ["7#0"]]},
    {"expected": ["8#0", "9#0", "10#0"], "forbidden": ["1#0"]},
    {"expected": []},
]
DOCUMENTS = [{"expected": ["1", "2"]}, {"expected": {"3": 2, "4": 1}, "forbidden": ["5", "6#1"]}, {"expected": ["7"]}]


def check(golden: Sequence[Mapping[str, Any]], k: int, seed: int = 1, **options: Any) -> CheckResult:
    """A check of two backends that rank chunks at random, the same way for every k."""

    def retriever(name: str) -> Any:
        def retrieve(question: str, k: int) -> list[tuple[str, float]]:
            ranked = random.Random(f"{name} {question} {seed}").sample(CHUNKS, len(CHUNKS))
            return [(chunk, 1.0 - rank / 100) for rank, chunk in enumerate(ranked[:k])]

        return retrieve

    questions = [
        {"id": f"q{number}", "question": f"{WORDS[number]} {number}"} | one for number, one in enumerate(golden)
    ]
    found = harness.check(
        questions, against={"first": retriever("first"), "second": retriever("second")}, k=k, **QUICK, **options
    )
    assert not found.report.preflight, found.report.preflight
    return found


def means(change: Change, side_name: str) -> dict[tuple[str, str], float]:
    return {(one.after, metric.metric): getattr(metric, side_name) for one in change.backends for metric in one.metrics}


CASES: dict[str, tuple[Sequence[Mapping[str, Any]], dict[str, Any]]] = {
    "ids": (IDS, {}),
    "metrics": (IDS, {"metrics": "Hit,MAP,P,F1,bpref,Rprec,nDCG(dcg='exp-log2'),Complete"}),
    "only judged": (IDS, {"judged_only": True}),
    "grades": (IDS, {"relevance": 2}),
    "trec_eval": (IDS, {"ties": "trec_eval"}),
    "documents": (DOCUMENTS, {"match": "document", "delimiter": "#"}),
    "prefixes": (DOCUMENTS, {"match": "prefix", "delimiter": "#"}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_figures_are_those_of_a_search_to_the_smaller_depth(name: str, tmp_path: Path) -> None:
    golden, options = CASES[name]
    deep, shallow = (check(golden, k, **options) for k in (10, 5))
    later = check(golden, 5, seed=2, **options)
    for folder, one in (("deep", deep), ("shallow", shallow), ("later", later)):
        one.save(tmp_path / folder)
    deep.save_baseline(tmp_path / "deep.json")
    expected = harness.diff(tmp_path / "shallow", tmp_path / "later").change
    found = harness.diff(tmp_path / "deep", tmp_path / "later").change
    assert [one.metrics for one in found.backends] == [one.metrics for one in expected.backends]
    (warning,) = found.warnings
    assert warning.startswith("k was 10, and is 5: compared by ")
    assert "scored from the stored rankings of the earlier result" in warning
    from_baseline = means(harness.diff(tmp_path / "deep.json", tmp_path / "later").change, "before")
    unknown = {key for key in means(expected, "before") if key[1] == "Forbidden@5" and "match" in options}
    assert from_baseline == {key: mean for key, mean in means(expected, "before").items() if key not in unknown}
    again = harness.diff(tmp_path / "later", tmp_path / "deep").change
    assert means(again, "after") == means(expected, "before")


def test_questions_without_ids_are_scored_by_the_expectations_of_the_same_question(tmp_path: Path) -> None:
    golden = [{"question": f"{WORDS[number]} {number}", **one} for number, one in enumerate(DOCUMENTS)]
    options: dict[str, Any] = {"match": "document", "delimiter": "#", "metrics": "Hit,Recall,Forbidden"}

    def save(name: str, questions: Sequence[Mapping[str, Any]], k: int) -> Path:
        retrieve = lambda question, k: random.Random(question).sample(CHUNKS, len(CHUNKS))[:k]  # noqa: E731
        harness.check(questions, against={"mine": retrieve}, k=k, out=tmp_path / name, **QUICK, **options)
        return tmp_path / name

    later = save("later", [{"question": "a new question", "expected": ["11"]}, *golden], 5)
    change = harness.diff(save("deep", golden, 10), later).change
    assert "3 queries without ids are on another line than before: paired by their texts" in change.warnings
    assert {metric.metric for metric in change.backends[0].metrics} == {"Hit@5", "Recall@5", "Forbidden@5"}
    assert all(metric.wins == metric.losses == 0 for metric in change.backends[0].metrics)
    assert means(change, "before")["mine", "Recall@5"] > 0


def test_documents_that_meet_several_expected_texts_are_scored_as_the_check_scored_them(tmp_path: Path) -> None:
    golden = [
        {"expected": ["brick", "brick apple", "cedar apple"]},
        {"expected": ["part 3#0", "drums", "cedar"], "forbidden": ["flute"]},
        {"expected": ["grape", "jelly"]},
    ]
    options = {"match": "text", "backends": "csr:analyzer=whitespace"}
    texts = tmp_path / "chunks.jsonl"
    texts.write_text("".join(json.dumps({"_id": chunk, "text": text}) + "\n" for chunk, text in TEXTS.items()))
    deep, shallow = (check(golden, k, corpus=str(texts), **options) for k in (10, 5))
    deep.save(tmp_path / "deep")
    shallow.save(tmp_path / "shallow")
    found = harness.diff(tmp_path / "deep", tmp_path / "shallow").change
    for one in found.backends:
        assert {metric.metric for metric in one.metrics} == {"Hit@5", "MRR@5", "Recall@5", "nDCG@5", "Forbidden@5"}
        assert all(metric.wins == metric.losses == 0 for metric in one.metrics), one.after
    deep.save_baseline(tmp_path / "deep.json")
    change = harness.diff(tmp_path / "deep.json", tmp_path / "shallow").change
    assert any("its stored rankings do not give its stored figures" in warning for warning in change.warnings)
    assert all(metric.wins == metric.losses == 0 for one in change.backends for metric in one.metrics)


def test_a_page_of_the_comparison_names_only_metrics_of_the_common_depth(tmp_path: Path) -> None:
    check(IDS, 10).save(tmp_path / "deep")
    check(IDS, 5, seed=2).save(tmp_path / "later")
    found = harness.diff(tmp_path / "deep", tmp_path / "later", out=tmp_path / "diff")
    assert "k was 10, and is 5" in (tmp_path / "diff" / "report.html").read_text(encoding="utf-8")
    dossiers = [one.dossier for one in found.change.backends if one.dossier is not None]
    names = {value.metric for dossier in dossiers for query in dossier.queries for value in query.values}
    assert names == {"Hit@5", "MRR@5", "Recall@5", "nDCG@5", "Complete@5", "Forbidden@5"}


def test_an_allowed_drop_of_a_deeper_metric_is_refused(tmp_path: Path) -> None:
    check(IDS, 10).save_baseline(tmp_path / "deep.json")
    check(IDS, 5).save_baseline(tmp_path / "shallow.json")
    check(IDS, 5).save(tmp_path / "shallow")
    refusal = r"--max-drop Hit@10: '.*shallow' has 5 documents of each ranking, too few for Hit@10"
    with pytest.raises(UsageError, match=refusal) as error:
        harness.diff(tmp_path / "deep.json", tmp_path / "shallow", max_drop={"Hit@10": 0.1})
    assert str(error.value).endswith("name Hit@5, or make both results with --k 10")
    with pytest.raises(UsageError, match="--max-drop Hit@10: this run has 5 documents of each ranking"):
        check(IDS, 5, baseline=tmp_path / "deep.json", max_drop={"Hit@10": 0.1})
    with pytest.raises(UsageError, match=r"--max-drop Hit@10: '.*shallow\.json' has 5 documents"):
        check(IDS, 10, baseline=tmp_path / "shallow.json", max_drop={"Hit@10": 0.1})
    judged = check(IDS, 5, baseline=tmp_path / "deep.json", max_drop={"Hit@5": 0.1}, rule="tolerance")
    gates = {metric.metric: metric.gate for one in judged.report.changes.backends for metric in one.metrics}
    assert (gates["Hit@5"], gates["MRR@5"]) == ("passed", None)


def test_two_baselines_hold_no_judgments_to_score_by(tmp_path: Path) -> None:
    check(IDS, 10).save_baseline(tmp_path / "deep.json")
    check(IDS, 5).save_baseline(tmp_path / "shallow.json")
    change = harness.diff(tmp_path / "deep.json", tmp_path / "shallow.json", max_drop=0).change
    assert change.gate == "invalid"
    assert (
        "neither result holds the judgments; name the folder of a result instead of its baseline" in change.warnings[1]
    )


RANKING = [f"d{rank}" for rank in range(30)]
GRADES = {f"q{number}": {f"d{number * 3}": 1, f"d{number + 14}": 2} for number in range(5)}


def compared(before: ResultSnapshot, after: ResultSnapshot, **rules: Any) -> Change:
    return compare_sides([before], [after], CompareRules(Rules(allowed_drop=None, **rules))).change


def result(k: int, metrics: str, ties: str = "trec_eval") -> ResultSnapshot:
    """A result of the same rankings, to a depth."""
    texts = {query: query for query in GRADES}
    rankings = {"csr": dict.fromkeys(GRADES, RANKING[:k])}
    return side(
        rankings, grades=GRADES, metrics=metrics, texts=texts, resolved={"k": k, "ties": ties}, source=f"to {k}"
    )


def test_comparisons_are_scored_over_as_many_documents(tmp_path: Path) -> None:
    change = compared(result(20, "AP,nDCG@5,R@20"), result(10, "AP,nDCG@5,R@10,P@3"))
    (backend,) = change.backends
    assert {metric.metric for metric in backend.metrics} == {"AP", "nDCG@5", "R@10", "P@3"}
    assert all(metric.wins == metric.losses == 0 for metric in backend.metrics)
    assert change.warnings[0] == (
        "k was 20, and is 10: compared by AP over the first 10, R@10, P@3, scored from the stored rankings of the "
        "earlier result; not judged, because a result has only 10 documents of each ranking: R@20"
    )
    write_one(tmp_path / "deep.json", result(30, "AP,R@30"))
    baseline = compared(read_one(tmp_path / "deep.json"), result(20, "AP,R@20"))
    figures = {metric.metric: (metric.before, metric.after) for metric in baseline.backends[0].metrics}
    assert set(figures) == {"AP", "R@10"}, "as deep as the baseline stores rankings"
    assert all(before == after for before, after in figures.values())
    assert baseline.warnings[0].startswith(
        "k was 30, and is 20, and the earlier result stores the first 10 documents of each ranking: compared by "
        "AP over the first 10, R@10, scored from the stored rankings of the earlier and the later results"
    )
    by_average = compared(result(20, "AP,R@20", ties="average"), result(10, "AP,R@10"))
    assert {metric.metric for metric in by_average.backends[0].metrics} == {"R@10"}
    assert any("scored by AP: --ties average has no first documents" in warning for warning in by_average.warnings)
    equal = compared(result(10, "nDCG@5"), result(10, "nDCG@5,P@3"))
    assert equal.warnings == ["not judged, because the earlier result lacks the metric: P@3"]
