"""Languages by the codes that datasets are labelled with, and the analyzer that each has.

Codes are those of ISO 639-1 and 639-3, with or without a script or a region (``zh``, ``kor``, ``zh-Hant``,
``kor_Hang``), and English names. Lucene's analyzers are preferred, because they are those of Anserini's published
figures; Snowball's need no Java.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

__all__ = ["ENGLISH", "in_words", "known_language", "language_name", "preferred_analyzers"]

ENGLISH = "english"
"""What text is taken for where nothing says its language."""
_UNDETERMINED = frozenset({"", "mis", "mul", "und", "zxx"})
"""ISO 639-2's codes for several languages, none and unknown ones."""
_LANGUAGES = {
    "arabic": "ar ara arb",
    "armenian": "hy hye",
    "basque": "eu eus",
    "bengali": "bn ben",
    "catalan": "ca cat",
    "chinese": "zh zho cmn",
    "czech": "cs ces",
    "danish": "da dan",
    "dutch": "nl nld",
    "english": "en eng",
    "esperanto": "eo epo",
    "estonian": "et est ekk",
    "finnish": "fi fin",
    "french": "fr fra",
    "german": "de deu",
    "greek": "el ell",
    "hausa": "ha hau",
    "hindi": "hi hin",
    "hungarian": "hu hun",
    "indonesian": "id ind",
    "irish": "ga gle",
    "italian": "it ita",
    "japanese": "ja jpn",
    "korean": "ko kor",
    "lithuanian": "lt lit",
    "nepali": "ne nep npi",
    "norwegian": "no nor nb nob nn nno",
    "persian": "fa fas pes",
    "polish": "pl pol",
    "portuguese": "pt por",
    "romanian": "ro ron",
    "russian": "ru rus",
    "serbian": "sr srp",
    "sesotho": "st sot",
    "somali": "so som",
    "spanish": "es spa",
    "swahili": "sw swa swh",
    "swedish": "sv swe",
    "tamil": "ta tam",
    "telugu": "te tel",
    "thai": "th tha",
    "turkish": "tr tur",
    "ukrainian": "uk ukr",
    "yiddish": "yi yid",
    "yoruba": "yo yor",
}


def known_language(code: str | None) -> str | None:
    """Return ``code``, or None where it names no single language: for ``mul``, ``und`` and an empty one too."""
    return None if code is None or _primary(code) in _UNDETERMINED else code


def language_name(code: str) -> str | None:
    """Return the English name that analyzers are called by, ``korean`` for ``ko``; None for a code not known here."""
    return _names().get(_primary(code))


def in_words(code: str) -> str:
    """Return a language for messages: ``Korean (ko)``, or the code alone."""
    name = language_name(code)
    return f"'{code}'" if name is None else f"{name.capitalize()} ({code})"


def preferred_analyzers(code: str, names: Collection[str]) -> list[str]:
    """Return those of the analyzers ``names`` that are for a language, Lucene's first; none for an unknown code."""
    language = language_name(code)
    return [name for family in ("lucene", "snowball") if (name := f"{family}-{language}") in names]


def _primary(code: str) -> str:
    """Return a code without script and region, in small letters."""
    return re.split("[-_]", code.strip().lower(), maxsplit=1)[0]


@cache
def _names() -> dict[str, str]:
    return {word: name for name, codes in _LANGUAGES.items() for word in (name, *codes.split())}
