"""Bulk work inside the JVM: whole columns cross the border as JSON bytes, and Java's own methods run over them there.

A Java method becomes a ``java.util.function.Function`` through a method handle, so that a stream applies it to a whole
list without one call from Python per element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from harness.errors import BackendError, EngineFailureError, EngineUnavailableError, RejectedInputError
from harness.java.jvm import Jvm

__all__ = ["REBUILD", "JavaBridge", "java_errors", "spans"]

REBUILD = "delete the index folder; it is rebuilt"
"""The remedy for an index that cannot be read, when it is the harness's own."""
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
    """Turn a Java exception into one of ours that names what was being done, the cause and the remedy.

    ``doing`` may be a function, called when something failed: around a loop, for what naming each turn would cost.
    """
    from jnius import JavaException

    try:
        yield
    except JavaException as error:
        raise _translated(error, doing if isinstance(doing, str) else doing()) from error


def _translated(error: Any, doing: str) -> BackendError:  # noqa: ANN401 - pyjnius has no type information
    trace = [str(line) for line in getattr(error, "stacktrace", None) or []]
    said = _innermost(trace) or f"{getattr(error, 'classname', None)}: {getattr(error, 'innermessage', None) or error}"
    everything = "\n".join([said, *trace])
    for word, kind, fix in _REMEDIES:
        if word in everything:
            return kind(f"Lucene failed while {doing}: {said}", fix=fix)
    return EngineFailureError(f"Lucene failed while {doing}: {said}", fix=_shown(trace))


def _innermost(trace: Sequence[str]) -> str:
    """What the last ``Caused by`` says, on its own line or, as pyjnius writes it, on the next one; "" without one."""
    for place in reversed(range(len(trace))):
        if trace[place].startswith("Caused by:"):
            said = trace[place].removeprefix("Caused by:").strip()
            return said or "".join(trace[place + 1 : place + 2]).strip()
    return ""


def _shown(trace: Sequence[str]) -> str:
    """The start of a Java trace: nothing else tells what to do about an error that nobody foresaw."""
    lines = [line.strip() for line in trace[:_TRACE_LINES]]
    left = f"\n    … and {len(trace) - len(lines)} more" if len(trace) > len(lines) else ""
    return "Java's trace:\n    " + "\n    ".join(lines) + left if lines else "Java gave no trace"


def spans(texts: Sequence[str], *, characters: int = _SPAN_CHARACTERS) -> Iterator[slice]:
    """Consecutive slices of ``texts`` that are small enough to cross at once: by number, and by ``characters``.

    A longer text is a slice of its own. No slice is empty.
    """
    start, held = 0, 0
    for place, text in enumerate(texts):
        if place > start and (place - start == _SPAN_TEXTS or held + len(text) > characters):
            yield slice(start, place)
            start, held = place, 0
        held += len(text)
    if start < len(texts):
        yield slice(start, len(texts))


class JavaBridge:
    """Lists over and back, and Java functions over lists, in one running JVM."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._mapper = jvm.load("com.fasterxml.jackson.databind.ObjectMapper")()
        self._list = self.type("java.util.List")

    def load(self, name: str) -> Any:  # noqa: ANN401 - a Java class has no Python type
        """The Java class ``name``, to construct or to call statically."""
        return self._jvm.load(name)

    def type(self, name: str) -> Any:  # noqa: ANN401 - a Java object has no Python type
        """The ``java.lang.Class`` called ``name``."""
        return self._jvm.load("java.lang.Class").forName(name)

    def cast(self, name: str, value: Any) -> Any:  # noqa: ANN401 - Java objects have no Python type
        """``value`` as the class or interface ``name``: pyjnius picks overloads by exact type."""
        from jnius import cast

        return cast(name, value)

    def to_java(self, values: Sequence[str]) -> Any:  # noqa: ANN401 - a Java list has no Python type
        """A ``java.util.List`` of the same strings, in one call (JSON bytes, so any Unicode arrives whole)."""
        return self.cast("java.util.List", self._mapper.readValue(orjson.dumps(values), self._list))

    def to_nodes(self, values: Sequence[Mapping[str, str]]) -> Any:  # noqa: ANN401 - a Java stream
        """A ``java.util.stream.Stream`` of Jackson's JSON nodes, one for each mapping, in one call."""
        nodes = self._mapper.readTree(orjson.dumps(values))
        return self.load("java.util.stream.StreamSupport").stream(nodes.spliterator(), False)

    def to_python(self, value: Any) -> Any:  # noqa: ANN401 - whatever Jackson can write
        """A Java value as plain Python lists, dicts, numbers and strings, in one call."""
        return orjson.loads(bytes(self._mapper.writeValueAsBytes(value)))

    def static_method(self, owner: str, name: str, descriptor: str) -> Any:  # noqa: ANN401 - a Java object
        """A method handle of a static method; ``descriptor`` in the JVM's notation."""
        return self._lookup().findStatic(self.type(owner), name, self._signature(descriptor))

    def method(self, owner: str, name: str, descriptor: str) -> Any:  # noqa: ANN401 - a Java object
        """A method handle of an instance method; the receiver is its first argument."""
        return self._lookup().findVirtual(self.type(owner), name, self._signature(descriptor))

    def constructor(self, owner: str, descriptor: str) -> Any:  # noqa: ANN401 - a Java object
        """A method handle of a constructor; ``descriptor`` in the JVM's notation, returning V."""
        return self._lookup().findConstructor(self.type(owner), self._signature(descriptor))

    def getter(self, owner: str, name: str, kind: str) -> Any:  # noqa: ANN401 - a Java object
        """A method handle that reads a public field; ``kind`` is the field's type in the JVM's notation."""
        return self._lookup().findGetter(self.type(owner), name, self._field_type(kind))

    def static_setter(self, owner: str, name: str, kind: str) -> Any:  # noqa: ANN401 - a Java object
        """A method handle that writes a public static field; ``kind`` as in :meth:`getter`."""
        return self._lookup().findStaticSetter(self.type(owner), name, self._field_type(kind))

    def bind(self, handle: Any, place: int, value: Any) -> Any:  # noqa: ANN401 - Java objects
        """The method handle with the Java object ``value`` as its argument at ``place``."""
        return self.load("java.lang.invoke.MethodHandles").insertArguments(handle, place, value)

    def string(self, text: str) -> Any:  # noqa: ANN401 - a Java object
        """A ``java.lang.String``, where pyjnius must not choose between types."""
        return self.load("java.lang.String")(text)

    def set_field(self, owner: Any, name: str, value: Any) -> None:  # noqa: ANN401 - Java objects
        """Set a field of ``owner`` that its class keeps to itself."""
        field = owner.getClass().getDeclaredField(name)
        field.setAccessible(True)
        handle = self.load("java.lang.invoke.MethodHandles").publicLookup().unreflectSetter(field)
        self.interface("java.lang.Runnable", handle.bindTo(owner).bindTo(value)).run()

    def chain(self, first: Any, *rest: Any) -> Any:  # noqa: ANN401 - Java objects
        """One method handle that hands the result of each method handle to the next one."""
        filtered = self.load("java.lang.invoke.MethodHandles").filterReturnValue
        for handle in rest:
            fitting = handle.type().changeParameterType(0, first.type().returnType())
            first = filtered(first, handle.asType(self.cast("java.lang.invoke.MethodType", fitting)))
        return first

    def then(self, first: Any, last: Any) -> Any:  # noqa: ANN401 - Java objects
        """A method handle that calls ``first`` with all arguments, and gives what ``last``, without any, then gives."""
        handles = self.load("java.lang.invoke.MethodHandles")
        taken = self.cast("java.util.List", first.type().parameterList())
        return handles.foldArguments(handles.dropArguments(last, 0, taken), handles.dropReturn(first))

    def function(self, handle: Any) -> Any:  # noqa: ANN401 - Java objects
        """A one-argument method handle as ``java.util.function.Function``."""
        return self.interface("java.util.function.Function", handle)

    def interface(self, kind: str, handle: Any) -> Any:  # noqa: ANN401 - Java objects
        """A method handle as an object of ``kind``, an interface with one method."""
        proxies = self.load("java.lang.invoke.MethodHandleProxies")
        return self.cast(kind, proxies.asInterfaceInstance(self.type(kind), handle))

    def map(self, function: Any, values: Any) -> Any:  # noqa: ANN401 - Java objects
        """A Java list with ``function`` applied to each element of the Java list ``values``, in order."""
        return self.cast("java.util.List", values.stream().map(function).toList())

    def _lookup(self) -> Any:  # noqa: ANN401 - a Java object
        return self.load("java.lang.invoke.MethodHandles").publicLookup()

    def _field_type(self, kind: str) -> Any:  # noqa: ANN401 - a Java object
        return self.cast("java.lang.Class", self._signature(f"(){kind}").returnType())

    def _signature(self, descriptor: str) -> Any:  # noqa: ANN401 - a Java object
        return self.load("java.lang.invoke.MethodType").fromMethodDescriptorString(descriptor, None)
