"""The result of ``harness.explain``: why documents have their ranks in each backend, for one query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from harness.engines.interface import ScoreTree
from harness.results.presenters import presenter

if TYPE_CHECKING:
    import pandas as pd

_MOST_TERMS = 10
Kind = Literal["terms", "vectors", "fusion", "second stage", "hits"]


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of the query or of a document as ``written``, and its ``terms``: none if the analyzer dropped it."""

    written: str
    terms: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether the analyzer dropped the word, or made another term of it; folding capitals is no change."""
        return self.terms != (self.written.lower(),)


@dataclass(frozen=True, slots=True)
class TermContribution:
    """What one term of the query adds to a document's score.

    ``written`` are the words of the query that became the term. ``weight`` is its value in the query, ``tf`` its value
    in the document (a count, or a learned weight), None if the document lacks it. ``documents`` (N), ``df`` and ``idf``
    are those with which this document is scored: of its shard, if there are several.
    """

    term: str
    written: tuple[str, ...]
    weight: float
    tf: float | None
    df: int
    documents: int
    idf: float | None
    contribution: float


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A document near another one, by the similarity of their vectors."""

    document: str
    similarity: float


@dataclass(frozen=True, slots=True)
class VectorScore:
    """How a document's vector is scored.

    ``norm`` is its length. ``missed`` says that the index did not return the document though its exact rank is within
    the hits; ``instead`` are the hits returned in place of such documents. ``quantised`` is the score by the vectors
    that the index compares, None if these are exact. ``neighbours`` are the nearest documents, for documents that the
    caller named.
    """

    norm: float
    missed: bool
    instead: tuple[str, ...] = ()
    quantised: float | None = None
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True)
class ListScore:
    """A document in a list that a fusion or a second stage takes: its rank and score there.

    ``contribution`` is the list's part of the fused score, None for a second stage. All are None if the list lacks the
    document.
    """

    name: str
    rank: int | None
    score: float | None
    contribution: float | None = None


@dataclass(frozen=True, slots=True)
class EngineNumber:
    """A number of an engine's own explanation beside the reference's, ``exact``; None if that side does not have it.

    ``name`` is Lucene's: ``n`` (df), ``N``, ``freq``, ``dl``, ``avgdl``, ``k1``, ``b``, ``idf``, ``tf``, ``boost``,
    ``contribution``; or ``score``, without a term. Two that both sides have are compared as float32, counts exactly.
    """

    term: str
    name: str
    exact: float | None
    engine: float | None
    differs: bool


@dataclass(frozen=True, slots=True)
class EngineExplanation:
    """An engine's own explanation of a document's score.

    ``numbers`` are in the order in which they are compared: the numbers of one term after the other, statistics first,
    and the score last. They are empty if ``note`` says why the tree is not compared.
    """

    tree: ScoreTree | None
    numbers: tuple[EngineNumber, ...] = ()
    first_difference: EngineNumber | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class DocumentScore:
    """Why a document has its rank in one backend.

    ``rank`` and ``score`` are the engine's, None if it did not return the document; ``exact_rank`` and ``exact_score``
    the reference's, at any depth. ``absence`` says why it cannot be a hit, empty if it can. ``length`` is counted in
    terms, ``stored_length`` is the length with which it is scored. ``terms`` and ``of_all_documents`` add up to
    ``exact_score``. ``tokens`` and ``cut`` count the tokens of its text and those that a model did not read, None if
    unknown. ``finding`` is a sentence on a document that is expected, or not among the best: its rank at any depth, and
    the terms of the query that it lacks. ``respelled`` are words of the query that it lacks because its own are written
    in another Unicode normalisation. ``engine`` is the engine's own explanation, None unless requested.
    """

    document: str
    rank: int | None
    score: float | None
    exact_rank: int | None
    exact_score: float | None
    absence: str = ""
    length: int | None = None
    stored_length: int | None = None
    terms: tuple[TermContribution, ...] = ()
    of_all_documents: float = 0.0
    tokens: int | None = None
    cut: int | None = None
    vector: VectorScore | None = None
    lists: tuple[ListScore, ...] = ()
    finding: str = ""
    engine: EngineExplanation | None = None
    respelled: tuple[str, ...] = ()

    @property
    def missing_terms(self) -> tuple[str, ...]:
        """The terms of the query that the document lacks, the weightiest first."""
        missing = sorted(
            (part for part in self.terms if part.tf is None), key=lambda part: -part.weight * (part.idf or 1)
        )
        return tuple(dict.fromkeys(part.term for part in missing))


def document_finding(score: DocumentScore, k: int, *, expected: bool) -> str:
    """Return a sentence on a document that is expected or not among a backend's best ``k``; else empty."""
    subject, missing = "expected document" if expected else "document", list_terms(score.missing_terms)
    if score.rank is not None and score.rank <= k:
        return subject if expected else ""
    if score.rank is None and (score.absence or score.exact_rank is None):
        reason = score.absence.removeprefix("no hit: ") or "not returned"
        return f"{subject}: {reason}" if expected else score.absence
    exact = "" if score.rank is not None else " of the exact ranking"
    return f"{subject} at rank {score.rank or score.exact_rank:,}{exact}{'; it lacks ' if missing else ''}{missing}"


def list_terms(terms: Sequence[str]) -> str:
    """Return terms in words: ``fuse, panel and wire``; of many the first, and how many more there are."""
    if len(terms) > _MOST_TERMS:
        terms = [*terms[:_MOST_TERMS], f"{len(terms) - _MOST_TERMS:,} more"]
    return f"{', '.join(terms[:-1])} and {terms[-1]}" if len(terms) > 1 else "".join(terms)


@dataclass(frozen=True, slots=True)
class Amount:
    """A part of a difference between two scores. ``before`` and ``after`` describe a part of a formula, else empty."""

    name: str
    amount: float
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class DocumentDifference:
    """Why a backend scores one document ``difference`` above another: by term, and by length."""

    above: str
    below: str
    difference: float
    amounts: tuple[Amount, ...]


@dataclass(frozen=True, slots=True)
class BackendDifference:
    """Why two backends give a document different scores: ``second`` minus ``first``, step by step of their formulas.

    ``words`` are words of the document that their analyzers treat differently, if the query is affected: each with its
    terms in the first and in the second backend.
    """

    document: str
    first: str
    second: str
    difference: float
    amounts: tuple[Amount, ...]
    words: tuple[tuple[QueryWord, QueryWord], ...] = ()


@dataclass(frozen=True, slots=True)
class BackendExplanation:
    """Why one backend ranks the documents as it does.

    ``facts`` are what its scores are made of: analyzer, k1, b, avgdl, prompt. ``words`` are the query's, as its
    analyzer takes them. ``cause`` is the proven cause of the engine's difference from its reference for this query.
    """

    label: str
    kind: Kind
    documents: tuple[DocumentScore, ...]
    facts: Mapping[str, str | float | int | None] = field(default_factory=dict)
    words: tuple[QueryWord, ...] = ()
    differences: tuple[DocumentDifference, ...] = ()
    cause: str | None = None
    note: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why documents are ranked where they are, in every backend, for one query.

    ``documents`` are the ids in the order of the backends' best; ``chosen`` says that the caller named them.
    ``expected`` are the grades of the documents that judgments or a golden set expect for the query, by id.
    """

    dataset: str
    query_id: str
    query: str
    k: int
    documents: tuple[str, ...]
    chosen: bool
    backends: tuple[BackendExplanation, ...]
    differences: tuple[BackendDifference, ...] = ()
    expected: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> list[str]:
        """Labels of the backends that failed, and have no hits to explain."""
        return [backend.label for backend in self.backends if backend.failed]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as ``--format json`` prints it."""
        return asdict(self)

    def render(self, format: str = "table", *, verbose: bool = False) -> str:  # noqa: A002 - the name of the command line's option
        """Return the explanation as ``table``, ``markdown`` or ``json``; ``verbose`` adds every document's terms."""
        return presenter().explanation(self, format, verbose=verbose)

    def __str__(self) -> str:
        return self.render()

    def _documents(self) -> Iterator[tuple[dict[str, str], DocumentScore]]:
        for backend in self.backends:
            for score in backend.documents:
                yield {"backend": backend.label, "document": score.document}, score

    def scores(self) -> pd.DataFrame:
        """Return a row for each backend and document: ranks, scores and lengths."""
        names = ("rank", "score", "exact_rank", "exact_score", "absence", "length", "stored_length")
        rows = [{**key, **{name: getattr(score, name) for name in names}} for key, score in self._documents()]
        return _frame(rows, ("backend", "document", *names))

    def terms(self) -> pd.DataFrame:
        """Return a row for each backend, document and term of the query, with its contribution."""
        rows = [{**key, **asdict(part)} for key, score in self._documents() for part in score.terms]
        return _frame(rows, ("backend", "document", *(field.name for field in fields(TermContribution))))

    def engine_numbers(self) -> pd.DataFrame:
        """Return a row for each backend, document and number of the engine's own explanation."""
        explained = ((key, score.engine.numbers) for key, score in self._documents() if score.engine is not None)
        rows = [{**key, **asdict(number)} for key, numbers in explained for number in numbers]
        return _frame(rows, ("backend", "document", *(field.name for field in fields(EngineNumber))))

    def steps(self) -> pd.DataFrame:
        """Return a row for each document, pair of backends and step of the formula, with its amount."""
        return _frame(
            [
                {"document": pair.document, "first": pair.first, "second": pair.second, **asdict(amount)}
                for pair in self.differences
                for amount in pair.amounts
            ],
            ("document", "first", "second", "name", "before", "after", "amount"),
        )


def _frame(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns))
