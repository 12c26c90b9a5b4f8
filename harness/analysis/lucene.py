"""Lucene's language analyzers as Anserini configures them, run in the JVM of this process.

Texts go to Java as one JSON array and terms come back as one: text by text over JNI is three times slower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import UnknownNameError
from harness.java.bridge import JavaBridge, java_errors, spans
from harness.java.jvm import find_jar, jar_digest, start

__all__ = ["LuceneAnalyzer", "identity", "language_code", "languages"]

_CODES = {
    "arabic": "ar",
    "bengali": "bn",
    "chinese": "zh",
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "hausa": "ha",
    "hindi": "hi",
    "hungarian": "hu",
    "indonesian": "id",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "norwegian": "no",
    "persian": "fa",
    "polish": "pl",
    "portuguese": "pt",
    "russian": "ru",
    "somali": "so",
    "spanish": "es",
    "swahili": "sw",
    "swedish": "sv",
    "telugu": "te",
    "thai": "th",
    "turkish": "tr",
    "ukrainian": "uk",
    "yoruba": "yo",
}
_AT_WHITE_SPACE = ("ha", "so", "sw", "yo")
"""Languages that Anserini's indexer cuts at white space alone, because Lucene has no analyzer for them."""
_ANALYZE = "(Lorg/apache/lucene/analysis/Analyzer;Ljava/lang/String;)Ljava/util/List;"


def languages() -> tuple[str, ...]:
    """English names of the languages that Anserini indexes by an analyzer of their own, sorted. Starts no JVM."""
    return tuple(sorted(_CODES))


def language_code(language: str) -> str:
    """ISO 639-1 code of a language of :func:`languages`; raises UnknownNameError."""
    try:
        return _CODES[language]
    except KeyError as error:
        raise UnknownNameError("Lucene language", language, _CODES) from error


def identity(language: str, *, jar: str | None = None) -> Mapping[str, str]:
    """The jar that a :class:`LuceneAnalyzer` would run, by name and SHA-256: it decides all terms. Starts no JVM."""
    found = find_jar(jar)
    return {"language": language_code(language), "jar": found.name, "sha256": jar_digest(found)}


class LuceneAnalyzer:
    """One Lucene analyzer: ``english`` is Anserini's DefaultEnglishAnalyzer (Porter stemmer, Lucene's stop words).

    Construction starts the JVM of this process if none runs (``heap`` and ``jar`` as in :func:`harness.java.jvm.start`,
    which says what is raised). Texts become terms exactly as Anserini's indexer makes them, except that terms of no
    characters are left out.
    """

    def __init__(self, language: str = "english", *, heap: str | None = None, jar: str | None = None) -> None:
        code = language_code(language)
        self.name = f"lucene-{language}"
        self.bridge = JavaBridge(start(heap=heap, jar=jar))
        with java_errors(f"loading the analyzer '{self.name}'"):
            self.java = _create(self.bridge, code)
            analyze = self.bridge.static_method("io.anserini.analysis.AnalyzerUtils", "analyze", _ANALYZE)
            self._analyze = self.bridge.function(analyze.bindTo(self.java))
            self._analyze.apply("")  # a cut-down Java lacks Thai's word breaks, and says so on the first text only

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """The terms of each text, in order, repeats included; an empty list for a text without terms."""
        terms: list[list[str]] = []
        for span in spans(texts):
            with java_errors(f"analysing texts {span.start} to {span.stop - 1} with '{self.name}'"):
                found = self.bridge.map(self._analyze, self.bridge.to_java(texts[span]))
                terms.extend(self.bridge.to_python(found))
        return terms

    def describe(self) -> Mapping[str, str]:
        """The analyzer's Java class and the versions of Lucene and Anserini: all that decides its terms."""
        return {"analyzer": self.name, "class": str(self.java.getClass().getName()), **versions(self.bridge)}


def versions(bridge: JavaBridge) -> dict[str, str]:
    """Versions of Lucene and Anserini, from the jar that runs."""
    lucene = bridge.load("org.apache.lucene.util.Version").LATEST.toString()
    properties = bridge.load("java.util.Properties")()
    loader = bridge.type("io.anserini.analysis.AnalyzerMap")
    stream = loader.getResourceAsStream("/META-INF/maven/io.anserini/anserini/pom.properties")
    if stream is not None:
        properties.load(bridge.cast("java.io.InputStream", stream))
        stream.close()
    return {"lucene": str(lucene), "anserini": str(properties.getProperty("version", "unknown"))}


def _create(bridge: JavaBridge, code: str) -> Any:  # noqa: ANN401 - a Java object has no Python type
    if code == "en":
        analyzer = bridge.load("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    elif code in _AT_WHITE_SPACE:
        analyzer = bridge.load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    else:
        analyzer = bridge.load("io.anserini.analysis.AnalyzerMap").getLanguageSpecificAnalyzer(code)
    return bridge.cast("org.apache.lucene.analysis.Analyzer", analyzer)
