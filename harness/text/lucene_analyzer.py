"""Lucene's language analyzers, configured as in Anserini if Anserini has them, run in the JVM of this process.

Texts go to Java as the bytes of a column, and terms or their counts come back as bytes (``harness/java/Terms.java``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.types import Int32Array, SparseVectors, offsets_of
from harness.errors import UnknownNameError
from harness.java.bridge import JavaBridge, java_errors
from harness.java.jvm import find_jar, start
from harness.store.digests import steady_digest
from harness.text.analyzers import TermCounter, Texts

# fmt: off
_CODES = {
    "arabic": "ar", "bengali": "bn", "chinese": "zh", "danish": "da", "dutch": "nl", "english": "en", "finnish": "fi",
    "french": "fr", "german": "de", "greek": "el", "hausa": "ha", "hindi": "hi", "hungarian": "hu", "indonesian": "id",
    "italian": "it", "japanese": "ja", "korean": "ko", "norwegian": "no", "persian": "fa", "polish": "pl",
    "portuguese": "pt", "romanian": "ro", "russian": "ru", "somali": "so", "spanish": "es", "swahili": "sw",
    "swedish": "sv", "telugu": "te", "thai": "th", "turkish": "tr", "ukrainian": "uk", "vietnamese": "vi",
    "yoruba": "yo",
}
# fmt: on
_WHITE_SPACE_ONLY = ("ha", "so", "sw", "yo")
"""Languages that Anserini's indexer cuts only at white space, because Lucene has no analyzer for them."""
_OF_LUCENE = {
    "el": "org.apache.lucene.analysis.el.GreekAnalyzer",
    "ro": "org.apache.lucene.analysis.ro.RomanianAnalyzer",
    "vi": "org.apache.lucene.analysis.standard.StandardAnalyzer",
}
"""Languages that Anserini's indexer does not know. Lucene has none for Vietnamese, whose syllables are separate."""
_TERMS = "retrieval_harness.Terms"
_BYTES_PER_CALL = 16_000_000


def languages() -> tuple[str, ...]:
    """Return the English names of the languages that have an analyzer here, sorted. Starts no JVM."""
    return tuple(sorted(_CODES))


def language_code(language: str) -> str:
    """Return the ISO 639-1 code of a language of :func:`languages`; raises UnknownNameError."""
    try:
        return _CODES[language]
    except KeyError as error:
        raise UnknownNameError("Lucene language", language, _CODES) from error


def identity(language: str, *, jar: str | None = None) -> Mapping[str, str]:
    """Return name and SHA-256 of the jar that a :class:`LuceneAnalyzer` would run. Starts no JVM."""
    path = find_jar(jar)
    return {"language": language_code(language), "jar": path.name, "sha256": steady_digest(path)}


class LuceneAnalyzer:
    """One Lucene analyzer: ``english`` is Anserini's DefaultEnglishAnalyzer (Porter stemmer, Lucene's stop words).

    Construction starts the JVM of this process if none runs (``heap`` and ``jar`` as in :func:`harness.java.jvm.start`,
    which lists the exceptions). Texts become terms exactly as Lucene's indexer makes them, including terms of no
    characters: Arabic normalisation leaves one of a word that has only vowel signs, and documents are longer by it.
    """

    def __init__(self, language: str = "english", *, heap: str | None = None, jar: str | None = None) -> None:
        code = language_code(language)
        self.name = f"lucene-{language}"
        self.bridge = JavaBridge(start(heap=heap, jar=jar))
        with java_errors(f"loading the analyzer '{self.name}'"):
            self.java = _create(self.bridge, code)
            self._terms = self.bridge.load(_TERMS)(self.java)
        self.analyze([""])  # a cut-down Java lacks Thai's word breaks, and says so on the first text only

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each text, in order, repeats included; an empty list for a text without terms."""
        terms: list[list[str]] = []
        for content, starts in _parts_of(texts):
            with java_errors(f"analysing texts with '{self.name}'"):
                terms += _terms_in(self._terms.analyze(content, starts).tostring(), len(starts) // 4 - 1)
        return terms

    def counter(self) -> TermCounter:
        """Return a counter that gives texts to Java and takes counts back, on all cores."""
        with java_errors(f"counting terms with '{self.name}'"):
            return _Counter(self.bridge.load(_TERMS)(self.java), self.name)


def versions(bridge: JavaBridge) -> dict[str, str]:
    """Return the versions of Lucene and Anserini, from the running jar."""
    lucene = bridge.load("org.apache.lucene.util.Version").LATEST.toString()
    properties = bridge.load("java.util.Properties")()
    loader = bridge.type("io.anserini.analysis.AnalyzerMap")
    stream = loader.getResourceAsStream("/META-INF/maven/io.anserini/anserini/pom.properties")
    if stream is not None:
        properties.load(bridge.cast("java.io.InputStream", stream))
        stream.close()
    return {"lucene": str(lucene), "anserini": str(properties.getProperty("version", "unknown"))}


def _create(bridge: JavaBridge, code: str) -> Any:
    if code == "en":
        analyzer = bridge.load("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    elif code in _OF_LUCENE:
        analyzer = bridge.load(_OF_LUCENE[code])()
    elif code in _WHITE_SPACE_ONLY:
        analyzer = bridge.load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    else:
        analyzer = bridge.load("io.anserini.analysis.AnalyzerMap").getLanguageSpecificAnalyzer(code)
    return bridge.cast("org.apache.lucene.analysis.Analyzer", analyzer)


class _Counter:
    """Counts terms in Java, which numbers them; see :class:`harness.text.analyzers.TermCounter`."""

    def __init__(self, terms: Any, name: str) -> None:
        self._terms, self._name = terms, name

    def add(self, texts: Texts) -> SparseVectors:
        """Count a batch, in columns by the numbers of the terms, in no order."""
        lengths, pairs = [np.zeros(1, dtype=np.int32)], [np.empty((2, 0), dtype=np.int32)]
        for content, starts in _parts_of(texts):
            with java_errors(f"counting terms with '{self._name}'"):
                counted = _ints(self._terms.count(content, starts).tostring())
            size = len(starts) // 4 - 1
            lengths.append(counted[:size])
            pairs.append(counted[size:].reshape(2, -1))
        columns, counts = np.concatenate(pairs, axis=1)
        return SparseVectors(np.cumsum(np.concatenate(lengths), dtype=np.int64), columns, counts.astype(np.float32), 0)

    def vocabulary(self) -> list[str]:
        """Return the terms in the order of their numbers."""
        with java_errors(f"reading the terms of '{self._name}'"):
            (terms,) = _terms_in(self._terms.vocabulary().tostring(), 1)
        return terms


def _parts_of(texts: Texts) -> Iterator[tuple[bytes, bytes]]:
    """Yield the UTF-8 bytes of consecutive texts and the start of each, int32: as much as may cross to Java at once."""
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [strings(texts)]
    for chunk in filter(len, chunks):
        wide = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
        _, offsets, content = chunk.buffers()
        starts = np.frombuffer(offsets, dtype=wide)[chunk.offset : chunk.offset + len(chunk) + 1]
        first = 0
        while first < len(chunk):
            fitting = int(np.searchsorted(starts, starts[first] + _BYTES_PER_CALL, side="right")) - 1
            last = max(first + 1, fitting)
            part = (starts[first : last + 1] - starts[first]).astype("<i4")
            yield bytes(content[int(starts[first]) : int(starts[last])]) if content else b"", part.tobytes()
            first = last


def _ints(answer: bytes) -> Int32Array:
    return np.frombuffer(answer[: len(answer) // 4 * 4], dtype="<i4")


def _terms_in(answer: bytes, texts: int) -> list[list[str]]:
    """Return the terms of each text from an answer that begins with their numbers."""
    numbers = _ints(answer)
    ends = np.cumsum(numbers[:texts])
    terms = int(ends[-1]) if texts else 0
    buffers = [
        None,
        pa.py_buffer(offsets_of(numbers[texts : texts + terms])),
        pa.py_buffer(answer[4 * (texts + terms) :]),
    ]
    flat: list[str] = pa.Array.from_buffers(pa.large_string(), terms, buffers).to_pylist()
    return [flat[start:end] for start, end in pairwise([0, *ends.tolist()])]
