"""The files of a collection in a folder or a zip archive, each plain or compressed."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from harness.data.problems import Problems
from harness.errors import DataError, nearest
from harness.loaders.containers import (
    PACKED,
    UTF16,
    Compression,
    compression_of,
    is_text,
    is_utf16,
    plain_name,
    unread_kind,
)
from harness.store.cache import file_digest
from harness.store.decompression import READ_ERRORS, DamagedError, unpacked
from harness.user_path import absence
from harness.wording import counted

_BUFFER_BYTES = 1 << 20
_START_BYTES = 4096
_BOM = b"\xef\xbb\xbf"
_QRELS = "qrels"
_NAMES = ("corpus.jsonl", "queries.jsonl")
_BLOCK_LINES = 8192
_BLOCK_BYTES = 4 << 20


class Source:
    """A folder or archive that holds the members of a collection. Member names are relative, with ``/``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._digests: dict[Path, str] = {}

    @cached_property
    def members(self) -> frozenset[str]:
        """Return the stored names of all members."""
        folders = (folder for folder in (self.path, self.path / _QRELS) if folder.is_dir())
        try:
            files = [file for folder in folders for file in folder.iterdir() if file.is_file()]
        except OSError as error:
            raise DataError(str(self.path), [f"cannot be read: {_reason(error)}"]) from error
        return frozenset(file.relative_to(self.path).as_posix() for file in files)

    def find(self, name: str) -> str | None:
        """Return the stored name of a member that may be compressed, or None; raises DataError if there are two."""
        stored = [member for member in (name, *(f"{name}{ending}" for ending in PACKED)) if member in self.members]
        if len(stored) > 1:
            raise DataError(str(self.path), [f"holds both '{stored[0]}' and '{stored[1]}'"], fix="remove one of them")
        return stored[0] if stored else None

    def holds(self, member: str) -> bool:
        """Return whether there is a member with this stored name, in any folder below."""
        return member in self.members or (self.path.is_dir() and (self.path / member).is_file())

    def require(self, name: str, fix: str) -> str:
        """Return the stored name of a member that may be compressed; raises DataError if there is no such member."""
        stored = self.find(name)
        if stored is None:
            raise self.missing(name, fix)
        return stored

    @cached_property
    def absent(self) -> dict[str, str]:
        """Return folders and links that lead nowhere, by name, and why they are not members."""
        folders = [folder for folder in (self.path, self.path / _QRELS) if folder.is_dir()]
        entries = sorted(entry for folder in folders for entry in folder.iterdir() if not entry.is_file())
        return {entry.relative_to(self.path).as_posix(): absence(entry) for entry in entries}

    def missing(self, name: str, fix: str) -> DataError:
        """Return the error that says that a member is not there, with the nearest name."""
        members_text = ", ".join(sorted(self.members)[:10]) or "nothing"
        other_members = [member for member in self.members if plain_name(member) not in _NAMES]
        hint = nearest(name, other_members)
        return DataError(
            str(self.path), [f"there is no '{name}' (or '{name}.gz'){hint}; it holds: {members_text}"], fix=fix
        )

    def label(self, member: str) -> str:
        """Return the member's place, for messages."""
        return str(self.path / member)

    def raw_name(self, member: str) -> str:
        """Return the name of the file on disk that holds the member."""
        return member

    def state(self, member: str) -> tuple[int, int]:
        """Return size and time of change (ns) of the file on disk; raises DataError when it cannot be reached."""
        try:
            stat = self._raw_file(member).stat()
        except OSError as error:
            raise DataError(self.label(member), [f"cannot be read: {_reason(error)}"]) from error
        return stat.st_size, stat.st_mtime_ns

    @contextmanager
    def open(self, member: str) -> Iterator[BinaryIO]:
        """Open the member's bytes, decompressed and buffered.

        Raises DataError if it cannot be opened, is of a kind that is not read, or turns out to be damaged.
        """
        start = self._raw_start(member)
        compression = compression_of(start, member)
        unread = unread_kind(self.label(member), self._decompressed(member, start, compression))
        if unread is not None:
            raise unread
        try:
            with self._raw(member) as raw:
                if compression is None:
                    yield raw
                else:
                    with compression.open(raw, self.label(member), self._size(member)) as stream:
                        yield stream
        except DamagedError as error:  # of readers that cannot name a line
            raise DataError(self.label(member), [f"cannot be read: {_reason(error)}"]) from error

    def start_of(self, member: str) -> bytes:
        """Return the member's first bytes, 4,096 at most, without a byte-order mark; none if they cannot be read."""
        start = self._raw_start(member)
        return self._decompressed(member, start, compression_of(start, member)).removeprefix(_BOM)

    def _decompressed(self, member: str, start: bytes, compression: Compression | None) -> bytes:
        if compression is None or compression.is_missing:
            return start
        with self._raw(member) as raw, compression.open(raw, self.label(member), self._size(member)) as stream:
            return _read_start(stream)

    def unread(self, member: str) -> DataError | None:
        """Return the error for a member of a kind that is not read, None for any other."""
        return unread_kind(self.label(member), self.start_of(member))

    def _raw_start(self, member: str) -> bytes:
        with self._raw(member) as raw:
            return _read_start(raw)

    @contextmanager
    def _raw(self, member: str) -> Iterator[BinaryIO]:
        try:
            raw = self._open_raw(member)
        except (OSError, RuntimeError, zipfile.BadZipFile, NotImplementedError) as error:
            raise DataError(self.label(member), [f"cannot be opened: {_reason(error)}"]) from error
        with raw:
            yield raw

    def digest(self, member: str) -> str:
        """Return SHA-256 of the file on disk that holds the member, computed once."""
        path = self._raw_file(member)
        if path not in self._digests:
            try:
                self._digests[path] = file_digest(path)
            except OSError as error:
                raise DataError(self.label(member), [f"cannot be read: {_reason(error)}"]) from error
        return self._digests[path]

    def _size(self, member: str) -> int:
        """Return the stored size of the member, before decompression."""
        return self.state(member)[0]

    def _raw_file(self, member: str) -> Path:
        return self.path / member

    def _open_raw(self, member: str) -> BinaryIO:
        return (self.path / member).open("rb", buffering=_BUFFER_BYTES)


class _Archive(Source):
    """A zip archive; the members may lie in one folder at its top."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(str(path), [f"is not a readable zip archive: {_reason(error)}"]) from error
        names = [name for name in self._zip.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
        if not names:
            raise DataError(str(path), ["is an empty archive"])
        outside = sorted(name for name in names if leads_outside(name))
        if outside:
            raise DataError(
                str(path),
                [f"the member '{name}' leads out of the archive" for name in outside],
                fix="such an archive was made to overwrite files: get the dataset from its publisher",
            )
        tops = {name.partition("/")[0] for name in names}
        in_folder = len(tops) == 1 and _QRELS not in tops and all("/" in name for name in names)
        self._prefix = f"{tops.pop()}/" if in_folder else ""
        self.members = frozenset(name.removeprefix(self._prefix) for name in names)

    def raw_name(self, member: str) -> str:
        return self.path.name

    def _raw_file(self, member: str) -> Path:
        return self.path

    def _size(self, member: str) -> int:
        return self._zip.getinfo(self._prefix + member).file_size

    def _open_raw(self, member: str) -> BinaryIO:
        packed = self._zip.getinfo(self._prefix + member)
        stream = cast("BinaryIO", self._zip.open(packed))
        lines = plain_name(member) == member and is_text(member)
        return unpacked(stream, self.label(member), packed.compress_size, lines=lines)


def _read_start(stream: BinaryIO) -> bytes:
    """Return the first bytes of a stream; empty if it is damaged, which its reader reports with the line."""
    try:
        return stream.read(_START_BYTES)
    except READ_ERRORS:
        return b""


def leads_outside(member: str) -> bool:
    """Return whether a name is absolute or has ``..`` among its folders, as POSIX or Windows write them."""
    parts = member.replace("\\", "/").split("/")
    return parts[0] == "" or parts[0].endswith(":") or ".." in parts


def open_source(path: Path) -> Source:
    """Return the source at ``path``, a folder or a ``.zip`` file; raises DataError for anything else."""
    if path.is_dir():
        return Source(path)
    if not path.exists():
        fix = "give a folder in BEIR layout, a .zip of one, or a card's name"
        raise DataError(str(path), [absence(path)], fix=fix)
    if path.suffix.lower() != ".zip":
        fix = "give the folder that holds corpus.jsonl"
        raise DataError(str(path), ["is neither a folder nor a .zip file"], fix=fix)
    return _Archive(path)


class Block(NamedTuple):
    """Consecutive lines of a file, including blank ones: the number of the first, counted from 1, and their bytes."""

    first: int
    lines: list[bytes]


class Line(NamedTuple):
    """One line of a file that is not blank: its number, counted from 1, and its bytes."""

    number: int
    content: bytes


def read_blocks(stream: BinaryIO, problems: Problems, notes: list[str]) -> Iterator[Block]:
    """Yield all lines, in blocks of at most 8,192 lines and about 4 MB. A byte-order mark is accepted and noted.

    A damaged archive, an unreadable file and UTF-16 end the reading and are noted in ``problems``.
    """
    first, buffered_bytes = 1, 0
    lines: list[bytes] = []
    try:
        for line in stream:
            lines.append(line)
            buffered_bytes += len(line)
            if buffered_bytes >= _BLOCK_BYTES or len(lines) >= _BLOCK_LINES:
                if first == 1 and not _accept_start(lines, problems, notes):
                    return
                yield Block(first, lines)
                first, buffered_bytes, lines = first + len(lines), 0, []
    except READ_ERRORS as error:
        problems.add(first + len(lines), f"cannot be read further: {_reason(error)}")
    if lines and (first > 1 or _accept_start(lines, problems, notes)):
        yield Block(first, lines)


def _accept_start(lines: list[bytes], problems: Problems, notes: list[str]) -> bool:
    """Remove a byte-order mark from the first line; False if the file is not UTF-8."""
    if is_utf16(lines[0]):
        problems.add(1, UTF16)
        return False
    if lines[0].startswith(_BOM):
        notes.append("a byte-order mark on line 1 was ignored")
        lines[0] = lines[0][len(_BOM) :]
    return True


def read_lines(stream: BinaryIO, problems: Problems, notes: list[str]) -> Iterator[Line]:
    """Yield every line that is not blank; blank lines and oddities that :func:`read_blocks` accepts go to ``notes``."""
    blank = 0
    for block in read_blocks(stream, problems, notes):
        for number, content in enumerate(block.lines, block.first):
            if is_blank(content):
                blank += 1
            else:
                yield Line(number, content)
    note_blank(blank, notes)


def is_blank(line: bytes) -> bool:
    """Return whether a line holds nothing but white space."""
    return not line or line.isspace()


def note_blank(count: int, notes: list[str]) -> None:
    """Note how many blank lines were passed over, if there were any."""
    if count:
        notes.append(f"{counted(count, 'blank line')} {'was' if count == 1 else 'were'} ignored")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
