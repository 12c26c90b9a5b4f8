"""One collection of a dozen documents in every layout that repositories of the hub have.

Run as a script it serves them: ``python hub_miniatures.py FOLDER`` writes the repositories there and says which
``HF_ENDPOINT`` reaches them.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from miniatures import Content, beir_folder, mteb_tables, parquet_repository, write_card, write_parquet

TITLES = {
    "007": ("Reset", "Hold the button for ten seconds until the light turns red."),
    "7": ("Filter", "Rinse the filter with warm water every month."),
    "39#0": ("Battery", 'The "big" battery lasts ten hours; charge it with the cable.'),
    "39#1": ("Battery", "A battery that is warm charges slowly."),
    "Ricardo_Montalb\u00e1n": ("Actor", "He says that the light of the battery is red."),
    "e\u0301": ("Accent", "The id is written with a combining accent."),
    "1e5": ("Number", "The id looks like a number and is none."),
    "2020-01-01": ("Date", "The id looks like a date: red light, warm water."),
    "<dbpedia:Escabeche>": ("Dish", "Fish in vinegar, served cold with water."),
    "q2": ("Same", "How often is the filter rinsed with water"),
    "empty": ("", ""),
    "12": ("Cable", "The cable of the button is two metres long."),
}
QUERIES = {
    "q1": "how do I reset the light",
    "q2": "how often is the filter rinsed with water",
    "3": "battery charge cable",
    "q4": "red light of the battery",
    "q5": "cold fish",
    "unjudged": "warm water",
}
QRELS = {
    "test": {
        "q1": {"007": 2, "Ricardo_Montalb\u00e1n": 1, "2020-01-01": 0},
        "q2": {"7": 1, "q2": 1},
        "3": {"39#0": 2, "39#1": 1, "12": 1},
    },
    "train": {"q4": {"Ricardo_Montalb\u00e1n": 1}, "q5": {"<dbpedia:Escabeche>": 1, "empty": 0}},
}


CONTENT = Content(TITLES, QUERIES, QRELS)


def binary() -> Content:
    """The test split with the relevant documents alone, each of grade 1."""
    test = {query: {doc: 1 for doc, grade in grades.items() if grade > 0} for query, grades in QRELS["test"].items()}
    return replace(CONTENT, queries=CONTENT.judged_queries("test"), qrels={"test": test})


def write_beir_repositories(root: Path, content: Content, name: str = "BeIR/mini") -> None:
    """Documents in two Parquet files and queries in one repository, judgments as TSV in another, as BeIR/* has them."""
    folder = root / name
    documents = content.document_records()
    write_parquet(folder / "corpus/corpus-00000-of-00002.parquet", documents[:5])
    write_parquet(folder / "corpus/corpus-00001-of-00002.parquet", documents[5:])
    queries = [{**record, "title": ""} for record in content.query_records()]
    write_parquet(folder / "queries/queries-00000-of-00001.parquet", queries)
    write_card(folder, {"corpus": {"corpus": "corpus/corpus-*"}, "queries": {"queries": "queries/queries-*"}}, ["en"])
    qrels = beir_folder(content, root / "written" / name) / "qrels"
    (root / f"{name}-qrels").mkdir(parents=True)
    for file in qrels.iterdir():
        file.rename(root / f"{name}-qrels" / file.name)
    (root / f"{name}-qrels/README.md").write_text("---\nlanguage:\n- en\n---\n")
    (root / f"{name}-qrels/.gitattributes").write_text("")


def write_mteb_repository(
    root: Path, content: Content, name: str = "mteb/mini", subsets: Sequence[str] = ("",)
) -> None:
    """All parts in one repository, grades as floating-point numbers, as MTEB has them; of each subset where asked."""
    tables: dict[str, Any] = {}
    for subset in subsets:
        tables |= mteb_tables(content, f"{subset}-" if subset else "")
    parquet_repository(root / name, tables, subsets if subsets != ("",) else ("eng",))


def write_nano_repository(root: Path, content: Content, name: str = "zeta-alpha-ai/NanoMini") -> None:
    """Every part in a split ``train``, judgments without a grade, as zeta-alpha-ai's NanoBEIR has them."""
    (split,) = content.qrels
    documents = [{"_id": one, "text": text} for one, (_, text) in content.without_titles().documents.items()]
    pairs = [{"query-id": q, "corpus-id": d} for q, d, _ in content.judgments(split)]
    parts = {"corpus": documents, "queries": content.query_records(), "qrels": pairs}
    parquet_repository(root / name, {part: {"train": rows} for part, rows in parts.items()}, ["en"])


def write_miracl(root: Path, content: Content, language: str) -> None:
    """Topics and judgments of each split in one repository, passages in three compressed files in another."""
    corpus = root / f"miracl/miracl-corpus/miracl-corpus-v1.0-{language}"
    topics, qrels = (root / f"miracl/miracl/miracl-v1.0-{language}/{part}" for part in ("topics", "qrels"))
    for folder in (corpus, topics, qrels):
        folder.mkdir(parents=True)
    rows = [{"docid": one["_id"], "title": one["title"], "text": one["text"]} for one in content.document_records()]
    for number in range(3):
        part = "".join(json.dumps(row) + "\n" for row in rows[number * 4 : number * 4 + 4])
        (corpus / f"docs-{number}.jsonl.gz").write_bytes(gzip.compress(part.encode(), mtime=0))
    for split in content.qrels:
        name = f"miracl-v1.0-{language}-{split}.tsv"
        lines = [f"{one}\t{text}\n" for one, text in content.judged_queries(split).items()]
        (topics / f"topics.{name}").write_text("".join(lines), encoding="utf-8")
        judged = [f"{query}\tQ0\t{doc}\t{grade}\n" for query, doc, grade in content.judgments(split)]
        (qrels / f"qrels.{name}").write_text("".join(judged), encoding="utf-8")
    for name in ("miracl/miracl", "miracl/miracl-corpus"):
        (root / name / "miracl.py").write_text("raise RuntimeError\n")
        (root / name / "README.md").write_text("---\nlanguage:\n- ko\n---\n")


def write_mmarco(root: Path, content: Content, documents: str, queries: str) -> None:
    """Documents of one language and queries of another, with the judgments that all share."""
    data = root / "unicamp-dl/mmarco/data"
    for folder in ("google/collections", "google/queries/dev"):
        (data / folder).mkdir(parents=True, exist_ok=True)
    lines = [f"{one['_id']}\t{one['text']}\n" for one in content.document_records()]
    (data / f"google/collections/{documents}_collection.tsv").write_text("".join(lines), encoding="utf-8")
    for split in content.qrels:
        asked = [f"{one}\t{text}\n" for one, text in content.judged_queries(split).items()]
        (data / f"google/queries/dev/{queries}_queries.{split}.tsv").write_text("".join(asked), encoding="utf-8")
        judged = [f"{query}\t0\t{doc}\t{grade}\n" for query, doc, grade in content.judgments(split)]
        (data / f"qrels.{split}.tsv").write_text("".join(judged), encoding="utf-8")
    (root / "unicamp-dl/mmarco/README.md").write_text("# no metadata\n")


def write_all(root: Path) -> None:
    """Every layout once."""
    write_beir_repositories(root, CONTENT)
    write_mteb_repository(root, CONTENT)
    write_mteb_repository(root, CONTENT, "mteb/languages", ("ko", "de"))
    write_nano_repository(root, binary())
    write_miracl(root, CONTENT.of_splits(dev="test", train="train"), "ko")
    write_mmarco(root, CONTENT.without_titles().of_splits(dev="test"), "german", "german")


def main() -> None:
    """Write the repositories and serve them until the process is ended."""
    from hub_stub import DatasetHub, serving

    root = Path(sys.argv[1])
    write_all(root)
    with serving(DatasetHub(root)) as hub:
        sys.stdout.write(f"HF_ENDPOINT={hub.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
