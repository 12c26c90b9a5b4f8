"""A backend for ``mteb.evaluate``: any of MTEB's text retrieval tasks on a real engine.

::

    import mteb
    from harness.integrations.mteb import Backend

    mteb.evaluate(Backend("qdrant"), mteb.get_task("SciFact"))

MTEB loads the task and scores the results; encoding, the engine and its exact reference come from ``harness.compare``.
Needs mteb (extra ``mteb``), and raises MissingExtraError without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness._version import __version__
from harness.data.dataset import Dataset, text_columns
from harness.data.problems import Problems
from harness.data.types import Corpus, Queries
from harness.errors import UsageError
from harness.integrations.hits_by_id import run_by_id
from harness.integrations.searching import SingleBackend
from harness.loaders.mteb import document_batches, language_of, query_batches
from harness.registry.optional import require

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta

require("mteb", extra="mteb", feature="harness.integrations.mteb")

__all__ = ["Backend"]

_MODALITY = "text"
_DIGITS = 16


class Backend:
    """A backend as MTEB's ``SearchProtocol``: documents are indexed and queries searched in one isolated worker.

    Documents and queries are the texts that MTEB gives to a model: title, a space and text; a query, a space and its
    instruction. Scores are float32, as engines give them, and the hits of a query are in the engine's order.
    """

    def __init__(self, backend: str, *, out: str | Path | None = None, **options: Any) -> None:
        """Name the backend; no engine starts.

        Args:
            backend: one backend as ``--backends`` takes it: ``qdrant``, ``faiss:model=…;index=HNSW32``, ``rrf:A+B``.
            out: folder in which each search is stored as a result that ``harness report`` shows. None stores none.
            options: further options of ``harness.compare``, such as ``deadline``, ``resume`` and ``timing``; the
                depth k is MTEB's.

        Raises:
            UsageError: for an unknown backend, parameter or option, and for several backends.
        """
        self._single = SingleBackend(backend, "Backend", options, out)
        self._corpus: tuple[str, Corpus] | None = None

    @property
    def comparison(self) -> Any:
        """The :class:`harness.Comparison` of the last search, with its parity and costs; None before it."""
        return self._single.comparison

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """The backend as MTEB stores results of it.

        Its revision is a digest of parameters and versions, so that MTEB takes no stored result of another
        configuration for this one's.
        """
        from mteb.models.model_meta import ModelMeta

        facts = {
            "name": f"harness/{self._single.label.replace('/', '-')}",
            "revision": f"{__version__}-{self._single.revision[:_DIGITS]}",
            "modalities": [_MODALITY],
        }
        return ModelMeta.create_empty(facts)

    def index(
        self,
        corpus: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        **_: Any,
    ) -> None:
        """Keep the documents until queries come: engine and worker live as long as one search.

        Raises:
            UsageError: the task is about more than text.
            DataError: an id is empty, has control characters, or is there twice.
        """
        if set(task_metadata.modalities) != {_MODALITY}:
            modalities = " and ".join(sorted(task_metadata.modalities))
            raise UsageError(f"{task_metadata.name} is about {modalities}, and engines here search texts")
        name = _name(task_metadata, hf_split, hf_subset)
        columns = text_columns(document_batches(corpus), Problems(f"documents of {name}", "document"))
        self._corpus = name, Corpus(*columns)

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Return the ``top_k`` best documents of each query with their scores, only from ``top_ranked`` if given.

        Raises:
            UsageError: no documents of this task were indexed.
            BackendError: the backend failed.
        """
        name = _name(task_metadata, hf_split, hf_subset)
        if self._corpus is None or self._corpus[0] != name:
            raise UsageError(
                f"no documents of {name} were indexed", fix="call index before search, as mteb.evaluate does"
            )
        columns = text_columns(query_batches(queries), Problems(f"queries of {name}", "query"))
        dataset = Dataset(
            name,
            self._corpus[1],
            Queries(*columns),
            None,
            language=language_of(task_metadata, hf_subset),
            candidates=None if top_ranked is None else {query: top_ranked.get(query, ()) for query in columns.ids},
        )
        return run_by_id(self._single.search(dataset, top_k))


def _name(task_metadata: Any, split: str, subset: str) -> str:
    return f"mteb:{task_metadata.name}{'' if subset == 'default' else f':{subset}'}@{split}"
