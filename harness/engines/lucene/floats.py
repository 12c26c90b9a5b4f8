"""Float vectors into the JVM: one block of bytes crosses, and Java cuts it into an array for each row.

pyjnius turns numbers into Java's one by one, which is slow; bytes it copies at once, and JSON would have to be parsed.
"""

from __future__ import annotations

from typing import Any

from harness.data.types import Float32Array
from harness.java.bridge import JavaBridge

__all__ = ["float_rows"]

_READ = "([F)Ljava/nio/FloatBuffer;"


def float_rows(bridge: JavaBridge, rows: Float32Array) -> Any:  # noqa: ANN401 - a Java object
    """A ``java.util.stream.Stream`` of a ``float[]`` for each row of ``rows``, float32 (n, d), in order."""
    load, kind = bridge.load, bridge.type("[F")
    handles, order = load("java.lang.invoke.MethodHandles"), load("java.nio.ByteOrder").LITTLE_ENDIAN
    block = load("java.nio.ByteBuffer").wrap(rows.astype("<f4", copy=False).tobytes()).order(order)
    buffer = bridge.cast("java.nio.FloatBuffer", block.asFloatBuffer())
    # () -> { array = new float[d]; buffer.get(array); return array; }
    fill = handles.dropReturn(bridge.method("java.nio.FloatBuffer", "get", _READ).bindTo(buffer))
    filled = handles.foldArguments(handles.identity(kind), fill)
    new = bridge.bind(handles.arrayConstructor(kind), 0, load("java.lang.Integer")(rows.shape[1]))
    next_row = bridge.interface("java.util.function.Supplier", handles.collectArguments(filled, 0, new))
    return load("java.util.stream.Stream").generate(next_row).limit(len(rows))
