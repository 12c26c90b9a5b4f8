"""One collection of a dozen documents in every layout that repositories of the hub have, and as a folder of BEIR's.

Run as a script it serves them: ``python hub_miniatures.py FOLDER`` writes the repositories there and says which
``HF_ENDPOINT`` reaches them.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

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


@dataclass(frozen=True)
class Content:
    """Documents (title and text), queries and the judgments of each split, by id."""

    documents: Mapping[str, tuple[str, str]]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, Mapping[str, int]]]

    def without_titles(self) -> Content:
        """The same with the titles in the texts."""
        return replace(self, documents={one: ("", " ".join(pair).strip()) for one, pair in self.documents.items()})

    def of_splits(self, **names: str) -> Content:
        """The same with splits of other names: ``dev="test"`` calls the test split so, and leaves the others out."""
        return replace(self, qrels={new: self.qrels[old] for new, old in names.items()})

    def judged_queries(self, split: str) -> dict[str, str]:
        """The queries of one split's judgments."""
        return {one: text for one, text in self.queries.items() if one in self.qrels[split]}


CONTENT = Content(TITLES, QUERIES, QRELS)


def binary() -> Content:
    """The test split with the relevant documents alone, each of grade 1."""
    test = {query: {doc: 1 for doc, grade in grades.items() if grade > 0} for query, grades in QRELS["test"].items()}
    return replace(CONTENT, queries=CONTENT.judged_queries("test"), qrels={"test": test})


def write_beir(folder: Path, content: Content) -> Path:
    """A folder in BEIR's layout."""
    (folder / "qrels").mkdir(parents=True)
    _write_lines(folder / "corpus.jsonl", _documents(content))
    _write_lines(folder / "queries.jsonl", _queries(content.queries))
    for split in content.qrels:
        rows = ["query-id\tcorpus-id\tscore", *(f"{q}\t{d}\t{grade}" for q, d, grade in _triples(content, split))]
        (folder / f"qrels/{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def write_beir_repositories(root: Path, content: Content, name: str = "BeIR/mini") -> None:
    """Documents in two Parquet files and queries in one repository, judgments as TSV in another, as BeIR/* has them."""
    folder = root / name
    documents = _documents(content)
    _write_parquet(folder / "corpus/corpus-00000-of-00002.parquet", documents[:5])
    _write_parquet(folder / "corpus/corpus-00001-of-00002.parquet", documents[5:])
    _write_parquet(folder / "queries/queries-00000-of-00001.parquet", _queries(content.queries, title=""))
    _write_card(folder, {"corpus": {"corpus": "corpus/corpus-*"}, "queries": {"queries": "queries/queries-*"}}, "en")
    qrels = write_beir(root / "written" / name, content) / "qrels"
    (root / f"{name}-qrels").mkdir(parents=True)
    for file in qrels.iterdir():
        file.rename(root / f"{name}-qrels" / file.name)
    (root / f"{name}-qrels/README.md").write_text("---\nlanguage:\n- en\n---\n")
    (root / f"{name}-qrels/.gitattributes").write_text("")


def write_mteb_repository(
    root: Path, content: Content, name: str = "mteb/mini", subsets: Sequence[str] = ("",)
) -> None:
    """All parts in one repository, grades as floating-point numbers, as MTEB has them; of each subset where asked."""
    configs = {}
    for subset in subsets:
        before = f"{subset}-" if subset else ""
        folder, qrels = root / name / (subset or "."), f"{before}qrels" if subset else "default"
        _write_parquet(folder / "corpus.parquet", _documents(content))
        _write_parquet(folder / "queries.parquet", _queries(content.queries))
        inside = f"{subset}/" if subset else ""
        configs[f"{before}corpus"] = {"corpus": f"{inside}corpus.parquet"}
        configs[f"{before}queries"] = {"queries": f"{inside}queries.parquet"}
        configs[qrels] = {split: f"{inside}qrels/{split}.parquet" for split in content.qrels}
        for split in content.qrels:
            rows = [{"query-id": q, "corpus-id": d, "score": float(grade)} for q, d, grade in _triples(content, split)]
            _write_parquet(folder / f"qrels/{split}.parquet", rows)
    _write_card(root / name, configs, *(subsets if subsets != ("",) else ("eng",)))


def write_nano_repository(root: Path, content: Content, name: str = "zeta-alpha-ai/NanoMini") -> None:
    """Every part in a split ``train``, judgments without a grade, as zeta-alpha-ai's NanoBEIR has them."""
    (split,) = content.qrels
    pairs = [{"query-id": q, "corpus-id": d} for q, d, _ in _triples(content, split)]
    parts = {"corpus": _documents(content, title=None), "queries": _queries(content.queries), "qrels": pairs}
    for part, rows in parts.items():
        _write_parquet(root / name / f"{part}/train-00000-of-00001.parquet", rows)
    _write_card(root / name, {part: {"train": f"{part}/train-*"} for part in parts}, "en")


def write_miracl(root: Path, content: Content, language: str) -> None:
    """Topics and judgments of each split in one repository, passages in three compressed files in another."""
    corpus = root / f"miracl/miracl-corpus/miracl-corpus-v1.0-{language}"
    topics, qrels = (root / f"miracl/miracl/miracl-v1.0-{language}/{part}" for part in ("topics", "qrels"))
    for folder in (corpus, topics, qrels):
        folder.mkdir(parents=True)
    rows = [{"docid": one["_id"], "title": one["title"], "text": one["text"]} for one in _documents(content)]
    for number in range(3):
        part = "".join(json.dumps(row) + "\n" for row in rows[number * 4 : number * 4 + 4])
        (corpus / f"docs-{number}.jsonl.gz").write_bytes(gzip.compress(part.encode(), mtime=0))
    for split in content.qrels:
        name = f"miracl-v1.0-{language}-{split}.tsv"
        lines = [f"{one}\t{text}\n" for one, text in content.judged_queries(split).items()]
        (topics / f"topics.{name}").write_text("".join(lines), encoding="utf-8")
        judged = [f"{query}\tQ0\t{doc}\t{grade}\n" for query, doc, grade in _triples(content, split)]
        (qrels / f"qrels.{name}").write_text("".join(judged), encoding="utf-8")
    for name in ("miracl/miracl", "miracl/miracl-corpus"):
        (root / name / "miracl.py").write_text("raise RuntimeError\n")
        (root / name / "README.md").write_text("---\nlanguage:\n- ko\n---\n")


def write_mmarco(root: Path, content: Content, documents: str, queries: str) -> None:
    """Documents of one language and queries of another, with the judgments that all share."""
    data = root / "unicamp-dl/mmarco/data"
    for folder in ("google/collections", "google/queries/dev"):
        (data / folder).mkdir(parents=True, exist_ok=True)
    lines = [f"{one['_id']}\t{one['text']}\n" for one in _documents(content)]
    (data / f"google/collections/{documents}_collection.tsv").write_text("".join(lines), encoding="utf-8")
    for split in content.qrels:
        asked = [f"{one}\t{text}\n" for one, text in content.judged_queries(split).items()]
        (data / f"google/queries/dev/{queries}_queries.{split}.tsv").write_text("".join(asked), encoding="utf-8")
        judged = [f"{query}\t0\t{doc}\t{grade}\n" for query, doc, grade in _triples(content, split)]
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


def _documents(content: Content, title: str | None = "title") -> list[dict[str, object]]:
    """Records; without a column for titles, they are in the texts."""
    if title is None:
        content = content.without_titles()
    pairs = content.documents.items()
    return [{"_id": one, **({title: pair[0]} if title else {}), "text": pair[1]} for one, pair in pairs]


def _queries(queries: Mapping[str, str], **more: object) -> list[dict[str, object]]:
    return [{"_id": one, "text": text, **more} for one, text in queries.items()]


def _triples(content: Content, split: str) -> list[tuple[str, str, int]]:
    return [(query, doc, grade) for query, grades in content.qrels[split].items() for doc, grade in grades.items()]


def _write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)


def _write_card(folder: Path, configs: Mapping[str, Mapping[str, str]], *languages: str) -> None:
    """A card with the metadata that says which files are which configuration and split."""
    lines = ["---", "language:", *(f"- {one}" for one in languages), "configs:"]
    for name, splits in configs.items():
        lines += [f"- config_name: {name}", "  data_files:"]
        for split, path in splits.items():
            lines += [f"  - split: {split}", f"    path: {path}"]
    (folder / "README.md").write_text("\n".join([*lines, "---", "", "# Miniature", ""]), encoding="utf-8")
    (folder / ".gitattributes").write_text("*.parquet filter=lfs\n")


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
