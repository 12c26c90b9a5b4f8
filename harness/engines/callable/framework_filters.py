"""Filters of questions in the form that each framework's retrievers take.

Values of filters are text, and metadata may hold numbers: a condition is met by each value that has this text.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from harness.data.filtering import Conditions, matches, values_of_text
from harness.errors import EngineUnavailableError

__all__ = ["haystack_filter", "langchain_filter", "llamaindex_filter"]

Writer = Callable[[Conditions], object]
_SEARCHES = (
    "similarity_search_with_score",
    "similarity_search",
    "similarity_search_with_score_by_vector",
    "_similarity_search_with_score_by_vector",
)
"""Methods of a LangChain vector store whose parameters show the form of its filter."""


def langchain_filter(store: object) -> Writer | None:
    """Return a function that writes a LangChain vector store's filter; None for a store whose form is not known.

    The form follows from the annotation of the parameter ``filter``: a function of the document or of its metadata, a
    filter of Qdrant, or a mapping with Chroma's operators.
    """
    annotation = next(filter(None, (_annotation(store, name) for name in _SEARCHES)), "")
    if "Callable" in annotation:
        return _test_of_document
    if "models.Filter" in annotation:
        return _qdrant_filter
    return _operators if "dict" in annotation.lower() or "mapping" in annotation.lower() else None


def _annotation(store: object, method: str) -> str:
    function = getattr(store, method, None)
    parameters = inspect.signature(function).parameters if function is not None else {}
    return str(parameters["filter"].annotation) if "filter" in parameters else ""


def _test_of_document(conditions: Conditions) -> Callable[[object], bool]:
    """Return a function that a store calls with a document, or with its metadata."""

    def is_match(document: object) -> bool:
        metadata = getattr(document, "metadata", document)
        return isinstance(metadata, Mapping) and matches(metadata, conditions)

    return is_match


def _operators(conditions: Conditions) -> Mapping[str, object]:
    """Write a filter with ``$and`` and ``$or``, as Chroma and other stores of LangChain read it."""
    clauses = []
    for field, text in conditions.items():
        equal: list[Mapping[str, object]] = [{field: value} for value in values_of_text(text)]
        clauses.append(equal[0] if len(equal) == 1 else {"$or": equal})
    return clauses[0] if len(clauses) == 1 else {"$and": clauses}


def _qdrant_filter(conditions: Conditions) -> object:
    """Write a filter of Qdrant's client; LangChain keeps metadata in the payload's object ``metadata``."""
    models = _loaded_module("qdrant_client.models")
    clauses = [
        models.Filter(should=[_qdrant_condition(models, field, value) for value in values_of_text(text)])
        for field, text in conditions.items()
    ]
    return models.Filter(must=clauses)


def _qdrant_condition(models: Any, field: str, value: str | float) -> object:
    key = f"metadata.{field.removeprefix('metadata.')}"
    if isinstance(value, float):
        return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def llamaindex_filter(conditions: Conditions) -> object:
    """Write LlamaIndex's ``MetadataFilters``."""
    stores = _loaded_module("llama_index.core.vector_stores")
    clauses = []
    for field, text in conditions.items():
        equal = [
            stores.MetadataFilter(key=field, value=value)
            for value in values_of_text(text)
            if not isinstance(value, bool)
        ]
        clauses.append(equal[0] if len(equal) == 1 else stores.MetadataFilters(filters=equal, condition="or"))
    return stores.MetadataFilters(filters=clauses, condition="and")


def _loaded_module(name: str) -> Any:
    """Return a module of the user's framework, which is loaded with its objects: nothing is imported here."""
    module = sys.modules.get(name)
    if module is None:
        raise EngineUnavailableError(
            f"questions have filters, and the module {name}, which has the form of this backend's filters, is missing",
            fix="put a function around it that takes the filter: python:MODULE:FUNCTION, as (question, k, filter)",
        )
    return module


def haystack_filter(conditions: Conditions) -> Mapping[str, object]:
    """Write Haystack's filter; fields of metadata are named after ``meta.``."""
    clauses = []
    for field, text in conditions.items():
        values = values_of_text(text)
        name = field if field.startswith("meta.") else f"meta.{field}"
        several = len(values) > 1
        clauses.append(
            {
                "field": name,
                "operator": "in" if several else "==",
                "value": list(values) if several else values[0],
            }
        )
    return {"operator": "AND", "conditions": clauses}
