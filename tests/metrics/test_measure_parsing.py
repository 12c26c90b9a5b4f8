"""Names of measures: canonical, aliases, trec_eval's own, and mistakes."""

from __future__ import annotations

import re

import pytest

from harness.errors import UnknownNameError, UsageError
from harness.metrics import official_metrics, parse_metric, parse_metrics
from harness.metrics.parse import split_metrics
from harness.metrics.table import KINDS
from harness.pipeline.regress.common_depth import names_at


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("nDCG@10", "nDCG@10"),
        ("ndcg@10+1+5+3", "nDCG@1+3+5+10"),
        ("MAP(rel=2)@ 1+100", "AP(rel=2)@1+100"),
        ("nDCG(judged_only=True, dcg=exp-log2)@1+3", "nDCG(dcg='exp-log2', judged_only=True)@1+3"),
        ("nDCG(dcg='exp-log2')@10", "nDCG(dcg='exp-log2')@10"),
        ('ndcg( dcg = "exp-log2" )@10', "nDCG(dcg='exp-log2')@10"),
        ("nDCG(dcg=log2)@10", "nDCG@10"),
        ("dcg@10", "DCG@10"),
        ("DCG(dcg=exp-log2)@5", "DCG(dcg='exp-log2')@5"),
        ("AP", "AP"),
        ("AP@100", "AP@100"),
        ("AP(rel=2)@100", "AP(rel=2)@100"),
        ("RR", "RR"),
        ("RR@10", "RR@10"),
        ("P@5", "P@5"),
        ("R@100", "R@100"),
        ("Success@5", "Success@5"),
        ("Rprec", "Rprec"),
        ("RBP(p=0.8)", "RBP"),
        ("RBP(p=0.95,rel=2)", "RBP(p=0.95, rel=2)"),
        ("ERR@20", "ERR@20"),
        ("Judged@10", "Judged@10"),
        ("Bpref", "Bpref"),
        ("IPrec@0.5", "IPrec@0.5"),
        ("SetF(beta=2)", "SetF(beta=2.0)"),
        ("Hit@5", "Success@5"),
        ("HitRate@5", "Success@5"),
        ("Accuracy@5", "Success@5"),
        ("MRR", "RR"),
        ("MRR@10", "RR@10"),
        ("MAP", "AP"),
        ("MAP@100", "AP@100"),
        ("Recall@100", "R@100"),
        ("Precision@5", "P@5"),
        ("NDCG@10", "nDCG@10"),
        ("hitrate@5", "Success@5"),
        ("mrr@10", "RR@10"),
        ("precision@5", "P@5"),
        ("ndcg_cut_10", "nDCG@10"),
        ("ndcg_cut.10", "nDCG@10"),
        ("recall_100", "R@100"),
        ("P_5", "P@5"),
        ("map", "AP"),
        ("map_cut_100", "AP@100"),
        ("recip_rank", "RR"),
        ("iprec_at_recall_0.50", "IPrec@0.5"),
        ("11pt_avg", "11pt_avg"),
        ("gm_map", "gm_map"),
        ("infAP", "infAP"),
        ("num_rel_ret", "NumRelRet"),
        ("ndcg_at_10", "nDCG@10"),
        ("mrr_at_10", "RR@10"),
        ("precision_at_1", "P@1"),
        ("hit_rate_at_5", "Success@5"),
        ("R_cap_at_10", "R_cap@10"),
        ("hit_rate@5", "Success@5"),
        ("hit_rate", "Success"),
        ("hits@5", "Hits@5"),
        ("f1@5", "F1@5"),
        ("r-precision", "Rprec"),
        ("ndcg_burges@10", "nDCG(dcg='exp-log2')@10"),
        ("dcg_burges", "DCG(dcg='exp-log2')"),
        ("map@10-l2", "AP(rel=2)@10"),
        ("set_F.0.5", "SetF(beta=0.5)"),
        ("set_F_2", "SetF(beta=2.0)"),
        ("rbp", "RBP"),
        ("rbp.p=0.95", "RBP_trec_eval_10(p=0.95)"),
        ("IPrec_trec_eval_10@0.3", "IPrec_trec_eval_10@0.3"),
    ],
)
def test_a_name_is_parsed_to_its_canonical_measure(text, canonical):
    measure = parse_metric(text)
    assert str(measure) == canonical
    assert parse_metric(canonical) == measure
    assert hash(parse_metric(canonical)) == hash(measure)


@pytest.mark.parametrize("release", [9, 10])
def test_no_two_rows_claim_one_name(release):
    names_of_release_10 = {"rbp", "iprec_at_recall", "11pt_avg"}
    claims = [
        (name.lower(), kind.name)
        for kind in KINDS.values()
        for name in (kind.name, *kind.aliases, *((kind.trec, kind.trec_cut) if kind.release in (None, release) else ()))
        if name is not None
    ]
    claims = [claim for claim in claims if release == 9 or claim[0] not in names_of_release_10]
    assert len(dict(claims)) == len(set(claims))
    for kind in KINDS.values():
        example = {"required": "@10", "recall": "@0.5"}.get(kind.cutoff, "")
        assert parse_metric(kind.name + example).name == kind.name


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("nDGC@10", "nDCG"),
        ("Succes@5", "Success"),
        ("bpreff", "Bpref"),
        ("Rpec", "Rprec"),
        ("Juged@10", "Judged"),
        ("Rekall@5", "Recall"),
        ("precison@5", "Precision"),
        ("HitRat@1", "HitRate"),
        ("map_cutt_5", "map_cut"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(text, near):
    with pytest.raises(UnknownNameError, match=f"did you mean '{near}'"):
        parse_metric(text)


@pytest.mark.parametrize("text", ["rbp_resid", "unj_10", "utility", "G.5", "prefs_simp", "set_map", "ndcg_rel"])
def test_a_measure_of_trec_eval_that_is_not_offered_is_described(text):
    with pytest.raises(UsageError, match=f"metric '{text}' is trec_eval's and is not offered: ") as raised:
        parse_metric(text, 10)
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("P", "needs a cutoff"),
        ("IPrec", "needs a cutoff"),
        ("Rprec@5", "takes no cutoff"),
        ("nDCG@0", "is not a rank of 1 or more"),
        ("nDCG@-1", "is not a rank of 1 or more"),
        ("nDCG@ten", "is not a rank of 1 or more"),
        ("nDCG@", "is not a rank of 1 or more"),
        ("IPrec@1.5", "is not a recall between 0 and 1"),
        ("AP(rel=0)", "above 0 and at most 2,147,483,647"),
        ("AP(rel=99999999999999999999)", "above 0 and at most 2,147,483,647"),
        ("AP(rel=x)", "rel=x is not a number"),
        ("AP(rel)", "is not a single key=value"),
        ("AP(rel=1,rel=2)", "is not a single key=value"),
        ("RBP(p=1.5)", "from 0 to 1"),
        ("RBP(p=nan)", "from 0 to 1"),
        ("AP(level=2)", "unknown parameter 'level' of AP"),
        ("nDCG(dcg=exp)", "did you mean 'exp-log2'"),
        ("nDCG(@10", "malformed"),
        ("", "malformed"),
    ],
)
def test_a_misshapen_measure_is_refused(text, says):
    with pytest.raises(UsageError, match=says):
        parse_metric(text)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("rbp.95", r"whole grade as gain\n  write RBP\(p=0.95\)"),
        ("Hole@10", r"any query judged it\n  write Judged@10"),
        ("hole_at_10", "write Judged@10"),
        ("ndcg@10-l2", r"which ranx's -l2 sets\n  write nDCG@10"),
        ("map-l0", "must be at least 1"),
    ],
)
def test_a_metric_of_another_formula_is_refused_with_what_to_write(text, instead):
    with pytest.raises(UsageError, match=instead):
        parse_metric(text)


@pytest.mark.parametrize(
    ("texts", "parsed"),
    [
        (["map_cut.10,100"], ["AP@10", "AP@100"]),
        ("map_cut.10,100", ["AP@10", "AP@100"]),
        (["P.5,10", "ndcg_cut.5"], ["P@5", "P@10", "nDCG@5"]),
        (["success.1,5"], ["Success@1", "Success@5"]),
        (["iprec_at_recall.0.1,.2"], ["IPrec@0.1", "IPrec@0.2"]),
        (["nDCG@10, AP"], ["nDCG@10", "AP"]),
        (["RBP(p=0.9, rel=2)"], ["RBP(p=0.9, rel=2)"]),
        (["nDCG @ 10"], ["nDCG@10"]),
        (["nDCG@{1,3}"], ["nDCG@1", "nDCG@3"]),
    ],
)
def test_a_text_of_a_list_may_hold_a_list(texts, parsed):
    assert [str(metric) for metric in parse_metrics(texts)] == parsed


def test_trec_evals_names_are_those_of_the_release():
    names = ["iprec_at_recall.0.3", "11pt_avg", "rbp", "map", "RBP", "IPrec@0.3"]
    assert [str(metric) for metric in parse_metrics(names)] == ["IPrec@0.3", "11pt_avg", "RBP", "AP"]
    assert [str(metric) for metric in parse_metrics(names, release=10)] == [
        "IPrec_trec_eval_10@0.3", "11pt_avg_trec_eval_10", "RBP_trec_eval_10", "AP", "RBP", "IPrec@0.3",
    ]  # fmt: skip
    assert [metric.name for metric in official_metrics(10)].count("IPrec_trec_eval_10") == 11


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(UsageError) as caught:
        parse_metrics("nDGC@10, AP, Rprec@5, R")
    for part in ("'nDGC'", "'Rprec@5' takes no", "'R' needs a cutoff"):
        assert part in str(caught.value)


def test_no_measure_at_all_is_refused():
    with pytest.raises(UsageError, match="no metric"):
        parse_metrics(" , ")


def test_lists_are_split_outside_brackets_and_repeats_dropped():
    assert split_metrics("nDCG(dcg='exp-log2')@10,RBP(p=0.9, rel=2) AP") == [
        "nDCG(dcg='exp-log2')@10",
        "RBP(p=0.9, rel=2)",
        "AP",
    ]
    assert [str(measure) for measure in parse_metrics("MAP,AP,map")] == ["AP"]


def test_trec_evals_families_stand_for_its_cutoffs():
    assert [measure.cutoff for measure in parse_metrics("P")] == [5, 10, 15, 20, 30, 100, 200, 500, 1000]
    assert [str(measure) for measure in parse_metrics("ndcg_cut.5,10")] == ["nDCG@5", "nDCG@10"]
    assert len(official_metrics()) == 9 + 11 + 9
    assert parse_metrics("official") == official_metrics()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nDCG@{1,3,5,10}", ["nDCG@1", "nDCG@3", "nDCG@5", "nDCG@10"]),
        ("AP, nDCG@{1, 10} R@100", ["AP", "nDCG@1", "nDCG@10", "R@100"]),
        ("{nDCG,R}@{5,10}", ["nDCG@5", "nDCG@10", "R@5", "R@10"]),
        ("nDCG@{10}", ["nDCG@10"]),
        ("nDCG@{10,1},nDCG@10", ["nDCG@10", "nDCG@1"]),
    ],
)
def test_braces_list_cutoffs_as_a_shell_expands_them(text: str, expected: list[str]) -> None:
    assert [str(measure) for measure in parse_metrics(text)] == expected


def test_braces_in_a_list_of_measures_are_expanded_too() -> None:
    assert [str(measure) for measure in parse_metrics(["AP", "nDCG@{1,3}"])] == ["AP", "nDCG@1", "nDCG@3"]


@pytest.mark.parametrize("text", ["nDCG@{1,3", "nDCG@{}", "nDCG@{1,,3}"])
def test_braces_that_list_nothing_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="its braces list no cutoffs"):
        parse_metrics(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nDCG@1+3+1", "names a cutoff twice"),
        ("nDCG@1+", "'' is not a rank of 1 or more"),
        ("nDCG@1+0", "'0' is not a rank of 1 or more"),
        ("nDCG@1+3@5", "'3@5' is not a rank"),
        ("Rprec@1+3", "takes no cutoff"),
        ("IPrec@0.1+0.5", "a mean is over ranks"),
        ("nDCG(cutoffs=1)@3", "unknown parameter 'cutoffs'"),
    ],
)
def test_means_over_cutoffs_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_metric(text)


def test_a_mean_over_cutoffs_looks_at_the_highest_and_is_cut_by_leaving_cutoffs_out() -> None:
    metric = parse_metric("nDCG@1+3+10")
    assert (metric.cutoff, metric.cutoffs) == (10, (1, 3, 10))
    assert [str(metric.cut(depth)) for depth in (1, 3, 5, 100)] == ["nDCG@1", "nDCG@1+3", "nDCG@1+3+5", "nDCG@1+3+10"]
    assert str(parse_metric("P@10").cut(5)) == "P@5"
    assert [str(one) for one in parse_metrics("P@{1+3,5}")] == ["P@1+3", "P@5"]
    assert names_at(["Hit@1+3+10", "MRR@10"], 5) == {"Hit@1+3+10", "Hit@1+3+5", "MRR@10", "MRR@5"}
