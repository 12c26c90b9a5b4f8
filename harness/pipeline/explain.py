"""``harness.explain``: why documents have their ranks in each backend, for one query, from their exact references."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, zip_longest
from pathlib import Path
from tempfile import mkdtemp
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from harness.data.arrow import numbers
from harness.data.dataset import Dataset
from harness.data.id_spelling import separate_options
from harness.data.progress import Display, SilentDisplay
from harness.data.types import Ids, Run
from harness.errors import DataError, UsageError
from harness.exact.dense import vector_lengths
from harness.parity.contributions import (
    LENGTH,
    ScoredDocument,
    ScoreStep,
    collection_of,
    pair_difference,
    recipe_formula,
    score_steps,
    term_names,
    term_scores,
)
from harness.parity.outcome_parity import OutcomeParity, References
from harness.parity.references import DenseReference, Reference, SparseReference
from harness.pipeline.compare import DatasetLike, name_objects
from harness.pipeline.engine_explanations import add_engine_explanation, explain_scores
from harness.pipeline.explained_search import (
    ExplainedSearch,
    refused_change,
    search_to_explain,
    stored_result,
    unknown_id,
)
from harness.pipeline.hit_explanations import HitExplainer
from harness.pipeline.run import TrialInputs, run_plan
from harness.pipeline.vectors_and_lists import (
    hits_of,
    model_facts,
    neighbours_of,
    pair_tokens,
    terms_of_columns,
    token_counts,
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
    Kind,
    QueryWord,
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
from harness.worker.vectors import Terms

if TYPE_CHECKING:
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.regress.regression import Regression

_WORD = re.compile(r"\S+")
_MOST_EXPECTED = 10
_FUSION_FACTS = ("k", "weights", "fusion", "rrf_k", "candidates")


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
    keywords: dict[str, object] = {"query": _id_text(query), "dataset": objects.dataset, **options}
    doc = options.get("doc", ())
    keywords["doc"] = [_id_text(name) for name in doc] if isinstance(doc, list | tuple) else _id_text(doc)
    if backends is not None:
        keywords["backends"] = objects.backends
    stored = _result_of(result)
    if stored is None:
        keywords["result"] = result
    (request,) = from_keywords("harness.explain", keywords, ExplainRequest)
    return run(request, display, stored, objects.in_memory, objects.functions)


def _id_text(name: object) -> object:
    """Return an id that is a number as text, and any other value as it is."""
    return str(name) if isinstance(name, int | np.integer) else name


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
        if not any(trial.spec.kind == "run" or trial.spec.called is not None for trial in plan.trials):
            _require_documents(request, dataset, [run.doc_ids for run in explained.stored.values()])
        outcomes = run_plan(deep, dataset, cache, work, visible_display)
        search = _Search(request, explained, rules, outcomes, cache, work, visible_display)
        return _Explainer(search, References(outcomes, deep, dataset, visible_display)).explanation()


def _require_documents(request: ExplainRequest, dataset: Dataset, returned: Iterable[Iterable[str]]) -> None:
    """Raise UnknownNameError for a document that neither the dataset has nor a backend returned."""
    ids, chosen = dataset.corpus.ids, Ids.of(dict.fromkeys(request.doc))
    absent = [name for name, row in zip(chosen, ids.rows_of(chosen).tolist(), strict=True) if row < 0]
    of_backends = {name for names in returned for name in names} if absent else set()
    for name in absent:
        if name in of_backends:
            continue
        if options := separate_options("--doc", name, ids, Ids.of(of_backends)):
            raise UsageError(
                f"unknown document '{name}' of '{dataset.name}'", fix=f"name each document: {' '.join(options)}"
            )
        if len(ids):
            raise unknown_id("document", name, ids, dataset.name)


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

    def runs(self) -> dict[str, Run]:
        """Return each backend's hits, the stored ones if there are any, without hits that the dataset leaves out."""
        runs: dict[str, Run] = {}
        for outcome in self.outcomes:
            if outcome.run is not None:
                k = self.plan.request.k if outcome.trial.spec.kind != "run" else None
                runs[outcome.trial.label] = self.rules.filter_hits(outcome.run, k)
        return {**runs, **self.explained.stored}

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
        self.search, runs = search, search.runs()
        self.outcomes = {outcome.trial.label: outcome for outcome in search.outcomes}
        labels = [*self.outcomes, *search.explained.failures, *runs]
        self.hits = {label: hits_of(runs[label], search.request.query) if label in runs else {} for label in labels}
        self.expected_left_out = 0
        self.documents = self._documents()
        self.complete: dict[str, Mapping[str, Reference]] = {}
        self.parities: dict[str, OutcomeParity | None] = {}
        for label, outcome in self.outcomes.items():
            self.complete[label], self.parities[label] = references.of(outcome), references.compare(outcome)
        explainer = HitExplainer(
            search.outcomes,
            search.plan,
            search.dataset,
            {label: (run, None) for label, run in runs.items()},
            Ids.of(self.documents),
            np.full(len(self.documents), search.row),
            np.arange(len(self.documents)),
            complete=True,
        )
        explained = (
            (label, explainer.explain(outcome, self.complete[label], self.parities[label]))
            for label, outcome in self.outcomes.items()
        )
        self.explained = {label: of_backend for label, of_backend in explained if of_backend is not None}

    @cached_property
    def references(self) -> dict[str, SparseReference | DenseReference]:
        """The reference of the query for each backend that has a single one."""
        single = {label: next(iter(of.values())) for label, of in self.complete.items() if len(of) == 1}
        of_query = {label: of.of_queries(np.array([self.search.row], dtype=np.int32)) for label, of in single.items()}
        return {label: of for label, of in of_query.items() if isinstance(of, SparseReference | DenseReference)}

    def _documents(self) -> tuple[str, ...]:
        """Return the ids of the documents to explain; raises UnknownNameError for documents that no backend knows."""
        request = self.search.request
        if not request.doc:
            best = [list(hits)[: request.k] for hits in self.hits.values()]
            names = dict.fromkeys(name for of_rank in zip_longest(*best) for name in of_rank if name is not None)
            further = [name for name in self.search.explained.expected if name not in names]
            self.expected_left_out = max(len(further) - _MOST_EXPECTED, 0)
            return (*names, *further[:_MOST_EXPECTED])
        _require_documents(request, self.search.dataset, list(self.hits.values()))
        return tuple(dict.fromkeys(request.doc))

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
            backends=tuple(self._add_engine_explanations(backends)) if search.request.engine_explanation else backends,
            differences=tuple(self._backend_differences()),
            expected=search.explained.expected,
            notes=tuple(self._notes()),
        )

    def _backends(self) -> Iterator[BackendExplanation]:
        """Yield the explanation of each backend, in the order of the result or of the request."""
        for label in self.search.explained.labels or self.outcomes:
            outcome, failure = self.outcomes.get(label), self.search.explained.failures.get(label)
            if outcome is not None and outcome.failure is not None:
                failure = outcome.failure.message
            if failure is not None and not self.hits[label]:
                yield BackendExplanation(label, "hits", (), note=f"it failed: {failure}", failed=True)
            else:
                yield self._hits_only(label) if outcome is None else self._backend(outcome)

    def _add_engine_explanations(self, backends: Iterable[BackendExplanation]) -> Iterator[BackendExplanation]:
        """Yield the explanation of each backend, with its engine's own if an engine ran."""
        search, documents = self.search, self.documents
        executor, work = create_executor(search.plan.request), Path(mkdtemp(prefix="explain-", dir=search.work))
        inputs = TrialInputs(search.plan, search.dataset, search.cache, work, search.display, executor)
        trials = {trial.label: trial for trial in search.plan.trials}
        engines = {outcome.trial.label for outcome in search.outcomes if outcome.record is not None}
        for backend in backends:
            if documents and backend.label in engines:
                single = self.references.get(backend.label)
                reference = single if isinstance(single, SparseReference) else None
                trees = explain_scores(inputs, trials[backend.label], search.row, documents, executor, work)
                yield add_engine_explanation(backend, trees, reference)
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
            yield f"{documents} not explained: use --doc"

    def _backend(self, outcome: Outcome) -> BackendExplanation:
        label = outcome.trial.label
        if (explained := self.explained.get(label)) is None:
            return self._hits_only(label)
        documents = [self._add_tokens(outcome, one) for one in explained.documents(self.documents)]
        backend = BackendExplanation(label, explained.kind, (), self._facts(outcome, explained.kind))
        reference = self.references.get(label)
        if isinstance(reference, SparseReference):
            words = self._words(outcome)
            documents = [self._add_written_words(reference, document, words) for document in documents]
            backend = replace(backend, words=words, differences=tuple(self._document_differences(outcome, documents)))
        elif isinstance(reference, DenseReference) and self.search.request.doc:
            documents = [self._add_neighbours(label, document) for document in documents]
        cause = self._cause(label) if explained.kind != "second stage" else None
        return replace(backend, documents=tuple(documents), cause=cause)

    def _hits_only(self, label: str) -> BackendExplanation:
        """Explain a backend that is known only by its hits, which have no scores if it returned only ids."""
        hits = self.hits[label]
        only_ids = bool(hits) and all(hit.score == 1 - hit.rank for hit in hits.values())
        scores = []
        for name in self.documents:
            rank, score = hits.get(name, (None, None))
            scores.append(DocumentScore(name, rank, None if only_ids else score, None, None))
        return BackendExplanation(label, "hits", tuple(scores), note="it has no exact reference")

    def _facts(self, outcome: Outcome, kind: Kind) -> dict[str, str | float | int | None]:
        """Return what a backend's scores are made of."""
        spec, reference = outcome.trial.spec, self.references.get(outcome.trial.label)
        if kind == "second stage":
            return {"second stage": spec.name}
        if kind == "fusion":
            values = {name: spec.parameters.get(name) for name in _FUSION_FACTS}
            return {"fusion": spec.name, **{name: value for name, value in values.items() if value not in (None, "")}}
        facts: dict[str, str | float | int | None] = {}
        if isinstance(reference, DenseReference):
            facts = {"similarity": reference.mode, **model_facts(outcome, self.search.row)}
            facts["query_norm"] = float(vector_lengths(reference.recipe.queries)[0])
        elif isinstance(reference, SparseReference):
            recipe, terms = reference.recipe, _terms_of(outcome)
            facts["scoring"] = reference.mode
            facts |= model_facts(outcome, self.search.row) if terms is None else {"analyzer": terms.analyzer}
            if (formula := recipe_formula(recipe)) is not None:
                facts |= {"k1": formula.k1, "b": formula.b, "k1_plus_1": formula.k1_plus_1}
            averages = collection_of(recipe).average if recipe.shards is None else None
            if averages is not None and len(set(averages.tolist())) == 1:
                facts["average_length"] = float(averages[0])
        return facts

    def _add_tokens(self, outcome: Outcome, document: DocumentScore) -> DocumentScore:
        """Return a document with the tokens that a model, or a second stage with the query, read and cut."""
        row = self._corpus_row(document.document)
        if outcome.trial.spec.kind == "rerank":
            tokens = pair_tokens(outcome, self.search.row, row)
        else:
            tokens = token_counts(outcome, "documents", row)
        return document if tokens is None else replace(document, tokens=tokens[0], cut=tokens[1])

    def _add_neighbours(self, label: str, document: DocumentScore) -> DocumentScore:
        """Return a document with the nearest documents to it."""
        (complete,), vector = self.complete[label].values(), document.vector
        if vector is None or not isinstance(complete, DenseReference):
            return document
        row = int(complete.recipe.doc_ids.rows_of(Ids.of([document.document]))[0])
        return replace(document, vector=replace(vector, neighbours=neighbours_of(complete, row)))

    def _cause(self, label: str) -> str | None:
        """Return the proven cause of an engine's difference from its reference for the query."""
        parity = self.parities[label]
        return parity.parity.per_query.cause[self.search.row] if parity is not None else None

    def _corpus_row(self, name: str) -> int:
        return int(self.search.dataset.corpus.ids.rows_of(Ids.of([name]))[0])

    def _words(self, outcome: Outcome) -> tuple[QueryWord, ...]:
        """Return the query's words as the analyzer takes them; none for a model."""
        if _terms_of(outcome) is None:
            return ()
        texts = self.search.dataset.queries.texts.to_pylist()
        terms_of = self.search.analysed(outcome.trial, (word for text in texts for word in _WORD.findall(text)))
        return tuple(QueryWord(word, terms_of[word]) for word in _WORD.findall(texts[self.search.row]))

    def _add_written_words(
        self, reference: SparseReference, document: DocumentScore, words: Sequence[QueryWord]
    ) -> DocumentScore:
        """Return a document with the words of the query behind each of its terms."""
        counts = reference.recipe.counts
        fields = counts is not None and counts.field_weights is not None
        written: dict[str, dict[str, None]] = {}
        for word in words:
            for term in word.terms:
                written.setdefault(term, {})[word.written] = None
        terms = tuple(
            replace(part, written=tuple(written.get(part.term.partition(":")[2] if fields else part.term, ())))
            for part in document.terms
        )
        document = replace(document, terms=terms)
        return replace(document, respelled=self._respelled(document, words))

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
        self, outcome: Outcome, documents: Sequence[DocumentScore]
    ) -> Iterator[DocumentDifference]:
        """Yield why each document is above the next one, in the order of the exact ranking."""
        reference = self.references[outcome.trial.label]
        if not isinstance(reference, SparseReference):
            return
        term_of = terms_of_columns(outcome.trial, self.search.cache) if reference.recipe.counts is None else {}
        row_of = dict(zip(self.documents, reference.recipe.doc_ids.rows_of(Ids.of(self.documents)), strict=True))
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
        for kind in (SparseReference, DenseReference):
            outcomes = [one for one in self.search.outcomes if isinstance(self.references.get(one.trial.label), kind)]
            for first, second in ((outcomes[0], other) for other in outcomes[1:]):
                for name in self.documents:
                    difference = self._backend_difference(first, second, name)
                    if difference is not None:
                        yield difference

    def _backend_difference(self, first: Outcome, second: Outcome, name: str) -> BackendDifference | None:
        """Return why two backends score a document differently; None if they do not, or one does not hold it."""
        before, after = self._scored(first, name), self._scored(second, name)
        if before is None or after is None:
            return None
        steps = self._steps(first, second, before, after)
        if not steps:
            return None
        low, high = (one.exact if one.score is None else one.score for one in (before, after))
        return BackendDifference(
            name,
            first.trial.label,
            second.trial.label,
            high - low,
            tuple(Amount(step.name, step.amount, step.before, step.after) for step in steps),
            tuple(self._words_apart(name, first, second)),
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

    def _scored(self, outcome: Outcome, name: str) -> ScoredDocument | None:
        """Return a document for the comparison of two backends; None for a document that the backend does not hold."""
        label, terms = outcome.trial.label, _terms_of(outcome)
        reference, hit = self.references[label], self.hits[label].get(name)
        row = int(reference.recipe.doc_ids.rows_of(Ids.of([name]))[0])
        if row < 0:
            return None
        return ScoredDocument(
            reference,
            row,
            hit.score if hit is not None else None,
            self._cause(label),
            terms.analyzer if terms is not None else "",
            terms.folder if terms is not None else label,
        )


def _terms_of(outcome: Outcome) -> Terms | None:
    return outcome.vectors.terms if outcome.vectors is not None else None
