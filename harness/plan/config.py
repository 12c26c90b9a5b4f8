"""The options of every verb, each declared once.

From a declaration follow the flag and its help, the keyword in Python, the key of ``harness.toml``, the words of the
recorded command and the row of the reference pages. They are plain dataclasses, made in 16 ms where pydantic's models
take 80 with its import, and whose errors for a union of types name each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from harness.plan.option_fields import Option, OptionField, Options, option_fields

if TYPE_CHECKING:
    from harness.data.dataset import Dataset
    from harness.data.golden_set import GoldenSet
else:
    Dataset = GoldenSet = object  # importing them takes longer than all else here; who reads one looks at its type

__all__ = [
    "AUDIT_METRICS",
    "CACHE_KINDS",
    "COMPARE_METRICS",
    "EVAL_METRICS",
    "GROUPS",
    "BackendsRequest",
    "CacheRemoveRequest",
    "CacheRequest",
    "CheckOutput",
    "CheckRequest",
    "ClientKind",
    "CompareOutput",
    "CompareRequest",
    "DatasetRequest",
    "DiffRequest",
    "DoctorRequest",
    "DownRequest",
    "EvalRequest",
    "FetchRequest",
    "GateOptions",
    "InfoRequest",
    "InitRequest",
    "Isolation",
    "JudgedOutput",
    "ListRequest",
    "Output",
    "RegressRequest",
    "RemoveRequest",
    "ReportRequest",
    "Resume",
    "ScoreOptions",
    "SearchRequest",
    "UpRequest",
    "VerifyOutput",
    "VerifyRequest",
    "rerun_fields",
]

COMPARED = "What to compare"
SEARCH = "How to search"
MEASURED = "What to measure"
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
TIE_RULES = ("trec_eval", "engine", "average")
QUERY_RULES = ("relevant", "judged", "answered")
PAIRED_TESTS = ("randomisation", "t", "wilcoxon")
MATCH_RULES = ("exact", "document", "prefix")
IDENTICAL_IDS = ("auto", "keep", "drop")
FORMATS = ("table", "markdown", "csv", "json")


class Resume(StrEnum):
    """Which stored outcomes of trials are used instead of running them."""

    NEVER = "never"
    """None: every trial runs, and its outcome replaces the stored one."""
    MISSING = "missing"
    """Every one whose times stand for this run, failures too."""
    FAILED = "failed"
    """As ``missing``, but what failed runs again, be it one client of one measurement under load."""
    ALWAYS = "always"
    """As ``failed``, and also where times were taken on another machine, with other versions or other options.

    Not where something that is asked for was never measured.
    """


LOCAL = "local"
"""The executor that runs workers on this machine."""


class Isolation(StrEnum):
    """Where a backend runs."""

    PROCESS = "process"
    """In a worker process of its own."""
    NONE = "none"
    """In the harness's process: for debuggers, profilers, and where processes cannot be started."""


class ClientKind(StrEnum):
    """Kind of the clients of a load test."""

    PROCESSES = "processes"
    """A process of its own, with its own engine."""
    THREADS = "threads"
    """A thread of one process, all on one engine: only where the engine's client releases the GIL."""


Columns = Annotated[
    str | Sequence[str] | Mapping[str, str],
    Option(
        help="Fields of tables that are called otherwise: id=doc_id,title=headline,text=body,query_id=qid,"
        "query=question, and doc_id and grade of judgments.",
        group=COMPARED,
        metavar="LIST",
        commas=True,
    ),
]
METRICS = Option(
    help="Metrics, separated by commas; trec_eval's names work too.",
    group=MEASURED,
    common=True,
    metavar="LIST",
    commas=True,
)
TIES = Option(help="Order of equal scores.", group=MEASURED, common=True, choices=TIE_RULES)
FORMAT = Option(help="How the result is printed.", group=OUTPUT, common=True, choices=FORMATS, keyword=False)
Relevance = Annotated[
    int,
    Option(
        help="Lowest grade that counts as relevant.",
        group=MEASURED,
        metavar="GRADE",
        least=1,
        most=HIGHEST_GRADE,
        flags=("--relevance-level", "-l"),
    ),
]
IdenticalIds = Annotated[
    str,
    Option(
        help="Hits that have their query's id: keep or drop them before scoring, or as the dataset says (auto), which "
        "keeps them where it says nothing.",
        group=MEASURED,
        choices=IDENTICAL_IDS,
    ),
]
Depth = Annotated[int, Option(common=True, help="Documents to ask for, per query.", group=SEARCH, least=1)]
NoText = Annotated[bool, Option(help="Leave texts out of everything that is written.", group=OUTPUT)]
CARDS = Option(
    help="Folder with more cards, in backends/ and datasets/; they come first.", group=COMPARED, metavar="DIR"
)
Cards = Annotated[Path | None, CARDS]
SPLIT = Option(help="Split of the judgments; the card's own by default.", group=COMPARED, metavar="NAME")
YES = Option(help="Do not ask before anything is removed.", group=SELECTION, flags=("-y",))
CACHE_KINDS = (
    "texts", "metadata", "terms", "term-texts", "bm25", "embeddings", "rerank", "trials", "digests", "hub", "judgments",
)  # fmt: skip
Labels = Annotated[
    Path | None,
    Option(
        help="Judgments that came later, a filled-in to-label.jsonl of regress or diff: they add to those of the data.",
        group=COMPARED,
        metavar="FILE",
    ),
]
MaxDrop = Annotated[
    float | Mapping[str, float] | Sequence[str] | None,
    Option(
        help="Drop of a mean that the gate lets pass, for all metrics or for one: 0.01, or nDCG@10=0.01. Metrics that "
        "none is for have no gate.",
        group=GATE,
        common=True,
        metavar="[METRIC=]DROP",
        repeated=True,
        form="a drop such as 0.01, one of a metric such as nDCG@10=0.01, or a list of these",
    ),
]
ListingFormat = Annotated[str, replace(FORMAT, choices=("table", "json"))]
CacheKind = Annotated[
    str | None,
    Option(
        help=f"Only entries of this kind: {', '.join(CACHE_KINDS)}.",
        group=SELECTION,
        metavar="KIND",
        choices=CACHE_KINDS,
    ),
]
Sort = Annotated[
    str | None,
    Option(
        help="Order rows by this metric or other column of a table, the best first; by default they stay as named.",
        group=OUTPUT,
        common=True,
        metavar="COLUMN",
        keyword=False,
    ),
]
Verbose = Annotated[
    bool,
    Option(common=True, help="Print every table, not only the short form of the result.", group=OUTPUT, keyword=False),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Options):
    """How trials run: the options that compare, check and regress share."""

    timing: Annotated[
        bool, Option(common=True, help="Warm up and time, or only search each query once.", group=TIMING)
    ] = True
    repeat: Annotated[
        int,
        Option(common=True, help="Timed passes over all queries; percentiles use every sample.", group=TIMING, least=1),
    ] = 1
    warm_up: Annotated[
        float | None,
        Option(
            common=True,
            help="Ask queries unmeasured before any is timed, at most as many as are timed (1,000 of a JVM) and for so "
            "long; 0: none.",
            group=TIMING,
            metavar="SECONDS",
            form="0 seconds or more, such as 5 or 0.5",
            least=0,
            default_text="HARNESS_WARM_UP, or 5",
        ),
    ] = None
    threads: Annotated[
        int,
        Option(
            help="Threads of the exact reference, as a backend and as what engines are held against.",
            group=SEARCH,
            least=1,
        ),
    ] = 1
    jobs: Annotated[
        int, Option(help="Backends that run side by side; more than one needs --no-timing.", group=SEARCH, least=1)
    ] = 1
    resume: Annotated[
        str,
        Option(help="Stored outcomes to use instead of running again.", group=SEARCH, choices=tuple(Resume)),
    ] = Resume.NEVER.value
    deadline: Annotated[
        float | None,
        Option(
            help="Seconds that one backend may take.",
            group=SEARCH,
            metavar="SECONDS",
            least=0,
            above=True,
            form=SECONDS_ABOVE_0,
        ),
    ] = None
    memory_limit: Annotated[
        int | str | None,
        Option(
            help="Resident memory that one backend may use, with all it starts: 512MiB, 2GiB.",
            group=SEARCH,
            metavar="SIZE",
            form="bytes, or a number with KiB, MiB or GiB, such as 512MiB or 2GiB",
        ),
    ] = None
    isolation: Annotated[
        str,
        Option(
            help="process: each backend in a worker of its own. none: in the harness's process, for debuggers.",
            group=SEARCH,
            choices=tuple(Isolation),
        ),
    ] = Isolation.PROCESS.value
    executor: Annotated[
        str,
        Option(
            help="Where backends, encoders and rerankers run: local, on this machine; ray, on a Ray cluster that is "
            "started here or that RAY_ADDRESS names; ray:ADDRESS, on that one.",
            group=SEARCH,
            metavar="local|ray[:ADDRESS]",
            form="local, ray or ray:ADDRESS",
        ),
    ] = LOCAL
    max_calls: Annotated[
        int | None,
        Option(
            help="Calls of a remote model that each backend may make; --dry-run says how many it needs. With 0, what "
            "the cache does not hold is an error.",
            group=SEARCH,
            metavar="N",
            least=0,
        ),
    ] = None
    cards: Cards = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions(RunOptions):
    """How hits are scored: the further options that compare and check share."""

    relevance: Relevance = 1
    identical_ids: IdenticalIds = "auto"
    seed: Annotated[
        int,
        Option(
            help="Seed of samples, bootstrap intervals and randomisation tests.",
            group=STATISTICS,
            least=0,
            most=LARGEST_SEED,
        ),
    ] = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest(ScoringOptions):
    """What ``harness compare`` runs, as the user gives it; ``docs/reference/cli.md`` lists the options."""

    dataset: Annotated[
        str,
        Option(
            common=True,
            help="A name (harness datasets), as cacm or beir/scifact, a folder or .zip in BEIR layout, or documents: "
            "a table (.csv, .tsv, .jsonl, .json, .parquet), TREC files, a folder of text files. Several between "
            "commas make a leaderboard.",
            group=COMPARED,
            metavar="LIST",
            commas=True,
            repeated=True,
            completes="dataset",
            form="the name or path of a dataset, or a list of them",
        ),
    ] = "cacm"
    backends: Annotated[
        str | Sequence[str],
        Option(
            common=True,
            help="Backends, separated by commas: name, name:key=value;key=value, label=name:…, run:FILE, a fusion of "
            "such: rrf:A+B, or a second stage on one: A|RERANKER.",
            group=COMPARED,
            metavar="LIST",
            commas=True,
            completes="backends",
        ),
    ] = "qdrant,lucene,csr"
    sweep: Annotated[
        Sequence[str],
        Option(
            help="One backend for each value of a parameter, on one build where the engine can, as "
            "chroma:ef_search=10,50,100.",
            group=COMPARED,
            metavar="NAME:KEY=LIST",
            repeated=True,
        ),
    ] = ()
    queries: Annotated[
        Sequence[str],
        Option(
            help="Queries that means are taken over: relevant, judged or answered. Or the file of the queries: a "
            "table, TREC topics or a golden set. One of each at most.",
            group=COMPARED,
            metavar="RULE|FILE",
            repeated=True,
        ),
    ] = ("relevant",)
    sample_queries: Annotated[
        int | None,
        Option(
            help="Search only this many queries, drawn with --seed; all documents stay.",
            group=COMPARED,
            metavar="N",
            least=1,
        ),
    ] = None
    max_docs: Annotated[
        int | None,
        Option(
            help="Index every judged document and, up to this many, random others drawn with --seed.",
            group=COMPARED,
            metavar="N",
            least=1,
        ),
    ] = None
    split: Annotated[str | None, SPLIT] = None
    qrels: Annotated[
        Path | None,
        Option(
            help="File of the judgments, in BEIR's or TREC's lines or a table; the dataset's own by default.",
            group=COMPARED,
            metavar="FILE",
        ),
    ] = None
    columns: Columns = ()
    labels: Labels = None
    k: Depth = 1000
    filter: Annotated[
        Sequence[str],
        Option(
            common=True,
            help="Return only documents whose metadata have this value: section=news. All of several must match.",
            group=SEARCH,
            metavar="FIELD=VALUE",
            repeated=True,
        ),
    ] = ()
    filter_sweep: Annotated[
        str | float | Sequence[str | float] | None,
        Option(
            help="Also search under filters that leave such shares of the documents, by seeded attributes: "
            "0.5,0.1,0.01,0.001. Or a field of the metadata: up to 6 of its values, from frequent to rare.",
            group=MEASURED,
            metavar="LIST",
            commas=True,
            form="shares of the documents such as 0.5,0.1,0.01, or fields of the metadata",
        ),
    ] = None
    verify_cache: Annotated[
        str | float | None,
        Option(
            help="Share of cached vectors to encode again and compare with the cached ones: 1%.",
            group=SEARCH,
            metavar="SHARE",
            form="a share, such as 1% or 0.01",
        ),
    ] = None
    metrics: Annotated[str | Sequence[str], METRICS] = COMPARE_METRICS
    ties: Annotated[str, TIES] = "trec_eval"
    reference: Annotated[
        str | None,
        Option(
            help="The backend that all others are compared with, as the tables name it; the first by default.",
            group=STATISTICS,
            metavar="NAME",
        ),
    ] = None
    all_pairs: Annotated[
        bool,
        Option(help="Compare every backend with every other, not with one alone.", group=STATISTICS, two_sided=True),
    ] = False
    rebuilds: Annotated[
        int,
        Option(
            help="Builds in all, the first among them, of each backend whose engine gives other rankings on each "
            "build; the report shows their spread.",
            group=STATISTICS,
            metavar="N",
            least=1,
        ),
    ] = 1
    concurrency: Annotated[
        str | int | Sequence[int] | None,
        Option(
            help="Also time so many clients at once, each asking when it was answered: 1,2,4,8.",
            group=TIMING,
            metavar="LIST",
            commas=True,
            form="numbers of clients, such as 1,2,4,8",
        ),
    ] = None
    rate: Annotated[
        str | float | Sequence[float] | None,
        Option(
            help="Also ask so many queries a second, whether the backend keeps up or not: 50,100. Or sweep: raise the "
            "rate to saturation, and mark the knee.",
            group=TIMING,
            metavar="LIST|sweep",
            commas=True,
            form="queries a second, such as 50,100, or sweep",
        ),
    ] = None
    cold: Annotated[
        bool,
        Option(
            help="Also time a pass on the index opened anew, its files out of the page cache.",
            group=TIMING,
            two_sided=True,
        ),
    ] = False
    clients: Annotated[
        str,
        Option(
            help="processes, or threads on one engine where its client releases the GIL.",
            group=TIMING,
            choices=tuple(ClientKind),
        ),
    ] = ClientKind.PROCESSES.value
    arrivals: Annotated[
        str,
        Option(help="Gaps between the queries of --rate.", group=TIMING, choices=("poisson", "constant")),
    ] = "poisson"
    churn: Annotated[
        str | None,
        Option(
            help="Also change an index of a part of the documents, step by step, and search it after each: "
            "insert=10%,delete=10%,update=10%,steps=5, shares of the documents that it begins with.",
            group=TIMING,
            metavar="WORKLOAD",
            commas=True,
            form="shares and steps, such as insert=10%,delete=10%,update=10%,steps=5",
        ),
    ] = None
    load_seconds: Annotated[
        float,
        Option(
            help="How long each level of --concurrency and --rate is held; the calls under way then are finished, and "
            "queries of an overloaded rate are asked for as long again.",
            group=TIMING,
            metavar="SECONDS",
            least=0,
            above=True,
            form=SECONDS_ABOVE_0,
        ),
    ] = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Options):
    """Where a result goes and how it is shown."""

    out: Annotated[
        Path | None,
        Option(
            common=True,
            help="Folder for the result.",
            group=OUTPUT,
            metavar="DIR",
            default_text="a new one under reports/",
        ),
    ] = None
    overwrite: Annotated[bool, Option(help="Replace an earlier result in --out.", group=OUTPUT)] = False
    format: Annotated[str, FORMAT] = "table"
    verbose: Verbose = False
    sort: Sort = None
    no_text: NoText = False

    @property
    def keep_text(self) -> bool:
        """True unless texts are left out of everything that is written."""
        return not self.no_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOutput(Output):
    """Where the result of ``harness compare`` goes and how it is shown."""

    save_runs: Annotated[
        str | None,
        Option(
            help="Also write every backend's hits into the result: TREC run files, or MTEB's TASK_predictions.json in "
            "a folder for each model.",
            group=OUTPUT,
            choices=("trec", "mteb"),
        ),
    ] = None
    save_baseline: Annotated[
        Path | None,
        Option(
            help="Write a baseline too, a small file for git that `harness regress` holds later runs against.",
            group=OUTPUT,
            metavar="FILE.json",
            keyword=False,
        ),
    ] = None
    dry_run: Annotated[
        bool, Option(help="Print what would run, and run nothing.", group=OUTPUT, recorded=False, keyword=False)
    ] = False


CheckedBackend = str | Callable[..., object]
CheckedBackends = CheckedBackend | Sequence[CheckedBackend] | Mapping[str, CheckedBackend]


GOLDEN = Option(
    help="Questions with the ids they expect: a .jsonl or .csv file, or a dataset that has a golden.jsonl.",
    metavar="GOLDEN",
    argument=True,
    form="a file, a dataset's name, a golden set, or the objects of its lines",
)
CORPUS = Option(
    help="The documents: a table, a folder of text files, or a dataset's name, folder or .zip. A name may stand "
    "before it: small=a.jsonl. By default the golden set's own dataset.",
    group=COMPARED,
    common=True,
    metavar="[NAME=]PLACE",
    repeated=True,
    form="a place, a Dataset, or a list of these",
)
CHECKED_BACKENDS = Option(
    help="Backends to index the documents and search them, as compare takes them: name, name:key=value;key=value.",
    group=COMPARED,
    common=True,
    metavar="LIST",
    commas=True,
    completes="backends",
    default_text="lucene,csr, and none with --against alone",
)
AGAINST = Option(
    help="What is there already, only read: python:MODULE:FUNCTION, http:url=…;ids=…, a retriever of LangChain, "
    "LlamaIndex, Haystack or PyTerrier as langchain:MODULE:RETRIEVER;id_key=FIELD, or an index as "
    "chroma:path=…;collection=…;model=….",
    group=COMPARED,
    common=True,
    metavar="[NAME=]BACKEND",
    repeated=True,
    form="an expression, a function (question, k), or a list or a mapping of these",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest(ScoringOptions):
    """What ``harness check`` asks and requires, as the user gives it.

    In Python ``golden`` may be a golden set itself, the objects of its lines, or a :class:`harness.Dataset`, whose
    judgments are expected; ``corpus`` may hold datasets; ``against`` may hold callables ``(question, k)``, which a
    mapping names.
    """

    golden: Annotated[
        str | Path | GoldenSet | Dataset | Sequence[Mapping[str, Any]],
        GOLDEN,
    ]
    corpus: Annotated[
        str | Path | Dataset | Sequence[str | Path | Dataset],
        CORPUS,
    ] = ()
    backends: Annotated[
        str | Sequence[str] | None,
        CHECKED_BACKENDS,
    ] = None
    against: Annotated[
        CheckedBackends,
        AGAINST,
    ] = ()
    columns: Columns = ()
    k: Depth = 5
    require: Annotated[
        Sequence[str],
        Option(
            help="What must hold: 'Hit@5>=0.9', 'p95_ms<=50', 'parity>=1', or of a slice 'lang=de: MRR@5>=0.7'.",
            group=MEASURED,
            common=True,
            metavar="REQUIREMENT",
            repeated=True,
        ),
    ] = ()
    metrics: Annotated[str | Sequence[str], replace(METRICS, default_text="Hit, MRR, Recall and nDCG at k")] = ()
    match: Annotated[
        str,
        Option(
            help="exact: expected ids are those of the corpus. document, prefix: the corpus holds chunks of them.",
            group=MEASURED,
            choices=MATCH_RULES,
        ),
    ] = "exact"
    delimiter: Annotated[
        str | None,
        Option(
            help="What stands between a document's id and its chunk's, for --match.", group=MEASURED, metavar="TEXT"
        ),
    ] = None
    slice: Annotated[
        Sequence[str],
        Option(
            help="A field of the golden set: one row of figures for each of its values.",
            group=MEASURED,
            metavar="FIELD",
            repeated=True,
        ),
    ] = ()
    ties: Annotated[str, TIES] = "engine"
    confidence: Annotated[
        bool,
        Option(
            help="Let the bound of the 95 % interval decide requirements, not the point estimate.", group=STATISTICS
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedOutput(Output):
    """Where a verdict goes and how it is shown, in continuous integration too."""

    junit: Annotated[
        Path | None,
        Option(
            help="Also write JUnit XML: one case for each thing that is judged.",
            group=OUTPUT,
            metavar="FILE",
            recorded=False,
            keyword=False,
        ),
    ] = None
    summary: Annotated[
        Path | None,
        Option(
            help="Also append Markdown to this file.",
            group=OUTPUT,
            metavar="FILE",
            default_text="the one that GITHUB_STEP_SUMMARY names, if any",
            recorded=False,
            keyword=False,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutput(JudgedOutput):
    """Where the verdict of ``harness check`` goes."""

    junit_per_query: Annotated[
        bool,
        Option(
            help="Also one case for each question and backend in --junit.",
            group=OUTPUT,
            recorded=False,
            keyword=False,
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest(Options):
    """What ``harness verify`` runs."""

    datasets: Annotated[
        Sequence[str],
        Option(
            argument=True,
            help="Names of datasets, members of families, or families; what is not on this machine is downloaded.",
            metavar="DATASET",
            repeated=True,
            completes="dataset",
        ),
    ] = ()
    all: Annotated[
        bool,
        Option(
            help="Every dataset with published configurations; those that are not here are listed, not downloaded.",
            group=COMPARED,
        ),
    ] = False
    available: Annotated[bool, Option(help="Every such dataset that is on this machine.", group=COMPARED)] = False
    data: Annotated[
        str | Path | Sequence[str | Path],
        Option(
            help="A folder in which datasets lie under their names: DIR/scifact is beir/scifact.",
            group=COMPARED,
            metavar="DIR",
            repeated=True,
        ),
    ] = ()
    cards: Cards = None
    explain: Annotated[bool, Option(help="Find the single changes that give a missed number.", group=STATISTICS)] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOutput(Options):
    """How the result of ``harness verify`` is shown."""

    format: Annotated[str, FORMAT] = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(Options):
    """How ``harness.evaluate`` and ``harness eval`` score a run."""

    relevance: Relevance = 1
    ties: Annotated[str | None, replace(TIES, default_text="trec_eval")] = None
    queries: Annotated[
        str | None,
        Option(
            help="Queries that means are taken over.",
            group=MEASURED,
            choices=QUERY_RULES,
            default_text="relevant, and answered with --format trec_eval",
        ),
    ] = None
    identical_ids: IdenticalIds = "auto"
    labels: Labels = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRequest(ScoreOptions):
    """What ``harness eval`` scores and prints."""

    qrels: Annotated[
        Path,
        Option(
            help="Judgments: TREC or BEIR layout, JSON or Parquet; plain or gzip.",
            group=COMPARED,
            common=True,
            metavar="FILE",
        ),
    ]
    run: Annotated[
        Sequence[str | Path],
        Option(
            help="A run: TREC layout, JSON (MTEB's predictions too: FILE#subset/split), or Parquet.",
            group=COMPARED,
            common=True,
            metavar="FILE",
            repeated=True,
        ),
    ]
    metrics: Annotated[
        str | None,
        replace(METRICS, default_text=f"{EVAL_METRICS}, and trec_eval's official ones with --format trec_eval"),
    ] = None
    trec_eval: Annotated[
        bool, Option(help="trec_eval's own choice: --queries answered --ties trec_eval.", group=MEASURED)
    ] = False
    audit: Annotated[
        bool,
        Option(
            help="Score one run as trec_eval, Anserini, BEIR, MTEB, sentence-transformers and ranx do, and say why the "
            f"values differ. Default metrics: {AUDIT_METRICS}.",
            group=MEASURED,
        ),
    ] = False
    published: Annotated[
        str | None,
        Option(
            help="With --audit: a number from a paper, as printed (0.397, or nDCG@10=39.7). Names what gives it.",
            group=MEASURED,
            metavar="VALUE",
        ),
    ] = None
    per_query: Annotated[bool, Option(help="Every query's values too.", group=OUTPUT, common=True, flags=("-q",))] = (
        False
    )
    format: Annotated[str, replace(FORMAT, choices=(*FORMATS, "trec_eval"))] = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions(Options):
    """How two results are judged: the options that regress and diff share."""

    max_drop: MaxDrop = None
    margin: Annotated[
        float,
        Option(help="Differences within ± this much count as the same.", group=GATE, metavar="DIFFERENCE", least=0),
    ] = 0.01
    test: Annotated[str, Option(help="Paired test.", group=GATE, choices=PAIRED_TESTS)] = "randomisation"
    pair: Annotated[
        Sequence[str],
        Option(
            help="Labels of a backend before and after, where names do not tell: 'lucene->qdrant'.",
            group=GATE,
            metavar="BEFORE->AFTER",
            repeated=True,
        ),
    ] = ()
    labels: Labels = None
    dossier: Annotated[
        int,
        Option(
            help="Queries of each backend that are told in full, the most changed first.",
            group=OUTPUT,
            metavar="N",
            least=0,
        ),
    ] = 50
    dossier_depth: Annotated[
        int, Option(help="Documents of each ranking that --dossier tells of.", group=OUTPUT, metavar="N", least=1)
    ] = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressRequest(GateOptions):
    """What ``harness regress`` runs again, and how it judges; :func:`rerun_fields` are further changes of the plan."""

    baseline: Annotated[
        Path,
        Option(
            help="What --save-baseline wrote, or a result folder.",
            group=COMPARED,
            common=True,
            metavar="FILE.json|DIR",
        ),
    ]
    set: Annotated[
        Sequence[str],
        Option(
            help="Change parameters of a backend of the plan: lucene:k1=3;b=0.95, or '*:model=…' for all that have it.",
            group=COMPARED,
            common=True,
            metavar="NAME:KEY=VALUE;…",
            repeated=True,
        ),
    ] = ()
    backends: Annotated[
        str | Sequence[str] | None,
        Option(
            help="Other backends in the plan's place.",
            group=COMPARED,
            common=True,
            metavar="LIST",
            commas=True,
            completes="backends",
        ),
    ] = None
    dataset: Annotated[
        str | None,
        Option(
            help="Another state or place of the dataset.",
            group=COMPARED,
            common=True,
            metavar="LIST",
            commas=True,
            repeated=True,
            completes="dataset",
        ),
    ] = None
    max_drop: MaxDrop = 0.0


def rerun_fields() -> dict[str, OptionField]:
    """Return the options of compare that ``harness regress`` takes too; the baseline decides those left out."""
    compared = option_fields(CompareRequest)
    return {
        name: replace(compared[name], default=None, option=replace(compared[name].option, default_text=""))
        for name in ("rebuilds", *option_fields(RunOptions))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest(GateOptions):
    """Which results ``harness diff`` compares, and how it judges."""

    before: Annotated[
        Path,
        Option(
            help="A result folder of compare or check, or a baseline file.",
            metavar="BEFORE",
            argument=True,
        ),
    ]
    after: Annotated[Path, Option(help="The same, of later.", metavar="AFTER", argument=True)]
    cards: Cards = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest(Options):
    """Which stored result ``harness report`` prints, and how."""

    folder: Annotated[
        Path | None,
        Option(
            help="A result folder of harness, its report.json, or its regression.json.",
            metavar="DIR|FILE",
            argument=True,
        ),
    ] = None
    format: Annotated[str, replace(FORMAT, choices=(*FORMATS, "html"))] = "table"
    verbose: Verbose = False
    sort: Sort = None
    schema: Annotated[bool, Option(help="Describe every field of report.json, and exit.", group=OUTPUT)] = False
    no_text: NoText = False
    cards: Cards = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest(Options):
    """What the ``harness.toml`` that ``harness init`` writes names."""

    golden: Annotated[str | None, replace(GOLDEN, argument=False, group=COMPARED, common=True, metavar="FILE")] = None
    corpus: Annotated[str | None, replace(CORPUS, repeated=False)] = None
    backends: Annotated[str, replace(CHECKED_BACKENDS, default_text="")] = "csr"
    against: Annotated[Sequence[str], AGAINST] = ()
    dataset: Annotated[
        str | None,
        Option(
            help="A dataset's name, folder or .zip, for `harness compare`, and for `check` if it has a golden set.",
            group=COMPARED,
            metavar="NAME|PATH",
            completes="dataset",
        ),
    ] = None
    force: Annotated[bool, Option(help="Replace a harness.toml that is there.", group=OUTPUT)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorRequest(Options):
    """Which servers ``harness doctor`` looks at, and how it answers."""

    url: Annotated[
        str,
        Option(help="A Qdrant server to look at.", group=SERVERS, metavar="URL", default_text="HARNESS_QDRANT_URL"),
    ] = ""
    chroma_url: Annotated[
        str,
        Option(help="A Chroma server to look at.", group=SERVERS, metavar="URL", default_text="HARNESS_CHROMA_URL"),
    ] = ""
    opensearch_url: Annotated[
        str,
        Option(
            help="An OpenSearch server to look at.",
            group=SERVERS,
            metavar="URL",
            default_text="HARNESS_OPENSEARCH_URL",
        ),
    ] = ""
    elasticsearch_url: Annotated[
        str,
        Option(
            help="An Elasticsearch server to look at.",
            group=SERVERS,
            metavar="URL",
            default_text="HARNESS_ELASTICSEARCH_URL",
        ),
    ] = ""
    milvus_url: Annotated[
        str,
        Option(help="A Milvus server to look at.", group=SERVERS, metavar="URL", default_text="HARNESS_MILVUS_URL"),
    ] = ""
    weaviate_url: Annotated[
        str,
        Option(help="A Weaviate server to look at.", group=SERVERS, metavar="URL", default_text="HARNESS_WEAVIATE_URL"),
    ] = ""
    remove_left_collections: Annotated[
        bool,
        Option(
            help="Only remove what killed comparisons left on the servers; asks first, after naming each.",
            group=SERVERS,
        ),
    ] = False
    yes: Annotated[bool, replace(YES, group=SERVERS)] = False
    format: ListingFormat = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest(Options):
    """Which cards are listed, and how they are printed."""

    cards: Annotated[Path | None, replace(CARDS, group=SELECTION)] = None
    format: ListingFormat = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendsRequest(ListRequest):
    """What ``harness backends`` shows."""

    format: Annotated[str, replace(FORMAT, choices=("table", "markdown", "json"))] = "table"
    backend: Annotated[
        str | None,
        Option(argument=True, help="Show this one with its parameters.", metavar="BACKEND", completes="backends"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest(ListRequest):
    """What ``harness datasets search`` looks for."""

    words: Annotated[
        Sequence[str], Option(argument=True, help="Words that all have to occur.", metavar="WORD", repeated=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRequest(ListRequest):
    """Which dataset one of the verbs below ``harness datasets`` is about."""

    dataset: Annotated[
        str,
        Option(
            argument=True,
            help="A card, FAMILY/MEMBER, or a loader's own name, as irds:beir/scifact.",
            metavar="DATASET",
            completes="dataset",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoRequest(DatasetRequest):
    """What ``harness datasets info`` shows."""

    published: Annotated[bool, Option(help="Show all published results, not the first 10.", group=OUTPUT)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest(DatasetRequest):
    """What ``harness datasets fetch`` downloads."""

    split: Annotated[str | None, replace(SPLIT, group=SELECTION)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRequest(DatasetRequest):
    """What ``harness datasets remove`` deletes."""

    yes: Annotated[bool, YES] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRequest(Options):
    """Which entries ``harness cache list`` and ``verify`` are about."""

    kind: CacheKind = None
    format: ListingFormat = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRemoveRequest(Options):
    """Which entries ``harness cache remove`` deletes."""

    entries: Annotated[
        Sequence[str],
        Option(argument=True, help="Entries, by the first digits of their names.", metavar="ENTRY", repeated=True),
    ] = ()
    kind: CacheKind = None
    older_than: Annotated[
        str | None, Option(help="Only what is older than this: 45m, 12h, 30d, 8w.", group=SELECTION, metavar="AGE")
    ] = None
    all: Annotated[bool, Option(help="Every entry.", group=SELECTION)] = False
    yes: Annotated[bool, YES] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpRequest(Options):
    """Which servers ``harness up`` starts."""

    services: Annotated[
        Sequence[str],
        Option(
            help="qdrant, chroma, opensearch, milvus, postgresql: all by default; qdrant-cluster for two peers.",
            metavar="SERVICE",
            argument=True,
            repeated=True,
        ),
    ] = ()
    timeout: Annotated[
        int,
        Option(help="How long to wait until they are healthy.", group=SERVERS, metavar="SECONDS", least=1),
    ] = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class DownRequest(Options):
    """What ``harness down`` removes."""

    volumes: Annotated[bool, Option(help="Remove what the servers stored, too.", group=SERVERS)] = False
