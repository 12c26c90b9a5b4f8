"""Loaders: files to columnar documents, queries and judgments."""

from harness.loaders.collection import load_corpus, load_dataset

__all__ = ["load_corpus", "load_dataset"]
