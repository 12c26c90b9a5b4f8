"""The conventions of tools that compute retrieval metrics: how each computes a metric of the same name.

Two tools that report ``nDCG@10`` of the same run can differ in several aspects: the order of equal scores, the gain of
a grade, the queries over which the mean is taken. :class:`Settings` has a field for each aspect, and a
:class:`Convention` is a tool's settings with the version whose code they were read from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from harness.data.ranking import TieBreak
from harness.metrics.measure import Metric
from harness.metrics.registry import kind_of
from harness.metrics.table import KINDS


class Precision(StrEnum):
    """The type of number in which scores are compared."""

    SINGLE = "float32"
    DOUBLE = "float64"


class Gain(StrEnum):
    """Gain that a relevant document adds to DCG."""

    LINEAR = "the grade"
    EXPONENTIAL = "2^grade - 1"
    BINARY = "1"


class Ideal(StrEnum):
    """Whose best order the ideal of nDCG is."""

    JUDGED = "all judged documents"
    RETRIEVED = "the returned documents"


class Total(StrEnum):
    """The divisor of AP and recall; R is the number of relevant documents, k the cutoff."""

    ALL = "R"
    REACHABLE = "min(R, k)"
    RETRIEVED = "relevant documents returned"


class RecallPoint(StrEnum):
    """Number of relevant documents at a recall point of interpolated precision, as trec_eval 9 and 10 take it."""

    RAISED = "floor(recall · R + 0.9)"
    ROUNDED = "round(recall · R)"


class Countable(StrEnum):
    """Set of queries that the mean is taken over. Queries without judgments never count."""

    RELEVANT = "with a relevant document"
    JUDGED = "judged"
    ANSWERED = "judged and answered"
    OF_RUN = "judged and in the run"
    """Also a query with no hit, or none left after identical ids were dropped."""


class IdenticalIds(StrEnum):
    """Treatment of a hit whose id is its query's."""

    KEEP = "kept"
    BEFORE_CUT = "dropped before the ranking is cut"
    AFTER_CUT = "dropped after the ranking is cut"
    OF_DATASET = "kept or dropped after the cut, by data set"


@dataclass(frozen=True, slots=True)
class Settings:
    """One choice for every aspect. The defaults are this package's own convention.

    ``depth`` is the number of hits to which every ranking is cut before it is measured, None for no cut; ``relevance``
    the lowest relevant grade.
    """

    ties: TieBreak = TieBreak.ID_DESCENDING
    precision: Precision = Precision.SINGLE
    queries: Countable = Countable.RELEVANT
    identical_ids: IdenticalIds = IdenticalIds.KEEP
    depth: int | None = None
    relevance: int = 1
    gain: Gain = Gain.LINEAR
    ideal: Ideal = Ideal.JUDGED
    ap_total: Total = Total.ALL
    recall_total: Total = Total.ALL
    recall_point: RecallPoint = RecallPoint.RAISED


@dataclass(frozen=True, slots=True)
class Aspect:
    """One field of :class:`Settings`: its title, the metrics it can change, and values to try besides a tool's own."""

    name: str
    title: str
    matters: Callable[[Metric], bool]
    alternatives: tuple[Any, ...]

    def describe(self, value: object) -> str:
        """Return the value in words."""
        return "all hits" if value is None else str(value)


def _always(_: Metric) -> bool:
    return True


def _follows_relevance(measure: Metric) -> bool:
    """Return whether the lowest relevant grade matters to a metric that does not state its own."""
    levelled = any(parameter.name == "rel" for parameter in kind_of(measure.name).parameters)
    return levelled and measure.parameter("rel") is None


INTERPOLATED = {"IPrec": "IPrec_trec_eval_10", "11pt_avg": "11pt_avg_trec_eval_10"}
"""Metrics that trec_eval 9 and 10 compute differently: the name for release 9, and the name for release 10."""

ASPECTS: tuple[Aspect, ...] = (
    Aspect("ties", "order of equal scores", _always, tuple(TieBreak)),
    Aspect("precision", "scores compared as", _always, tuple(Precision)),
    Aspect("queries", "queries averaged over", _always, tuple(Countable)),
    Aspect("identical_ids", "hits with their query's id", _always, (IdenticalIds.KEEP, IdenticalIds.BEFORE_CUT)),
    Aspect("depth", "hits measured", _always, (None, 1000, 100, 10)),
    Aspect("relevance", "lowest relevant grade", _follows_relevance, (1, 2, 3)),
    Aspect(
        "gain", "gain", lambda m: m.name == "nDCG" and not {"dcg", "gains"} & dict(m.parameters).keys(), tuple(Gain)
    ),
    Aspect("ideal", "ideal ranking", lambda m: m.name == "nDCG", tuple(Ideal)),
    Aspect("ap_total", "AP divided by", lambda m: m.name == "AP", tuple(Total)),
    Aspect("recall_total", "recall divided by", lambda m: m.name == "R", (Total.ALL, Total.REACHABLE)),
    Aspect("recall_point", "relevant at a recall point", lambda m: m.name in INTERPOLATED, tuple(RecallPoint)),
)
"""Every aspect, in the order of the fields of :class:`Settings`."""


def aspects_of(measure: Metric) -> list[Aspect]:
    """Return the aspects that can change the measure."""
    return [aspect for aspect in ASPECTS if aspect.matters(measure)]


@dataclass(frozen=True)
class Convention:
    """A tool's settings.

    ``version`` is the version of the library whose code was read and whose results were compared. ``exceptions`` has
    settings that differ for single metrics, by their canonical name. ``decimals`` is the number of digits to which the
    library rounds means (None: no rounding). ``metrics`` are the canonical names of the metrics that it computes at a
    cutoff, ``uncut`` of the metrics that it computes without a cutoff, ``parameters`` the names of its parameters.
    ``source`` is the code that decides.
    """

    name: str
    library: str
    version: str
    settings: Settings
    exceptions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    decimals: int | None = None
    metrics: frozenset[str] = frozenset()
    uncut: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    note: str = ""
    source: str = ""

    def offers(self, measure: Metric) -> bool:
        """Return whether the tool computes the metric."""
        if not self.parameters.issuperset(key for key, _ in measure.parameters):
            return False
        return measure.name in (self.uncut if measure.cutoff is None else self.metrics)

    def settings_for(self, measure: Metric, *, drop_identical: bool = False) -> Settings:
        """Return the settings of a measure; ``drop_identical`` is the rule of the data set."""
        settings = replace(self.settings, **self.exceptions.get(measure.name, {}))
        if settings.identical_ids is IdenticalIds.OF_DATASET:
            rule = IdenticalIds.AFTER_CUT if drop_identical else IdenticalIds.KEEP
            return replace(settings, identical_ids=rule)
        return settings


_MEANS = [kind for kind in KINDS.values() if kind.aggregate == "mean"]
_TREC_9, _TREC_10 = ([kind for kind in _MEANS if kind.release in (None, release)] for release in (9, 10))
_TREC_CUT = frozenset({kind.name for kind in _TREC_9 if kind.trec_cut is not None} | {"RR"})
"""Metrics that trec_eval 9 computes at a cutoff; ``RR@k`` through ``-M k``, as Anserini does for MS MARCO."""
_TREC_UNCUT = frozenset(kind.name for kind in _TREC_9 if kind.trec is not None)
_METRICS_WITH_CUTOFF = frozenset(("nDCG", "AP", "P", "R", "RR", "Success"))
_PYTHON_SORT = MappingProxyType({
    "ties": TieBreak.RUN_ORDER, "precision": Precision.DOUBLE, "queries": Countable.JUDGED
})  # fmt: skip

HARNESS = Convention("harness", "this package", "", Settings(), note="`harness eval` without options.")
"""This package's own convention, from which the others are explained. It has every metric."""

CONVENTIONS: tuple[Convention, ...] = (
    Convention(
        "trec_eval 9", "trec_eval 9, through pytrec_eval-terrier", "0.5.11",
        Settings(queries=Countable.ANSWERED),
        metrics=_TREC_CUT, uncut=_TREC_UNCUT, parameters=frozenset(("rel",)),
        note="Without -c. RR@k is recip_rank with -M k. The command prints four digits.",
        source="trec_eval.c and form_res_rels.c",
    ),
    Convention(
        "trec_eval 10", "trec_eval 10 (June 2026)", "10.0",
        Settings(precision=Precision.DOUBLE, queries=Countable.ANSWERED, recall_point=RecallPoint.ROUNDED),
        metrics=frozenset({kind.name for kind in _TREC_10 if kind.trec_cut is not None} | {"RR", "IPrec"}),
        uncut=frozenset({kind.name for kind in _TREC_10 if kind.trec is not None} | {"11pt_avg"}),
        parameters=frozenset(("rel", "p")),
        note="As release 9, with scores of double precision, recall points that are rounded, and rbp "
        "(RBP_trec_eval_10). IPrec and 11pt_avg here are its iprec_at_recall and 11pt_avg. It was not run for this: "
        "formulas are those of its source before the release (10.0-rc2 and later), and rbp equals the values of its "
        "own test.",
        source="form_res_rels.c, m_iprec_at_recall.c, m_11pt_avg.c and m_rbp.c",
    ),
    Convention(
        "Anserini", "Anserini's regressions, which call trec_eval -c (release 9)", "1.7.1",
        Settings(
            ties=TieBreak.RUN_ORDER, queries=Countable.JUDGED, identical_ids=IdenticalIds.OF_DATASET, depth=1000
        ),
        metrics=_TREC_CUT, uncut=_TREC_UNCUT, parameters=frozenset(("rel",)),
        note="Its runs have no equal scores: they are moved apart in the order of the ranking. -removeQuery is given "
        "for BEIR and BRIGHT, not for MIRACL, Mr. TyDi and MS MARCO. MIRACL is searched with 100 hits.",
        source="ScoreTiesAdjusterReranker.java, SearchCollection.java and the YAML files of the regressions",
    ),
    Convention(
        "BEIR", "beir", "2.2.0",
        Settings(queries=Countable.OF_RUN, identical_ids=IdenticalIds.BEFORE_CUT, depth=1000),
        exceptions={"RR": _PYTHON_SORT, "R_cap": _PYTHON_SORT, "Success": _PYTHON_SORT},
        decimals=5, metrics=_METRICS_WITH_CUTOFF | {"R_cap"},
        note="RR, R_cap and Success are sorted by score alone and divided by all judged queries; the others are "
        "pytrec_eval's.",
        source="beir/retrieval/evaluation.py and custom_metrics.py",
    ),
    Convention(
        "MTEB", "mteb", "2.26.24",
        Settings(queries=Countable.OF_RUN, identical_ids=IdenticalIds.OF_DATASET, depth=1000),
        exceptions={"RR": {"precision": Precision.DOUBLE}},
        decimals=5, metrics=_METRICS_WITH_CUTOFF,
        note="Identical ids are dropped for ArguAna, QuoraRetrieval, FEVER, FiQA2018, MSMARCO, TRECDL2019 and "
        "TRECDL2020 and their variants only. RR is not rounded.",
        source="mteb/_evaluators/retrieval_evaluator.py and retrieval_metrics.py, and the tasks",
    ),
    Convention(
        "sentence-transformers", "sentence-transformers, InformationRetrievalEvaluator", "6.2.0",
        Settings(
            ties=TieBreak.ID_ASCENDING, precision=Precision.DOUBLE, gain=Gain.BINARY, ap_total=Total.REACHABLE
        ),
        metrics=_METRICS_WITH_CUTOFF,
        note="Judgments are sets: every document of grade 1 or more is in them here. Scores that torch computed are "
        "float32 already.",
        source="sentence_transformers/sentence_transformer/evaluation/information_retrieval.py",
    ),
    Convention(
        "ranx", "ranx, evaluate with make_comparable=True", "0.3.21",
        Settings(ties=TieBreak.QUICKSORT, precision=Precision.DOUBLE, queries=Countable.JUDGED),
        metrics=_METRICS_WITH_CUTOFF | {"DCG"}, uncut=frozenset(("nDCG", "DCG", "AP", "RR", "Rprec")),
        parameters=frozenset(("rel", "dcg")),
        note="Without make_comparable, queries without judgments are an error. Of a Run; plain dictionaries "
        "are sorted another way.",
        source="ranx/meta/evaluate.py, data_structures/run.py and metrics",
    ),
)  # fmt: skip
"""The tools whose numbers are published most, in the order of the columns."""
