"""Lucene's language analyzers, as Anserini configures those that it has, run in the JVM of this process.

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
    "greek": "el",
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
    "romanian": "ro",
    "russian": "ru",
    "somali": "so",
    "spanish": "es",
    "swahili": "sw",
    "swedish": "sv",
    "telugu": "te",
    "thai": "th",
    "turkish": "tr",
    "ukrainian": "uk",
    "vietnamese": "vi",
    "yoruba": "yo",
}
_AT_WHITE_SPACE = ("ha", "so", "sw", "yo")
"""Languages that Anserini's indexer cuts at white space alone, because Lucene has no analyzer for them."""
_OF_LUCENE = {
    "el": "org.apache.lucene.analysis.el.GreekAnalyzer",
    "ro": "org.apache.lucene.analysis.ro.RomanianAnalyzer",
    "vi": "org.apache.lucene.analysis.standard.StandardAnalyzer",
}
"""Languages that Anserini's indexer does not know. Lucene has none for Vietnamese, whose syllables stand apart."""
_STREAM = "org.apache.lucene.analysis.TokenStream"
_TERM = "org.apache.lucene.analysis.tokenattributes.CharTermAttribute"
_OPEN = "(Ljava/lang/String;Ljava/lang/String;)Lorg/apache/lucene/analysis/TokenStream;"
_FIELD = "contents"


def languages() -> tuple[str, ...]:
    """English names of the languages that have an analyzer here, sorted. Starts no JVM."""
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
    # the first version left terms of no characters out, which English does not have
    empty = {} if language == "english" else {"empty_terms": "counted"}
    return {"language": language_code(language), "jar": found.name, "sha256": jar_digest(found), **empty}


class LuceneAnalyzer:
    """One Lucene analyzer: ``english`` is Anserini's DefaultEnglishAnalyzer (Porter stemmer, Lucene's stop words).

    Construction starts the JVM of this process if none runs (``heap`` and ``jar`` as in :func:`harness.java.jvm.start`,
    which says what is raised). Texts become terms exactly as Lucene's indexer makes them, terms of no characters among
    them: Arabic normalisation leaves one of a word that is nothing but vowel signs, and documents are longer by it.
    """

    def __init__(self, language: str = "english", *, heap: str | None = None, jar: str | None = None) -> None:
        code = language_code(language)
        self.name = f"lucene-{language}"
        self.bridge = JavaBridge(start(heap=heap, jar=jar))
        with java_errors(f"loading the analyzer '{self.name}'"):
            self.java = _create(self.bridge, code)
            self._analyze = _terms_of(self.bridge, self.java)
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
    elif code in _OF_LUCENE:
        analyzer = bridge.load(_OF_LUCENE[code])()
    elif code in _AT_WHITE_SPACE:
        analyzer = bridge.load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    else:
        analyzer = bridge.load("io.anserini.analysis.AnalyzerMap").getLanguageSpecificAnalyzer(code)
    return bridge.cast("org.apache.lucene.analysis.Analyzer", analyzer)


def _terms_of(bridge: JavaBridge, analyzer: Any) -> Any:  # noqa: ANN401 - Java objects have no Python type
    """A ``java.util.function.Function`` from a text to the list of its terms, for one thread.

    Anserini's own ``AnalyzerUtils.analyze`` leaves terms of no characters out, which its indexer counts. An analyzer
    opens the same stream for every text of a thread, so the stream and its attribute are bound once.
    """
    handles = bridge.load("java.lang.invoke.MethodHandles")
    stream = bridge.cast(_STREAM, analyzer.tokenStream(_FIELD, ""))
    stream.reset()
    stream.end()
    stream.close()
    term = bridge.cast(_TERM, stream.addAttribute(bridge.type(_TERM)))
    text = bridge.method("java.lang.Object", "toString", "()Ljava/lang/String;").bindTo(term)
    as_object = text.type().changeReturnType(bridge.type("java.lang.Object"))
    text = text.asType(bridge.cast("java.lang.invoke.MethodType", as_object))
    same = handles.identity(bridge.type("java.util.ArrayList"))

    def doing(action: Any) -> Any:  # noqa: ANN401 - Java objects
        """A handle that gives back the list that it gets, after an action that may use it."""
        return handles.foldArguments(same, handles.dropReturn(action))

    def of_stream(name: str, descriptor: str) -> Any:  # noqa: ANN401 - a Java object
        return bridge.method(_STREAM, name, descriptor).bindTo(stream)

    opened = bridge.bind(
        bridge.method("org.apache.lucene.analysis.Analyzer", "tokenStream", _OPEN).bindTo(analyzer),
        0,
        bridge.string(_FIELD),
    )
    added = handles.collectArguments(bridge.method("java.util.ArrayList", "add", "(Ljava/lang/Object;)Z"), 1, text)
    collected = handles.whileLoop(
        bridge.constructor("java.util.ArrayList", "()V"), of_stream("incrementToken", "()Z"), doing(added)
    )
    whole = bridge.then(bridge.chain(opened, bridge.method(_STREAM, "reset", "()V")), collected)
    for last in ("end", "close"):
        whole = handles.filterReturnValue(whole, doing(of_stream(last, "()V")))
    return bridge.function(whole)
