"""File containers: compressions that are read and kinds of files that are not, by content and by ending."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import BinaryIO, NamedTuple, cast

from harness.errors import DataError
from harness.store.decompression import unpacked

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FEW_LETTERS = 4
UTF16 = "the file is UTF-16, expected UTF-8"


class Compression(NamedTuple):
    """A supported compression: its ending, its first bytes, and the function that opens a stream."""

    ending: str
    start: re.Pattern[bytes]
    stream: Callable[[BinaryIO], object]

    def open(self, raw: BinaryIO, label: str, packed_bytes: int) -> BinaryIO:
        """Return a buffered stream of the decompressed content; arguments and limits as in ``unpacked``."""
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
    """An unsupported kind of file: its name in a sentence, a remedy, its endings, and its first bytes."""

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
    """Return whether text begins as UTF-16: with a byte-order mark, or with letters whose every second byte is 0."""
    if start.startswith(_UTF16_MARKS):
        return True
    letters = start[: 2 * _FEW_LETTERS]
    return len(letters) == 2 * _FEW_LETTERS and (not any(letters[::2]) or not any(letters[1::2])) and any(letters)
