"""Decompressed content of users' files, within limits: a small file may expand to more than the memory holds."""

from __future__ import annotations

import importlib
import io
import lzma
import math
import os
import zipfile
import zlib
from typing import Any, BinaryIO, cast

from harness.errors import DataError, UsageError

_BUFFER_BYTES = 1 << 20
LIMITS = "HARNESS_DECOMPRESSION_LIMITS"
"""The environment variable with the factor for the limits of decompressed content."""
_LONGEST_LINE = 512 << 20
_FREE_BYTES = 64 << 20
_RATIO = 200
"""Text is compressed to a tenth or a fiftieth of its size; gzip cannot do more than 1,032."""
READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Exceptions raised when reading a damaged or cut file."""


class DamagedError(OSError):
    """Compressed content is damaged or cut, for any exception of its library."""


class _ZstandardFrames(io.RawIOBase):
    """The content of one Zstandard frame after another; seeking back starts again from the beginning."""

    _INPUT_BYTES = 1 << 10
    """A block of 4 bytes may expand to 128 KiB: this much input fills at most 32 MiB."""

    def __init__(self, raw: BinaryIO) -> None:
        self._module = importlib.import_module("zstandard")
        self._raw = raw
        self._start_again()

    def _start_again(self) -> None:
        self._raw.seek(0)
        self._frame = self._module.ZstdDecompressor().decompressobj()
        self._unread, self._content, self._position, self._in_frame = b"", b"", 0, False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._raw.seekable()

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            while self.read(_BUFFER_BYTES):
                pass
        target = offset + (0 if whence == io.SEEK_SET else self._position)
        if target < self._position:
            self._start_again()
        while self._position < target and self.read(min(_BUFFER_BYTES, target - self._position)):
            pass
        return self._position

    def readinto(self, buffer: Any) -> int:
        while not self._content:
            packed = self._unread or self._raw.read(self._INPUT_BYTES)
            self._unread = b""
            if not packed:
                if self._in_frame:
                    raise EOFError("the file ended before the end of a frame")
                return 0
            self._decompress(packed)
        size = min(len(buffer), len(self._content))
        buffer[:size], self._content = self._content[:size], self._content[size:]
        self._position += size
        return size

    def _decompress(self, packed: bytes) -> None:
        try:
            self._content = self._frame.decompress(packed)
        except self._module.ZstdError as error:
            raise DamagedError(str(error)) from error
        self._in_frame = not self._frame.eof
        if self._frame.eof:
            self._unread = self._frame.unused_data
            self._frame = self._module.ZstdDecompressor().decompressobj()

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Lz4Frames(io.RawIOBase):
    """The content of LZ4 frames, whose damage raises DamagedError."""

    def __init__(self, raw: BinaryIO) -> None:
        self._stream = importlib.import_module("lz4.frame").LZ4FrameFile(raw)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def tell(self) -> int:
        return int(self._stream.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._stream.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._stream.read(len(buffer))
        except RuntimeError as error:
            raise DamagedError(str(error)) from error
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._stream.close()
        super().close()


def zstandard_stream(raw: BinaryIO) -> io.BufferedReader:
    """Return the decompressed content of a file of Zstandard frames; needs the package zstandard."""
    return io.BufferedReader(_ZstandardFrames(raw), _BUFFER_BYTES)


def lz4_stream(raw: BinaryIO) -> io.BufferedReader:
    """Return the decompressed content of a file of LZ4 frames; needs the package lz4."""
    return io.BufferedReader(_Lz4Frames(raw), _BUFFER_BYTES)


class _DecompressedStream(io.RawIOBase):
    """Decompressed content, within limits: a small file may expand to more than the memory holds.

    A line may have 512 MiB; beyond the first 64 MiB, the content may have 200 times the bytes of its compressed form.
    """

    def __init__(self, stream: BinaryIO, label: str, packed_bytes: int, *, lines: bool) -> None:
        self._stream, self._label, self._lines = stream, label, lines
        self._longest = int(_LONGEST_LINE * _limits_factor())
        self._most = expanded_limit(packed_bytes)
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
    return cast(
        "BinaryIO", io.BufferedReader(_DecompressedStream(stream, label, packed_bytes, lines=lines), _BUFFER_BYTES)
    )


def expanded_limit(packed_bytes: int) -> int:
    """Return how many bytes, or characters, may be in a file of this size after decompression or expansion."""
    return int(max(_FREE_BYTES, _RATIO * packed_bytes) * _limits_factor())


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
