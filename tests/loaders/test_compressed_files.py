"""Compressed files are read wherever plain ones are, and other kinds of files are named in one sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

import harness
from harness.data.dataset import DatasetFiles
from harness.errors import DataError, HarnessError
from harness.loaders import containers, load_corpus, load_dataset
from harness.loaders.golden import load_golden

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
    ".zstd": lambda content: zstandard.compress(content[:30]) + zstandard.compress(content[30:]),
    ".lz4": lambda content: lz4.frame.compress(content, content_checksum=True),
}
QRELS = "1 0 a 2\n1 0 b 1\n2 0 c 1\n"
RUN = "1 Q0 b 1 3 tag\n1 Q0 a 2 2 tag\n2 Q0 d 1 3 tag\n2 Q0 c 2 2 tag\n"
HITS = {"1": {"b": 3, "a": 2}, "2": {"d": 3, "c": 2}}
DOCUMENTS = {"a": "one", "b": "two"}
TABLE = "_id,text\n" + "".join(f"{name},{text}\n" for name, text in DOCUMENTS.items())
LINES = "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in DOCUMENTS.items())
TREC = "".join(f"<DOC><DOCNO>{name}</DOCNO><TEXT>{text}</TEXT></DOC>\n" for name, text in DOCUMENTS.items())
QUESTION = json.dumps({"question": "which?", "expected": ["a"]})


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("named", [True, False])
def test_runs_and_judgments_are_read_compressed_whatever_their_name(tmp_path: Path, ending: str, named: bool) -> None:
    packed, suffix = COMPRESS[ending], ending if named else ""
    expected = harness.evaluate(HITS, {"1": {"a": 2, "b": 1}, "2": {"c": 1}}, "nDCG@10,AP,RR").values.tolist()
    qrels = write(tmp_path / f"q.qrels{suffix}", packed(QRELS.encode()))
    for name, content in {"r.trec": RUN, "r.json": json.dumps(HITS)}.items():
        run = write(tmp_path / f"{name}{suffix}", packed(content.encode()))
        assert harness.evaluate(run, qrels, "nDCG@10,AP,RR").values.tolist() == expected


@pytest.mark.parametrize("ending", COMPRESS)
def test_documents_queries_and_golden_sets_are_read_compressed(tmp_path: Path, ending: str) -> None:
    packed = COMPRESS[ending]
    for name, content in {"d.csv": TABLE, "d.jsonl": LINES, "d.json": json.dumps(DOCUMENTS), "d.trec": TREC}.items():
        corpus = load_corpus(write(tmp_path / f"{name}{ending}", packed(content.encode())))
        assert dict(zip(corpus.ids, corpus.texts.to_pylist(), strict=True)) == DOCUMENTS
    golden = write(tmp_path / f"golden.jsonl{ending}", packed(QUESTION.encode()))
    assert (load_golden(golden).name, load_golden(golden).questions[0].question) == ("golden", "which?")
    topics = write(tmp_path / f"topics{ending}", packed(b"<top><num>7</num><title>which</title></top>"))
    corpus_file = tmp_path / f"d.csv{ending}"
    assert load_dataset(corpus_file, files=DatasetFiles(queries=topics)).queries.ids.to_list() == ["7"]
    assert load_dataset(corpus_file, files=DatasetFiles(queries=golden)).name == "d"


@pytest.mark.parametrize("ending", COMPRESS)
def test_a_folder_and_an_archive_of_compressed_files(tmp_path: Path, ending: str) -> None:
    packed = COMPRESS[ending]
    folder = {
        f"corpus.jsonl{ending}": packed(LINES.encode()),
        f"queries.jsonl{ending}": packed(b'{"_id": "1", "text": "one"}\n'),
        f"qrels/test.tsv{ending}": packed(b"1\ta\t1\n"),
    }
    with zipfile.ZipFile(tmp_path / "toys.zip", "w") as archive:
        for name, content in folder.items():
            write(tmp_path / "toys" / name, content)
            archive.writestr(name, content)
    for place in (tmp_path / "toys", tmp_path / "toys.zip"):
        dataset = load_dataset(place)
        assert (dataset.corpus.ids.to_list(), dataset.provenance["split"]) == (["a", "b"], "test")
    write(tmp_path / "toys" / "corpus.jsonl", LINES)
    with pytest.raises(DataError, match="holds both"):
        load_dataset(tmp_path / "toys")


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("read", [load_corpus, load_golden, lambda path: harness.evaluate(path, {"1": ["a"]})])
def test_a_damaged_file_is_named(tmp_path: Path, ending: str, read: Callable[[Path], object]) -> None:
    whole = COMPRESS[ending](LINES.encode() * 500)
    for content in (whole[: len(whole) // 2], whole[:20] + b"\0\0\0\0" + whole[24:]):
        path = write(tmp_path / f"d.jsonl{ending}", content)
        with pytest.raises(DataError, match=re.escape(str(path))):
            read(path)


def workbook() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return content.getvalue()


UNREAD = {
    "x.csv": (workbook(), "is an Excel workbook, and its name does not end in .xlsx\n  rename it"),
    "x.xls": (b"\xd0\xcf\x11\xe0", "is an old or an encrypted Excel workbook, which is not read\n  save it as .xlsx"),
    "x.xlsx": (b"\xd0\xcf\x11\xe0", "is an old or an encrypted Excel workbook, which is not read\n  save it as .xlsx"),
    "x.feather": (b"ARROW1\0\0", "is an Arrow IPC (Feather) file, which is not read\n  write it as Parquet"),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_kind_of_file_that_is_not_read_is_named_by_every_reader(tmp_path: Path, name: str) -> None:
    content, sentence = UNREAD[name]
    path, corpus = write(tmp_path / name, content), write(tmp_path / "docs.csv", TABLE)
    readers: list[Callable[[], object]] = [
        lambda: load_corpus(path),
        lambda: load_golden(path),
        lambda: load_dataset(corpus, files=DatasetFiles(queries=path)),
        lambda: load_dataset(corpus, files=DatasetFiles(queries=write(tmp_path / "q.jsonl", LINES), qrels=path)),
        lambda: harness.evaluate(path, {"1": ["a"]}),
        lambda: harness.evaluate({"1": ["a"]}, path),
        lambda: harness.check(path, corpus=corpus, backends="csr"),
    ]
    for read in readers:
        with pytest.raises(HarnessError) as caught:
            read()
        assert str(caught.value).startswith(f"{path}: 1 problem\n  {sentence}"), str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_named_by_every_reader(tmp_path: Path, encoding: str) -> None:
    corpus = write(tmp_path / "docs.csv", TABLE)
    files = {
        write(tmp_path / "r.trec", RUN.encode(encoding)): lambda path: harness.evaluate(path, {"1": ["a"]}),
        write(tmp_path / "q.qrels", QRELS.encode(encoding)): lambda path: harness.evaluate({"1": ["a"]}, path),
        write(tmp_path / "d.jsonl", LINES.encode(encoding)): load_corpus,
        write(tmp_path / "g.csv", "question,expected\nwhich?,a\n".encode(encoding)): load_golden,
        write(tmp_path / "texts" / "a.txt", "plain text".encode(encoding)): lambda path: load_corpus(path.parent),
        write(tmp_path / "topics.csv", "qid,query\n1,which?\n".encode(encoding)): lambda path: load_dataset(
            corpus, files=DatasetFiles(queries=path)
        ),
    }
    for path, read in files.items():
        with pytest.raises(DataError, match="is UTF-16, expected UTF-8"):
            read(path)


def test_a_list_under_a_key_is_named(tmp_path: Path) -> None:
    rows = [{"question": "which?", "expected": ["a"]}]
    for content, keys in (({"tests": rows}, "tests"), ({"version": 1, "data": {"cases": rows}}, "data.cases")):
        path = write(tmp_path / "wrapped.json", json.dumps(content))
        assert len(load_golden(path)) == 1
        with pytest.raises(DataError, match=f"1 problem\n.*under '{keys}': write only that list$"):
            load_corpus(path)
    marks = [{"query_id": "1", "doc_id": "a", "relevance": 1}]
    qrels = write(tmp_path / "q.json", json.dumps({"qrels": marks}))
    with pytest.raises(DataError, match="the list is under 'qrels': write only the list"):
        harness.evaluate({"1": ["a"]}, qrels)


def test_a_parquet_file_is_no_unread_kind(tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist([{"_id": "a", "text": "one"}]), tmp_path / "d.parquet")
    assert load_corpus(tmp_path / "d.parquet").ids.to_list() == ["a"]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("lost", [8, 3000])
def test_a_cut_run_is_named_with_the_last_line_that_can_be_read(
    tmp_path: Path, compress: Callable[[bytes], bytes], lost: int
) -> None:
    lines = [f"q{row % 7} Q0 d{row * row * 7919} 1 {row}.5 s\n" for row in range(2000)]
    file = tmp_path / "cut.trec"
    file.write_bytes(compress("".join(lines).encode())[:-lost])
    with pytest.raises(DataError, match=r"is cut or damaged (after line|in line)") as raised:
        harness.evaluate(file, {"q1": {"d7919": 1}})
    assert raised.value.fix == "get the file again from its source, or compress it again"
    number = int(re.sub(r".*?line ([\d,]+):.*", r"\1", raised.value.problems[0]).replace(",", ""))
    if compress is gzip.compress:
        assert (number == 2000) if lost == 8 else 500 < number < 2000


WITHOUT_EXTRA = {
    "x.yaml": (b"- question: which?\n", "is YAML, which needs the package PyYAML"),
    "x.yml.gz": (gzip.compress(b"- question: which?\n"), "is YAML, which needs the package PyYAML"),
    "x.xlsx": (workbook(), "is an Excel workbook, which needs the package openpyxl"),
    "x.jsonl.zst": (zstandard.compress(b"{}"), "is compressed by Zstandard, which needs the package zstandard"),
    "x.jsonl": (zstandard.compress(b"{}"), "is compressed by Zstandard, which needs the package zstandard"),
    "x.jsonl.lz4": (lz4.frame.compress(b"{}"), "is compressed by LZ4, which needs the package lz4"),
}


@pytest.mark.parametrize("name", WITHOUT_EXTRA)
def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "is_importable", lambda module: False)
    content, sentence = WITHOUT_EXTRA[name]
    path, corpus = write(tmp_path / name, content), write(tmp_path / "docs.csv", TABLE)
    readers: list[Callable[[], object]] = [
        lambda: load_corpus(path),
        lambda: load_golden(path),
        lambda: load_dataset(corpus, files=DatasetFiles(queries=path)),
        lambda: harness.evaluate(path, {"1": ["a"]}),
        lambda: harness.evaluate({"1": ["a"]}, path),
    ]
    for read in readers:
        with pytest.raises(HarnessError) as caught:
            read()
        message = str(caught.value)
        assert message.startswith(f"{path}: 1 problem\n  {sentence}\n  pip install 'retrieval-harness[files]', or ")
    write(tmp_path / "texts" / "a.md", "one")
    write(tmp_path / "texts" / name, content)
    assert load_corpus(tmp_path / "texts").ids.to_list() == ["a.md"]


def test_the_names_of_packages_are_those_of_the_extra(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = {re.split("[<>=]", line)[0] for line in project["optional-dependencies"][containers.EXTRA]}
    assert extra == containers.packages() | {"h5py"}


@pytest.mark.parametrize("ending", [".zst", ".lz4"])
def test_the_limits_of_decompressed_content_hold(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DECOMPRESSION_LIMITS", "0.001")
    for content in (b" " * 200_000 + b"\n", b"\n" * 200_000):
        path = write(tmp_path / f"d.jsonl{ending}", COMPRESS[ending](content))
        for read in (load_corpus, load_golden):
            with pytest.raises(DataError, match="is not decompressed further: it holds more than"):
                read(path)


@pytest.mark.parametrize("ending", [".zst", ".zstd", ".lz4"])
def test_parquet_is_read_compressed(tmp_path: Path, ending: str) -> None:
    content = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([{"_id": str(n), "text": "one " * 50} for n in range(2000)]), content)
    path = write(tmp_path / f"d.parquet{ending}", COMPRESS[ending](content.getvalue()))
    assert len(load_corpus(path)) == 2000
