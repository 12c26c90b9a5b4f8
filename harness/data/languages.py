"""Languages by the codes that collections label them with: ISO 639-1, ISO 639-3, and English names.

The only table of languages: a language's analyzer, its name in pages, and the codes that loaders report follow it.
"""

from __future__ import annotations

import re
from functools import cache

_LANGUAGES = {
    "af": "Afrikaans afr", "am": "Amharic amh", "ar": "Arabic ara arb", "as": "Assamese asm",
    "az": "Azerbaijani aze azj", "bg": "Bulgarian bul", "bm": "Bambara bam", "bn": "Bengali ben", "bo": "Tibetan bod",
    "ca": "Catalan cat", "cs": "Czech ces", "da": "Danish dan", "de": "German deu", "el": "Greek ell",
    "en": "English eng", "eo": "Esperanto epo", "es": "Spanish spa", "et": "Estonian est ekk", "eu": "Basque eus",
    "fa": "Persian fas pes", "ff": "Fulah fuv", "fi": "Finnish fin", "fr": "French fra", "ga": "Irish gle",
    "gl": "Galician glg", "gn": "Guarani grn", "gu": "Gujarati guj", "ha": "Hausa hau", "he": "Hebrew heb",
    "hi": "Hindi hin", "hr": "Croatian hrv", "ht": "Haitian hat", "hu": "Hungarian hun", "hy": "Armenian hye",
    "id": "Indonesian ind", "ig": "Igbo ibo", "is": "Icelandic isl", "it": "Italian ita", "ja": "Japanese jpn",
    "jv": "Javanese jav", "ka": "Georgian kat", "kk": "Kazakh kaz", "km": "Khmer khm", "kn": "Kannada kan",
    "ko": "Korean kor", "ky": "Kyrgyz kir", "lg": "Ganda lug", "ln": "Lingala lin", "lo": "Lao lao",
    "lt": "Lithuanian lit", "lv": "Latvian lav lvs", "mg": "Malagasy plt", "mi": "Maori mri", "mk": "Macedonian mkd",
    "ml": "Malayalam mal", "mn": "Mongolian khk", "mr": "Marathi mar", "ms": "Malay msa zsm", "mt": "Maltese mlt",
    "my": "Burmese mya", "nb": "Bokmål nob", "ne": "Nepali nep npi", "nl": "Dutch nld", "nn": "Nynorsk nno",
    "no": "Norwegian nor", "ny": "Chichewa nya", "om": "Oromo gaz", "or": "Odia ory", "pa": "Punjabi pan",
    "pl": "Polish pol", "ps": "Pashto pbt", "pt": "Portuguese por", "ro": "Romanian ron", "ru": "Russian rus",
    "rw": "Kinyarwanda kin", "sd": "Sindhi snd", "si": "Sinhala sin", "sk": "Slovak slk", "sl": "Slovenian slv",
    "sn": "Shona sna", "so": "Somali som", "sq": "Albanian sqi als", "sr": "Serbian srp", "ss": "Swati ssw",
    "st": "Sesotho sot", "su": "Sundanese sun", "sv": "Swedish swe", "sw": "Swahili swa swh", "ta": "Tamil tam",
    "te": "Telugu tel", "tg": "Tajik tgk", "th": "Thai tha", "ti": "Tigrinya tir", "tl": "Tagalog tgl",
    "tn": "Tswana tsn", "tr": "Turkish tur", "ts": "Tsonga tso", "uk": "Ukrainian ukr", "ur": "Urdu urd",
    "uz": "Uzbek uzb uzn", "vi": "Vietnamese vie", "wo": "Wolof wol", "xh": "Xhosa xho", "yi": "Yiddish yid",
    "yo": "Yoruba yor", "zh": "Chinese zho cmn", "zu": "Zulu zul",
}  # fmt: skip
"""ISO 639-1's code -> English name, one word, and the codes of ISO 639-3 for it or for its main form."""


def language_name(code: str) -> str | None:
    """Return a language's English name, ``Korean`` for ``ko``, ``kor_Hang`` and ``korean``; None if unknown."""
    two = two_letter_code(code)
    return _LANGUAGES[two].split()[0] if two in _LANGUAGES else None


_NATIVE_NAMES = {
    "ar": "العربية", "bn": "বাংলা", "cs": "čeština", "da": "dansk", "de": "Deutsch", "el": "ελληνικά", "en": "English",
    "es": "español", "fa": "فارسی", "fi": "suomi", "fr": "français", "he": "עברית", "hi": "हिन्दी", "hu": "magyar",
    "id": "Bahasa Indonesia", "it": "italiano", "ja": "日本語", "ko": "한국어", "nl": "Nederlands", "no": "norsk",
    "pl": "polski", "pt": "português", "ro": "română", "ru": "русский", "sv": "svenska", "sw": "Kiswahili",
    "te": "తెలుగు", "th": "ไทย", "tr": "Türkçe", "uk": "українська", "vi": "Tiếng Việt", "yo": "Yorùbá", "zh": "中文",
}  # fmt: skip


def native_name(code: str) -> str | None:
    """Return a language's own name, ``한국어`` for ``ko``; None if it is unknown here."""
    return _NATIVE_NAMES.get(two_letter_code(code) or "")


def two_letter_code(code: str) -> str | None:
    """Return the code with two letters, ``ko`` for ``kor``; None if it is unknown, as for programming languages.

    A code of two letters is returned unchanged, even if it is unknown here.
    """
    primary = primary_code(code)
    return primary if len(primary) == 2 else _two_letters().get(primary)


def primary_code(code: str) -> str:
    """Return a code without its script and region, in small letters: ``zh`` for ``zh-Hant`` and ``ZH_tw``."""
    return re.split("[-_]", code.strip().lower(), maxsplit=1)[0]


@cache
def _two_letters() -> dict[str, str]:
    return {word.lower(): two for two, words in _LANGUAGES.items() for word in (two, *words.split())}
