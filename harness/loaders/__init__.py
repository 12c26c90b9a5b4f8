"""Loaders: files to columnar documents, queries and judgments."""

from harness.loaders.dataset import (
    Description,
    Located,
    check_dataset,
    describe_dataset,
    filter_dataset,
    load_corpus,
    load_dataset,
    load_golden_of,
    locate_dataset,
)

__all__ = [
    "Description",
    "Located",
    "check_dataset",
    "describe_dataset",
    "filter_dataset",
    "load_corpus",
    "load_dataset",
    "load_golden_of",
    "locate_dataset",
]
