"""The index of a corpus' texts finds what comparing all of them finds, and is made once for a cache."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.dataset import Dataset
from harness.data.texts import content_digest
from harness.data.types import Corpus, Ids
from harness.loaders import text_index
from harness.loaders.checks import dataset_findings
from harness.loaders.text_index import hashes_of, index_of
from harness.store.cache import Cache

SOME = st.lists(
    st.sampled_from(["", " ", "a", "a ", "\u3000é", "é\n", "null", "한"]) | st.text(max_size=3), max_size=40
)


def corpus_of(texts: list[str], cuts: list[int] | None = None) -> Corpus:
    """Texts in chunks that end at ``cuts``, the way a file may hold them."""
    bounds = [0, *sorted(cuts or []), len(texts)]
    chunks = [texts[a:b] for a, b in pairwise(bounds)]
    column = pa.chunked_array(chunks, pa.string())
    ids = Ids.of(f"d{number}" for number in range(len(texts)))
    return Corpus(ids, column, content_digest(ids, column))


@given(texts=SOME, cut=st.integers(0, 40), asked=SOME, at_once=st.integers(1, 50))
def test_the_index_agrees_with_comparing_texts(texts: list[str], cut: int, asked: list[str], at_once: int) -> None:
    stripped = [text.strip() for text in texts]
    counts = Counter(stripped)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_index, "_BATCH", 7)
        patch.setattr(text_index, "_HASHES_PER_SORT", at_once)
        index = index_of(corpus_of(texts, [min(cut, len(texts))]))
        found = [rows.tolist() for rows in index.rows_of(hashes_of(asked))]
    assert found == [[row for row, text in enumerate(stripped) if text == one.strip()] for one in asked]
    assert (np.diff(index.hashes.astype(object)) >= 0).all()
    repeated = index.repeated()
    assert repeated.rows.tolist() == [row for row, text in enumerate(stripped) if text and counts[text] > 1]
    assert repeated.size.tolist() == [counts[stripped[row]] for row in repeated.rows]
    groups: dict[int, set[str]] = {}
    for row, group in zip(repeated.rows.tolist(), repeated.group.tolist(), strict=True):
        groups.setdefault(group, set()).add(stripped[row])
    assert all(len(one) == 1 for one in groups.values())


def test_a_large_corpus_is_hashed_once_for_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"d{number}": f"text {number % 4000}" for number in range(text_index._WORTH_KEEPING)}
    dataset = Dataset.of(texts, {"q": "text"}, {"q": {"d0": 1}})
    first = dataset_findings(dataset, cache=Cache(tmp_path))
    assert [one.check for one in first] == ["duplicate-texts"]
    monkeypatch.setattr(text_index, "_fill", lambda *_: pytest.fail("the documents were hashed again"))
    assert dataset_findings(dataset, cache=Cache(tmp_path)) == first


def test_a_small_corpus_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    index_of(corpus_of(["a", "b"]), Cache(tmp_path))
    assert list(tmp_path.iterdir()) == []
