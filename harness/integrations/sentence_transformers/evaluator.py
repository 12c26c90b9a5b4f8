"""sentence-transformers' information retrieval evaluator, with values from this package's metrics."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.util import SimilarityFunction
from tqdm.auto import trange

from harness.errors import UnknownNameError, UsageError
from harness.integrations.sentence_transformers.best_hits import (
    BestHits,
    QueryResults,
    ScoreFunction,
    part,
    tie_break_of,
)
from harness.integrations.sentence_transformers.values import LOGGED, Cutoffs, Judgments, Values

if TYPE_CHECKING:
    from os import PathLike

    from sentence_transformers import SentenceTransformer
    from torch import Tensor

logger = logging.getLogger(__name__)

_PERCENT = ("Accuracy", "Precision", "Recall")


class InformationRetrievalEvaluator(BaseEvaluator):  # type: ignore[misc] # the library's types are not read
    """Takes the arguments of sentence-transformers' class of this name, in its order, and gives the same values.

    ``queries`` and ``corpus`` map ids to texts, ``relevant_docs`` query ids to sets of document ids. Queries without
    relevant documents are left out. Each score function (by default the model's own similarity, looked up in each call)
    gives accuracy, precision, recall, MRR, nDCG and MAP at the requested ranks, under the library's conventions: gains
    are binary, MAP@k is divided by min(k, R), and equal scores are ordered by document id, ascending.

    Scores are computed for at most ``corpus_chunk_size`` documents and 2^22 pairs at a time, which bounds memory; only
    the best hits of each query are kept. With several score functions the primary metric is the highest nDCG at its
    last rank, unless ``main_score_function`` names one.

    Raises UsageError for ranks below 1 and when no query has relevant documents or there is no corpus; DataError when
    none of the relevant documents is in the corpus or one is listed twice; RankingError, when called, for scores that
    are NaN.
    """

    def __init__(
        self,
        queries: Mapping[Any, Any],
        corpus: Mapping[Any, Any],
        relevant_docs: Mapping[Any, set[Any]],
        corpus_chunk_size: int = 50000,
        mrr_at_k: Sequence[int] = (10,),
        ndcg_at_k: Sequence[int] = (10,),
        accuracy_at_k: Sequence[int] = (1, 3, 5, 10),
        precision_recall_at_k: Sequence[int] = (1, 3, 5, 10),
        map_at_k: Sequence[int] = (100,),
        show_progress_bar: bool = False,
        batch_size: int = 32,
        name: str = "",
        write_csv: bool = True,
        truncate_dim: int | None = None,
        score_functions: Mapping[str, ScoreFunction] | None = None,
        main_score_function: str | SimilarityFunction | None = None,
        query_prompt: str | None = None,
        query_prompt_name: str | None = None,
        corpus_prompt: str | None = None,
        corpus_prompt_name: str | None = None,
        write_predictions: bool = False,
    ) -> None:
        super().__init__()
        self.primary_metric: str | None = None
        self.queries_ids = [query for query in queries if relevant_docs.get(query)]
        self.queries = [queries[query] for query in self.queries_ids]
        self.corpus_ids, self.corpus = list(corpus), list(corpus.values())
        self.relevant_docs = relevant_docs
        self.corpus_chunk_size = corpus_chunk_size
        self.mrr_at_k, self.ndcg_at_k, self.map_at_k = list(mrr_at_k), list(ndcg_at_k), list(map_at_k)
        self.accuracy_at_k, self.precision_recall_at_k = list(accuracy_at_k), list(precision_recall_at_k)
        self.show_progress_bar, self.batch_size, self.truncate_dim = show_progress_bar, batch_size, truncate_dim
        self.name, self.write_csv, self.write_predictions = name, write_csv, write_predictions
        self.query_prompt, self.query_prompt_name = query_prompt, query_prompt_name
        self.corpus_prompt, self.corpus_prompt_name = corpus_prompt, corpus_prompt_name
        self.score_functions = None if score_functions is None else dict(score_functions)
        self.main_score_function = _similarity(main_score_function) if main_score_function else None
        self._follows_model = score_functions is None
        self.score_function_names = sorted(self.score_functions or ())
        self.csv_file = f"Information-Retrieval_evaluation{name and '_' + name}_results.csv"
        self.predictions_file = f"Information-Retrieval_evaluation{name and '_' + name}_predictions.jsonl"
        self._cutoffs = Cutoffs(
            self.mrr_at_k, self.ndcg_at_k, self.accuracy_at_k, self.precision_recall_at_k, self.map_at_k
        )
        _require_content(self.queries_ids, self.corpus_ids, corpus_chunk_size)
        self._judgments = Judgments(self.queries_ids, self.corpus_ids, relevant_docs)
        self._tie_break = tie_break_of(self.corpus_ids)

    @property
    def csv_headers(self) -> list[str]:
        """The columns of the CSV file: only the first two until a call has named the model's score function."""
        headings = [f"{name}-{cell.heading}" for name in self.score_function_names for cell in self._cutoffs.cells()]
        return ["epoch", "steps", *headings, *(self._further_columns() if headings else ())]

    def __call__(
        self,
        model: SentenceTransformer,
        output_path: str | PathLike[str] | None = None,
        epoch: int = -1,
        steps: int = -1,
        corpus_model: SentenceTransformer | None = None,
        corpus_embeddings: Any = None,
    ) -> dict[str, float]:
        """Evaluate the model: ``{"<name>_<score function>_<measure>@<k>": value}``, also stored in its model card.

        ``corpus_model`` encodes the documents in place of the model; ``corpus_embeddings`` (tensor, array or memory
        map, one row per document in the order of the corpus) are taken as they are. With ``output_path`` a row with
        ``epoch`` and ``steps`` is added to the CSV file there, and predictions are written.
        """
        logger.info(
            "%s Evaluation of the model on the %s dataset%s:",
            self.description,
            self.name,
            self._step_text(epoch, steps),
        )
        values = self.compute_all_metrics(model, corpus_model, corpus_embeddings, output_path)
        further = self._further_values()
        if output_path is not None and self.write_csv:
            cells = [
                values[name][cell.key][cell.k] for name in self.score_function_names for cell in self._cutoffs.cells()
            ]
            _append_row(Path(output_path) / self.csv_file, self.csv_headers, [epoch, steps, *cells, *further.values()])
        if not self.primary_metric:
            self.primary_metric = self._best_function(values)
        metrics: dict[str, float] = self.prefix_name_to_metrics(_flat(values) | further, self.name)
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics

    def compute_all_metrics(
        self,
        model: SentenceTransformer,
        corpus_model: SentenceTransformer | None = None,
        corpus_embeddings: Any = None,
        output_path: str | PathLike[str] | None = None,
    ) -> dict[str, Values]:
        """Search and score: ``{score function: {"ndcg@k": {10: value}}}``; logged, and predictions are written.

        Arguments as in a call. Hits go through :meth:`compute_metrics`, values through :meth:`output_scores`.
        """
        functions = self._choose_functions(model)
        searched = self._search(functions, model, corpus_model or model, corpus_embeddings)
        query_results = {name: hits.results() for name, hits in searched.items()}
        if self.write_predictions and output_path is not None:
            for name, results in query_results.items():
                path = Path(output_path) / self.predictions_file.replace(".jsonl", f"_{name}.jsonl")
                _write_predictions(path, results, self.queries_ids, self.queries)
        logger.info("Queries: %d", len(self.queries))
        logger.info("Corpus: %d\n", len(self.corpus))
        values = {name: self.compute_metrics(results) for name, results in query_results.items()}
        for name in self.score_function_names:
            logger.info("Score-Function: %s", name)
            self.output_scores(values[name])
        return values

    compute_metrices = compute_all_metrics  # the library's older name

    def compute_metrics(self, queries_result_list: Sequence[Sequence[Mapping[str, Any]]]) -> Values:
        """Score hits: ``{"ndcg@k": {10: value}}``, every measure at each of its ranks.

        Args:
            queries_result_list: for each query, in the order of ``queries_ids``, its ``{"corpus_id", "score"}`` in any
                order. Equal scores are ordered by document id, ascending.

        Raises:
            UsageError: there are more or fewer lists than queries.
            RankingError: a score is NaN, or a document is in a list twice.
        """
        if isinstance(queries_result_list, QueryResults):
            run = queries_result_list.run
        else:
            run = self._judgments.run_of(queries_result_list)
        return self._judgments.values(run, self._cutoffs)

    def output_scores(self, scores: Mapping[str, Mapping[int, float]]) -> None:
        """Log values of the form that :meth:`compute_metrics` returns, one per line."""
        for name in LOGGED:
            for k, value in scores[name.key].items():
                value_text = f"{value * 100:.2f}%" if name.heading in _PERCENT else f"{value:.4f}"
                logger.info("%s@%d: %s", name.heading, k, value_text)

    def store_metrics_in_model_card_data(
        self, model: SentenceTransformer, metrics: dict[str, Any], epoch: int = 0, step: int = 0
    ) -> None:
        """Store the values for the model card, and mark the model as a retrieval model unless it has another type."""
        super().store_metrics_in_model_card_data(model, metrics, epoch, step)
        card = model.model_card_data
        if getattr(card, "ir_model", True) is None:  # the library looks for its own class when it writes the card
            card.ir_model = True

    def embed_inputs(
        self,
        model: SentenceTransformer,
        sentences: Sequence[Any],
        encode_fn_name: str | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return embeddings as a tensor, by the model's method for a ``query``, a ``document``, or neither (None)."""
        encode = {None: "encode", "query": "encode_query", "document": "encode_document"}[encode_fn_name]
        return getattr(model, encode)(
            sentences,
            prompt_name=prompt_name,
            prompt=prompt,
            batch_size=self.batch_size,
            show_progress_bar=self.show_progress_bar,
            **self._encode_options(),
            **kwargs,
        )

    def get_config_dict(self) -> dict[str, Any]:
        """Return the given truncation and prompts, for the model card."""
        names = ("truncate_dim", "query_prompt", "query_prompt_name", "corpus_prompt", "corpus_prompt_name")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def _encode_options(self) -> dict[str, Any]:
        return {"convert_to_tensor": True, "truncate_dim": self.truncate_dim}

    def _further_columns(self) -> Sequence[str]:
        """Return the names of further values, in addition to the score functions' values."""
        return ()

    def _further_values(self) -> dict[str, float]:
        """Return the further values of the current call."""
        return {}

    def _choose_functions(self, model: SentenceTransformer) -> dict[str, ScoreFunction]:
        """Return the given functions, or else this model's own similarity, whose name is part of the primary metric."""
        if not self._follows_model and self.score_functions is not None:
            return self.score_functions
        self.score_functions = {model.similarity_fn_name: model.similarity}
        names = sorted(self.score_functions)
        if names != self.score_function_names:
            self.score_function_names, self.primary_metric = names, None
        return self.score_functions

    def _search(
        self,
        functions: Mapping[str, ScoreFunction],
        model: SentenceTransformer,
        corpus_model: SentenceTransformer,
        corpus_embeddings: Any,
    ) -> dict[str, BestHits]:
        """Return the best hits of every query under each score function; the corpus is encoded once, in chunks."""
        count = len(self.corpus)
        self._require_rows(corpus_embeddings)
        queries = self.embed_inputs(model, self.queries, "query", self.query_prompt_name, self.query_prompt)
        best_hits = {
            name: BestHits(name, function, self.queries_ids, self.corpus_ids, self._tie_break, self._cutoffs.deepest)
            for name, function in functions.items()
        }
        for start in trange(0, count, self.corpus_chunk_size, desc="Corpus", disable=not self.show_progress_bar):
            stop = min(start + self.corpus_chunk_size, count)
            if corpus_embeddings is None:
                texts = self.corpus[start:stop]
                chunk = self.embed_inputs(corpus_model, texts, "document", self.corpus_prompt_name, self.corpus_prompt)
            else:
                chunk = part(corpus_embeddings, start, stop)
            for hits in best_hits.values():
                hits.add(queries, chunk, start)
        return best_hits

    def _require_rows(self, corpus_embeddings: Any) -> None:
        if corpus_embeddings is not None and len(corpus_embeddings) != len(self.corpus):
            raise UsageError(
                f"corpus_embeddings has {len(corpus_embeddings):,} rows for {len(self.corpus):,} documents",
                fix="give one row per document, in the order of the corpus",
            )

    def _best_function(self, values: Mapping[str, Values]) -> str:
        """Return the key of the primary metric, without the evaluator's name."""
        last = max(self.ndcg_at_k)
        if self.main_score_function is not None:
            return f"{self.main_score_function.value}_ndcg@{last}"
        best = max(self.score_function_names, key=lambda name: values[name]["ndcg@k"][last])
        return f"{best}_ndcg@{last}"

    def _step_text(self, epoch: int, steps: int) -> str:
        """Name the point in training, and the width of embeddings, for the message at the start."""
        when = (
            "" if epoch == -1 else f" after epoch {epoch}" if steps == -1 else f" in epoch {epoch} after {steps} steps"
        )
        return when if self.truncate_dim is None else f"{when} (truncated to {self.truncate_dim})"


def _flat(values: Mapping[str, Values]) -> dict[str, float]:
    """Return ``{"cosine_ndcg@10": value}``."""
    return {
        f"{name}_{key.replace('@k', f'@{k}')}": value
        for name, measures in values.items()
        for key, values_by_cutoff in measures.items()
        for k, value in values_by_cutoff.items()
    }


def _similarity(name: str | SimilarityFunction) -> SimilarityFunction:
    try:
        return SimilarityFunction(name)
    except ValueError as error:
        raise UnknownNameError("similarity", str(name), SimilarityFunction.possible_values()) from error


def _require_content(query_ids: Sequence[Any], corpus_ids: Sequence[Any], chunk_size: int) -> None:
    if not query_ids:
        raise UsageError("no query has a relevant document", fix="relevant_docs maps ids of queries to sets of ids")
    if not corpus_ids:
        raise UsageError("the corpus is empty", fix="corpus maps ids of documents to texts")
    if chunk_size < 1:
        raise UsageError(f"corpus_chunk_size is {chunk_size}", fix="give 1 or more")


def _append_row(path: Path, headers: Sequence[str], row: Sequence[Any]) -> None:
    """Add a row to a CSV file, which is begun with ``headers`` if it does not exist.

    A file that has other headers gets the row too, with a warning, so that no measurement is lost.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    began = path.is_file()
    if began:
        with path.open(newline="", encoding="utf-8") as stream:
            written = next(csv.reader(stream), [])
        if written != list(headers):
            logger.warning("'%s' has other columns than the row that is added to it: %s", path, ",".join(headers))
    with path.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if not began:
            writer.writerow(headers)
        writer.writerow(row)


def _write_predictions(
    path: Path, query_results: QueryResults, query_ids: Sequence[Any], queries: Sequence[Any]
) -> None:
    """Write one JSON object a query: ``query_id``, ``query`` and ``results``, each with ``corpus_id`` and ``score``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        for query_id, query, results in zip(query_ids, queries, query_results, strict=True):
            stream.write(json.dumps({"query_id": query_id, "query": query, "results": results}) + "\n")
