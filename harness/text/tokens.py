"""Unicode text to lower-case tokens.

A token is a run of letters, digits, combining marks, underscores and joiners (U+200C, U+200D). Python's ``\\w`` leaves
combining marks out and would cut Hindi and Tamil words at every vowel sign. An apostrophe (' or U+2019) between two
such runs joins them (``don't``), except in languages that elide (``l'homme`` is two tokens). Everything else
separates. Text is put into Unicode's NFC form first, so that a composed and a decomposed ``é`` are the same letter.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

__all__ = ["Tokenizer"]

_ASCII = "[a-z0-9_]+"
_JOINERS = "\u200c\u200d"
_TURKISH = str.maketrans({"I": "\u0131", "\u0130": "i"})


class Tokenizer:
    """Cuts text into folded tokens.

    ``elides``: an apostrophe separates instead of joining. ``turkish``: I becomes a dotless i, and U+0130 an i.
    """

    def __init__(self, *, elides: bool = False, turkish: bool = False) -> None:
        self._turkish = turkish
        self._ascii = _pattern(_ASCII, elides)
        self._unicode = _pattern(_unicode_run(), elides)

    def cut(self, text: str) -> list[str]:
        """The tokens of ``text`` in order; none for text without letters and digits."""
        if self._turkish:
            text = text.translate(_TURKISH)
        if text.isascii():
            return self._ascii.findall(text.lower())
        folded = unicodedata.normalize("NFC", text).replace("\u2019", "'").lower()
        return self._unicode.findall(folded)


def _pattern(run: str, elides: bool) -> re.Pattern[str]:
    return re.compile(run if elides else f"{run}(?:'{run})*")


@cache
def _unicode_run() -> str:
    # Marks beyond U+FFFF stay out: no Snowball language is written with them, and one character beyond that limit
    # turns the regular expression engine's table look-up into a linear scan (half the speed, measured).
    marks = "".join(chr(code) for code in range(0x10000) if unicodedata.category(chr(code))[0] == "M")
    return f"[\\w{_JOINERS}{marks}]+"
