"""Loaders: files to columnar documents, queries and judgments."""

from harness.loaders.dataset import (
    LoadedCorpus,
    check_dataset,
    filter_dataset,
    find_metadata_field,
    load_corpus,
    load_dataset,
    load_documents,
    load_field_texts,
    load_golden_of,
    load_metadata,
)

__all__ = [
    "LoadedCorpus",
    "check_dataset",
    "filter_dataset",
    "find_metadata_field",
    "load_corpus",
    "load_dataset",
    "load_documents",
    "load_field_texts",
    "load_golden_of",
    "load_metadata",
]
