"""Loaders: files to columnar documents, queries and judgments."""

from harness.loaders.dataset import (
    Description,
    check_dataset,
    describe_dataset,
    filter_dataset,
    load_corpus,
    load_dataset,
    load_golden_of,
)

__all__ = [
    "Description",
    "check_dataset",
    "describe_dataset",
    "filter_dataset",
    "load_corpus",
    "load_dataset",
    "load_golden_of",
]
