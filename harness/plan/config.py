"""The options of every verb, each declared once.

From a declaration follow the flag and its help, the keyword in Python, the key of ``harness.toml``, the words of the
recorded command and the row of the reference pages. They are plain dataclasses, made in 16 ms. Pydantic's models take
80 ms with its import, and their errors for a union of types name each type.

"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.plan.option_fields import Option, OptionField, Options, option_fields
from harness.plan.option_values import (
    MATCH_FORM,
    SWEEP,
    WARM_UP_VARIABLE,
    Churn,
    MatchExpression,
    answer_threshold,
    memory_limit,
    parse_churn,
    parse_filter_sweep,
    parse_levels,
    parse_match,
    parse_rates,
    verified_share,
    warm_up_seconds,
)

if TYPE_CHECKING:
    from harness.data.dataset import Dataset
    from harness.data.filter_sweep import FilterSweep
    from harness.data.golden_set import GoldenSet
else:
    # importing them takes longer than all other imports here; code that reads one looks at its type
    Dataset = FilterSweep = GoldenSet = object

COMPARED = "Backends and data"
SEARCH = "How to search"
MEASURED = "Measurements"
STATISTICS = "Statistics"
GATE = "How to judge"
TIMING = "Timing and load"
OUTPUT = "Output"
SERVERS = "Servers"
SELECTION = "Selection"
GROUPS = (COMPARED, SELECTION, SEARCH, MEASURED, STATISTICS, GATE, TIMING, SERVERS, OUTPUT)
"""The headings of ``--help``, in its order."""
COMPARE_METRICS = ("nDCG@10", "AP", "R@100", "RR@10")
EVAL_METRICS = "nDCG@10,AP,RR,P@10,R@100"
AUDIT_METRICS = "nDCG@10,AP@100,RR@10,P@10,R@100"
"""Metrics with cutoffs, which all tools compute."""
HIGHEST_GRADE = 2**31 - 1
"""The highest grade of judgments, as trec_eval reads them."""
LARGEST_SEED = 2**63 - 1
"""The largest number that a stored result holds."""
SECONDS_ABOVE_0 = "a number of seconds above 0, such as 0.5 or 90"
TIE_RULES = ("trec_eval", "trec_eval_10", "engine", "average")
QUERY_RULES = ("relevant", "judged", "answered")
PAIRED_TESTS = ("randomisation", "t", "wilcoxon")
GATE_RULES = ("test", "tolerance")
NOT_JUDGED_RULES = ("pass", "fail", "invalid")
ACCEPTABLE_CHECKS = ("missing-ids", "missing-texts", "no-hits", "query-in-results", "same-list")
"""Checks of answers whose error guesses at their meaning: a user who means these answers has them scored."""
IDENTICAL_ID_RULES = ("auto", "keep", "drop")
FORMATS = ("table", "markdown", "latex", "csv", "json")


class Resume(StrEnum):
    """Which stored outcomes of trials are used instead of running them."""

    NEVER = "never"
    """None: every trial runs, and its outcome replaces the stored one."""
    MISSING = "missing"
    """Every outcome whose times apply to this run, including failures."""
    FAILED = "failed"
    """As ``missing``, but failures run again, including one client of one measurement under load."""
    ALWAYS = "always"
    """As ``failed``, and also results whose times were taken on another machine, with other versions or other options.

    Not if a requested measure was never taken.
    """


LOCAL = "local"
"""The executor that runs workers on this machine."""


class Isolation(StrEnum):
    """The place where a backend runs."""

    PROCESS = "process"
    """In a separate worker process."""
    NONE = "none"
    """In the harness's process: for debuggers, profilers, and systems that cannot start processes."""


class ClientKind(StrEnum):
    """Kind of the clients of a load test."""

    PROCESSES = "processes"
    """A separate process, with its own engine."""
    THREADS = "threads"
    """A thread of one process, all on one engine: only if the engine's client releases the GIL."""


COLUMNS = Option(
    "Fields of tables that are called otherwise: "
    "id=doc_id,title=headline,text=body,query_id=qid,query=question, doc_id and grade of judgments, score and "
    "rank of runs (in lines without a header by number: score=3), and expected, "
    "expected_texts, filter and forbidden of a golden set, whose fields may be paths: expected=outputs.doc_ids.",
    COMPARED,
    metavar="LIST",
    commas=True,
)
METRICS = Option(
    "Metrics, separated by commas; trec_eval's names work too.", MEASURED, common=True, metavar="LIST", commas=True
)
TIES = Option(
    "Order of equal scores: trec_eval compares them as float32, as trec_eval 9 does, trec_eval_10 as float64.",
    MEASURED,
    common=True,
    choices=TIE_RULES,
)
FORMAT = Option("How the result is printed.", OUTPUT, common=True, choices=FORMATS, keyword=False)
RELEVANCE = Option(
    "Lowest grade that counts as relevant.",
    MEASURED,
    metavar="GRADE",
    least=1,
    most=HIGHEST_GRADE,
    flags=("--relevance-level", "-l"),
)
JUDGED_ONLY = Option(
    "Show each metric also on condensed lists, from which hits without a judgment are left out (trec_eval -J), and its "
    "mean if every such hit were relevant.",
    MEASURED,
)
IDENTICAL_IDS = Option(
    "Hits that have their query's id: keep or drop them before scoring, or follow the dataset (auto), which keeps "
    "them by default.",
    MEASURED,
    choices=IDENTICAL_ID_RULES,
)
DEPTH = Option("Documents to ask for, per query.", SEARCH, common=True, least=1)
FILTER = Option(
    "Return only documents whose metadata have this value: section=news. All of several must match.",
    SEARCH,
    common=True,
    metavar="FIELD=VALUE",
    repeated=True,
)
NO_TEXT = Option("Leave texts out of everything that is written.", OUTPUT)
CARDS = Option("Folder with more cards, in backends/ and datasets/; they come first.", COMPARED, metavar="DIR")
SPLIT = Option("Split of the judgments; the card's own by default.", COMPARED, metavar="NAME")
YES = Option("Do not ask before anything is removed.", SELECTION, flags=("-y",))
CACHE_KINDS = (
    "texts", "fields", "metadata", "terms", "term-texts", "bm25", "embeddings", "rerank", "trials", "digests", "hub",
    "judgments",
)  # fmt: skip
REFERENCE = Option(
    "The backend or run with which all others are compared, as named in the tables (default: the first).",
    STATISTICS,
    metavar="NAME",
)
ALL_PAIRS = Option("Compare every pair, not only with the reference.", STATISTICS, two_sided=True)
SEED = Option(
    "Seed of samples, orders, bootstrap intervals and randomisation tests.", STATISTICS, least=0, most=LARGEST_SEED
)
LABELS = Option(
    "Later judgments, from `harness judge` or in a filled-in to-label.jsonl: added to the dataset's judgments, "
    "or to the documents that questions expect. If people differ, the middle grade counts, the lower of two.",
    COMPARED,
    metavar="FILE",
    repeated=True,
    form="the path of a file, or a list of these",
)
COUNT_MODEL_LABELS = Option(
    "Let a gate count labels by a model; by default only people's labels count where a gate is judged.",
    GATE,
    two_sided=True,
)
MAX_DROP = Option(
    "Drop of a mean that the gate lets pass, for all metrics or for one: 0.01, or nDCG@10=0.01. Other metrics have "
    "no gate.",
    GATE,
    common=True,
    metavar="[METRIC=]DROP",
    repeated=True,
    form="a drop such as 0.01, one of a metric such as nDCG@10=0.01, or a list of these",
)
GATE_RULE = Option(
    "How the gate decides. test: it fails when a test shows a loss beyond --max-drop. tolerance: it fails when the "
    "mean fell further than that, and statistics are only shown.",
    GATE,
    common=True,
    choices=GATE_RULES,
)
WHEN_NOT_JUDGED = Option(
    "Outcome of a gate that would have passed even after the loss of everything: pass (exit code 0), fail (1) "
    "or invalid (3).",
    GATE,
    common=True,
    choices=NOT_JUDGED_RULES,
)
MARGIN = Option("Differences within ± this much count as the same.", GATE, metavar="DIFFERENCE", least=0)
PAIRED_TEST = Option("Paired test.", GATE, choices=PAIRED_TESTS)
PAIR = Option(
    "Labels of a backend before and after, if its name changed: 'lucene->qdrant'.",
    GATE,
    metavar="BEFORE->AFTER",
    repeated=True,
)
GATE_OPTIONS = ("max_drop", "rule", "when_not_judged", "margin", "test", "pair")
"""The options of a gate that a check has too."""
SAVE_BASELINE = Option(
    "Write a baseline too, a small file for git with which later results are compared: by `harness regress` for a "
    "comparison, by --baseline for a check.",
    OUTPUT,
    metavar="FILE.json",
    keyword=False,
    written=True,
    replaces="baseline",
)
BASELINE = Option("A file from --save-baseline, or a result folder.", COMPARED, common=True, metavar="FILE.json|DIR")
LISTING_FORMAT = replace(FORMAT, choices=("table", "json"))
CACHE_KIND = Option(
    f"Only entries of this kind: {', '.join(CACHE_KINDS)}.", SELECTION, metavar="KIND", choices=CACHE_KINDS
)
SORT = Option(
    "Order rows by this metric or other column of a table, the best first; by default they stay as named.",
    OUTPUT,
    common=True,
    metavar="COLUMN",
    keyword=False,
)
QUERY_TABLE = Option(
    "Print only the table of queries and backends or runs: a row for each query with every value of a metric, by "
    "default the first; csv has all of it, with ranks, and whether each query is won or lost.",
    OUTPUT,
    keyword=False,
)
VERBOSE = Option("Print every table, not only the short form of the result.", OUTPUT, common=True, keyword=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Options):
    """Options of running trials that compare, check and regress share."""

    timing: bool = Option("Warm up and time, or only search each query once.", TIMING, common=True).default(True)
    repeat: int = Option(
        "Timed passes over all queries; percentiles use every sample.", TIMING, common=True, least=1
    ).default(1)
    warm_up: float = Option(
        "Seconds of unmeasured queries before any is timed, at most as many queries as are timed (1,000 for a JVM); "
        "0: none.",
        TIMING,
        common=True,
        metavar="SECONDS",
        form="0 seconds or more, such as 5 or 0.5",
        least=0,
        default_text="HARNESS_WARM_UP, or 5",
        parse=warm_up_seconds,
        from_environment=WARM_UP_VARIABLE,
        takes=float | None,
    ).parsed()
    threads: int = Option(
        "Threads of the exact reference, as a backend and as the reference of engines.", SEARCH, least=1
    ).default(1)
    jobs: int = Option("Backends that run side by side; more than one needs --no-timing.", SEARCH, least=1).default(1)
    resume: Resume = Option("Stored outcomes to use instead of running again.", SEARCH, choices=tuple(Resume)).default(
        Resume.NEVER
    )
    deadline: float | None = Option(
        "Seconds that one backend may take.", SEARCH, metavar="SECONDS", least=0, above=True, form=SECONDS_ABOVE_0
    ).default(None)
    memory_limit: int | None = Option(
        "Resident memory that one backend may use, with all it starts, and memory of its exact reference: 512MiB.",
        SEARCH,
        metavar="SIZE",
        form="bytes, or a number with KiB, MiB or GiB, such as 512MiB or 2GiB",
        parse=memory_limit,
        takes=int | str | None,
    ).parsed()
    isolation: Isolation = Option(
        "process: each backend in a separate worker. none: in the harness's process, for debuggers.",
        SEARCH,
        choices=tuple(Isolation),
    ).default(Isolation.PROCESS)
    executor: str = Option(
        "Machines for backends, encoders, rerankers and the exact reference: local, this machine; ray, a Ray "
        "cluster that is started here or named by RAY_ADDRESS; ray:ADDRESS, the cluster at that address.",
        SEARCH,
        metavar="local|ray[:ADDRESS]",
        form="local, ray or ray:ADDRESS",
    ).default(LOCAL)
    max_calls: int | None = Option(
        "Calls of a remote model that each backend may make; --dry-run says how many it needs. With 0, anything "
        "that is not in the cache is an error.",
        SEARCH,
        least=0,
    ).default(None)
    cards: Path | None = CARDS.default(None)

    @property
    def warms_up(self) -> bool:
        """True if queries run unmeasured first."""
        return self.timing and self.warm_up > 0

    @property
    def shares_workers(self) -> bool:
        """True if trials on few documents may share workers: nothing that the process decides is measured."""
        local = self.isolation is Isolation.PROCESS and self.executor == LOCAL
        return local and not self.timing and self.memory_limit is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions(RunOptions):
    """Further options, of scoring, that compare and check share."""

    relevance: int = RELEVANCE.default(1)
    judged_only: bool = JUDGED_ONLY.default(False)
    identical_ids: str = IDENTICAL_IDS.default("auto")
    seed: int = SEED.default(42)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest(ScoringOptions):
    """Settings of ``harness compare``, as the user gives them; ``docs/reference/cli.md`` lists the options."""

    dataset: str | None = Option(
        "A name (harness datasets), as cacm or beir/scifact, a folder or .zip in BEIR layout, or documents: a table "
        "(.csv, .tsv, .jsonl, .json, .parquet), TREC files, a folder of text files. Several between commas make a "
        "leaderboard.",
        COMPARED,
        common=True,
        metavar="LIST",
        commas=True,
        repeated=True,
        completes="dataset",
        form="the name or path of a dataset, or a list of them",
        default_text="cacm, and none with --queries FILE or --qrels",
    ).default(None)
    backends: str | Sequence[str] = Option(
        "Backends, separated by commas: name, name:key=value;key=value, label=name:…, run:FILE, your own code "
        "(python:MODULE:FUNCTION, http:url=…;ids=…), a fusion: rrf:A+B, or a second stage: A|RERANKER.",
        COMPARED,
        common=True,
        metavar="LIST",
        commas=True,
        completes="backends",
    ).default("qdrant,lucene,csr")
    sweep: Sequence[str] = Option(
        "One more backend for each value of a parameter, on one shared build if the engine can: "
        "chroma:ef_search=10,50,100. Of several parameters for each combination: csr:k1=0.6,0.9,1.2;b=0.2,0.4.",
        COMPARED,
        metavar="NAME:KEY=LIST",
        repeated=True,
    ).default(())
    queries: Sequence[str] = Option(
        "Queries to average over: relevant, judged or answered. Or the file of the queries: a table, TREC topics or "
        "a golden set. At most one of each.",
        COMPARED,
        metavar="RULE|FILE",
        repeated=True,
    ).default(("relevant",))
    sample_queries: int | None = Option(
        "Search only this many queries, drawn with --seed; all documents stay.", COMPARED, least=1
    ).default(None)
    max_docs: int | None = Option(
        "Index every judged document and, up to this many, random others drawn with --seed.", COMPARED, least=1
    ).default(None)
    split: str | None = SPLIT.default(None)
    qrels: Path | None = Option(
        "File of the judgments, in BEIR's or TREC's lines or a table; the dataset's own by default.",
        COMPARED,
        metavar="FILE",
    ).default(None)
    columns: str | Sequence[str] | Mapping[str, str] = COLUMNS.default(())
    labels: Sequence[Path] | None = LABELS.default(None)
    k: int = DEPTH.default(1000)
    filter: Sequence[str] = FILTER.default(())
    filter_sweep: FilterSweep = Option(
        "Also search under filters that leave such shares of the documents, by seeded attributes: 0.5,0.1,0.01,0.001. "
        "Or a field of the metadata: up to 6 of its values, from frequent to rare.",
        MEASURED,
        metavar="LIST",
        commas=True,
        form="shares of the documents such as 0.5,0.1,0.01, or fields of the metadata",
        parse=parse_filter_sweep,
        takes=str | float | Sequence[str | float] | None,
    ).parsed()
    verify_cache: float = Option(
        "Share of cached vectors to encode again and compare with the cached ones: 1%.",
        SEARCH,
        metavar="SHARE",
        form="a share, such as 1% or 0.01",
        parse=verified_share,
        takes=str | float | None,
    ).parsed()
    metrics: str | Sequence[str] = METRICS.default(COMPARE_METRICS)
    ties: str = TIES.default("trec_eval")
    reference: str | None = REFERENCE.default(None)
    all_pairs: bool = ALL_PAIRS.default(False)
    tune: str | None = Option(
        "Choose the combination of --sweep that is best by this metric on one half of the queries, which --seed draws, "
        "and compare it with the default on the other half.",
        STATISTICS,
        metavar="METRIC",
    ).default(None)
    folds: int | None = Option(
        "Cross-validate the choice of --tune in place of halves: each of this many parts of the queries is reported by "
        "the combination that is best on all other parts.",
        STATISTICS,
        least=2,
    ).default(None)
    rebuilds: int = Option(
        "Builds in all, the first among them, of each backend whose engine gives other rankings on each build; the "
        "report shows their spread.",
        STATISTICS,
        least=1,
    ).default(1)
    concurrency: tuple[int, ...] = Option(
        "Also time this many concurrent clients, each sending its next query after an answer: 1,2,4,8.",
        TIMING,
        metavar="LIST",
        commas=True,
        form="numbers of clients, such as 1,2,4,8",
        parse=parse_levels,
        takes=str | int | Sequence[int] | None,
    ).parsed()
    rate: tuple[float, ...] | str = Option(
        "Also send this many queries per second, whether the backend keeps up or not: 50,100. Or sweep: raise the "
        "rate to saturation, and mark the knee.",
        TIMING,
        metavar="LIST|sweep",
        commas=True,
        form="queries a second, such as 50,100, or sweep",
        parse=parse_rates,
        takes=str | float | Sequence[float] | None,
    ).parsed()
    cold: bool = Option(
        "Also time a pass on the reopened index, with its files out of the page cache.", TIMING, two_sided=True
    ).default(False)
    clients: ClientKind = Option(
        "processes, or threads on one engine where its client releases the GIL.", TIMING, choices=tuple(ClientKind)
    ).default(ClientKind.PROCESSES)
    arrivals: Literal["poisson", "constant"] = Option(
        "Gaps between the queries of --rate.", TIMING, choices=("poisson", "constant")
    ).default("poisson")
    churn: Churn | None = Option(
        "Also change an index of a part of the documents, step by step, and search it after each: "
        "insert=10%,delete=10%,update=10%,steps=5, shares of the documents that it begins with.",
        TIMING,
        metavar="WORKLOAD",
        commas=True,
        form="shares and steps, such as insert=10%,delete=10%,update=10%,steps=5",
        parse=parse_churn,
        takes=str | None,
    ).parsed()
    load_seconds: float = Option(
        "Seconds at each level of --concurrency and --rate; calls in progress are then finished, and queries of an "
        "overloaded rate are sent for as long again.",
        TIMING,
        metavar="SECONDS",
        least=0,
        above=True,
        form=SECONDS_ABOVE_0,
    ).default(5.0)

    @property
    def open_loop(self) -> bool:
        """True if queries are sent at fixed rates."""
        return bool(self.rate)

    @property
    def sweeps_rates(self) -> bool:
        """True if the rate rises until the backend is saturated."""
        return self.rate == SWEEP

    @property
    def rates(self) -> tuple[float, ...]:
        """The queries a second to send; None for a sweep."""
        return self.rate if isinstance(self.rate, tuple) else ()

    @property
    def measures_load(self) -> bool:
        """True if anything beyond one warm client is measured."""
        return self.cold or bool(self.concurrency) or self.open_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Options):
    """Place and form of a result."""

    out: Path | None = Option(
        "Folder for the result.", OUTPUT, common=True, metavar="DIR", default_text="a new one under reports/"
    ).default(None)
    overwrite: bool = Option("Replace an earlier result in --out.", OUTPUT).default(False)
    format: str = FORMAT.default("table")
    verbose: bool = VERBOSE.default(False)
    sort: str | None = SORT.default(None)
    no_text: bool = NO_TEXT.default(False)

    @property
    def keep_text(self) -> bool:
        """True unless texts are left out of everything that is written."""
        return not self.no_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOutput(Output):
    """Place and form of the result of ``harness compare``."""

    save_runs: str | None = Option(
        "Also write every backend's hits into the result: TREC run files, or MTEB's TASK_predictions.json in a folder "
        "for each model.",
        OUTPUT,
        choices=("trec", "mteb"),
    ).default(None)
    save_baseline: Path | None = SAVE_BASELINE.default(None)
    dry_run: bool = Option("Print the plan without running it.", OUTPUT, recorded=False, keyword=False).default(False)


BackendLike = str | Callable[..., object]
BackendsLike = BackendLike | Sequence[BackendLike] | Mapping[str, BackendLike]


GOLDEN = Option(
    "Questions with the ids they expect: a .jsonl or .csv file, or a dataset that has a golden.jsonl.",
    metavar="GOLDEN",
    argument=True,
    form="a file, a dataset's name, a golden set, or the objects of its lines",
)
DEFAULT_DATASET = "cacm"
"""The bundled collection that ``harness compare`` uses if neither a dataset nor its files are named."""
CORPUS = Option(
    "The documents: a table, a folder of text files, or a dataset's name, folder or .zip. A name may precede it: "
    "small=a.jsonl. By default the golden set's own dataset.",
    COMPARED,
    common=True,
    metavar="[NAME=]PLACE",
    repeated=True,
    form="a place, a Dataset, documents, or several of these",
)
CHECKED_BACKENDS = Option(
    "Backends to index the documents and search them, as compare takes them: name, name:key=value;key=value.",
    COMPARED,
    common=True,
    metavar="LIST",
    commas=True,
    completes="backends",
    default_text="lucene,csr, and none with only --against",
)
AGAINST = Option(
    "An existing backend, only read: python:MODULE:FUNCTION, http:url=…;ids=…, a retriever of LangChain, "
    "LlamaIndex, Haystack or PyTerrier as langchain:MODULE:RETRIEVER;id_key=FIELD, or an index as "
    "chroma:path=…;collection=…;model=….",
    COMPARED,
    common=True,
    metavar="[NAME=]BACKEND",
    repeated=True,
    form="an expression, a function (question, k), or a list or a mapping of these; a framework's vector store or "
    "retriever is named: langchain:MODULE:NAME",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest(ScoringOptions):
    """Settings of ``harness check``, as the user gives them.

    In Python ``golden`` may be a golden set itself, the objects of its lines, or a :class:`harness.Dataset`, whose
    judgments are expected; ``corpus`` may be documents as :meth:`harness.Dataset.of` takes them, or hold datasets and
    tables, which a mapping names; ``against`` may hold callables ``(question, k)``, which a mapping names.
    """

    golden: str | Path | GoldenSet | Dataset | Sequence[Mapping[str, Any]] = GOLDEN.required()
    corpus: str | Path | Dataset | Sequence[str | Path | Dataset] | Any = CORPUS.default(())
    backends: str | Sequence[str] | None = CHECKED_BACKENDS.default(None)
    against: BackendsLike = AGAINST.default(())
    columns: str | Sequence[str] | Mapping[str, str] = COLUMNS.default(())
    k: int = DEPTH.default(5)
    filter: Sequence[str] = replace(
        FILTER,
        help="Give every question this filter, in addition to its own: only documents whose metadata have this value, "
        "as tenant=north. All of several must match.",
    ).default(())
    require: Sequence[str] = Option(
        "Requirement: 'Hit@5>=0.9', 'p95_ms<=50', 'parity>=1', or of a slice 'lang=de: MRR@5>=0.7'.",
        MEASURED,
        common=True,
        metavar="REQUIREMENT",
        repeated=True,
    ).default(())
    metrics: str | Sequence[str] = replace(METRICS, default_text="Hit, MRR, Recall and nDCG at k").default(())
    match: MatchExpression = Option(
        "exact: expected ids are ids of the corpus. document, prefix: the corpus holds chunks of the expected "
        "documents. field:NAME: expected ids are values of that field of the documents, such as metadata.source. text: "
        "expected are texts, which documents contain or are a part of; text:0.8 also takes documents with that share "
        "of the words in order.",
        MEASURED,
        metavar="RULE",
        form=MATCH_FORM,
        parse=parse_match,
        takes=str,
    ).parsed("exact")
    delimiter: str | None = Option(
        "Delimiter between a document's id and its chunk's, for --match.", MEASURED, metavar="TEXT"
    ).default(None)
    answer_threshold: float | None = Option(
        "Score above which a hit is an answer: shows how often a question that expects nothing gets no answer.",
        MEASURED,
        metavar="SCORE",
        form="a score of the backend, such as 0.35",
        parse=answer_threshold,
        takes=float | str | None,
    ).parsed()
    slice: Sequence[str] = Option(
        "A field of the golden set: one row of figures for each of its values.",
        MEASURED,
        metavar="FIELD",
        repeated=True,
    ).default(())
    ties: str = TIES.default("engine")
    accept: Sequence[str] = Option(
        "A check of the answers whose error does not make a backend invalid, but is a warning: "
        f"{', '.join(ACCEPTABLE_CHECKS)}.",
        MEASURED,
        metavar="CHECK",
        choices=ACCEPTABLE_CHECKS,
        repeated=True,
    ).default(())
    confidence: bool = Option(
        "Let the bound of the 95 % interval decide requirements, not the point estimate.", STATISTICS
    ).default(False)
    reference: str | None = REFERENCE.default(None)
    all_pairs: bool = ALL_PAIRS.default(False)
    labels: Sequence[Path] | None = LABELS.default(None)
    count_model_labels: bool = COUNT_MODEL_LABELS.default(False)
    baseline: Path | None = BASELINE.default(None)
    max_drop: float | Mapping[str, float] | Sequence[str] | None = replace(
        MAX_DROP, default_text="0, of --baseline"
    ).default(None)
    rule: str = GATE_RULE.default("test")
    when_not_judged: str = WHEN_NOT_JUDGED.default("invalid")
    margin: float = MARGIN.default(0.01)
    test: str = PAIRED_TEST.default("randomisation")
    pair: Sequence[str] = PAIR.default(())


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedOutput(Output):
    """Place and form of a verdict, in continuous integration too."""

    junit: Path | None = Option(
        "Also write JUnit XML: one case for each requirement.",
        OUTPUT,
        metavar="FILE",
        recorded=False,
        keyword=False,
        written=True,
    ).default(None)
    summary: Path | None = Option(
        "Also append Markdown to this file.",
        OUTPUT,
        metavar="FILE",
        default_text="the file that GITHUB_STEP_SUMMARY names, if any",
        recorded=False,
        keyword=False,
        written=True,
    ).default(None)
    comment: Path | None = Option(
        "Also write a comment for a pull request: the verdict, and the questions that were lost and won.",
        OUTPUT,
        metavar="FILE",
        recorded=False,
        keyword=False,
        written=True,
    ).default(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutput(JudgedOutput):
    """Place and form of the verdict of ``harness check``."""

    junit_per_query: bool = Option(
        "Also one case for each question and backend in --junit.", OUTPUT, recorded=False, keyword=False
    ).default(False)
    save_baseline: Path | None = SAVE_BASELINE.default(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest(Options):
    """Settings of ``harness verify``."""

    datasets: Sequence[str] = Option(
        "Names of datasets, members of families, or families; missing datasets are downloaded.",
        argument=True,
        metavar="DATASET",
        repeated=True,
        completes="dataset",
    ).default(())
    all: bool = Option(
        "Every dataset with published configurations; datasets that are not on this machine are listed, not "
        "downloaded.",
        COMPARED,
    ).default(False)
    available: bool = Option("Every such dataset that is on this machine.", COMPARED).default(False)
    data: str | Path | Sequence[str | Path] = Option(
        "A folder in which datasets lie under their names: DIR/scifact is beir/scifact.",
        COMPARED,
        metavar="DIR",
        repeated=True,
    ).default(())
    cards: Path | None = CARDS.default(None)
    explain: bool = Option("Find the single changes that give a missed number.", STATISTICS).default(True)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOutput(Options):
    """Form of the result of ``harness verify``."""

    format: str = FORMAT.default("table")


def _level(level: float) -> float:
    return int(level) if float(level).is_integer() else level


def _gains(gains: str | Mapping[float, float] | None) -> str | None:
    from harness.metrics.gains import gains_text, parse_gains  # not for every verb's help

    return None if gains is None else gains_text(parse_gains(gains))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(Options):
    """Options of scoring runs with ``harness.evaluate`` and ``harness eval``."""

    relevance: float = replace(RELEVANCE, least=0, above=True, parse=_level).default(1)
    gains: str | Mapping[float, float] | None = Option(
        "Gains of grades for nDCG and DCG in place of the grades: 1=3,2=9. Gains that a metric names itself, "
        "nDCG(gains='1=3')@10, come first; grades of 0 and below without a gain have 0.",
        MEASURED,
        metavar="LIST",
        commas=True,
        parse=_gains,
    ).default(None)
    judged_only: bool = JUDGED_ONLY.default(False)
    ties: str | None = replace(TIES, default_text="trec_eval").default(None)
    queries: str | None = Option(
        "Queries that means are taken over.",
        MEASURED,
        choices=QUERY_RULES,
        default_text="relevant, and answered with --format trec_eval",
    ).default(None)
    trec_eval: str | None = Option(
        "The choices of a release of trec_eval: --queries answered, --ties trec_eval or trec_eval_10, and its formulas "
        "of iprec_at_recall, 11pt_avg and rbp. Without a number, release 9.",
        MEASURED,
        choices=("9", "10"),
        flag_value="9",
    ).default(None)
    identical_ids: str = IDENTICAL_IDS.default("auto")
    accept: Sequence[str] = Option(
        "Score a run that is otherwise refused. nothing-judged: none of its documents is judged, so every metric is 0.",
        MEASURED,
        metavar="CHECK",
        choices=("nothing-judged",),
        repeated=True,
    ).default(())
    labels: Sequence[Path] | None = LABELS.default(None)
    columns: str | Sequence[str] | Mapping[str, str] = COLUMNS.default(())
    reference: str | None = REFERENCE.default(None)
    all_pairs: bool = ALL_PAIRS.default(False)
    seed: int = SEED.default(42)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRequest(ScoreOptions):
    """Settings of ``harness eval``."""

    qrels: Path = Option(
        "Judgments: lines of TREC, BEIR or SVMrank, a table, JSON (of Quepid, RRE and _rank_eval too) or Parquet; "
        "plain or compressed. Can come first, without the flag.",
        COMPARED,
        common=True,
        metavar="FILE",
        unflagged=True,
    ).required()
    run: Sequence[str | Path] = Option(
        "Runs: lines of TREC, MS MARCO or ColBERT, a table, JSON (MTEB's predictions too: FILE#subset/split) or "
        "Parquet. Several may follow, as from *.trec, and the flag may be left out.",
        COMPARED,
        common=True,
        metavar="FILE",
        repeated=True,
        unflagged=True,
    ).required()
    metrics: str | None = replace(
        METRICS, default_text=f"{EVAL_METRICS}, and trec_eval's official ones with --format trec_eval"
    ).default(None)
    audit: bool = Option(
        "Score one run as trec_eval 9 and 10, Anserini, BEIR, MTEB, sentence-transformers and ranx do, and say why the "
        f"values differ. Default metrics: {AUDIT_METRICS}.",
        MEASURED,
    ).default(False)
    published: str | None = Option(
        "With --audit: a number from a paper, as printed (0.397, or nDCG@10=39.7). Names the convention that gives it.",
        MEASURED,
        metavar="VALUE",
    ).default(None)
    per_query: bool = Option("Every query's values too.", OUTPUT, common=True, flags=("-q",)).default(False)
    format: str = replace(
        FORMAT,
        help="Output format; trec_eval: as release 9 prints it, or the release of --trec-eval; html: a page with every "
        "query.",
        choices=(*FORMATS, "html", "trec_eval"),
    ).default("table")
    query_table: bool = QUERY_TABLE.default(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions(Options):
    """Options of judging two results that regress and diff share."""

    max_drop: float | Mapping[str, float] | Sequence[str] | None = MAX_DROP.default(None)
    rule: str = GATE_RULE.default("test")
    when_not_judged: str = WHEN_NOT_JUDGED.default("invalid")
    margin: float = MARGIN.default(0.01)
    test: str = PAIRED_TEST.default("randomisation")
    pair: Sequence[str] = PAIR.default(())
    labels: Sequence[Path] | None = LABELS.default(None)
    count_model_labels: bool = COUNT_MODEL_LABELS.default(False)
    dossier: int = Option("Queries of each backend to report in full, most changed first.", OUTPUT, least=0).default(50)
    dossier_depth: int = Option("Documents of each ranking that --dossier reports.", OUTPUT, least=1).default(10)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressRequest(GateOptions):
    """Settings of ``harness regress``; :func:`rerun_fields` are further changes of the plan."""

    baseline: Path = BASELINE.required()
    set: Sequence[str] = Option(
        "Change parameters of a backend of the plan: lucene:k1=3;b=0.95, or '*:model=…' for all that have it.",
        COMPARED,
        common=True,
        metavar="NAME:KEY=VALUE;…",
        repeated=True,
    ).default(())
    backends: str | Sequence[str] | None = Option(
        "Other backends in the plan's place.", COMPARED, common=True, metavar="LIST", commas=True, completes="backends"
    ).default(None)
    dataset: str | None = Option(
        "Another state or place of the dataset.",
        COMPARED,
        common=True,
        metavar="LIST",
        commas=True,
        repeated=True,
        completes="dataset",
    ).default(None)
    max_drop: float | Mapping[str, float] | Sequence[str] | None = MAX_DROP.default(0.0)


def rerun_fields() -> dict[str, OptionField]:
    """Return the options of compare that ``harness regress`` takes too; the baseline decides omitted options."""
    compared = option_fields(CompareRequest)
    return {
        name: replace(compared[name], default=None, option=replace(compared[name].option, default_text=""))
        for name in ("rebuilds", *option_fields(RunOptions))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest(GateOptions):
    """Which results ``harness diff`` compares, and how it judges."""

    before: Path = Option(
        "A result folder of compare or check, or a baseline file.", metavar="BEFORE", argument=True
    ).required()
    after: Path = Option("The same, of later.", metavar="AFTER", argument=True).required()
    cards: Path | None = CARDS.default(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest(Options):
    """Which stored result ``harness report`` prints, and how."""

    folder: Path | None = Option(
        "A result folder of harness, its report.json, or its regression.json.", metavar="DIR|FILE", argument=True
    ).default(None)
    format: str = replace(FORMAT, choices=(*FORMATS, "html")).default("table")
    verbose: bool = VERBOSE.default(False)
    sort: str | None = SORT.default(None)
    query: str | None = Option(
        "Print only this query or question: values, ranks and first hits of every backend; --verbose adds texts.",
        OUTPUT,
        metavar="ID",
    ).default(None)
    query_table: bool = QUERY_TABLE.default(False)
    metric: str | None = Option(
        "The metric of --query-table.", OUTPUT, default_text="the first", metavar="NAME"
    ).default(None)
    schema: bool = Option("Describe every field of report.json, and exit.", OUTPUT).default(False)
    no_text: bool = NO_TEXT.default(False)
    cards: Path | None = CARDS.default(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest(Options):
    """The query and the documents that ``harness explain`` explains, and the backends that rank them."""

    result: Path | None = Option(
        "A result folder of compare, check or regress: its hits are explained. Without it, --backends search --dataset "
        "or --corpus.",
        argument=True,
        metavar="RESULT",
        overrides=(
            *("backends", "dataset", "queries", "split", "columns", "filter"),
            *("golden", "corpus", "match", "delimiter"),
        ),
    ).default(None)
    query: str = Option("The query or question to explain.", COMPARED, common=True, metavar="ID").required()
    doc: Sequence[str] = Option(
        "A document to explain, at any rank; by default the best --k of each backend, and 10 more at most that "
        "judgments or the golden set expect.",
        COMPARED,
        common=True,
        metavar="ID",
        repeated=True,
    ).default(())
    dataset: str | None = replace(
        option_fields(CompareRequest)["dataset"].option,
        help="A dataset as compare takes it; one of a RESULT with several.",
        repeated=False,
        commas=False,
        metavar="NAME|PATH",
        form="the name or path of a dataset",
        default_text="cacm",
    ).default(None)
    golden: str | Path | GoldenSet | Dataset | Sequence[Mapping[str, Any]] | None = replace(
        GOLDEN,
        help="Questions with the ids they expect, in place of --dataset; of a RESULT of check, its present place.",
        argument=False,
        group=COMPARED,
        common=True,
        metavar="FILE",
    ).default(None)
    corpus: str | Path | Dataset | Any = replace(
        CORPUS,
        help="The documents of --golden; of a RESULT of check, their present place, or one of several corpora.",
        repeated=False,
        metavar="PLACE|NAME",
        form="a place, a Dataset, or documents",
    ).default(None)
    backends: str | Sequence[str] | None = replace(
        option_fields(CompareRequest)["backends"].option,
        default_text="qdrant,lucene,csr; of --golden lucene,csr",
        overrides=("result",),
    ).default(None)
    match: MatchExpression = option_fields(CheckRequest)["match"].option.parsed("exact")
    delimiter: str | None = option_fields(CheckRequest)["delimiter"].option.default(None)
    queries: str | None = Option(
        "File of the queries; the dataset's own by default.", COMPARED, metavar="FILE"
    ).default(None)
    split: str | None = SPLIT.default(None)
    columns: str | Sequence[str] | Mapping[str, str] = COLUMNS.default(())
    filter: Sequence[str] = FILTER.default(())
    k: int = replace(
        DEPTH, help="Documents of each backend to explain; without RESULT, also the number to ask for, per query."
    ).default(10)
    engine_explanation: bool = Option(
        "Also show the engine's own explanation next to the reference's numbers (Lucene, OpenSearch, Elasticsearch), "
        "with the first number that differs. The index is built again for it.",
        COMPARED,
    ).default(False)
    cards: Path | None = CARDS.default(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOutput(Options):
    """Form of the result of ``harness explain``."""

    format: str = replace(FORMAT, choices=("table", "markdown", "json")).default("table")
    verbose: bool = VERBOSE.default(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest(Options):
    """Which documents of a stored result ``harness judge`` puts on a page or sends to a model."""

    result: Path = Option(
        "A result folder of compare, check, regress or diff; with one --agreement, a file of labels.",
        metavar="RESULT",
        argument=True,
    ).required()
    model: str | None = Option(
        "Grade with a model behind an OpenAI-compatible chat endpoint: openai:model=NAME;endpoint=http://HOST/v1, with "
        "the parameters of the second stage judge.",
        SELECTION,
        common=True,
        metavar="openai:model=NAME;…",
        flags=("--with",),
    ).default(None)
    prompt: Path | None = Option(
        "Text file with the model's instructions, in place of the harness's.", SELECTION, metavar="FILE"
    ).default(None)
    max_calls: int | None = Option(
        "Calls of the model; with 0, only grades in the cache are used.", SELECTION, least=0
    ).default(None)
    agreement: Sequence[Path] = Option(
        "Compare two files of labels: --agreement a.jsonl b.jsonl. With RESULT, give the option twice.",
        SELECTION,
        common=True,
        metavar="FILE",
        repeated=True,
        form="the path of a file, or a list of these",
    ).default(())
    depth: int = Option("First hits of each backend to judge.", SELECTION, common=True, least=1, most=1000).default(10)
    budget: int = Option("Documents to judge, the most decisive first.", SELECTION, common=True, least=1).default(200)
    metric: str | None = Option(
        "The metric whose differences decide which documents come first.",
        SELECTION,
        metavar="NAME",
        default_text="the first of the result",
    ).default(None)
    seed: int = SEED.default(42)
    labels: Sequence[Path] | None = LABELS.default(None)
    page: Path | None = Option(
        "File for the page.", OUTPUT, metavar="FILE.html", default_text="RESULT-judge.html", written=True
    ).default(None)
    write_golden: Path | None = Option(
        "Write no page, but the golden set of a check, in JSON lines, whose questions also expect the relevant "
        "documents of --labels.",
        OUTPUT,
        metavar="FILE.jsonl",
        written=True,
        keyword=False,
    ).default(None)
    write_labels: Path | None = Option(
        "File for the labels of the model.", OUTPUT, metavar="FILE.jsonl", default_text="labels-MODEL.jsonl in RESULT"
    ).default(None)
    cards: Path | None = CARDS.default(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOutput(Options):
    """Form of the output of ``harness judge`` with a model, and of an agreement."""

    format: str = FORMAT.default("table")
    verbose: bool = VERBOSE.default(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest(Options):
    """Content of the ``harness.toml`` that ``harness init`` writes."""

    golden: str | None = replace(GOLDEN, argument=False, group=COMPARED, common=True, metavar="FILE").default(None)
    corpus: str | None = replace(CORPUS, repeated=False).default(None)
    backends: str = replace(CHECKED_BACKENDS, default_text="").default("csr")
    against: Sequence[str] = AGAINST.default(())
    columns: str | Sequence[str] = COLUMNS.default(())
    match: MatchExpression = option_fields(CheckRequest)["match"].option.parsed("exact")
    delimiter: str | None = option_fields(CheckRequest)["delimiter"].option.default(None)
    dataset: str | None = Option(
        "A dataset's name, folder or .zip, for `harness compare`, and for `check` if it has a golden set.",
        COMPARED,
        metavar="NAME|PATH",
        completes="dataset",
    ).default(None)
    force: bool = Option("Replace existing files.", OUTPUT).default(False)


def _server(name: str, variable: str) -> str:
    """Declare the address of a server, which an environment variable names by default."""
    return Option(f"{name} server to look at.", SERVERS, metavar="URL", default_text=variable).default("")


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorRequest(Options):
    """Which servers ``harness doctor`` looks at, and how it answers."""

    url: str = _server("A Qdrant", "HARNESS_QDRANT_URL")
    chroma_url: str = _server("A Chroma", "HARNESS_CHROMA_URL")
    opensearch_url: str = _server("An OpenSearch", "HARNESS_OPENSEARCH_URL")
    elasticsearch_url: str = _server("An Elasticsearch", "HARNESS_ELASTICSEARCH_URL")
    milvus_url: str = _server("A Milvus", "HARNESS_MILVUS_URL")
    weaviate_url: str = _server("A Weaviate", "HARNESS_WEAVIATE_URL")
    postgres_url: str = _server("A PostgreSQL", "HARNESS_POSTGRES_URL")
    remove_left_collections: bool = Option(
        "Only remove collections that killed comparisons left on the servers; names each and asks first.", SERVERS
    ).default(False)
    yes: bool = replace(YES, group=SERVERS).default(False)
    format: str = LISTING_FORMAT.default("table")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest(Options):
    """Which cards are listed, and how they are printed."""

    cards: Path | None = replace(CARDS, group=SELECTION).default(None)
    format: str = LISTING_FORMAT.default("table")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendsRequest(ListRequest):
    """Settings of ``harness backends``."""

    format: str = replace(FORMAT, choices=("table", "markdown", "json")).default("table")
    backend: str | None = Option(
        "Show this backend with its parameters, or with the values that NAME:key=value sets.",
        argument=True,
        metavar="BACKEND",
        completes="backends",
    ).default(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest(ListRequest):
    """Settings of ``harness datasets search``."""

    words: Sequence[str] = Option(
        "Words that all have to occur.", argument=True, metavar="WORD", repeated=True
    ).required()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRequest(ListRequest):
    """Which dataset one of the verbs below ``harness datasets`` is about."""

    dataset: str = Option(
        "A card, FAMILY/MEMBER, or a loader's own name, as irds:beir/scifact.",
        argument=True,
        metavar="DATASET",
        completes="dataset",
    ).required()


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoRequest(DatasetRequest):
    """Settings of ``harness datasets info``."""

    published: bool = Option("Show all published results, not the first 10.", OUTPUT).default(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest(DatasetRequest):
    """Settings of ``harness datasets fetch``."""

    split: str | None = replace(SPLIT, group=SELECTION).default(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRequest(DatasetRequest):
    """Settings of ``harness datasets remove``."""

    yes: bool = YES.default(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRequest(Options):
    """Which entries ``harness cache list`` and ``verify`` are about."""

    kind: str | None = CACHE_KIND.default(None)
    format: str = LISTING_FORMAT.default("table")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRemoveRequest(Options):
    """Which entries ``harness cache remove`` deletes."""

    entries: Sequence[str] = Option(
        "Entries, by the first digits of their names.", argument=True, metavar="ENTRY", repeated=True
    ).default(())
    kind: str | None = CACHE_KIND.default(None)
    older_than: str | None = Option(
        "Only entries older than this: 45m, 12h, 30d, 8w.", SELECTION, metavar="AGE"
    ).default(None)
    all: bool = Option("Every entry.", SELECTION).default(False)
    yes: bool = YES.default(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentRequest(Options):
    """The comment that ``harness github comment`` writes."""

    file: Path = Option(
        "A comment that --comment of `harness check`, `regress` or `diff` wrote.", argument=True, metavar="FILE"
    ).required()
    name: str = Option(
        "Name of this comment among those of several jobs with the same golden set.", OUTPUT, metavar="NAME"
    ).default("")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRequest(Options):
    """The baseline that ``harness github baseline`` fetches."""

    directory: Path = Option("Folder for the baseline.", argument=True, metavar="DIR").required()
    artifact: str = Option(
        "Name of the artifact with the baseline, which the workflow uploads in runs of the branch.",
        SELECTION,
        metavar="NAME",
    ).default("harness-baseline")
