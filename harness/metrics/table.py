"""The table of measures. Adding a measure is one kernel and one row here.

The reference page ``docs/reference/metrics.md`` is generated from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from harness.metrics import kernels
from harness.metrics.gains import EXAMPLE
from harness.metrics.kind import HIGHEST_LEVEL, Kind, Parameter

_CUTS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
_RECALLS = tuple(tenth / 10 for tenth in range(11))
_REL = Parameter("rel", float, 1, "lowest grade that counts as relevant", 0, HIGHEST_LEVEL, above=True)
_BUCKLEY = "Buckley and Voorhees, Retrieval System Evaluation, in TREC, MIT Press 2005"

_DCG = Parameter(
    "dcg", str, "log2", "log2: linear gain (trec_eval); exp-log2: exponential gain",
    choices={"log2": 0.0, "exp-log2": kernels.EXPONENTIAL},
)  # fmt: skip

_GAINS = Parameter("gains", str, "", f"gains of the grades in place of the grades, as `'{EXAMPLE}'`")

_ROWS = (
    Kind(
        "nDCG", kernels.ndcg,
        "discounted gain of the ranking divided by the gain of the ideal ranking of all relevant documents",
        "DCG@k / IDCG@k, DCG = sum of gain / log2(rank + 1); gain is the grade, 2^grade - 1 with dcg='exp-log2', or "
        "the gain that gains gives the grade",
        "Järvelin and Kekäläinen, TOIS 20(4), 2002; exponential gain: Burges et al., ICML 2005",
        "optional", average=kernels.expected_ndcg, aliases=("NDCG",),
        parameters=(_DCG, _GAINS),
        trec="ndcg", trec_cut="ndcg_cut", trec_cuts=_CUTS,
    ),
    Kind(
        "DCG", kernels.dcg, "discounted gain of the ranking, as nDCG has it before it is divided by the ideal",
        "sum of gain / log2(rank + 1); gain is the grade, 2^grade - 1 with dcg='exp-log2', or the gain that gains "
        "gives the grade",
        "Järvelin and Kekäläinen, TOIS 20(4), 2002", "optional", average=kernels.expected_dcg,
        parameters=(_DCG, _GAINS), range="0 or more",
    ),
    Kind(
        "AP", kernels.average_precision, "mean precision at the relevant documents",
        "sum of P@rank over relevant documents in the top k / R, also when k < R (trec_eval)",
        _BUCKLEY, "optional", average=kernels.average_precision, parameters=(_REL,), aliases=("MAP",),
        trec="map", trec_cut="map_cut", trec_cuts=_CUTS,
    ),
    Kind(
        "RR", kernels.reciprocal_rank, "how early the first relevant document comes",
        "1 / rank of the first relevant document in the top k, else 0", "Kantor and Voorhees, Inf. Retr. 2, 2000",
        "optional", average=kernels.reciprocal_rank, parameters=(_REL,), aliases=("MRR",), trec="recip_rank",
        reads_first=True,
    ),
    Kind(
        "P", kernels.precision, "share of the top k that is relevant",
        "relevant documents in the top k / k, also when fewer than k were returned", _BUCKLEY,
        "required", average=kernels.precision, parameters=(_REL,), aliases=("Precision",),
        trec_cut="P", trec_cuts=_CUTS,
    ),
    Kind(
        "R", kernels.recall, "share of the relevant documents that the top k holds",
        "relevant documents in the top k / R", _BUCKLEY,
        "required", average=kernels.recall, parameters=(_REL,), aliases=("Recall",),
        trec_cut="recall", trec_cuts=_CUTS,
    ),
    Kind(
        "R_cap", kernels.capped_recall, "recall that 1 can be reached for when k is smaller than R",
        "relevant documents in the top k / min(k, R)", "Thakur et al., BEIR, NeurIPS 2021",
        "required", average=kernels.capped_recall, parameters=(_REL,), aliases=("RCap", "Recall_cap"),
    ),
    Kind(
        "Success", kernels.success, "whether the top k holds a relevant document",
        "1 if a relevant document is in the top k, else 0", _BUCKLEY,
        "optional", average=kernels.success, parameters=(_REL,), aliases=("Hit", "HitRate", "Accuracy"),
        trec_cut="success", trec_cuts=(1, 5, 10), reads_first=True,
    ),
    Kind(
        "Complete", kernels.complete, "whether the top k holds every relevant document",
        "1 if all relevant documents are in the top k, else 0; of a group of alternatives one is enough",
        "all-recall: Gutiérrez et al., HippoRAG, NeurIPS 2024; groups of alternatives: AutoRAG's retrieval_gt",
        "optional", average=kernels.complete, parameters=(_REL,), aliases=("All_recall",),
    ),
    Kind(
        "Forbidden", kernels.success, "whether the top k holds a document that the question forbids",
        "1 if a forbidden document is in the top k, else 0; over the questions of a golden set that forbid documents",
        "this package", "optional", average=kernels.success, judgments="forbidden", condensable=False,
        lower_is_better=True,
    ),
    Kind(
        "Hits", kernels.relevant_hits, "how many relevant documents the top k holds",
        "number of relevant documents in the top k", "ranx", "optional", average=kernels.relevant_hits,
        parameters=(_REL,), range="0 or more",
    ),
    Kind(
        "F1", kernels.f1, "harmonic mean of P and R at the same k",
        "2 · relevant documents in the top k / (k + R); k is the number returned if there is no cutoff",
        "van Rijsbergen, Information Retrieval, 1979", "optional", average=kernels.f1, parameters=(_REL,),
    ),
    Kind(
        "Rprec", kernels.r_precision, "precision at R", "relevant documents in the top R / R", _BUCKLEY,
        "none", average=kernels.r_precision, parameters=(_REL,), aliases=("R-Prec", "RPrecision"), trec="Rprec",
    ),
    Kind(
        "RBP", kernels.rank_biased_precision, "gain of a reader who goes on to the next document with probability p",
        "(1 - p) · sum of p^(rank - 1) over relevant documents in the top k", "Moffat and Zobel, TOIS 27(1), 2008",
        "optional", average=kernels.expected_rank_biased_precision,
        parameters=(Parameter("p", float, 0.8, "persistence", minimum=0.0, maximum=1.0), _REL),
    ),
    Kind(
        "RBP_trec_eval_10", kernels.graded_rank_biased_precision,
        "rbp of trec_eval 10: RBP with graded gains and p = 0.9",
        "(1 - p) · sum of gain · p^(rank - 1) over the top k; gain is the grade divided by the query's highest grade",
        "Moffat and Zobel, TOIS 27(1), 2008, as m_rbp.c of trec_eval 10 computes it", "optional",
        average=kernels.expected_graded_rank_biased_precision,
        parameters=(Parameter("p", float, 0.9, "persistence", minimum=0.0, maximum=1.0),), trec="rbp", release=10,
    ),
    Kind(
        "ERR", kernels.expected_reciprocal_rank, "expected 1/rank at which a reader is satisfied",
        "sum over ranks r of (1/r) · s_r · product of (1 - s_i) for i < r; s = (2^grade - 1) / 2^max",
        "Chapelle et al., CIKM 2009; max = 4 as in gdeval", "optional",
        parameters=(Parameter("max", int, 4, "highest grade of the scale", minimum=1, maximum=30),),
    ),
    Kind(
        "Judged", kernels.judged_rate, "share of the top k that this query has a judgment for",
        "judged documents in the top k / documents in the top k", "known as 1 - Hole@k (BEIR)",
        "optional", average=kernels.judged_rate, condensable=False,
    ),
    Kind(
        "Bpref", kernels.binary_preference, "preference of relevant over judged non-relevant documents",
        "1/R · sum over relevant documents of 1 - min(N above, R) / min(N, R); N: judged, not relevant",
        "Buckley and Voorhees, SIGIR 2004", "none", parameters=(_REL,), trec="bpref", condensable=False,
    ),
    Kind(
        "infAP", kernels.inferred_average_precision, "AP estimated from a sampled pool (grade -1: pooled, not judged)",
        "1/R · sum over relevant documents of 1/rank + (pooled above / rank) · (relevant / judged above, smoothed)",
        "Yilmaz and Aslam, CIKM 2006", "none", bounded=False, parameters=(_REL,), trec="infAP",
    ),
    Kind(
        "IPrec", kernels.interpolated_precision_9,
        "interpolated precision at a recall point, as trec_eval 9 computes it",
        "highest precision at any rank with at least floor(recall · R + 0.9) relevant documents",
        _BUCKLEY, "recall", parameters=(_REL,), trec_cut="iprec_at_recall", trec_cuts=_RECALLS, release=9,
    ),
    Kind(
        "IPrec_trec_eval_10", kernels.interpolated_precision_10,
        "interpolated precision at a recall point, as trec_eval 10 computes it",
        "highest precision at any rank with at least round(recall · R) relevant documents, halves rounded up",
        f"{_BUCKLEY}; m_iprec_at_recall.c of trec_eval 10", "recall", parameters=(_REL,), trec_cut="iprec_at_recall",
        trec_cuts=_RECALLS, release=10,
    ),
    Kind(
        "11pt_avg", kernels.eleven_point_average_9,
        "interpolated precision averaged over recall points, as trec_eval 9 computes it",
        "mean of IPrec at 0.0, 0.1 … 1.0", _BUCKLEY, "none", parameters=(_REL,), trec="11pt_avg", release=9,
    ),
    Kind(
        "11pt_avg_trec_eval_10", kernels.eleven_point_average_10,
        "interpolated precision averaged over recall points, as trec_eval 10 computes it",
        "mean of IPrec_trec_eval_10 at 0.0, 0.1 … 1.0", f"{_BUCKLEY}; m_11pt_avg.c of trec_eval 10", "none",
        parameters=(_REL,), trec="11pt_avg", release=10,
    ),
    Kind(
        "gm_map", kernels.average_precision, "AP under the geometric mean, which weighs hard queries more",
        "exp(mean of ln(max(AP, 0.00001)))", "Robertson, CIKM 2006",
        "none", parameters=(_REL,), aliases=("GMAP",), trec="gm_map", aggregate="geometric", floor=1e-5,
    ),
    Kind(
        "SetP", kernels.set_precision, "precision of everything returned", "relevant documents returned / returned",
        _BUCKLEY, "none", average=kernels.set_precision, parameters=(_REL,), trec="set_P",
    ),
    Kind(
        "SetR", kernels.recall, "recall of everything returned", "relevant documents returned / R", _BUCKLEY,
        "none", average=kernels.recall, parameters=(_REL,), trec="set_recall", condensable=False,
    ),
    Kind(
        "SetF", kernels.set_f, "weighted harmonic mean of SetP and SetR",
        "(1 + beta) · SetP · SetR / (beta · SetP + SetR); this beta, which trec_eval and ir_measures take too, is the "
        "square of the beta of an F score",
        "van Rijsbergen, Information Retrieval, 1979", "none", average=kernels.set_f,
        parameters=(Parameter("beta", float, 1.0, "weight of recall", minimum=0.0), _REL),
        trec="set_F",
    ),
    Kind(
        "NumQ", kernels.number_of_queries, "queries that were evaluated", "count", "trec_eval", "none",
        average=kernels.number_of_queries, trec="num_q", aggregate="sum", range="0 or more", condensable=False,
    ),
    Kind(
        "NumRet", kernels.number_retrieved, "documents returned", "count", "trec_eval", "none",
        average=kernels.number_retrieved, trec="num_ret", aggregate="sum", range="0 or more",
    ),
    Kind(
        "NumRel", kernels.number_relevant, "relevant documents, R", "count", "trec_eval", "none",
        average=kernels.number_relevant, parameters=(_REL,), trec="num_rel", aggregate="sum", range="0 or more",
        condensable=False,
    ),
    Kind(
        "NumRelRet", kernels.number_relevant_retrieved, "relevant documents returned", "count", "trec_eval", "none",
        average=kernels.number_relevant_retrieved, parameters=(_REL,), trec="num_rel_ret", aggregate="sum",
        range="0 or more", condensable=False,
    ),
)  # fmt: skip

KINDS: Mapping[str, Kind] = MappingProxyType({row.name: row for row in _ROWS})
"""Canonical name -> row, in the order in which they are documented."""

NOT_OFFERED: Mapping[str, str] = MappingProxyType({
    "runid": "the run's tag; printed by --format trec_eval only",
    "relstring": "a string, not a number",
    "gm_bpref": "geometric mean of bpref",
    "Rprec_mult": "precision at multiples of R",
    "utility": "linear utility with four coefficients",
    "binG, G": "gain metrics that trec_eval marks as experimental",
    "ideal_dcg": "the ideal's part of nDCG",
    "ndcg_rel, Rndcg": "nDCG averaged over relevant documents, or at R",
    "relative_P, set_relative_P": "precision divided by the highest possible precision",
    "set_map": "SetP · SetR",
    "num_nonrel_judged_ret": "judged non-relevant documents returned; Judged is offered instead",
    "prefs_*": "preference judgments",
    "*_avgjg": "several judgment groups",
    "yaap": "yet another average precision",
    "dcg": "trec_eval 10 only; DCG is offered under its own name",
    "rbp_resid": "trec_eval 10 only: the most that unjudged documents could add to rbp",
    "unj": "trec_eval 10 only: share of the top k without a judgment; 1 - Judged",
})  # fmt: skip
"""trec_eval's other measures, with a description of each."""
