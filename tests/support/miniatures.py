"""One small collection in the real formats of several libraries, so that their loaders can be held against each other.

30 documents with and without titles, ids that are not in Unicode's composed form, with spaces, colons and brackets, six
queries, one of them unjudged elsewhere, and graded judgments with zeros.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet
import pytest
from faulty_http import FaultyServer, Reply, serve

from harness.data.types import Run

_SUBJECTS = ("falcon", "harbour", "glacier", "violin", "orchard", "lantern")
_ACTIONS = ("rests near the", "was painted beside a", "is older than the")
_ODD = ("Ricardo_Montalba\u0301n", "<dbpedia:Escabeche>", "39#0", "2_Hearts_(Kylie_song)", "a:b-c", "00017")


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

    def document_records(self) -> list[dict[str, object]]:
        """The documents as BEIR and MTEB write them."""
        return [{"_id": one, "title": title, "text": text} for one, (title, text) in self.documents.items()]

    def query_records(self) -> list[dict[str, object]]:
        """The queries as BEIR and MTEB write them."""
        return [{"_id": one, "text": text} for one, text in self.queries.items()]

    def judgments(self, split: str) -> list[tuple[str, str, int]]:
        """Query, document and grade."""
        return [(query, doc, grade) for query, grades in self.qrels[split].items() for doc, grade in grades.items()]


def miniature() -> Content:
    """Return the collection, the same each time."""
    documents = {}
    for number in range(30):
        subject, other = _SUBJECTS[number % 6], _SUBJECTS[(number * 5 + 1) % 6]
        text = f"The {subject} {_ACTIONS[number % 3]} {other} in winter number{number % 7}."
        title = f"{subject.title()} {number}" if number % 4 else ""
        documents[_ODD[number] if number < len(_ODD) else f"d{number}"] = title, text
    queries = {f"q{i}": f"where is the {subject} in winter" for i, subject in enumerate(_SUBJECTS)}
    ids = list(documents)
    qrels = {
        query: {ids[row]: grade for row, grade in ((i, 2), (i + 6, 1), (i + 13, 0), (i + 18, 1))}
        for i, query in enumerate(queries)
    }
    return Content(documents, queries, {"test": qrels})


def beir_files(content: Content, *, metadata: bool = True) -> Mapping[str, str]:
    """Return the members of a BEIR archive by their names."""
    about = {"metadata": {}} if metadata else {}
    files = {
        name: "".join(json.dumps({**record, **about}, ensure_ascii=False) + "\n" for record in records)
        for name, records in (
            ("corpus.jsonl", content.document_records()),
            ("queries.jsonl", content.query_records()),
        )
    }
    for split in content.qrels:
        rows = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, judged)) for judged in content.judgments(split))]
        files[f"qrels/{split}.tsv"] = "\n".join(rows) + "\n"
    return files


def beir_folder(content: Content, folder: Path) -> Path:
    """Write a folder in BEIR layout, and return it."""
    for name, text in beir_files(content).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def beir_zip(content: Content, name: str, path: Path) -> Path:
    """Write the archive that BEIR publishes of a dataset called ``name``, which has judgments for training too."""
    files = {**beir_files(content)}
    files.setdefault("qrels/train.tsv", files["qrels/test.tsv"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in files.items():
            archive.writestr(f"{name}/{member}", text)
    return path


@dataclass
class FileServer(FaultyServer):
    """Serves one file, whole or from the byte that a range asks for."""

    content: bytes = b""
    ranges: bool = True

    routes: ClassVar[tuple[tuple[str, str, str], ...]] = (("GET", r"/(.*)", "get"),)

    def carry_out(
        self, operation: str, name: str, request: tuple[str, str], headers: Mapping[str, str], body: bytes
    ) -> Reply:
        about = {"accept-ranges": "bytes"} if self.ranges else {}
        asked = headers.get("range", "")
        if not (self.ranges and asked):
            return Reply(200, self.content, about)
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        size = len(self.content)
        return Reply(206, self.content[start:], {**about, "content-range": f"bytes {start}-{size - 1}/{size}"})


@contextmanager
def irds_home(
    home: Path, archive: Path, patch: pytest.MonkeyPatch, *, md5: str | None = None, size: int | None = None
) -> Iterator[FileServer]:
    """Let ``ir_datasets`` register its BEIR datasets anew, in ``home``, with SciFact's archive on a loopback server.

    The library's own code registers, downloads and reads. In its list of downloads the URL, the size and the checksum
    of ``beir/scifact`` alone are those of the miniature.
    """
    import ir_datasets
    from ir_datasets.datasets import beir
    from ir_datasets.util.download import _DownloadConfig

    content = archive.read_bytes()
    home.mkdir(parents=True, exist_ok=True)
    with serve(FileServer(content=content)) as server:
        downloads = deepcopy(ir_datasets.util.DownloadConfig.contents())
        downloads["beir"]["scifact"] |= {
            "url": f"{server.url}/scifact.zip",
            "expected_md5": md5 or hashlib.md5(content, usedforsecurity=False).hexdigest(),
            "size_hint": size or len(content),
        }
        patch.setenv("IR_DATASETS_HOME", str(home))
        patch.setenv("IR_DATASETS_TMP", str(home / "tmp"))
        patch.setattr(ir_datasets, "registry", ir_datasets.util.Registry())
        patch.setattr(ir_datasets.util, "DownloadConfig", _DownloadConfig(contents=downloads))
        beir._init()
        yield server


def parquet_repository(
    folder: Path, tables: Mapping[str, Mapping[str, list[dict[str, Any]]]], languages: Sequence[str] = ()
) -> Path:
    """Write a repository as the hub holds it: a Parquet file for each config and split, and a card that names them."""
    files: dict[str, dict[str, str]] = {}
    for config, splits in tables.items():
        for split, rows in splits.items():
            name = f"{config}/{split}-00000-of-00001.parquet"
            write_parquet(folder / name, rows)
            files.setdefault(config, {})[split] = name
    write_card(folder, files, languages)
    return folder


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)


def write_card(folder: Path, configs: Mapping[str, Mapping[str, str]], languages: Sequence[str] = ()) -> None:
    """Write a card with the metadata that says which files are which configuration and split."""
    lines = ["---", *(["language:"] if languages else []), *(f"- {one}" for one in languages), "configs:"]
    for name, splits in configs.items():
        lines += [f"- config_name: {name}", "  data_files:"]
        for split, path in splits.items():
            lines += [f"  - split: {split}", f"    path: {path}"]
    (folder / "README.md").write_text("\n".join([*lines, "---", "", "# Miniature", ""]), encoding="utf-8")
    (folder / ".gitattributes").write_text("*.parquet filter=lfs\n")


def mteb_tables(content: Content, prefix: str = "") -> dict[str, Any]:
    """Return corpus, queries and judgments in MTEB's layout, a query without judgments among them.

    ``prefix`` is a subset and a hyphen, of a task in several languages. Grades are floats, as in some repositories.
    """
    queries = replace(content, queries={**content.queries, "unjudged": "what is not judged"})
    return {
        f"{prefix}corpus": {"corpus": content.document_records()},
        f"{prefix}queries": {"queries": queries.query_records()},
        f"{prefix}qrels" if prefix else "default": {
            split: [
                {"query-id": query, "corpus-id": doc, "score": float(grade)}
                for query, doc, grade in content.judgments(split)
            ]
            for split in content.qrels
        },
    }


def mteb_task(
    patch: pytest.MonkeyPatch,
    name: str,
    folder: Path,
    *,
    langs: list[str] | dict[str, list[str]],
    task_type: str = "Retrieval",
    revision: str = "0" * 40,
    **attributes: object,
) -> None:
    """Register a task of the library's own class for a repository, which lies in a folder or is one of the hub."""
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    metadata = TaskMetadata(
        name=name,
        description="A small collection of sentences made for tests.",
        reference="https://example.org",
        dataset={"path": str(folder), "revision": revision},
        type=task_type,
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=langs,
        main_score="ndcg_at_10",
        license="cc0-1.0",
    )
    task = type(name, (AbsTaskRetrieval,), {"metadata": metadata, **attributes})
    library = importlib.import_module("mteb.get_tasks")
    patch.setitem(library._TASKS_REGISTRY, name, task)
    patch.setattr(library, "TASK_LIST", [*library.TASK_LIST, task])


def candidates_of(content: Content) -> dict[str, list[str]]:
    """Return ten documents of each query, judged ones among them."""
    documents = list(content.documents)
    return {query: documents[row : row + 14 : 2] + documents[20:23] for row, query in enumerate(content.queries)}


def hits_of(run: Run) -> dict[str, list[tuple[str, float]]]:
    """Return the hits of each query, best first, with their scores."""
    return {
        query: list(zip(run.doc_ids.take(run.rows[start:end]), run.scores[start:end].tolist(), strict=True))
        for query, start, end in zip(run.query_ids, run.indptr[:-1], run.indptr[1:], strict=True)
    }
