"""Arguments to trials: a pure function, so that ``--dry-run`` shows exactly what would run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypedDict, TypeVar

import orjson

from harness.analysis import analyzer_names
from harness.errors import UnknownNameError, UsageError
from harness.metrics import Measure, QuerySet, parse_measures, require_closed_form
from harness.protocols import ParameterValue
from harness.ranking import TieRule
from harness.registry import BackendSpec, parse_backends

__all__ = ["DEFAULT_MEASURES", "CompareRequest", "Plan", "Trial", "make_plan"]

DEFAULT_MEASURES = ("nDCG@10", "AP", "R@100", "RR@10")
KEY_VERSION = 1
_KEY_LENGTH = 12
Choice = TypeVar("Choice", bound=StrEnum)
Resolved = TypeVar("Resolved")


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """The arguments of ``harness compare``, as given. See ``docs/reference/cli.md`` for each."""

    backends: str | Sequence[str]
    dataset: str = "cacm"
    split: str | None = None
    k: int = 1000
    metrics: str | Sequence[str] = DEFAULT_MEASURES
    ties: str = TieRule.TREC_EVAL.value
    queries: str = QuerySet.RELEVANT.value
    relevance: int = 1
    sample_queries: int | None = None
    seed: int = 42
    threads: int = 1
    repeat: int = 1
    deadline_s: float | None = None
    cards: Path | None = None


class CompareOptions(TypedDict, total=False):
    """The optional fields of :class:`CompareRequest`, for callers in Python."""

    split: str | None
    k: int
    metrics: str | Sequence[str]
    ties: str
    queries: str
    relevance: int
    sample_queries: int | None
    seed: int
    threads: int
    repeat: int
    deadline_s: float | None
    cards: Path | None


@dataclass(frozen=True, slots=True)
class Trial:
    """One backend on one dataset. ``analyzer`` is the resolved name; ``encoder`` names what makes its vectors."""

    spec: BackendSpec
    parameters: Mapping[str, ParameterValue]
    analyzer: str | None
    key: str

    @property
    def label(self) -> str:
        """The name shown in reports, unique within a plan."""
        return self.spec.label


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a comparison will do."""

    request: CompareRequest
    trials: tuple[Trial, ...]
    measures: tuple[Measure, ...]
    ties: TieRule
    queries: QuerySet
    notes: tuple[str, ...] = field(default=())

    @property
    def dataset_name(self) -> str:
        """The card's name, or the last part of the path without its suffix: for names of folders."""
        return Path(self.request.dataset).name.removesuffix(".zip") or "dataset"

    def command(self) -> list[str]:
        """The command line that runs this plan again."""
        words = ["harness", "compare", "--backends", ",".join(trial.spec.label for trial in self.trials)]
        for option, value in self.given().items():
            if option == "backends" or value is None:
                continue
            text = ",".join(value) if isinstance(value, list) else str(value)
            words += [f"--{option.replace('_', '-')}", text]
        return words

    def given(self) -> dict[str, str | int | float | list[str] | None]:
        """The request as flat values for the report."""
        request = self.request
        return {
            "backends": request.backends if isinstance(request.backends, str) else list(request.backends),
            "dataset": request.dataset,
            "split": request.split,
            "k": request.k,
            "metrics": request.metrics if isinstance(request.metrics, str) else list(request.metrics),
            "ties": request.ties,
            "queries": request.queries,
            "relevance": request.relevance,
            "sample_queries": request.sample_queries,
            "seed": request.seed,
            "threads": request.threads,
            "repeat": request.repeat,
            "deadline": request.deadline_s,
            "cards": str(request.cards) if request.cards is not None else None,
        }


def make_plan(request: CompareRequest, *, lucene_available: bool) -> Plan:
    """Resolve every name and number; all mistakes are reported together, before anything runs.

    ``lucene_available`` decides the default analyzer: Lucene's English one when it can run here, else Snowball's.
    Raises UsageError, or UnknownNameError when one unknown name is all that is wrong.
    """
    mistakes = _Mistakes()
    _check_numbers(request, mistakes)
    ties = mistakes.catch(lambda: _choice(TieRule, request.ties, "--ties"))
    queries = mistakes.catch(lambda: _choice(QuerySet, request.queries, "--queries"))
    measures = mistakes.catch(lambda: parse_measures(request.metrics))
    specs = mistakes.catch(lambda: parse_backends(request.backends, cards=request.cards))
    if measures is not None and ties is not None:
        mistakes.catch(lambda: require_closed_form(measures, ties))
    default_analyzer = "lucene-english" if lucene_available else "snowball-english"
    trials = tuple(_trial(spec, request, default_analyzer) for spec in specs or ())
    for name in sorted({trial.analyzer for trial in trials if trial.analyzer is not None} - set(analyzer_names())):
        mistakes.add(UnknownNameError("analyzer", name, analyzer_names()))
    mistakes.raise_if_any()
    if measures is None or ties is None or queries is None:
        raise AssertionError("a mistake was not reported")
    return Plan(request, trials, tuple(measures), ties, queries, _notes(trials))


class _Mistakes:
    """What is wrong with a request, gathered so that the user hears all of it at once."""

    def __init__(self) -> None:
        self._found: list[UsageError] = []

    def add(self, error: UsageError) -> None:
        self._found.append(error)

    def catch(self, resolve: Callable[[], Resolved]) -> Resolved | None:
        try:
            return resolve()
        except UsageError as error:
            self.add(error)
            return None

    def raise_if_any(self) -> None:
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise UsageError("\n".join(str(error) for error in self._found))


def _check_numbers(request: CompareRequest, mistakes: _Mistakes) -> None:
    at_least_one = {
        "--k": request.k,
        "--repeat": request.repeat,
        "--threads": request.threads,
        "--relevance": request.relevance,
        "--sample-queries": 1 if request.sample_queries is None else request.sample_queries,
    }
    wrong = [f"{name} is {value}" for name, value in at_least_one.items() if value < 1]
    if wrong:
        mistakes.add(UsageError("; ".join(wrong), fix="each must be at least 1"))
    if request.seed < 0:
        mistakes.add(UsageError(f"--seed is {request.seed}", fix="it must be 0 or more"))
    if request.deadline_s is not None and not request.deadline_s > 0:
        mistakes.add(UsageError(f"--deadline is {request.deadline_s:g}", fix="it must be above 0 seconds"))


def _choice(kind: type[Choice], value: str, option: str) -> Choice:
    names = [member.value for member in kind]
    if value not in names:
        raise UsageError(f"{option} {value}: no such choice", fix=f"known: {', '.join(names)}")
    return kind(value)


def _trial(spec: BackendSpec, request: CompareRequest, default_analyzer: str) -> Trial:
    parameters = dict(spec.parameters)
    if parameters.get("analyzer") == "":
        parameters["analyzer"] = default_analyzer
    if "threads" in parameters and "threads" not in spec.given:
        parameters["threads"] = request.threads
    analyzer = parameters.get("analyzer")
    identity = {
        "scheme": KEY_VERSION,
        "backend": spec.name,
        "engine": spec.card.engine if spec.card is not None else "run",
        "run": str(spec.run_path) if spec.run_path is not None else None,
        "parameters": {name: value for name, value in parameters.items() if name != "threads"},
        "dataset": request.dataset,
        "split": request.split,
        "k": request.k,
        "sample_queries": request.sample_queries,
        "seed": request.seed if request.sample_queries is not None else None,
    }
    digest = hashlib.sha256(orjson.dumps(identity, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Trial(spec, parameters, str(analyzer) if analyzer is not None else None, digest[:_KEY_LENGTH])


def _notes(trials: Sequence[Trial]) -> tuple[str, ...]:
    analyzers = sorted({trial.analyzer for trial in trials if trial.analyzer is not None})
    if len(analyzers) < 2:
        return ()
    listed = ", ".join(f"{trial.label} {trial.analyzer}" for trial in trials if trial.analyzer is not None)
    return (f"the analyzers differ ({listed}): differences between these backends are not the engines' alone",)
