"""Documents in one table, in a TREC collection, or in a folder of text files, perhaps with a golden set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from harness.data.columns import DOCUMENT_ROLES, GOLDEN_ROLE_NAMES, ColumnMap, RecordBatch, Role
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.errors import DataError
from harness.loaders.base import HIDDEN, TEXT_ENDINGS, DatasetSpec, LoadedDataset, Location, TextSource
from harness.loaders.containers import is_utf16, plain_name
from harness.loaders.golden import shaped_content
from harness.loaders.parts import (
    Files,
    document_columns,
    documents_in,
    golden_questions,
    questions_in,
    shared_with_questions,
    text_source,
)
from harness.loaders.records import first_records, format_of, is_value
from harness.loaders.source import Source, read_blocks
from harness.loaders.trec_markup import is_trectext, read_trectext
from harness.wording import counted

_QUERIES, _CORPUS = b"queries", b"corpus"
"""Keys of an object with a golden set and its documents; one of them is at its beginning."""
_PATH_ROLES = (Role("id", "path"), Role("text", "text"))
_BATCH = 512
_COLUMNS_WITHOUT_HEADER = 2
_WORDS = 2


class TableLoader:
    """Reads a table of documents: CSV, TSV, JSON Lines, a JSON array, Parquet."""

    name = "table"
    locations: frozenset[Location] = frozenset({"table"})

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location is a file with the ending of a table."""
        return spec.path.is_file() and format_of(spec.path.name) is not None

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts."""
        return LoadedDataset(documents_in(Files.of_path(spec.path), spec))


class TrecLoader:
    """Reads TREC documents: a file without the ending of a table, or a folder of such files with any names."""

    name = "trec"
    locations: frozenset[Location] = frozenset({"folder", "file"})

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether a file begins with ``<DOC>``, or the first file of a folder does."""
        files = _files_of(spec.path)
        return files is not None and is_trectext(files.source.start_of(files.names[0]))

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts; documents are in the order of their files' names."""
        files = _files_of(spec.path)
        if files is None:
            raise DataError(spec.location, ["holds no files"])
        columns, unread = document_columns(spec), dict[str, int]()
        if spec.path.is_dir():
            names = tuple(name for name in files.names if _holds_trectext(files, name))
            files, unread = files._replace(names=names), _unread_files(spec.path, names)
        documents = text_source(files, files.records(read_trectext), columns, "document")
        return LoadedDataset(documents, unread_files=unread)


class GoldenLoader:
    """Reads a folder that holds a golden set, ``golden.jsonl`` or another table, next to its chunks or text files.

    The documents are in the only other table or, without another table, in the folder's text files.
    """

    name = "golden"
    locations: frozenset[Location] = frozenset({"folder"})

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location is a folder with a table called ``golden`` and at most one other."""
        tables = _golden_and_further(spec)
        return tables is not None and len(tables[1]) <= 1

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts; the golden set brings queries and judgments."""
        tables = _golden_and_further(spec)
        if tables is None:
            raise DataError(spec.location, ["holds no table called 'golden'"])
        golden, further_tables = tables
        source = Source(spec.path)
        spec = shared_with_questions(Files(source, (golden,)), spec)
        questions = questions_in(Files(source, (golden,)), spec)
        if further_tables:
            documents = documents_in(Files(source, (further_tables[0],)), spec)
            return LoadedDataset(documents, questions.queries, questions.judgments)
        texts = _texts_below(spec)
        unread = _unread_files(spec.path, (*texts.names, golden))
        return LoadedDataset(_documents_of(texts, spec), questions.queries, questions.judgments, unread_files=unread)


class GoldenFileLoader:
    """Reads a golden set that holds its documents too, as LlamaIndex's ``EmbeddingQAFinetuneDataset``."""

    name = "golden-file"
    locations: frozenset[Location] = frozenset({"table"})

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location is a file with an object that has queries and their documents."""
        name = spec.path.name
        if not is_value(format_of(name) or "") or not spec.path.is_file():
            return False
        source = Source(spec.path.parent)
        if _QUERIES not in source.start_of(name) and _CORPUS not in source.start_of(name):
            return False
        try:
            return shaped_content(source, name, spec.columns, Problems(name), []).documents is not None
        except DataError:
            return False

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts."""
        files = Files.of_path(spec.path)
        (name,) = files.names

        def documents(problems: Problems, notes: list[str]) -> Iterator[RecordBatch]:
            content = shaped_content(files.source, name, spec.columns, problems, notes)
            records = [dict(record) for record in content.documents or ()]
            yield RecordBatch(list(range(1, len(records) + 1)), records)

        questions = golden_questions(files, spec.columns)
        columns = {role: column for role, column in spec.columns.items() if role not in GOLDEN_ROLE_NAMES}
        source = text_source(files, documents, ColumnMap(DOCUMENT_ROLES, columns), "document")
        return LoadedDataset(source, questions.queries, questions.judgments)


def _golden_and_further(spec: DatasetSpec) -> tuple[str, list[str]] | None:
    """Return the table called ``golden`` at the top of a folder, and the other tables there; None without such a table.

    Next to text files, only tables that look like documents are returned.
    """
    if not spec.path.is_dir():
        return None
    tables = _tables_in(spec.path)
    golden = [name for name in tables if PurePosixPath(plain_name(name)).stem == "golden"]
    if len(golden) != 1:
        return None
    further_tables = [name for name in tables if name != golden[0]]
    if further_tables and next(_text_files(spec.path), None) is not None:
        further_tables = [name for name in further_tables if _may_be_documents(name, spec)]
    return golden[0], further_tables


def _tables_in(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir() if file.is_file() and format_of(file.name) is not None)


def _may_be_documents(name: str, spec: DatasetSpec) -> bool:
    """Return whether a table of a folder can be read as documents, by its first records.

    An object of JSON is any settings file too: its texts must have white space.
    """
    source = Source(spec.path)
    try:
        records, start = first_records(source, name), source.start_of(name)
    except DataError:  # it is counted as a file that is not read
        return False
    columns, ending = document_columns(spec), format_of(name)
    if ending in (".tsv", ".tab") and records and not columns.is_header(list(records[0])):
        return len(records[0]) == _COLUMNS_WITHOUT_HEADER
    if ending == ".json" and start.lstrip().startswith(b"{"):
        texts = [record.get("text") for record in records]
        if any(isinstance(text, str) and len(text.split()) < _WORDS for text in texts):
            return False
    return bool(records) and all(map(columns.covers, records))


class TextFolderLoader:
    """Reads a folder of text files: each is a document, and its path below the folder is the id.

    ``--columns id=name`` or ``id=stem`` takes the file's name, or the name without its ending, instead.
    """

    name = "text"
    locations: frozenset[Location] = frozenset({"folder"})

    def matches(self, spec: DatasetSpec) -> bool:
        """Return whether the location is a folder with text files."""
        return spec.path.is_dir() and next(_text_files(spec.path), None) is not None

    def load(self, spec: DatasetSpec, split: str | None, progress: Progress | None) -> LoadedDataset:
        """Find the parts; documents are in the order of their paths.

        Raises DataError if a table at the top of the folder may be the documents instead.
        """
        texts = _texts_below(spec)
        tables = [name for name in _tables_in(spec.path) if _may_be_documents(name, spec)]
        if tables:
            names = ", ".join(f"'{name}'" for name in tables)
            raise DataError(
                spec.location,
                [f"holds {counted(len(texts.names), 'text file')} and {names}: either may be the documents"],
                fix=f"name the table itself ({spec.path / tables[0]}), or move tables out of the folder of text files",
            )
        return LoadedDataset(_documents_of(texts, spec), unread_files=_unread_files(spec.path, texts.names))


def _texts_below(spec: DatasetSpec) -> Files:
    path = spec.path
    files = Files(Source(path), tuple(sorted(_text_files(path))))
    if not files.names:
        raise DataError(spec.location, ["holds no documents"], fix=f"text files end in {', '.join(TEXT_ENDINGS)}")
    return files


def _documents_of(files: Files, spec: DatasetSpec) -> TextSource:
    columns = {role: field for role, field in spec.columns.items() if role in ("id", "text")}
    read = partial(_read_texts, files=files)
    return text_source(files, read, ColumnMap(_PATH_ROLES, columns), "file")


def _files_of(path: Path) -> Files | None:
    """Return a file, or all files of a folder and its subfolders whose names do not begin with a dot."""
    if path.is_file():
        return Files.of_path(path)
    names = sorted(_visible(path))
    return Files(Source(path), tuple(names)) if names else None


def _text_files(path: Path) -> Iterator[str]:
    return (name for name in _visible(path) if PurePosixPath(plain_name(name)).suffix.lower() in TEXT_ENDINGS)


def _holds_trectext(files: Files, name: str) -> bool:
    """Return whether a file has a document of TREC in it; a file that cannot be read is left to the reader."""
    problems = Problems(name)
    if files.source.unread(name) is not None:
        return False
    with files.source.open(name) as stream:
        has_tag = any(b"<doc>" in line.lower() for block in read_blocks(stream, problems, []) for line in block.lines)
    return has_tag or problems.count > 0


def _visible(path: Path) -> Iterator[str]:
    """Yield the files below a folder, except files whose name or folder begins with a dot."""
    return (name for name in _files_below(path) if not _is_hidden(name))


def _files_below(path: Path) -> Iterator[str]:
    return (file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _unread_files(path: Path, read: Collection[str]) -> dict[str, int]:
    """Return how many files below a folder are not read, by ending, the most frequent first; ``hidden`` comes last."""
    left = set(_files_below(path)).difference(read)
    visible = [name for name in left if not _is_hidden(name)]
    endings = Counter(_ending(name) or "without an ending" for name in visible)
    unread = dict(sorted(endings.items(), key=lambda item: (-item[1], item[0])))
    return unread | ({HIDDEN: len(left) - len(visible)} if len(left) > len(visible) else {})


def _ending(name: str) -> str:
    """Return the ending of a file's name in lower case, including the ending of a compression: ``.csv.gz``."""
    return PurePosixPath(plain_name(name)).suffix.lower() + name[len(plain_name(name)) :].lower()


def _read_texts(problems: Problems, notes: list[str], *, files: Files) -> Iterator[RecordBatch]:
    for start in range(0, len(files.names), _BATCH):
        batch = RecordBatch([], [])
        for number, name in enumerate(files.names[start : start + _BATCH], start + 1):
            with files.source.open(name) as stream:
                text = _text_of(stream, name, problems)
            if text is not None:
                path = PurePosixPath(name)
                batch.lines.append(number)
                batch.records.append(
                    {"path": name, "name": path.name, "stem": PurePosixPath(plain_name(path.name)).stem, "text": text}
                )
        yield batch


def _text_of(stream: BinaryIO, name: str, problems: Problems) -> str | None:
    content = stream.read()
    if is_utf16(content):
        problems.add(None, f"'{name}' is UTF-16, expected UTF-8")
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.add(None, f"'{name}' is not UTF-8: byte 0x{content[error.start]:02x} on line {line}")
        return None
