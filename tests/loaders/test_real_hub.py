"""Datasets of the real Hugging Face hub, by their published counts: ``pytest -m network``."""

from __future__ import annotations

import pytest
from installed import skip_module_without

from harness.loaders import load_dataset
from harness.loaders.base import DatasetSpec
from harness.loaders.hugging_face import HubLoader

pytestmark = pytest.mark.network

skip_module_without("datasets")


@pytest.mark.parametrize(
    ("spec", "split", "documents", "queries", "judgments"),
    [
        # counts of ir_datasets' and MTEB's metadata
        ("hf:zeta-alpha-ai/NanoArguAna", "train", 3635, 50, 50),
        ("hf:BeIR/scifact", "test", 5183, 300, 339),
        ("hf:yjoonjang/markers_bm", "test", 720, 114, 114),
        ("hf:macavaney/miracl-noauth:yo", "dev", 49043, 119, 1188),
    ],
)
def test_counts_of_published_datasets(spec, split, documents, queries, judgments):
    dataset = load_dataset(spec, split=split)
    assert (len(dataset.corpus), len(dataset.queries), len(dataset.qrels)) == (documents, queries, judgments)
    assert HubLoader().local_files(DatasetSpec(spec)).paths
