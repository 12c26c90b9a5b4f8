"""What a file is stored as: compression that is read, and kinds of files that are not, by content and by ending."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, BinaryIO, NamedTuple, cast

from harness.errors import DataError, UsageError

_BUFFER_BYTES = 1 << 20
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FEW_LETTERS = 4
LIMITS = "HARNESS_DECOMPRESSION_LIMITS"
"""The variable of the environment by which the limits of decompressed content are multiplied."""
_LONGEST_LINE = 512 << 20
_FREE_BYTES = 64 << 20
_RATIO = 200
"""Text is compressed to a tenth or a fiftieth of its size; gzip cannot do more than 1,032."""

UTF16 = "the file is UTF-16, expected UTF-8"
READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""What reading a damaged or cut file raises."""


class DamagedError(OSError):
    """Compressed content is damaged or cut, whatever its library raises for that."""


class _Unpacked(io.RawIOBase):
    """Decompressed content, within limits: a small file may stand for more than the memory holds.

    A line may have 512 MiB; beyond the first 64 MiB, the content may have 200 times the bytes of its compressed form.
    """

    def __init__(self, stream: BinaryIO, label: str, packed_bytes: int, *, lines: bool) -> None:
        factor = _limits_factor()
        self._stream, self._label, self._lines = stream, label, lines
        self._longest = int(_LONGEST_LINE * factor)
        self._most = int(max(_FREE_BYTES, _RATIO * packed_bytes) * factor)
        self._line_bytes = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._stream.read(len(buffer))
        except READ_ERRORS as error:
            if getattr(error, "errno", None) is not None:  # the disk's, not the content's
                raise
            raise DamagedError(str(error)) from error
        buffer[: len(content)] = content
        if self._stream.tell() > self._most:
            raise self._refusal(f"it holds more than {self._most:,} bytes, which is very much for its compressed size")
        end = content.rfind(b"\n")
        self._line_bytes = len(content) - end - 1 + (self._line_bytes if end < 0 else 0)
        if self._lines and self._line_bytes > self._longest:
            raise self._refusal(f"it holds a line of more than {self._longest:,} bytes")
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _refusal(self, problem: str) -> DataError:
        fix = f"if the file is sound, raise the limits: {LIMITS}=10 is ten times as much; or decompress it"
        return DataError(self._label, [f"is not decompressed further: {problem}"], fix=fix)


def unpacked(stream: BinaryIO, label: str, packed_bytes: int, *, lines: bool = True) -> BinaryIO:
    """Return a buffered stream of decompressed content; reading it raises DataError beyond the limits.

    Args:
        stream: The decompressed content.
        label: The file, for messages.
        packed_bytes: The size of the compressed content.
        lines: Whether the content is text in lines, whose length is limited.
    """
    return cast("BinaryIO", io.BufferedReader(_Unpacked(stream, label, packed_bytes, lines=lines), _BUFFER_BYTES))


def _limits_factor() -> float:
    """Return by how much the limits of decompressed content are raised; raises UsageError if it is not a number."""
    text = os.environ.get(LIMITS, "") or "1"
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < math.inf:
        raise UsageError(f"{LIMITS} is '{text}'", fix="give a number above 0: 10 is ten times the limits")
    return factor


class Compression(NamedTuple):
    """A compression that is read: its ending, how its files begin, and what opens a stream."""

    ending: str
    start: re.Pattern[bytes]
    stream: Callable[[BinaryIO], object]

    def open(self, raw: BinaryIO, label: str, packed_bytes: int) -> BinaryIO:
        """Return a buffered stream of the decompressed content; the arguments and limits are those of ``unpacked``."""
        lines = PurePath(plain_name(label)).suffix.lower() != ".parquet"
        return unpacked(cast("BinaryIO", self.stream(raw)), label, packed_bytes, lines=lines)


_COMPRESSIONS = (
    Compression(".gz", re.compile(rb"\x1f\x8b"), lambda raw: gzip.GzipFile(fileobj=raw)),
    Compression(".bz2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.BZ2File),
    Compression(".xz", re.compile(rb"\xfd7zXZ\x00"), lzma.LZMAFile),
)
PACKED = tuple(compression.ending for compression in _COMPRESSIONS)
"""The endings of compressed files that are read."""


class _Unread(NamedTuple):
    """A kind of file that is not read: its name in a sentence, what to do, how its files end, and how they begin."""

    name: str
    fix: str
    endings: tuple[str, ...]
    start: re.Pattern[bytes] | None = None


_UNREAD = (
    _Unread("YAML", "write it as JSON Lines or JSON", (".yaml", ".yml")),
    _Unread(
        "an Excel workbook",
        "save its sheet as CSV in UTF-8",
        (".xlsx", ".xlsm", ".xls"),
        re.compile(rb"PK\x03\x04.*(\[Content_Types\]\.xml|xl/)|\xd0\xcf\x11\xe0", re.DOTALL),
    ),
    _Unread(
        "compressed by Zstandard", "decompress it: zstd -d FILE", (".zst", ".zstd"), re.compile(rb"\x28\xb5\x2f\xfd")
    ),
    _Unread("compressed by LZ4", "decompress it: lz4 -d FILE", (".lz4",), re.compile(rb"\x04\x22\x4d\x18")),
    _Unread("an Arrow IPC (Feather) file", "write it as Parquet", (".feather", ".arrow"), re.compile(rb"ARROW1")),
    _Unread("a tar archive", "unpack it", (".tar", ".tgz"), re.compile(rb".{257}ustar", re.DOTALL)),
    _Unread("a zip archive", "unpack it", (".zip",), re.compile(rb"PK\x03\x04")),
)
"""Of two kinds that begin alike, the narrower one comes first."""


def plain_name(name: str) -> str:
    """Return a file's name without the ending of a compression."""
    return next((name[: -len(ending)] for ending in PACKED if name.lower().endswith(ending)), name)


def compression_of(start: bytes, name: str = "") -> Compression | None:
    """Return the compression of content that begins so, or whose name says so; None for plain and for no content."""
    for compression in _COMPRESSIONS:
        if compression.start.match(start) or (start and name.lower().endswith(compression.ending)):
            return compression
    return None


def unread_kind(label: str, start: bytes) -> DataError | None:
    """Return the error for a kind of file that is not read, by its name and decompressed beginning; else None."""
    ending = PurePath(plain_name(label)).suffix.lower()
    for kind in _UNREAD:
        if ending in kind.endings or (kind.start is not None and kind.start.match(start)):
            return DataError(label, [f"is {kind.name}, which is not read"], fix=kind.fix)
    return None


def is_utf16(start: bytes) -> bool:
    """Return whether text begins as UTF-16: with a byte-order mark, or with letters every second byte of which is 0."""
    if start.startswith(_UTF16_MARKS):
        return True
    letters = start[: 2 * _FEW_LETTERS]
    return len(letters) == 2 * _FEW_LETTERS and (not any(letters[::2]) or not any(letters[1::2])) and any(letters)
