"""Every convention gives the numbers of the library that it describes.

Runs have equal scores, scores that only float64 tells apart, unanswered and unjudged queries, identical ids, and
judgments that are graded, zero and negative. What a library refuses is left out of its runs.
"""

from __future__ import annotations

import itertools
import random
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import pytest
import pytrec_eval
from installed import skip_without

import harness

SEEDS = range(4)
RunDict = dict[str, dict[str, float]]
QrelsDict = dict[str, dict[str, int]]


class Case(NamedTuple):
    run: RunDict
    qrels: QrelsDict


def make_case(seed: int, *, unjudged: bool = True, documents: int = 40) -> Case:
    """Twelve judged queries of which ten or so are answered; query q3's id is a document's too, and q4's only hit."""
    rng = random.Random(seed)
    ids = [f"d{number}" for number in range(documents)] + [f"q{number}" for number in range(12)]
    qrels = {
        f"q{number}": {"bottom": 0} | {one: rng.choice([-1, 0, 0, 1, 1, 2, 3]) for one in rng.sample(ids, 9)}
        for number in range(12)
    }
    qrels["q11"] = {"bottom": 0, "d1": 0, "d2": -1}
    qrels["q3"]["q3"] = 2
    answered = [f"q{number}" for number in range(12) if number not in rng.sample(range(12), 2)]
    near = [1.0, 1.0 + 1e-9, 1.0 - 1e-9, 2.0, 3.5, 3.5, 0.25]
    run = {
        query: {one: rng.choice(near) for one in rng.sample(ids, rng.randint(1, len(ids)))}
        for query in (*answered, *(["unjudged"] if unjudged else []))
    }
    run["q3"] = {"q3": 9.0, **run.get("q3", {"d0": 1.0})}
    run["q4"] = {"q4": 1.0}
    return Case(run, qrels)


def mean_of(values: list[float]) -> float:
    return sum(values) / len(values)


def column(case: Case, convention: str, metrics: list[str], **options: str) -> dict[str, float | None]:
    audit = harness.audit(case.run, case.qrels, metrics, **options)
    return {str(measure): audit.values[measure][convention] for measure in audit.measures}


TREC = {
    "nDCG": "ndcg", "nDCG@1": "ndcg_cut_1", "nDCG@10": "ndcg_cut_10", "AP": "map", "AP@5": "map_cut_5", "P@5": "P_5",
    "R@5": "recall_5", "RR": "recip_rank", "Success@1": "success_1", "Rprec": "Rprec",
}  # fmt: skip
FAMILIES = {"ndcg", "ndcg_cut.1,10", "map", "map_cut.5", "P.5", "recall.5", "recip_rank", "success.1", "Rprec"}


@pytest.mark.parametrize("seed", SEEDS)
def test_trec_eval(seed: int):
    case = make_case(seed)
    expected = pytrec_eval.RelevanceEvaluator(case.qrels, FAMILIES).evaluate(case.run)
    means = {name: mean_of([query[trec] for query in expected.values()]) for name, trec in TREC.items()}
    assert column(case, "trec_eval 9", list(TREC)) == pytest.approx(means, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", ["keep", "drop"])
def test_anserini(seed: int, rule: str):
    """A run file in which rank alone decides, scored by trec_eval -c."""
    case = make_case(seed)
    written = {}
    for query, hits in case.run.items():
        ranked = sorted(hits, key=lambda one: -np.float32(hits[one]))
        kept = [one for one in ranked if rule == "keep" or one != query]
        written[query] = {one: float(len(kept) - place) for place, one in enumerate(kept)}
    found = pytrec_eval.RelevanceEvaluator(case.qrels, FAMILIES).evaluate(written)
    means = {name: sum(query[trec] for query in found.values()) / len(case.qrels) for name, trec in TREC.items()}
    assert column(case, "Anserini", list(TREC), identical_ids=rule) == pytest.approx(means, abs=1e-12)


AT_K = ["nDCG@1", "nDCG@10", "AP@5", "AP@100", "P@5", "R@5", "R@100", "RR@1", "RR@10", "Success@1", "Success@5"]


@pytest.mark.parametrize("seed", SEEDS)
def test_beir(seed: int):
    evaluation = pytest.importorskip("beir.retrieval.evaluation", reason="beir is not installed").EvaluateRetrieval
    case = make_case(seed, unjudged=False)
    for query, judged in case.qrels.items():
        if max(judged.values()) < 1:  # R_cap divides by zero
            case.run.pop(query, None)
    results = {query: dict(hits) for query, hits in case.run.items()}
    ranks = [1, 5, 10, 100]
    values: dict[str, float] = {}
    for part in (
        *evaluation.evaluate(case.qrels, results, ranks),
        *(evaluation.evaluate_custom(case.qrels, results, ranks, metric) for metric in ("mrr", "r_cap", "accuracy")),
    ):
        values |= part
    names = {"NDCG": "nDCG", "MAP": "AP", "Recall": "R", "P": "P", "MRR": "RR", "R_cap": "R_cap", "Accuracy": "Success"}
    expected = {f"{names[key.split('@')[0]]}@{key.split('@')[1]}": value for key, value in values.items()}
    found = column(case, "BEIR", list(expected))
    assert {name: round(value, 5) for name, value in found.items() if value is not None} == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_beir_as_pytrec_eval(seed: int):
    """What BEIR does with a run before trec_eval's code scores it: drop identical ids, keep queries without a hit."""
    case = make_case(seed)
    popped = {query: {one: score for one, score in hits.items() if one != query} for query, hits in case.run.items()}
    found = pytrec_eval.RelevanceEvaluator(case.qrels, FAMILIES).evaluate(popped)
    assert found["q4"]["ndcg_cut_10"] == 0.0
    names = {name: trec for name, trec in TREC.items() if name in ("nDCG@10", "AP@5", "P@5", "R@5")}
    means = {name: mean_of([query[trec] for query in found.values()]) for name, trec in names.items()}
    assert column(case, "BEIR", list(names)) == pytest.approx(means, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", ["keep", "drop"])
def test_mteb(seed: int, rule: str):
    evaluator = pytest.importorskip("mteb._evaluators.retrieval_evaluator", reason="the extra 'mteb' is not installed")
    case = make_case(seed, unjudged=False)
    results = {query: dict(hits) for query, hits in case.run.items()}
    found: Any = evaluator.RetrievalEvaluator.evaluate(
        None, case.qrels, results, [1, 5, 10, 100], ignore_identical_ids=rule == "drop"
    )
    values = {**found.ndcg, **found.map, **found.recall, **found.precision, **found.hit_rate}
    names = {"NDCG": "nDCG", "MAP": "AP", "Recall": "R", "P": "P", "HitRate": "Success"}
    expected = {f"{names[key.split('@')[0]]}@{key.split('@')[1]}": value for key, value in values.items()}
    ours = column(case, "MTEB", list(expected), identical_ids=rule)
    assert {name: round(value, 5) for name, value in ours.items() if value is not None} == pytest.approx(
        expected, abs=1.01e-5
    )
    reciprocal = {f"RR@{key.split('@')[1]}": value for key, value in found.mrr.items()}
    assert column(case, "MTEB", list(reciprocal), identical_ids=rule) == pytest.approx(reciprocal, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_sentence_transformers(seed: int):
    evaluation = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    case = make_case(seed)
    relevant = {query: {one for one, grade in judged.items() if grade > 0} for query, judged in case.qrels.items()}
    ranks = [1, 5, 10, 100]
    evaluator = evaluation.InformationRetrievalEvaluator(
        dict.fromkeys(case.qrels, "text"), {"d0": "text"}, relevant,
        accuracy_at_k=ranks, precision_recall_at_k=ranks, mrr_at_k=ranks, ndcg_at_k=ranks, map_at_k=ranks,
    )  # fmt: skip
    hits = [
        [{"corpus_id": one, "score": score} for one, score in case.run.get(query, {}).items()]
        for query in evaluator.queries_ids
    ]
    values = evaluator.compute_metrics(hits)
    names = {"accuracy@k": "Success", "precision@k": "P", "recall@k": "R", "ndcg@k": "nDCG", "mrr@k": "RR"}
    names["map@k"] = "AP"
    expected = {f"{names[key]}@{k}": float(value) for key, at in values.items() for k, value in at.items()}
    assert column(case, "sentence-transformers", list(expected)) == pytest.approx(expected, abs=1e-12)


RANX = {
    "nDCG": "ndcg", "nDCG@10": "ndcg@10", "nDCG(dcg='exp-log2')@10": "ndcg_burges@10", "DCG@10": "dcg@10",
    "AP": "map", "AP@5": "map@5", "RR": "mrr", "RR@2": "mrr@2", "P@5": "precision@5", "R@5": "recall@5",
    "Success@1": "hit_rate@1", "Rprec": "r-precision", "AP(rel=2)": "map-l2", "R(rel=2)@5": "recall@5-l2",
}  # fmt: skip


def values_of_ranx(case: Case) -> list[float]:
    import ranx

    found = ranx.evaluate(ranx.Qrels(case.qrels), ranx.Run(case.run), list(RANX.values()), make_comparable=True)
    return [float(found[name]) for name in RANX.values()]


@pytest.mark.filterwarnings("ignore:.*unsafe cast from uint64 to int64")  # where its kernels are compiled anew
def test_ranx(golden, update_golden: bool):
    """The golden file is by ranx itself, of the version in its first line: it compiles for a minute.

    Long rankings are those in which its quicksort moves equal scores.
    """
    skip_without("ranx")
    lines = [f"ranx {version('ranx')}"]
    for documents, seed in itertools.product((8, 400), SEEDS):
        case = make_case(seed, documents=documents)
        values = values_of_ranx(case) if update_golden else [*column(case, "ranx", list(RANX)).values()]
        lines += [f"{documents} {seed} {name} {value:.10f}" for name, value in zip(RANX, values, strict=True)]
    golden("\n".join(lines) + "\n")


@pytest.mark.parametrize("rule", ["keep", "drop"])
def test_the_first_column_is_eval_without_options(rule: str):
    for case in map(make_case, SEEDS):
        means = harness.evaluate(case.run, case.qrels, AT_K, identical_ids=rule).means()
        expected = {str(one.measure): one.value for one in means}
        assert column(case, "harness", AT_K, identical_ids=rule) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rule", ["keep", "drop"])
def test_every_difference_has_a_cause_of_no_more_changes_than_differ(rule: str):
    for case in map(make_case, SEEDS):
        for one in harness.audit(case.run, case.qrels, AT_K, identical_ids=rule).differences:
            changes = {change for cause in one.causes for change in cause}
            assert not changes & set(one.without_effect)
            assert bool(one.causes) == bool(one.examples)
            assert one.causes or one.harness_value == pytest.approx(one.other_value, abs=1e-12)
            assert len({len(cause) for cause in one.causes}) <= 1


def test_cases_tell_the_conventions_apart():
    """A convention that copied another would go unnoticed if the cases were too tame."""
    frames = [harness.audit(*make_case(seed), ["nDCG@10", "AP@5", "RR@10"]).to_frame() for seed in SEEDS]
    distinct = {tuple(frame[name].round(9).sum() for frame in frames) for name in frames[0].columns}
    assert len(distinct) == len(frames[0].columns)
