"""The arguments of a check, as they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from harness.data.ranking import TieRule
from harness.pipeline.check.id_match import MatchRule
from harness.plan.config import Isolation

if TYPE_CHECKING:
    from harness.data.dataset import Dataset
    from harness.data.golden_set import GoldenSet

__all__ = ["DEFAULT_BACKENDS", "CheckOptions", "CheckRequest", "default_metrics"]


_One = str | Callable[..., object]
Retrievers = _One | Sequence[_One] | Mapping[str, _One]
DEFAULT_BACKENDS = "lucene,csr"


def default_metrics(k: int) -> tuple[str, ...]:
    """What is measured when nothing else is said."""
    return (f"Hit@{k}", f"MRR@{k}", f"Recall@{k}", f"nDCG@{k}")


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The arguments of ``harness check``, as given. See ``docs/reference/cli.md`` for each.

    ``golden`` is a file, a dataset's name or folder, or in Python a golden set itself, the objects of its lines, or a
    :class:`harness.Dataset`, whose judgments are expected. ``corpus`` is one place or dataset or several, each perhaps
    as ``name=place``; a golden set of a dataset brings its own. ``columns`` names fields of the documents.
    ``against`` are retrievers that are there already: expressions, or in Python callables ``(question, k)``; a mapping
    names them. With them
    and neither ``corpus`` nor ``backends``, nothing else is searched; ``backends`` are Lucene and csr where none are
    named.
    """

    golden: str | Path | GoldenSet | Dataset | Sequence[Mapping[str, Any]]
    corpus: str | Path | Dataset | Sequence[str | Path | Dataset] = ()
    columns: str | Sequence[str] | Mapping[str, str] = ()
    backends: str | Sequence[str] | None = None
    against: Retrievers = ()
    k: int = 5
    require: str | Sequence[str] = ()
    metrics: str | Sequence[str] = ()
    identical_ids: str = "auto"
    match: str = MatchRule.EXACT.value
    delimiter: str | None = None
    slice: str | Sequence[str] = ()
    confidence: bool = False
    ties: str = TieRule.ENGINE.value
    relevance: int = 1
    seed: int = 42
    threads: int = 1
    repeat: int = 1
    warm_up: float | None = None
    timing: bool = True
    jobs: int = 1
    isolation: str = Isolation.PROCESS.value
    deadline_s: float | None = None
    memory_limit: int | str | None = None
    max_calls: int | None = None
    resume: str = "never"
    cards: Path | None = None
    keep_text: bool = True


class CheckOptions(TypedDict, total=False):
    """The optional fields of :class:`CheckRequest`, for callers in Python."""

    corpus: str | Path | Dataset | Sequence[str | Path | Dataset]
    columns: str | Sequence[str] | Mapping[str, str]
    backends: str | Sequence[str] | None
    against: Retrievers
    k: int
    require: str | Sequence[str]
    metrics: str | Sequence[str]
    identical_ids: str
    match: str
    delimiter: str | None
    slice: str | Sequence[str]
    confidence: bool
    ties: str
    relevance: int
    seed: int
    threads: int
    repeat: int
    warm_up: float | None
    timing: bool
    jobs: int
    isolation: str
    deadline_s: float | None
    memory_limit: int | str | None
    max_calls: int | None
    resume: str
    cards: Path | None
    keep_text: bool
