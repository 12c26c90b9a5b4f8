"""What is written can be read back, however it is packed; what is damaged gives an error and nothing else."""

from __future__ import annotations

import gzip
import json
import tempfile
from contextlib import suppress
from pathlib import Path

from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import DataError
from harness.loaders import load_dataset
from harness.store.cache import Cache

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda name: not (name[0].isspace() or name[-1].isspace())
)


@st.composite
def collections(draw):
    doc_ids = draw(st.lists(ids, min_size=1, max_size=12, unique=True))
    query_ids = draw(st.lists(ids, min_size=1, max_size=6, unique=True))
    documents = [
        {"_id": name, "text": draw(texts)} | draw(st.sampled_from([{}, {"title": None}, {"title": draw(texts)}]))
        for name in doc_ids
    ]
    queries = [{"_id": name, "text": draw(texts)} for name in query_ids]
    pairs = st.tuples(st.sampled_from(query_ids), st.sampled_from(doc_ids))
    judged = draw(st.lists(pairs, min_size=1, max_size=20, unique=True))
    qrels = [(*pair, draw(st.integers(-3, 4))) for pair in judged]
    return documents, queries, qrels


@st.composite
def spellings(draw):
    """How a file is written: line ends, blank lines, escapes, byte-order mark, compression."""
    return {
        "end": draw(st.sampled_from(["\n", "\r\n", "\n\n", "\n  \r\n"])),
        "ascii": draw(st.booleans()),
        "mark": draw(st.sampled_from([b"", b"\xef\xbb\xbf"])),
        "gzip": draw(st.booleans()),
    }


def write(folder: Path, name: str, lines: list[str], how) -> None:
    content = how["mark"] + "".join(line + how["end"] for line in lines).encode()
    path = folder / (f"{name}.gz" if how["gzip"] else name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(content) if how["gzip"] else content)


@settings(max_examples=examples(60))
@given(collections(), spellings())
def test_round_trip(collection, how):
    documents, queries, qrels = collection
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write(folder, "corpus.jsonl", [json.dumps(record, ensure_ascii=how["ascii"]) for record in documents], how)
        write(folder, "queries.jsonl", [json.dumps(record, ensure_ascii=how["ascii"]) for record in queries], how)
        rows = [f"{query}\t{document}\t{grade}" for query, document, grade in qrels]
        write(folder, "qrels/test.tsv", ["query-id\tcorpus-id\tscore", *rows], how)
        dataset = load_dataset(folder, cache=Cache(folder / "cache"))
        assert dataset.corpus.ids.to_list() == [record["_id"] for record in documents]
        assert dataset.corpus.texts.to_pylist() == [
            " ".join(part for part in (record.get("title"), record["text"]) if part) for record in documents
        ]
        assert dataset.queries.ids.to_list() == [record["_id"] for record in queries]
        assert dataset.queries.texts.to_pylist() == [record["text"] for record in queries]
        read = dataset.qrels
        assert read is not None
        of_line = [name for name, start, stop in zip(read.query_ids, read.indptr, read.indptr[1:], strict=False)
                   for _ in range(stop - start)]  # fmt: skip
        assert sorted(zip(of_line, read.doc_ids.take(read.rows), read.grades.tolist(), strict=True)) == sorted(qrels)


GOOD = {
    "corpus.jsonl": b'{"_id":"d1","title":"t","text":"a"}\n{"_id":"d2","text":"b"}\n',
    "queries.jsonl": b'{"_id":"q1","text":"a?"}\n',
    "qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}


@settings(max_examples=examples(150))
@given(st.sampled_from(sorted(GOOD)), st.integers(0, 60), st.integers(0, 5), st.binary(max_size=6), st.booleans())
def test_damage_gives_a_data_error_and_nothing_else(name, place, removed, added, packed):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for member, content in GOOD.items():
            path = folder / (f"{member}.gz" if packed else member)
            path.parent.mkdir(exist_ok=True)
            written = gzip.compress(content) if packed else content
            path.write_bytes(written[:place] + added + written[place + removed :] if member == name else written)
        with suppress(DataError):
            dataset = load_dataset(folder, cache=Cache(folder / "cache"))
            assert len(dataset.corpus) >= 1
            assert len(dataset.queries) >= 1
        assert not list((folder / "cache").rglob("*.tmp"))
