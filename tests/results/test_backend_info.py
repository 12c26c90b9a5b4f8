"""Short labels for narrow tables, and what a result knows of the model of a backend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.results.backend_info import LabelledBackend, backend_infos, short_labels


@pytest.mark.parametrize(
    ("labels", "short"),
    [
        (["csr", "lucene:k1=1.2"], ["csr", "lucene:k1=1.2"]),
        (["lucene:k1=1.2;b=0.75;analyzer=whitespace", "csr"], ["lucene", "csr"]),
        (
            ["qdrant:mode=server;keep=true;shards=1", "qdrant:mode=server;keep=true;shards=2"],
            ["qdrant[shards=1]", "qdrant[shards=2]"],
        ),
        (
            ["csr", "csr:k1=1.2;b=0.75;analyzer=whitespace", "csr:k1=1.2"],
            ["csr", "csr[b=0.75]", "csr:k1=1.2"],
        ),
        (
            [
                "dense:model=sentence-transformers/all-MiniLM-L6-v2",
                "dense:model=sentence-transformers/all-mpnet-base-v2",
            ],
            ["dense[MiniLM-L6-v2]", "dense[mpnet-base-v2]"],
        ),
        (
            ["chroma:model=abcdefghijklmnopqrst", "chroma:model=abcdefghijklmnopqrst|keywords"],
            ["chroma", "chroma|keywords"],
        ),
        (
            ["lucene:k1=1.2;b=0.2;analyzer=whitespace", "lucene:k1=1.2;b=0.4;analyzer=whitespace"],
            ["lucene[b=0.2]", "lucene[b=0.4]"],
        ),
        (
            ["chroma:model=abcdefghijklm;ef_search=9|keywords", "chroma:model=abcdefghijklm;ef_search=10|keywords"],
            ["chroma[9]|keywords", "chroma[10]|keywords"],
        ),
        (
            [
                "rrf:lucene+(chroma:model=abcdefghijklmnopqrst)",
                "rrf:lucene+(chroma:model=abcdefghijklmnopqrst);k=10",
                "rrf:lucene+(chroma:model=abcdefghijklmnopqrst|keywords)",
            ],
            ["rrf:lucene+chroma", "rrf[k=10]:lucene+chroma", "rrf:lucene+(…a|keywords)"],
        ),
        (
            [f"chroma:model=abcdefghijklm|crossencoder:model=org/{name * 20}" for name in "ab"],
            ["chroma|crossencoder#1", "chroma|crossencoder#2"],
        ),
        (
            ["csr", "run:/data/experiments/2026/tuned.trec.gz", "run:/data/experiments/2026/default.trec.gz"],
            ["csr", "run:…tuned.trec.gz", "run:…default.trec.gz"],
        ),
        (
            ["http:http://search.example.org/api/one/search", "http:http://search.example.org/api/two/search"],
            ["http:…one/search", "http:…two/search"],
        ),
        (["a label that (is no expression", "csr"], ["a label that… expression", "csr"]),
        ([], []),
    ],
)
def test_a_short_label_says_what_sets_a_backend_apart(labels: list[str], short: list[str]) -> None:
    assert short_labels(labels) == short


SETTINGS = st.lists(st.sampled_from(["k1=1.2", "b=0.75", "shards=12", "analyzer=whitespace"]), unique=True, max_size=4)
LABELS = st.lists(
    st.tuples(st.sampled_from(["csr", "lucene", "a-backend-with-a-very-long-name"]), SETTINGS).map(
        lambda parts: f"{parts[0]}:{';'.join(parts[1])}" if parts[1] else parts[0]
    ),
    unique=True,
)


@given(LABELS)
def test_short_labels_are_short_and_differ(labels: list[str]) -> None:
    short = short_labels(labels)
    assert len(set(short)) == len(short) == len(labels)
    assert all(len(label) <= 24 for label in short)
    assert not {label for label, own in zip(short, labels, strict=True) if label in labels and label != own}


def test_the_model_is_told_wherever_it_was_seen() -> None:
    """A trial that failed before it encoded anything knows nothing of its model: another dataset's does."""
    facts = {"model": "a/b", "dimensions": 384, "parameters_millions": 22.7}
    backends = [LabelledBackend("dense", "dense", {}), LabelledBackend("dense", "dense", facts)]
    (info,) = backend_infos([*backends, LabelledBackend("dense", "dense", {})])
    assert (info.model, info.dimensions, info.parameters_millions) == ("a/b", 384, 22.7)
