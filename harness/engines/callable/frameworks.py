"""``langchain:MODULE:NAME``, ``llamaindex:…``, ``haystack:…``, ``pyterrier:…``: other frameworks' retrievers.

NAME is the retriever, or a function without arguments that returns it. No framework is imported here: an object is
recognised by its methods.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

from harness.data.filtering import NO_FILTER, Conditions
from harness.engines.callable.answers import PLAIN, SCORES, TEXTS, Answer, HitContent, first_of, read_answer
from harness.engines.callable.framework_filters import haystack_filter, langchain_filter, llamaindex_filter
from harness.errors import EngineUnavailableError

__all__ = ["FRAMEWORKS", "Retriever", "retriever_of"]

Call = Callable[..., object]
"""A function of a question, a number, and the conditions of the question's filter, which are optional."""
_MAX_FIELDS = 12
_NO_PARAMETER = "it has no parameter for a filter"
_UNKNOWN_FORM = "the form of its vector store's filter is not known"
_CONFIGURED = "it is configured with a filter, which the filter of a question would replace"
_ID_FIELDS = ("id", "id_", "node_id")
"""Attributes in which LangChain, Haystack and LlamaIndex keep a document's id in its store."""


class Retriever(NamedTuple):
    """The way to query a framework's object: ``call`` returns documents, and ``read`` makes an answer from them.

    ``notes`` describe the object. ``takes_k`` is whether it accepts the number of documents to return. ``fixed_k`` is
    the number of documents that it is set to return, None if it is not set. ``no_filter`` is why it takes no filter;
    empty if it takes one.
    """

    call: Call
    read: Callable[[object], Answer]
    notes: tuple[str, ...]
    fixed_k: int | None = None
    takes_k: bool = True
    no_filter: str = ""


class _Adapter(NamedTuple):
    call: Call
    takes_k: bool
    own_k: object = None
    no_filter: str = ""


def retriever_of(framework: str, candidate: Any, name: str, id_key: str, content: HitContent = PLAIN) -> Retriever:
    """Return the way to query a framework's object.

    Args:
        framework: An element of :data:`FRAMEWORKS`.
        candidate: The retriever, vector store, index, component or pipeline, or a function that returns it.
        name: Its name in messages.
        id_key: The field of a document's metadata that holds its id; "" for the document's own id.
        content: The content of documents that is matched besides their ids.

    Raises:
        EngineUnavailableError: It is none of these.
    """
    title, asking_of, expected = FRAMEWORKS[framework]
    asking = asking_of(candidate)
    if asking is None and callable(candidate):
        candidate = candidate()
        asking = asking_of(candidate)
    if asking is None:
        raise EngineUnavailableError(
            f"'{name}' is a {type(candidate).__name__}, and no retriever of {title}",
            fix=f"name {expected}, or a function that returns such an object; other code: python:MODULE:FUNCTION",
        )
    notes = [f"queried as {title}'s {type(candidate).__name__}, whose own code answers"]
    fixed_k = asking.own_k if isinstance(asking.own_k, int) else None
    return Retriever(
        asking.call,
        lambda returned: _read(returned, id_key, content),
        tuple(notes),
        fixed_k,
        asking.takes_k,
        asking.no_filter,
    )


def _adapt_langchain(candidate: Any) -> _Adapter | None:
    if hasattr(candidate, "similarity_search_with_score"):
        write = langchain_filter(candidate)

        def search(question: str, k: int, conditions: Conditions = NO_FILTER) -> object:
            return candidate.similarity_search_with_score(question, k=k, **_keyword("filter", write, conditions))

        return _Adapter(search, takes_k=True, no_filter=_UNKNOWN_FORM if write is None else "")
    if not hasattr(candidate, "invoke"):
        return None
    if hasattr(candidate, "search_kwargs"):
        return _adapt_store_retriever(candidate)
    return _Adapter(
        lambda question, k, _=NO_FILTER: candidate.invoke(question)[:k], takes_k=False, no_filter=_NO_PARAMETER
    )


def _adapt_store_retriever(candidate: Any) -> _Adapter:
    """Query LangChain's retriever of a vector store, which passes keywords on to the store."""
    store, configured = getattr(candidate, "vectorstore", None), candidate.search_kwargs or {}
    write = langchain_filter(store)

    def invoke(question: str, k: int, conditions: Conditions = NO_FILTER) -> object:
        return candidate.invoke(question, k=k, **_keyword("filter", write, conditions))

    no_filter = _UNKNOWN_FORM if write is None else _CONFIGURED if configured.get("filter") else ""
    return _Adapter(invoke, takes_k=True, own_k=configured.get("k", _default_k(store)), no_filter=no_filter)


def _keyword(name: str, write: Callable[[Conditions], object] | None, conditions: Conditions) -> dict[str, Any]:
    """Return the keyword argument that passes a filter on; none for a question without a filter."""
    return {name: write(conditions)} if write is not None and conditions else {}


def _default_k(store: Any) -> object:
    """Return the default number of documents of a LangChain vector store; None if it is not known."""
    search = getattr(store, "similarity_search", None)
    k = inspect.signature(search).parameters.get("k") if search is not None else None
    return k.default if k is not None else None


def _adapt_llamaindex(candidate: Any) -> _Adapter | None:
    if hasattr(candidate, "as_retriever"):

        def search(question: str, k: int, conditions: Conditions = NO_FILTER) -> object:
            filters = _keyword("filters", llamaindex_filter, conditions)
            return candidate.as_retriever(similarity_top_k=k, **filters).retrieve(question)

        return _Adapter(search, takes_k=True)
    if not hasattr(candidate, "retrieve"):
        return None
    no_filter = "a retriever's filter is fixed when it is made; name its index instead, llamaindex:MODULE:INDEX"
    if not hasattr(candidate, "similarity_top_k"):
        return _Adapter(
            lambda question, k, _=NO_FILTER: candidate.retrieve(question)[:k], takes_k=False, no_filter=no_filter
        )

    def retrieve(question: str, k: int, conditions: Conditions = NO_FILTER) -> object:  # noqa: ARG001
        candidate.similarity_top_k = k
        return candidate.retrieve(question)

    return _Adapter(retrieve, takes_k=True, own_k=candidate.similarity_top_k, no_filter=no_filter)


def _adapt_haystack(candidate: Any) -> _Adapter | None:
    if hasattr(candidate, "get_component") and hasattr(candidate, "inputs"):
        return _adapt_pipeline(candidate)
    if not hasattr(candidate, "run") or not hasattr(candidate, "__haystack_input__"):
        return None
    takes_k = "top_k" in candidate.__haystack_input__
    no_filter = _NO_PARAMETER if "filters" not in candidate.__haystack_input__ else _configured_filter([candidate])

    def run(question: str, k: int, conditions: Conditions = NO_FILTER) -> object:
        options = {"top_k": k} if takes_k else {}
        documents = candidate.run(query=question, **options, **_keyword("filters", haystack_filter, conditions))
        return documents["documents"] if takes_k else documents["documents"][:k]

    return _Adapter(run, takes_k, getattr(candidate, "top_k", None) if takes_k else None, no_filter)


def _configured_filter(components: Sequence[object]) -> str:
    """Return why no filter is passed to components: one of them has its own, which another would replace."""
    return _CONFIGURED if any(getattr(component, "filters", None) for component in components) else ""


def _adapt_pipeline(pipeline: Any) -> _Adapter:
    """Query a pipeline: every open text input gets the question; k goes to the component that returns the documents."""
    returning = [name for name, outputs in pipeline.outputs().items() if "documents" in outputs]
    if len(returning) != 1:
        components = ", ".join(returning) or "none"
        raise EngineUnavailableError(
            f"{len(returning)} components of the pipeline return documents ({components}), expected one",
            fix="put a function around it that returns the documents: python:MODULE:FUNCTION",
        )
    inputs: Mapping[str, Mapping[str, Any]] = pipeline.inputs()
    texts = {
        component: [name for name, about in sockets.items() if about["is_mandatory"] and about["type"] is str]
        for component, sockets in inputs.items()
    }
    takes_k = "top_k" in inputs.get(returning[0], {})
    filtering = [component for component, sockets in inputs.items() if "filters" in sockets]
    no_filter = _configured_filter([pipeline.get_component(name) for name in filtering]) if filtering else _NO_PARAMETER

    def run(question: str, k: int, conditions: Conditions = NO_FILTER) -> object:
        data: dict[str, dict[str, object]] = {
            component: dict.fromkeys(names, question) for component, names in texts.items() if names
        }
        if takes_k:
            data.setdefault(returning[0], {})["top_k"] = k
        for component in filtering if conditions else ():
            data.setdefault(component, {})["filters"] = haystack_filter(conditions)
        documents = pipeline.run(data)[returning[0]]["documents"]
        return documents if takes_k else documents[:k]

    fixed_k = getattr(pipeline.get_component(returning[0]), "top_k", None)
    return _Adapter(run, takes_k, fixed_k if takes_k else None, no_filter)


def _adapt_pyterrier(candidate: Any) -> _Adapter | None:
    """Query a transformer; its documents are in the order of their ranks, if it gives ranks."""
    if not hasattr(candidate, "transform") or not hasattr(candidate, "transform_iter"):
        return None

    def transform(question: str, k: int, conditions: Conditions = NO_FILTER) -> object:  # noqa: ARG001
        import pandas as pd

        frame = candidate.transform(pd.DataFrame({"qid": ["1"], "query": [question]}))
        ordered = frame.sort_values("rank", kind="stable") if "rank" in frame else frame
        return [
            SimpleNamespace(id=row.get("docno"), score=row.get("score"), text=row.get("text"), metadata=row)
            for row in ordered.head(k).to_dict("records")
        ]

    return _Adapter(transform, takes_k=False, no_filter="transformers of PyTerrier have no filter")


class _Framework(NamedTuple):
    title: str
    asking_of: Callable[[Any], _Adapter | None]
    expected: str


FRAMEWORKS: Mapping[str, _Framework] = {
    "langchain": _Framework("LangChain", _adapt_langchain, "a retriever (with invoke) or a vector store"),
    "llamaindex": _Framework("LlamaIndex", _adapt_llamaindex, "a retriever (with retrieve) or an index (as_retriever)"),
    "haystack": _Framework("Haystack", _adapt_haystack, "a retriever component that takes the query, or a pipeline"),
    "pyterrier": _Framework(
        "PyTerrier", _adapt_pyterrier, "a transformer of queries to documents, or a pipeline of such"
    ),
}


def _read(returned: object, id_key: str, content: HitContent) -> Answer:
    """Read documents as :func:`read_answer` does, with ids from their metadata if ``id_key`` names a field.

    Raises TypeError or ValueError as it does; if an id is missing, the message lists the existing metadata names.
    """
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        return read_answer(returned, content)
    hits = list(returned)
    documents = [_document(hit) for hit in hits]
    if not id_key:
        if content == PLAIN and documents and all(first_of(document, _ID_FIELDS) is None for document in documents):
            metadata_fields = _join_fields(_metadata(documents[0]))
            raise ValueError(
                f"its documents have no id: name the field of their metadata, id_key= (there is: {metadata_fields})"
            )
        return read_answer(hits, content)
    rows, keys = [], []
    for rank, (hit, document) in enumerate(zip(hits, documents, strict=True), 1):
        metadata = _metadata(document)
        value = metadata.get(id_key)
        if value is None and id_key not in metadata:
            value = getattr(document, id_key, None)  # LlamaIndex's ref_doc_id
        if value is None:
            raise ValueError(f"hit {rank} has no '{id_key}' in its metadata (there is: {_join_fields(metadata)})")
        score = hit[1] if isinstance(hit, tuple) else first_of(hit, SCORES)
        text = first_of(document, TEXTS)
        rows.append({"id": value, "score": score, "text": text, "metadata": metadata})
        keys.append({"id": first_of(document, _ID_FIELDS), "text": text, "value": value})
    answer = read_answer(rows, content)
    return replace(answer, keys=read_answer(keys, HitContent("value")).ids)


def _document(hit: Any) -> Any:
    document = hit[0] if isinstance(hit, tuple) else hit
    return getattr(document, "node", document)


def _metadata(document: Any) -> Mapping[str, object]:
    metadata = first_of(document, ("metadata", "meta"))
    return metadata if isinstance(metadata, Mapping) else {}


def _join_fields(metadata: Mapping[str, object]) -> str:
    return ", ".join(list(metadata)[:_MAX_FIELDS]) or "nothing"
