"""File containers: compressions that are read and kinds of files that are not, by content and by ending."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import re
from collections.abc import Callable
from functools import cache
from pathlib import PurePath
from typing import BinaryIO, NamedTuple, cast

from harness.errors import DataError
from harness.store.decompression import lz4_stream, unpacked, zstandard_stream
from harness.store.neighbour_file import ENDINGS as HDF5
from harness.store.neighbour_file import SIGNATURE

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FEW_LETTERS = 4
UTF16 = "the file is UTF-16, expected UTF-8: convert it with iconv -f UTF-16 -t UTF-8 FILE"


EXTRA = "files"
"""The extra with the packages that read further formats and compressions."""


class Compression(NamedTuple):
    """A supported compression: its ending, its first bytes, and the function that opens a stream.

    ``package`` is the package of the extra that it needs, None for the standard library.
    """

    ending: str
    start: re.Pattern[bytes]
    stream: Callable[[BinaryIO], object]
    name: str = ""
    package: str | None = None
    module: str = ""
    fix: str = ""

    @property
    def is_missing(self) -> bool:
        """Return whether a package is needed that is not installed."""
        return self.package is not None and not is_importable(self.module)

    def open(self, raw: BinaryIO, label: str, packed_bytes: int) -> BinaryIO:
        """Return a buffered stream of the decompressed content; arguments and limits as in ``unpacked``.

        Raises DataError if a package is missing.
        """
        if self.is_missing:
            raise self.refusal(label)
        lines = is_text(label)
        return unpacked(cast("BinaryIO", self.stream(raw)), label, packed_bytes, lines=lines)

    def refusal(self, label: str) -> DataError:
        """Return the error for a file whose package is not installed."""
        problem = f"is compressed by {self.name}, which needs the package {self.package}"
        return DataError(label, [problem], fix=f"pip install 'retrieval-harness[{EXTRA}]', or {self.fix}")


_ZSTANDARD = re.compile(rb"\x28\xb5\x2f\xfd")
_COMPRESSIONS = (
    Compression(".gz", re.compile(rb"\x1f\x8b"), lambda raw: gzip.GzipFile(fileobj=raw)),
    Compression(".bz2", re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), bz2.BZ2File),
    Compression(".xz", re.compile(rb"\xfd7zXZ\x00"), lzma.LZMAFile),
    Compression(
        ".zst", _ZSTANDARD, zstandard_stream, "Zstandard", "zstandard", "zstandard", "decompress it: zstd -d FILE"
    ),
    Compression(
        ".zstd", _ZSTANDARD, zstandard_stream, "Zstandard", "zstandard", "zstandard", "decompress it: zstd -d FILE"
    ),
    Compression(
        ".lz4", re.compile(rb"\x04\x22\x4d\x18"), lz4_stream, "LZ4", "lz4", "lz4.frame", "decompress it: lz4 -d FILE"
    ),
)
PACKED = tuple(compression.ending for compression in _COMPRESSIONS)
"""The endings of compressed files that are read."""


WORKBOOKS = (".xlsx", ".xlsm")
"""The endings of workbooks that are read."""


class _Unread(NamedTuple):
    """An unsupported kind of file: its name in a sentence, a remedy, its endings, and its first bytes.

    Files with one of ``read_endings`` are read if the module of ``package`` can be imported.
    """

    name: str
    fix: str
    endings: tuple[str, ...]
    start: re.Pattern[bytes] | None = None
    read_endings: tuple[str, ...] = ()
    package: str = ""
    module: str = ""


_UNREAD = (
    _Unread(
        "an old or an encrypted Excel workbook",
        "save it as .xlsx, or its sheet as CSV in UTF-8",
        (".xls",),
        re.compile(rb"\xd0\xcf\x11\xe0"),
    ),
    _Unread("YAML", "write it as JSON Lines or JSON", (), None, (".yaml", ".yml"), "PyYAML", "yaml"),
    _Unread(
        "an Excel workbook",
        "save its sheet as CSV in UTF-8",
        (),
        re.compile(rb"PK\x03\x04.*(\[Content_Types\]\.xml|xl/)", re.DOTALL),
        WORKBOOKS,
        "openpyxl",
        "openpyxl",
    ),
    _Unread(
        "an HDF5 file",
        "a file of ann-benchmarks is read as a dataset, decompressed: --dataset FILE",
        HDF5,
        re.compile(re.escape(SIGNATURE)),
    ),
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
    compression = compression_of(start)  # what is still compressed lacks a package
    if compression is not None and compression.is_missing:
        return compression.refusal(label)
    ending = PurePath(plain_name(label)).suffix.lower()
    for kind in _UNREAD:
        if ending in kind.read_endings:
            if is_importable(kind.module):
                return None
            install = f"pip install 'retrieval-harness[{EXTRA}]', or {kind.fix}"
            return DataError(label, [f"is {kind.name}, which needs the package {kind.package}"], fix=install)
        if kind.start is not None and kind.read_endings and kind.start.match(start):
            problem = f"is {kind.name}, and its name does not end in {kind.read_endings[0]}"
            return DataError(label, [problem], fix="rename it")
        if ending in kind.endings or (kind.start is not None and kind.start.match(start)):
            return DataError(label, [f"is {kind.name}, which is not read"], fix=kind.fix)
    return None


def is_text(name: str) -> bool:
    """Return whether a file of this name holds lines: all but Parquet and workbooks do."""
    return PurePath(plain_name(name)).suffix.lower() not in (".parquet", *WORKBOOKS)


def packages() -> set[str]:
    """Return the packages that the extra brings."""
    kinds = {kind.package for kind in _UNREAD if kind.package}
    return kinds | {one.package for one in _COMPRESSIONS if one.package is not None}


@cache
def is_importable(module: str) -> bool:
    """Return whether a module of the extra can be imported."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def is_utf16(start: bytes) -> bool:
    """Return whether text begins as UTF-16: with a byte-order mark, or with letters whose every second byte is 0."""
    if start.startswith(_UTF16_MARKS):
        return True
    letters = start[: 2 * _FEW_LETTERS]
    return len(letters) == 2 * _FEW_LETTERS and (not any(letters[::2]) or not any(letters[1::2])) and any(letters)
