"""The arguments of a comparison, as the user gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

from harness.data.columns import parse_columns
from harness.data.dataset import DatasetFiles
from harness.data.ranking import TieRule
from harness.errors import UsageError
from harness.metrics import QuerySet
from harness.plan.options import ARRIVALS, ClientKind, Isolation, unwrap_numbers

__all__ = ["DEFAULT_MEASURES", "CompareOptions", "CompareRequest", "Output", "Resume"]

_QUERY_RULES = frozenset(rule.value for rule in QuerySet)
DEFAULT_MEASURES = ("nDCG@10", "AP", "R@100", "RR@10")


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


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """The arguments of ``harness compare``, as given. See ``docs/reference/cli.md`` for each.

    ``queries`` is a rule of counting, a file of queries, or both in a list.
    """

    backends: str | Sequence[str]
    dataset: str = "cacm"
    split: str | None = None
    qrels: str | Path | None = None
    columns: str | Sequence[str] | Mapping[str, str] = ()
    identical_ids: str = "auto"
    max_docs: int | None = None
    k: int = 1000
    metrics: str | Sequence[str] = DEFAULT_MEASURES
    ties: str = TieRule.TREC_EVAL.value
    queries: str | Sequence[str] = QuerySet.RELEVANT.value
    relevance: int = 1
    sample_queries: int | None = None
    seed: int = 42
    threads: int = 1
    repeat: int = 1
    warm_up: float | None = None
    rebuilds: int = 1
    cold: bool = False
    concurrency: str | int | Sequence[int] | None = None
    clients: str = ClientKind.PROCESSES.value
    rate: str | float | Sequence[float] | None = None
    arrivals: str = ARRIVALS[0]
    load_seconds: float = 5.0
    timing: bool = True
    jobs: int = 1
    isolation: str = Isolation.PROCESS.value
    deadline_s: float | None = None
    memory_limit: int | str | None = None
    max_calls: int | None = None
    verify_cache: str | float | None = None
    resume: str = "never"
    cards: Path | None = None
    sweep: str | Sequence[str] = ()
    filter: str | Sequence[str] = ()
    labels: str | Path | None = None
    reference: str | None = None
    all_pairs: bool = False

    def __post_init__(self) -> None:
        unwrap_numbers(self)

    @property
    def sweeps(self) -> tuple[str, ...]:
        """Every sweep, each an expression of its own."""
        return (self.sweep,) if isinstance(self.sweep, str) else tuple(self.sweep)

    @property
    def query_rule(self) -> str:
        """The queries that means are taken over; the default if only a file is named. Raises UsageError for two."""
        rules = [name for name in self._queries if name in _QUERY_RULES]
        if len(rules) > 1:
            raise UsageError(f"--queries names two rules, '{rules[0]}' and '{rules[1]}'", fix="keep one")
        return rules[0] if rules else QuerySet.RELEVANT.value

    @property
    def files(self) -> DatasetFiles:
        """Files of the dataset's parts and names of their fields; raises UsageError."""
        files = [name for name in self._queries if name not in _QUERY_RULES]
        if len(files) > 1:
            raise UsageError(f"--queries names two files, '{files[0]}' and '{files[1]}'", fix="keep one")
        if files and not Path(files[0]).is_file():
            known = ", ".join(sorted(_QUERY_RULES))
            raise UsageError(f"--queries {files[0]}: no such rule, and no such file", fix=f"rules: {known}; or a file")
        return DatasetFiles(
            Path(files[0]) if files else None,
            Path(self.qrels) if self.qrels is not None else None,
            parse_columns(self.columns),
        )

    @property
    def _queries(self) -> tuple[str, ...]:
        return (self.queries,) if isinstance(self.queries, str) else tuple(self.queries)

    @property
    def filters(self) -> tuple[str, ...]:
        """Every condition of the filter, ``field=value``."""
        return (self.filter,) if isinstance(self.filter, str) else tuple(self.filter)


@dataclass(frozen=True, slots=True)
class Output:
    """Where a result goes and how it is shown."""

    out: Path | None = None
    overwrite: bool = False
    keep_text: bool = True
    format_name: str = "table"
    save_baseline: Path | None = None

    def arguments(self) -> list[str]:
        """Return the command line's arguments; none for defaults."""
        paths = {"--out": self.out, "--save-baseline": self.save_baseline}
        words = [word for option, path in paths.items() if path is not None for word in (option, str(path))]
        words += ["--overwrite"] if self.overwrite else []
        words += ["--format", self.format_name] if self.format_name != "table" else []
        return words if self.keep_text else [*words, "--no-text"]

    def keywords(self) -> dict[str, object]:
        """Return the arguments of a call in Python, which prints what it likes; none for defaults."""
        values = {"out": self.out, "overwrite": self.overwrite or None, "keep_text": None if self.keep_text else False}
        return {name: value for name, value in values.items() if value is not None}


class CompareOptions(TypedDict, total=False):
    """The optional fields of :class:`CompareRequest`, for callers in Python."""

    sweep: str | Sequence[str]
    filter: str | Sequence[str]
    labels: str | Path | None
    reference: str | None
    all_pairs: bool
    split: str | None
    qrels: str | Path | None
    columns: str | Sequence[str] | Mapping[str, str]
    identical_ids: str
    max_docs: int | None
    k: int
    metrics: str | Sequence[str]
    ties: str
    queries: str | Sequence[str]
    relevance: int
    sample_queries: int | None
    seed: int
    threads: int
    repeat: int
    warm_up: float | None
    rebuilds: int
    cold: bool
    concurrency: str | int | Sequence[int] | None
    clients: str
    rate: str | float | Sequence[float] | None
    arrivals: str
    load_seconds: float
    timing: bool
    jobs: int
    isolation: str
    deadline_s: float | None
    memory_limit: int | str | None
    max_calls: int | None
    verify_cache: str | float | None
    resume: str
    cards: Path | None
