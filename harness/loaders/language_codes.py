"""Languages by the codes that collections use: three letters (ISO 639-3) to two (ISO 639-1)."""

from __future__ import annotations

__all__ = ["two_letter_code"]

_THREE_LETTERS = {
    "af": "afr", "am": "amh", "ar": "ara arb", "as": "asm", "az": "aze azj", "bg": "bul", "bm": "bam", "bn": "ben",
    "bo": "bod", "ca": "cat", "cs": "ces", "da": "dan", "de": "deu", "el": "ell", "en": "eng", "es": "spa",
    "et": "est", "eu": "eus", "fa": "fas pes", "ff": "fuv", "fi": "fin", "fr": "fra", "gn": "grn", "gu": "guj",
    "ha": "hau", "he": "heb", "hi": "hin", "hr": "hrv", "ht": "hat", "hu": "hun", "hy": "hye", "id": "ind",
    "ig": "ibo", "is": "isl", "it": "ita", "ja": "jpn", "jv": "jav", "ka": "kat", "kk": "kaz", "km": "khm",
    "kn": "kan", "ko": "kor", "ky": "kir", "lg": "lug", "ln": "lin", "lo": "lao", "lt": "lit", "lv": "lav lvs",
    "mg": "plt", "mi": "mri", "mk": "mkd", "ml": "mal", "mn": "khk", "mr": "mar", "ms": "msa zsm", "mt": "mlt",
    "my": "mya", "nb": "nob", "ne": "npi", "nl": "nld", "nn": "nno", "no": "nor", "ny": "nya", "om": "gaz",
    "or": "ory", "pa": "pan", "pl": "pol", "ps": "pbt", "pt": "por", "ro": "ron", "ru": "rus", "rw": "kin",
    "sd": "snd", "si": "sin", "sk": "slk", "sl": "slv", "sn": "sna", "so": "som", "sq": "sqi als", "sr": "srp",
    "ss": "ssw", "st": "sot", "su": "sun", "sv": "swe", "sw": "swa swh", "ta": "tam", "te": "tel", "tg": "tgk",
    "th": "tha", "ti": "tir", "tl": "tgl", "tn": "tsn", "tr": "tur", "ts": "tso", "uk": "ukr", "ur": "urd",
    "uz": "uzb uzn", "vi": "vie", "wo": "wol", "xh": "xho", "yo": "yor", "zh": "zho cmn", "zu": "zul",
}  # fmt: skip
_TWO_LETTERS = {three: two for two, codes in _THREE_LETTERS.items() for three in codes.split()}


def two_letter_code(language: str) -> str | None:
    """Return the code of a language with two letters, None for one without (a dialect, a programming language)."""
    return language if len(language) == 2 else _TWO_LETTERS.get(language)
