"""``harness.explain``: why documents have their ranks in each backend, for one query, from their exact references."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, zip_longest
from pathlib import Path
from tempfile import mkdtemp
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import numbers
from harness.data.dataset import Dataset
from harness.data.progress import Display, SilentDisplay
from harness.data.types import Ids, Int32Array, Run
from harness.errors import DataError, UsageError
from harness.exact.dense import vector_lengths
from harness.parity.contributions import (
    LENGTH,
    ScoredDocument,
    ScoreStep,
    TermScores,
    collection_of,
    pair_difference,
    recipe_formula,
    score_rows,
    score_steps,
    stored_lengths,
    term_names,
    term_scores,
)
from harness.parity.outcome_parity import OutcomeParity, References
from harness.parity.references import DenseReference, Reference, SparseReference
from harness.pipeline.compare import DatasetLike, name_objects
from harness.pipeline.engine_explanations import beside_engine, explain_scores
from harness.pipeline.explained_search import (
    ExplainedSearch,
    refused_change,
    search_to_explain,
    stored_result,
    unknown_id,
)
from harness.pipeline.hit_explanations import NO_STAGE, absences
from harness.pipeline.run import TrialInputs, run_plan
from harness.pipeline.vectors_and_lists import (
    Hit,
    compared_reference,
    engine_lists,
    fused_lists,
    hits_of,
    model_facts,
    stage_score,
    terms_of_columns,
    token_counts,
    vector_scores,
    vector_steps,
)
from harness.plan.callables import Function
from harness.plan.config import BackendsLike, ExplainRequest
from harness.plan.option_fields import from_keywords, keywords_of, require
from harness.plan.plan import Plan, Trial
from harness.registry.cards import FIELDS
from harness.results.comparison import Comparison
from harness.results.explanation import (
    Amount,
    BackendDifference,
    BackendExplanation,
    DocumentDifference,
    DocumentScore,
    Explanation,
    QueryWord,
    TermContribution,
    document_finding,
)
from harness.results.hit_rules import HitRules
from harness.store.cache import Cache
from harness.store.cache_entries import COMPARISON, WORK
from harness.store.columns import save_table
from harness.store.scratch import scratch_folder
from harness.wording import counted
from harness.worker.embeddings import CacheCheck
from harness.worker.encodings import Encodings
from harness.worker.executor import create_executor
from harness.worker.outcome import Outcome
from harness.worker.second_stages import fuse_runs
from harness.worker.vectors import Terms

if TYPE_CHECKING:
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.regress.regression import Regression

_WORD = re.compile(r"\S+")
_MOST_EXPECTED = 10


@keywords_of(ExplainRequest)
def explain(
    result: str | Path | Comparison | CheckResult | Regression | None = None,
    *,
    query: str | int,
    dataset: DatasetLike | None = None,
    backends: BackendsLike | None = None,
    display: Display | None = None,
    **options: object,
) -> Explanation:
    """Say why documents are ranked where they are; the command is ``harness explain``.

    Args:
        result: A result folder of compare, check or regress, or the result itself, whose hits are explained; None
            searches.
        query: The id of the query.
        dataset: A dataset as :func:`harness.compare` takes it; with ``result``, its present place, or one of several.
        backends: Without ``result``, backends as :func:`harness.compare` takes them.
        display: Where progress is shown; None shows none.
        options: ``doc`` names documents in place of the best ``k`` of each backend and the expected ones; ``golden``
            and ``corpus`` as for :func:`harness.check` take the place of ``dataset``, with ``match`` and ``delimiter``;
            ``queries`` (a file), ``split``, ``columns``, ``filter`` and ``cards`` as for :func:`harness.compare`.
            ``engine_explanation=True`` adds the engine's own explanation.

    Returns:
        Ranks, scores and contributions in every backend, and the differences between documents and backends.

    Raises:
        UnknownNameError: There is no such query, document or backend.
        UsageError, DataError: As :func:`harness.compare` and :func:`harness.check`.
        ResultError: The result cannot be read.
    """
    objects = name_objects(backends, dataset) if backends is not None else name_objects((), dataset)
    keywords: dict[str, object] = {"query": str(query), "dataset": objects.dataset, **options}
    if isinstance(doc := options.get("doc", ()), int | list | tuple):
        keywords["doc"] = [
            str(name) if isinstance(name, int) else name for name in ((doc,) if isinstance(doc, int) else doc)
        ]
    if backends is not None:
        keywords["backends"] = objects.backends
    stored = _result_of(result)
    if stored is None:
        keywords["result"] = result
    (request,) = from_keywords("harness.explain", keywords, ExplainRequest)
    return run(request, display, stored, objects.in_memory, objects.functions)


def _result_of(result: object) -> Comparison | CheckResult | None:
    """Return a result in Python that has hits to explain, None for a path; raises UsageError for other results."""
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.regress.regression import Regression

    if isinstance(result, Regression):
        if result.comparison is None and result.report.kind == "diff":
            raise refused_change(result.change)
        return result.comparison or Comparison.load(result.folder or "")
    if isinstance(result, Comparison | CheckResult):
        return result
    if result is not None and not isinstance(result, str | Path):
        raise UsageError(
            f"a result of type {type(result).__name__} has no backends to explain",
            fix="explain a result of compare, check or regress, or name dataset= and backends=",
        )
    return None


def run(
    request: ExplainRequest,
    display: Display | None = None,
    result: Comparison | CheckResult | None = None,
    in_memory: Mapping[str, Dataset] = MappingProxyType({}),
    functions: Mapping[str, Function] = MappingProxyType({}),
) -> Explanation:
    """Explain what a request names; ``result`` takes the place of its result folder. See :func:`explain`."""
    require(request)
    if result is None and request.result is not None:
        result = stored_result(request.result)
    visible_display = display if display is not None else SilentDisplay()
    cache = Cache()
    with cache.intact(), ExitStack() as resources:
        work = resources.enter_context(scratch_folder(cache.folder(WORK), COMPARISON))
        explained = search_to_explain(request, result, in_memory, functions, cache, visible_display)
        plan, dataset = explained.plan, explained.dataset
        rules = HitRules.of(dataset)
        deep = rules.deepened(plan)
        outcomes = run_plan(deep, dataset, cache, work, visible_display)
        search = _Search(request, explained, rules, outcomes, cache, work, visible_display)
        return _Explainer(search, References(outcomes, deep, dataset, visible_display)).explanation()


class _Exact(NamedTuple):
    """A reference of one query, and of all (``complete``); its ranking, document id -> rank, with the dataset's rules.

    ``before_rules`` are all documents that it ranks.
    """

    reference: SparseReference | DenseReference
    complete: Reference
    ranks: Mapping[str, int]
    before_rules: Collection[str]


@dataclass(frozen=True, eq=False, slots=True)
class _Search:
    """The search of all queries, and its outcomes."""

    request: ExplainRequest
    explained: ExplainedSearch
    rules: HitRules
    outcomes: Sequence[Outcome]
    cache: Cache
    work: Path
    display: Display

    @property
    def plan(self) -> Plan:
        """The plan of the backends."""
        return self.explained.plan

    @property
    def dataset(self) -> Dataset:
        """The documents and queries that were searched."""
        return self.explained.dataset

    @property
    def row(self) -> int:
        """The row of the query."""
        return int(self.dataset.queries.ids.rows_of(Ids.of([self.request.query]))[0])

    def hits(self) -> dict[str, dict[str, Hit]]:
        """Return each backend's hits for the query, without hits that the dataset leaves out."""
        runs: dict[str, Run | None] = {}
        for outcome in self.outcomes:
            k = self.plan.request.k if outcome.trial.spec.kind != "run" else None
            runs[outcome.trial.label] = self.rules.filter_hits(outcome.run, k) if outcome.run is not None else None
        runs |= dict.fromkeys(self.explained.failures) | dict(self.explained.stored)
        return {label: hits_of(run, self.request.query) if run is not None else {} for label, run in runs.items()}

    def analysed(self, trial: Trial, words: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the terms that a trial's analyzer makes of words: one analysis, kept in the cache as others are."""
        distinct = sorted(set(words))
        texts = Dataset.of({str(row): word for row, word in enumerate(distinct)}, {"0": "word"}, name="words")
        corpus, queries = self.work / f"words-{texts.corpus.digest}.arrow", self.work / "words-query.arrow"
        save_table(corpus, pa.table({"id": texts.corpus.ids.values, "text": texts.corpus.texts}))
        save_table(queries, pa.table({"id": texts.queries.ids.values, "text": texts.queries.texts}))
        check = CacheCheck(0.0, self.plan.request.seed)
        executor = create_executor(self.plan.request)
        encodings = Encodings(self.cache, texts, corpus, queries, None, self.work, self.display, executor, check)
        trial = replace(trial, parameters={**trial.parameters, FIELDS: ""})
        try:
            vectors = encodings.vectors(trial, weights=False)
        except DataError:  # the analyzer drops every word
            return dict.fromkeys(distinct, ())
        if vectors is None or vectors.terms is None:
            raise AssertionError("an analyzer without terms")
        counts = vectors.terms.counts
        terms_of = (counts.vocabulary.take(counts.documents.row(row)[0]) for row in range(len(distinct)))
        return {word: tuple(terms) for word, terms in zip(distinct, terms_of, strict=True)}


class _Explainer:
    """Explains one query of a search."""

    def __init__(self, search: _Search, references: References) -> None:
        self.search, self.references = search, references
        self.hits = search.hits()
        self.expected_left_out = 0
        self.documents = self._documents()
        self.exact: dict[str, Mapping[str, _Exact]] = {}
        self.parities: dict[str, OutcomeParity | None] = {}
        for outcome in search.outcomes:
            of_query = {name: self._whole_ranking(reference) for name, reference in references.of(outcome).items()}
            self.exact[outcome.trial.label] = of_query
            self.parities[outcome.trial.label] = references.compare(outcome)

    def _documents(self) -> tuple[str, ...]:
        """Return the ids of the documents to explain; raises UnknownNameError for documents that no backend knows."""
        request = self.search.request
        if not request.doc:
            best = [list(hits)[: request.k] for hits in self.hits.values()]
            names = dict.fromkeys(name for of_rank in zip_longest(*best) for name in of_rank if name is not None)
            further = [name for name in self.search.explained.expected if name not in names]
            self.expected_left_out = max(len(further) - _MOST_EXPECTED, 0)
            return (*names, *further[:_MOST_EXPECTED])
        chosen, corpus_ids = Ids.of(dict.fromkeys(request.doc)), self.search.dataset.corpus.ids
        absent = [name for name, row in zip(chosen, corpus_ids.rows_of(chosen).tolist(), strict=True) if row < 0]
        absent = [name for name in absent if not any(name in hits for hits in self.hits.values())]
        if absent and len(corpus_ids):
            raise unknown_id("document", absent[0], corpus_ids, self.search.dataset.name)
        return tuple(chosen)

    def _whole_ranking(self, complete: Reference) -> _Exact:
        """Return the reference of the query, and its whole ranking."""
        reference = complete.of_queries(np.array([self.search.row], dtype=np.int32))
        if not isinstance(reference, SparseReference | DenseReference):
            raise AssertionError(f"a {reference.name} reference without documents")
        run = reference.retrieve(max(len(reference.recipe.doc_ids), 1))
        ranked = self.search.rules.filter_hits(run, None)
        ranks = {name: rank for rank, name in enumerate(ranked.doc_ids.take(ranked.rows), 1)}
        return _Exact(reference, complete, ranks, set(run.doc_ids.take(run.rows)))

    def explanation(self) -> Explanation:
        """Return the explanation of the query."""
        search = self.search
        text = search.dataset.queries.texts.take(numbers(np.array([search.row])))[0].as_py()
        backends = tuple(map(self._add_findings, self._backends()))
        return Explanation(
            dataset=search.dataset.name,
            query_id=search.request.query,
            query=str(text),
            k=search.request.k,
            documents=self.documents,
            chosen=bool(search.request.doc),
            backends=tuple(self._beside_engines(backends)) if search.request.engine_explanation else backends,
            differences=tuple(self._backend_differences()),
            expected=search.explained.expected,
            notes=tuple(self._notes()),
        )

    def _backends(self) -> Iterator[BackendExplanation]:
        """Yield the explanation of each backend, in the order of the result or of the request."""
        outcomes = {outcome.trial.label: outcome for outcome in self.search.outcomes}
        for label in self.search.explained.labels or outcomes:
            outcome, failure = outcomes.get(label), self.search.explained.failures.get(label)
            if outcome is not None and outcome.failure is not None:
                failure = outcome.failure.message
            if failure is not None and not self.hits[label]:
                yield BackendExplanation(label, "hits", (), note=f"it failed: {failure}")
            else:
                yield self._hits_only(label) if outcome is None else self._backend(outcome)

    def _beside_engines(self, backends: Iterable[BackendExplanation]) -> Iterator[BackendExplanation]:
        """Yield the explanation of each backend, with its engine's own if an engine ran."""
        search, documents = self.search, self.documents
        executor, work = create_executor(search.plan.request), Path(mkdtemp(prefix="explain-", dir=search.work))
        inputs = TrialInputs(search.plan, search.dataset, search.cache, work, search.display, executor)
        trials = {trial.label: trial for trial in search.plan.trials}
        engines = {outcome.trial.label for outcome in search.outcomes if outcome.record is not None}
        for backend in backends:
            if documents and backend.label in engines:
                references = [exact.reference for exact in self.exact[backend.label].values()]
                single = references[0] if len(references) == 1 else None
                reference = single if isinstance(single, SparseReference) else None
                trees = explain_scores(inputs, trials[backend.label], search.row, documents, executor, work)
                yield beside_engine(backend, trees, reference)
            else:
                yield backend

    def _add_findings(self, backend: BackendExplanation) -> BackendExplanation:
        """Return a backend's explanation with a sentence for each document that is expected, or below the best k."""
        expected, k = self.search.explained.expected, self.search.request.k
        return replace(
            backend,
            documents=tuple(
                replace(document, finding=document_finding(document, k, expected=document.document in expected))
                for document in backend.documents
            ),
        )

    def _notes(self) -> Iterator[str]:
        """Yield what a reader must know of the choice of documents."""
        if not self.documents:
            yield "no backend returned a document"
        if self.expected_left_out:
            documents = counted(self.expected_left_out, "more expected document is", "more expected documents are")
            yield f"{documents} not explained: name them with --doc"

    def _backend(self, outcome: Outcome) -> BackendExplanation:
        label, exact = outcome.trial.label, self.exact[outcome.trial.label]
        if outcome.trial.spec.kind == "rerank":
            return self._second_stage(outcome)
        if outcome.trial.spec.kind == "fusion" or len(exact) > 1:
            return self._fusion(outcome)
        for of_list in exact.values():
            return self._terms(outcome, of_list) if "dense" not in exact else self._vectors(outcome, of_list)
        return self._hits_only(label)

    def _hits_only(self, label: str) -> BackendExplanation:
        """Explain a backend that is known only by its hits, which have no scores if it returned only ids."""
        hits = self.hits[label].values()
        scores = tuple(self._score(label, name) for name in self.documents)
        if hits and all(hit.score == 1 - hit.rank for hit in hits):
            scores = tuple(replace(score, score=None) for score in scores)
        return BackendExplanation(label, "hits", scores, note="it has no exact reference")

    def _cause(self, label: str) -> str | None:
        """Return the proven cause of an engine's difference from its reference for the query."""
        parity = self.parities[label]
        return parity.parity.per_query.cause[self.search.row] if parity is not None else None

    def _score(self, label: str, name: str) -> DocumentScore:
        hit = self.hits[label].get(name)
        rank, score = hit if hit is not None else (None, None)
        return DocumentScore(name, rank, score, None, None)

    def _rows(self, exact: _Exact) -> Int32Array:
        """Return the rows of the documents to explain among those of a reference, -1 for documents that it lacks."""
        return exact.reference.recipe.doc_ids.rows_of(Ids.of(self.documents))

    def _absence(self, outcome: Outcome, exact: _Exact, name: str, row: int) -> str:
        """Return why a document cannot be a hit; empty if it can."""
        ranked = name in exact.before_rules
        left_out = ranked and name not in exact.ranks
        of_one = (np.array([value]) for value in (row, ranked, left_out))
        recipe, empty = exact.reference.recipe, self.search.dataset.corpus.empty_rows
        return absences(recipe, outcome.record, empty, np.zeros(1, dtype=np.int64), *of_one)[0]

    def _terms(self, outcome: Outcome, exact: _Exact) -> BackendExplanation:
        """Explain a backend whose reference is sparse."""
        reference, rows, label = exact.reference, self._rows(exact), outcome.trial.label
        if not isinstance(reference, SparseReference):
            raise AssertionError("terms without a sparse reference")
        recipe, present = reference.recipe, np.flatnonzero(rows >= 0)
        scores = term_scores(reference, rows[present])
        words, written = self._words(outcome)
        term_of = terms_of_columns(outcome.trial, self.search.cache) if recipe.counts is None else {}
        table = _TermTable(reference, scores, rows[present], term_names(recipe, scores.columns, term_of), written)
        documents, column_of = [], {int(position): column for column, position in enumerate(present)}
        for position, name in enumerate(self.documents):
            tokens, cut = token_counts(outcome, "documents", self._corpus_row(name)) or (None, None)
            document = replace(
                self._score(label, name),
                absence=self._absence(outcome, exact, name, int(rows[position])),
                exact_rank=exact.ranks.get(name),
                tokens=tokens,
                cut=cut,
            )
            if position in column_of:
                document = table.fill(document, column_of[position])
                document = replace(document, respelled=self._respelled(document, words))
            documents.append(document)
        formula, averages = recipe_formula(recipe), collection_of(recipe).average if recipe.shards is None else None
        facts: dict[str, str | float | int | None] = {"scoring": reference.mode}
        terms = _terms_of(outcome)
        facts |= model_facts(outcome, self.search.row) if terms is None else {"analyzer": terms.analyzer}
        if formula is not None:
            facts |= {"k1": formula.k1, "b": formula.b, "k1_plus_1": formula.k1_plus_1}
        if averages is not None and len(set(averages.tolist())) == 1:
            facts["average_length"] = float(averages[0])
        return BackendExplanation(
            label,
            "terms",
            tuple(documents),
            facts,
            words,
            tuple(self._document_differences(reference, documents, rows, term_of)),
            self._cause(label),
        )

    def _vectors(self, outcome: Outcome, exact: _Exact) -> BackendExplanation:
        """Explain a backend of dense vectors."""
        rows, label, query = self._rows(exact), outcome.trial.label, self.search.row
        if not isinstance(exact.complete, DenseReference) or not isinstance(exact.reference, DenseReference):
            raise AssertionError("vectors without a dense reference")
        present = np.flatnonzero(rows >= 0)
        parts = vector_scores(
            exact.complete,
            compared_reference(outcome, exact.complete),
            query,
            rows[present],
            self.hits[label],
            exact.ranks,
            neighbours=bool(self.search.request.doc),
        )
        scores = score_rows(exact.reference, rows[present]).tolist()
        part_of = {
            self.documents[position]: (score, part)
            for position, score, part in zip(present, scores, parts, strict=True)
        }
        documents = []
        for name, row in zip(self.documents, rows.tolist(), strict=True):
            score, part = part_of.get(name, (None, None))
            tokens, cut = token_counts(outcome, "documents", self._corpus_row(name)) or (None, None)
            documents.append(
                replace(
                    self._score(label, name),
                    absence=self._absence(outcome, exact, name, row),
                    exact_rank=exact.ranks.get(name),
                    exact_score=score,
                    vector=part,
                    tokens=tokens,
                    cut=cut,
                )
            )
        facts = {"similarity": exact.reference.mode, **model_facts(outcome, query)}
        facts["query_norm"] = float(vector_lengths(exact.reference.recipe.queries)[0])
        return BackendExplanation(label, "vectors", tuple(documents), facts, cause=self._cause(label))

    def _corpus_row(self, name: str) -> int:
        return int(self.search.dataset.corpus.ids.rows_of(Ids.of([name]))[0])

    def _fusion(self, outcome: Outcome) -> BackendExplanation:
        """Explain a fusion: of other backends' lists, or of the lists that its engine makes."""
        label, query, spec = outcome.trial.label, self.search.request.query, outcome.trial.spec
        runs = {part.trial.label: part.run for part in self._parts(outcome) if part.run is not None}
        of_query = {name: run.of_queries(run.query_ids.rows_of(Ids.of([query]))) for name, run in runs.items()}
        exact = self._exact_fusion(outcome)
        fused = fused_lists(spec, of_query) if of_query else engine_lists(outcome)
        documents = []
        for name in self.documents:
            lists = [part.score(query, name) for part in fused]
            hit = exact.get(name)
            rank, score = hit if hit is not None else (None, None)
            absence = self._absence_in_lists(outcome, name)
            documents.append(
                replace(
                    self._score(label, name), exact_rank=rank, exact_score=score, lists=tuple(lists), absence=absence
                )
            )
        names = ("k", "weights", "fusion", "rrf_k", "candidates")
        facts: dict[str, str | float | int | None] = {
            "fusion": spec.name,
            **{name: spec.parameters[name] for name in names if spec.parameters.get(name) not in (None, "")},
        }
        return BackendExplanation(label, "fusion", tuple(documents), facts, cause=self._cause(label))

    def _parts(self, outcome: Outcome) -> list[Outcome]:
        """Return the outcomes of the backends that a fusion or a second stage takes."""
        labels = outcome.combined.of if outcome.combined is not None else ()
        by_label = {part.trial.label: part for part in self.search.outcomes}
        return [by_label[label] for label in labels]

    def _exact_fusion(self, outcome: Outcome) -> dict[str, Hit]:
        """Return the hits of the fusion of the exact lists; none if a list has no reference."""
        parity, query = self.parities[outcome.trial.label], self.search.request.query
        if parity is not None and parity.exact is not None:
            return hits_of(self.search.rules.filter_hits(parity.exact, None), query)
        parts = [self.exact[part.trial.label] for part in self._parts(outcome)]
        if not parts or any(len(part) != 1 for part in parts):
            return {}
        depth = self.search.rules.deepened(self.search.plan).request.k
        runs = [next(iter(part.values())).reference.retrieve(depth) for part in parts]
        return hits_of(self.search.rules.filter_hits(fuse_runs(outcome.trial.spec, runs, None), None), query)

    def _absence_in_lists(self, outcome: Outcome, name: str) -> str:
        """Return why a document can be in none of the lists, if the reason is the same for all; else empty."""
        sources = [(part, exact) for part in self._parts(outcome) for exact in self.exact[part.trial.label].values()]
        sources += [(outcome, exact) for exact in self.exact[outcome.trial.label].values()]
        reasons = {
            self._absence(part, exact, name, int(exact.reference.recipe.doc_ids.rows_of(Ids.of([name]))[0]))
            for part, exact in sources
        }
        return reasons.pop() if len(reasons) == 1 else ""

    def _second_stage(self, outcome: Outcome) -> BackendExplanation:
        """Explain a second stage: the rank before it, and whether the document was among its candidates."""
        label, query, documents = outcome.trial.label, self.search.request.query, []
        for part in self._parts(outcome):
            for name in self.documents:
                if part.run is None:
                    continue
                stage = stage_score(
                    outcome, part.run, part.trial.label, self.search.row, self._corpus_row(name), (query, name)
                )
                tokens, cut = stage.tokens or (None, None)
                documents.append(
                    replace(
                        self._score(label, name),
                        absence="" if stage.scored else self._absence_in_lists(outcome, name) or NO_STAGE,
                        lists=(stage.before,),
                        tokens=tokens,
                        cut=cut,
                    )
                )
        return BackendExplanation(label, "second stage", tuple(documents), {"second stage": outcome.trial.spec.name})

    def _words(self, outcome: Outcome) -> tuple[tuple[QueryWord, ...], dict[str, tuple[str, ...]]]:
        """Return the query's words as the analyzer takes them, and the words behind each term; none for a model."""
        if _terms_of(outcome) is None:
            return (), {}
        texts = self.search.dataset.queries.texts.to_pylist()
        terms_of = self.search.analysed(outcome.trial, (word for text in texts for word in _WORD.findall(text)))
        words = tuple(QueryWord(word, terms_of[word]) for word in _WORD.findall(texts[self.search.row]))
        written: dict[str, dict[str, None]] = {}
        for word in words:
            for term in word.terms:
                written.setdefault(term, {})[word.written] = None
        return words, {term: tuple(of_term) for term, of_term in written.items()}

    def _respelled(self, document: DocumentScore, words: Sequence[QueryWord]) -> tuple[str, ...]:
        """Return words of the query that a document only has in another Unicode normalisation, and so lacks."""
        missing, row = set(document.missing_terms), self._corpus_row(document.document)
        lacking = {word.written for word in words if missing & set(word.terms)}
        if not lacking or row < 0:
            return ()
        spellings = _WORD.findall(self.search.dataset.corpus.texts[row].as_py())
        normalized = {unicodedata.normalize("NFC", word) for word in spellings} if lacking - set(spellings) else set()
        respelled = (word for word in lacking - set(spellings) if unicodedata.normalize("NFC", word) in normalized)
        return tuple(sorted(respelled))

    def _document_differences(
        self,
        reference: SparseReference,
        documents: Sequence[DocumentScore],
        rows: Int32Array,
        term_of: Mapping[int, str],
    ) -> Iterator[DocumentDifference]:
        """Yield why each document is above the next one, in the order of the exact ranking."""
        row_of = dict(zip(self.documents, rows.tolist(), strict=True))
        ranked = sorted((document.exact_rank, document.document) for document in documents if document.exact_rank)
        for (_, above), (_, below) in pairwise(ranked):
            pair = np.array([row_of[above], row_of[below]], dtype=np.int32)
            scores = term_scores(reference, pair)
            difference = pair_difference(reference, scores, pair)
            amounts: dict[str, float] = {}
            for term, amount in zip(
                term_names(reference.recipe, scores.columns, term_of), difference.terms.tolist(), strict=True
            ):
                amounts[term] = amounts.get(term, 0.0) + amount
            amounts[LENGTH] = difference.length
            yield DocumentDifference(
                above,
                below,
                float(np.float64(scores.scores[0]) - scores.scores[1]),
                tuple(Amount(*item) for item in sorted(amounts.items(), key=lambda item: -abs(item[1])) if item[1]),
            )

    def _backend_differences(self) -> Iterator[BackendDifference]:
        """Yield why each backend scores a document otherwise than the first backend of its kind, terms or vectors."""
        single = [
            (outcome, next(iter(exact.values())))
            for outcome in self.search.outcomes
            if len(exact := self.exact[outcome.trial.label]) == 1
        ]
        for kind in (SparseReference, DenseReference):
            of_kind = [pair for pair in single if isinstance(pair[1].reference, kind)]
            for first, second in ((of_kind[0], other) for other in of_kind[1:]):
                for position in range(len(self.documents)):
                    difference = self._backend_difference(first, second, position)
                    if difference is not None:
                        yield difference

    def _backend_difference(
        self, first: tuple[Outcome, _Exact], second: tuple[Outcome, _Exact], position: int
    ) -> BackendDifference | None:
        """Return why two backends score a document differently; None if they do not, or one does not hold it."""
        before, after = self._scored(*first, position), self._scored(*second, position)
        if before is None or after is None:
            return None
        steps = self._steps(first[0], second[0], before, after)
        if not steps:
            return None
        low, high = (one.exact if one.score is None else one.score for one in (before, after))
        return BackendDifference(
            self.documents[position],
            first[0].trial.label,
            second[0].trial.label,
            high - low,
            tuple(Amount(step.name, step.amount, step.before, step.after) for step in steps),
            tuple(self._words_apart(self.documents[position], first[0], second[0])),
        )

    def _steps(self, first: Outcome, second: Outcome, before: ScoredDocument, after: ScoredDocument) -> list[ScoreStep]:
        """Return the steps from one backend's score of a document to another's."""
        if isinstance(before.reference, SparseReference):
            return score_steps(before, after)
        scores = [(part.score, part.exact) for part in (before, after)]
        scale = max(float(part.reference.scale[0]) for part in (before, after) if part.reference.scale is not None)
        return vector_steps(first, second, scores, (before.cause, after.cause), scale)

    def _words_apart(self, name: str, first: Outcome, second: Outcome) -> Iterator[tuple[QueryWord, QueryWord]]:
        """Yield the words of a document whose terms differ in two backends and are terms of the query in one."""
        corpus, terms = self.search.dataset.corpus, [_terms_of(outcome) for outcome in (first, second)]
        row = int(corpus.ids.rows_of(Ids.of([name]))[0])
        if row < 0 or terms[0] is None or terms[1] is None or terms[0].folder == terms[1].folder:
            return
        words = dict.fromkeys(_WORD.findall(corpus.texts[row].as_py()))
        analysed = [self.search.analysed(outcome.trial, words) for outcome in (first, second)]
        of_query = [
            set(part.counts.vocabulary.take(part.counts.queries.row(self.search.row)[0])) for part in terms if part
        ]
        for word in words:
            before, after = analysed[0][word], analysed[1][word]
            if before != after and (of_query[0] & set(before) or of_query[1] & set(after)):
                yield QueryWord(word, before), QueryWord(word, after)

    def _scored(self, outcome: Outcome, exact: _Exact, position: int) -> ScoredDocument | None:
        """Return a document for the comparison of two backends; None for a document that the backend does not hold."""
        row, label = int(self._rows(exact)[position]), outcome.trial.label
        if row < 0:
            return None
        hit = self.hits[label].get(self.documents[position])
        terms = _terms_of(outcome)
        return ScoredDocument(
            exact.reference,
            row,
            hit.score if hit is not None else None,
            self._cause(label),
            terms.analyzer if terms is not None else "",
            terms.folder if terms is not None else label,
        )


def _terms_of(outcome: Outcome) -> Terms | None:
    return outcome.vectors.terms if outcome.vectors is not None else None


class _TermTable:
    """The terms of each document: ``rows`` int32 (D,) are the documents of ``scores``, ``names`` are its terms."""

    def __init__(
        self,
        reference: SparseReference,
        scores: TermScores,
        rows: Int32Array,
        names: Sequence[str],
        written: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.recipe, self.scores, self.rows, self.names, self.written = reference.recipe, scores, rows, names, written
        weighted = self.recipe.counts is not None and self.recipe.counts.field_weights is not None
        self.fields = ["".join(name.partition(":")[:2]) if weighted else "" for name in self.names]
        self.lengths = self.recipe.counts.lengths[rows] if self.recipe.counts is not None else None
        self.stored_lengths = stored_lengths(self.recipe, rows)

    @cached_property
    def collections(self) -> dict[int, Any]:
        """The statistics of each shard that a document is in."""
        shards = self.recipe.shards
        present = {0} if shards is None else set(shards[self.rows].tolist())
        return {shard: collection_of(self.recipe, shard) for shard in present}

    def fill(self, document: DocumentScore, position: int) -> DocumentScore:
        """Return a document with its terms, lengths and exact score."""
        shards = self.recipe.shards
        collection = self.collections[0 if shards is None else int(shards[self.rows[position]])]
        values = self.scores.values[:, position].tolist()
        terms = tuple(
            TermContribution(
                term=self.names[number],
                written=self.written.get(self.names[number].removeprefix(self.fields[number]), ()),
                weight=float(self.scores.weights[number]),
                tf=values[number] or None,
                df=int(collection.df[column]),
                documents=int(collection.documents[column]),
                idf=float(collection.idf[column]) if collection.idf is not None else None,
                contribution=float(self.scores.contributions[number, position]),
            )
            for number, column in enumerate(self.scores.columns.tolist())
        )
        return replace(
            document,
            exact_score=float(self.scores.scores[position]),
            length=int(self.lengths[position]) if self.lengths is not None else None,
            stored_length=int(self.stored_lengths[position]) if self.stored_lengths is not None else None,
            terms=terms,
            of_all_documents=float(self.scores.of_all),
        )
