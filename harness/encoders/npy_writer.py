"""Write ``.npy`` files row by row; an unfinished file can be cut back to the rows that are known to be whole."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

__all__ = ["NpyWriter"]

_HEADER_BYTES = 128
"""Room for any number of rows: NumPy pads its header to a multiple of 64 bytes, so this is a valid one."""


class NpyWriter:
    """Append rows to one file, as C-contiguous ``dtype`` of shape (n,) or (n, ``width``).

    Until :meth:`finish` the header says that there are no rows.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, *, rows: int, width: int | None = None) -> None:
        """Begin the file, or continue it after its first ``rows`` rows: what follows them is cut off."""
        self._dtype, self._width = np.dtype(dtype), width
        size = _bytes_of(rows, self._dtype, width)
        if rows and path.stat().st_size < size:  # truncate would fill the file up with zeros
            raise AssertionError(f"'{path}' holds less than {rows} rows")
        self._stream = path.open("r+b" if rows else "w+b")
        if not rows:
            self._stream.write(self._header(0))
        self._stream.truncate(size)
        self._stream.seek(0, os.SEEK_END)
        self.rows = rows

    @staticmethod
    def holds(path: Path, dtype: npt.DTypeLike, *, rows: int, width: int | None = None) -> bool:
        """Tell whether the file has at least ``rows`` rows; 0 rows need no file."""
        return not rows or (path.is_file() and path.stat().st_size >= _bytes_of(rows, np.dtype(dtype), width))

    def append(self, array: npt.NDArray[Any]) -> None:
        """Add rows at the end; their bytes are on the disk after :meth:`sync`."""
        shape = array.shape[1:]
        if shape != (() if self._width is None else (self._width,)):
            raise AssertionError(f"rows of shape {shape} for a column of width {self._width}")
        self._stream.write(np.ascontiguousarray(array, dtype=self._dtype).data)
        self.rows += len(array)

    def sync(self) -> None:
        """Force appended rows onto the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def finish(self) -> None:
        """Write the number of rows into the header and close the file."""
        self._stream.seek(0)
        self._stream.write(self._header(self.rows))
        self.sync()
        self.close()

    def close(self) -> None:
        """Close the file as it is."""
        self._stream.close()

    def _header(self, rows: int) -> bytes:
        shape = (rows,) if self._width is None else (rows, self._width)
        header = io.BytesIO()
        npy.write_array_header_1_0(
            header, {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        )
        text = header.getvalue()
        if len(text) > _HEADER_BYTES:
            raise AssertionError(f"a header of {len(text)} bytes")
        prefix, fields = text[:8], text[10:].rstrip()
        return prefix + (_HEADER_BYTES - 10).to_bytes(2, "little") + fields.ljust(_HEADER_BYTES - 11) + b"\n"


def _bytes_of(rows: int, dtype: np.dtype[Any], width: int | None) -> int:
    return _HEADER_BYTES + rows * dtype.itemsize * (1 if width is None else width)
