"""What all engines on Lucene have in common: their directory, how they write, and what they say of Lucene and Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.engines.interface import EngineInfo
from harness.java.bridge import JavaBridge
from harness.text.lucene import versions

__all__ = ["info_of", "java_of", "open_directory", "writer_configuration"]


def open_directory(bridge: JavaBridge, folder: Path) -> Any:  # noqa: ANN401 - a Java object
    """Lucene's directory at ``folder``."""
    path = bridge.load("java.io.File")(str(folder)).toPath()
    return bridge.load("org.apache.lucene.store.FSDirectory").open(path)


def writer_configuration(bridge: JavaBridge, analyzer: Any, ram_buffer_mb: float) -> Any:  # noqa: ANN401 - Java objects
    """One thread adds and merges, and only neighbouring segments are merged: document numbers follow the rows sent."""
    load = bridge.load
    configuration = load("org.apache.lucene.index.IndexWriterConfig")(analyzer)
    configuration.setOpenMode(load("org.apache.lucene.index.IndexWriterConfig$OpenMode").CREATE)
    configuration.setRAMBufferSizeMB(ram_buffer_mb)
    configuration.setUseCompoundFile(False)
    configuration.setMergePolicy(load("org.apache.lucene.index.LogByteSizeMergePolicy")())
    configuration.setMergeScheduler(load("org.apache.lucene.index.SerialMergeScheduler")())
    return configuration


def info_of(bridge: JavaBridge, mode: str) -> EngineInfo:
    """Lucene's version, and Anserini's, whose jar holds it."""
    found = versions(bridge)
    return EngineInfo("Lucene", f"{found['lucene']} (Anserini {found['anserini']})", mode)


def java_of(bridge: JavaBridge) -> dict[str, str | int]:
    """The Java that runs, and the processors that it sees."""
    return {
        "java": str(bridge.load("java.lang.System").getProperty("java.version")),
        "java_processors": int(bridge.load("java.lang.Runtime").getRuntime().availableProcessors()),
    }
