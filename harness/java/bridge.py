"""The bridge between Python and the JVM: columns cross it as bytes, and Java's errors are translated.

The Java classes next to this module (``make java`` compiles them) do work that would otherwise take a call per element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from harness.errors import BackendError, EngineFailureError, EngineUnavailableError, RejectedInputError
from harness.java.jvm import Jvm, load_class

JavaObject: TypeAlias = Any
"""A Java class or object: pyjnius gives it no type in Python."""
REBUILD = "delete the index folder; it is rebuilt"
"""The remedy for an unreadable index of the harness."""
_SPAN_TEXTS = 4096
_SPAN_CHARACTERS = 4_000_000

_REMEDIES: tuple[tuple[str, type[BackendError], str], ...] = (
    ("OutOfMemoryError", EngineFailureError, "give Java more memory: heap=4g"),
    ("No space left on device", EngineFailureError, "free disk space and run again"),
    ("LockObtainFailedException", EngineUnavailableError, "another process writes to this index: wait or stop it"),
    ("IndexFormatTooOldException", EngineUnavailableError, REBUILD),
    ("IndexFormatTooNewException", EngineUnavailableError, REBUILD),
    ("An SPI class of type org.apache.lucene.codecs", EngineUnavailableError, REBUILD),
    ("IndexNotFoundException", EngineUnavailableError, REBUILD),
    ("CorruptIndexException", EngineUnavailableError, REBUILD),
    ("NoSuchFileException", EngineUnavailableError, REBUILD),
    ("EOFException", EngineUnavailableError, REBUILD),
    ("AccessDeniedException", EngineUnavailableError, "make the folder writable"),
    ("does not have support for", EngineUnavailableError, "set JAVA_HOME to a full JDK of version 21 or newer"),
    ("immense term", RejectedInputError, "shorten the document ids: Lucene takes at most 32,766 bytes"),
    ("ClassNotFoundException", EngineUnavailableError, "use an Anserini jar of version 1.x (jar=)"),
    ("NoClassDefFoundError", EngineUnavailableError, "use an Anserini jar of version 1.x (jar=)"),
)
"""Error and remedy by a word in the Java trace, the first match; everything else is EngineFailureError."""
_TRACE_LINES = 12


@contextmanager
def java_errors(doing: str | Callable[[], str]) -> Iterator[None]:
    """Translate a Java exception into a BackendError with the activity, the cause and the remedy.

    ``doing`` may be a function, called only after a failure: around a loop, this avoids the cost of naming each turn.
    """
    from jnius import JavaException

    try:
        yield
    except JavaException as error:
        raise _translated(error, doing if isinstance(doing, str) else doing()) from error


def _translated(error: JavaObject, doing: str) -> BackendError:
    trace = [str(line) for line in getattr(error, "stacktrace", None) or []]
    message = ""
    for position, line in enumerate(trace):
        if line.startswith("Caused by:"):  # the last cause counts; pyjnius writes its words on the next line
            message = line.removeprefix("Caused by:").strip() or "".join(trace[position + 1 : position + 2]).strip()
    message = message or f"{getattr(error, 'classname', None)}: {getattr(error, 'innermessage', None) or error}"
    everything = "\n".join([message, *trace])
    for word, kind, fix in _REMEDIES:
        if word in everything:
            return kind(f"Lucene failed while {doing}: {message}", fix=fix)
    # nothing else can suggest a remedy for an unforeseen error
    lines = [line.strip() for line in trace[:_TRACE_LINES]]
    lines += [f"… and {len(trace) - _TRACE_LINES} more"] if len(trace) > _TRACE_LINES else []
    trace_text = "\n    ".join(["Java's trace:", *lines]) if trace else "Java gave no trace"
    return EngineFailureError(f"Lucene failed while {doing}: {message}", fix=trace_text)


def spans(texts: Sequence[str], *, characters: int = _SPAN_CHARACTERS) -> Iterator[slice]:
    """Cut ``texts`` into slices that are small enough to cross at once: by number, and by ``characters``.

    A longer text is a separate slice. No slice is empty.
    """
    start, crossing = 0, 0
    for position, text in enumerate(texts):
        if position > start and (position - start == _SPAN_TEXTS or crossing + len(text) > characters):
            yield slice(start, position)
            start, crossing = position, 0
        crossing += len(text)
    if start < len(texts):
        yield slice(start, len(texts))


def packed_texts(texts: Sequence[str]) -> bytes:
    """Return texts in the form that the Java classes read: their number, the length of each, then their UTF-8."""
    parts = [text.encode() for text in texts]
    return np.array([len(parts), *map(len, parts)], dtype="<i4").tobytes() + b"".join(parts)


def unpacked_texts(block: JavaObject) -> list[str | None]:
    """Return the texts of an array of bytes that a Java class wrote; None for null."""
    content = block.tostring()
    count = int(np.frombuffer(content, "<i4", 1)[0])
    lengths = np.frombuffer(content, "<i4", count, 4)
    ends = 4 * (1 + count) + np.cumsum(np.maximum(lengths, 0), dtype=np.int64)
    spans_of_texts = zip((ends - np.maximum(lengths, 0)).tolist(), ends.tolist(), lengths.tolist(), strict=True)
    return [content[start:end].decode() if length >= 0 else None for start, end, length in spans_of_texts]


class JavaBridge:
    """Java's classes in one running JVM, including the harness's own, which move whole columns."""

    def __init__(self, jvm: Jvm) -> None:
        self.index = self.load("retrieval_harness.Index")

    def load(self, name: str) -> JavaObject:
        """Return the Java class ``name``, to construct or to call statically."""
        return load_class(name)

    def type(self, name: str) -> JavaObject:
        """Return the ``java.lang.Class`` called ``name``."""
        return load_class("java.lang.Class").forName(name)

    def cast(self, name: str, value: JavaObject) -> JavaObject:
        """Return ``value`` as the class or interface ``name``: pyjnius picks overloads by exact type."""
        from jnius import cast

        return cast(name, value)

    def queries(self, built: JavaObject) -> list[JavaObject]:
        """Return the queries of a Java list."""
        return [self.cast("org.apache.lucene.search.Query", built.get(position)) for position in range(built.size())]
