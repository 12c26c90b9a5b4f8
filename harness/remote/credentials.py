"""Secrets that are sent to servers: keys from the environment, and how they are hidden in all that comes back."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from urllib.parse import quote, quote_plus

from harness.errors import EngineUnavailableError

_SENDABLE = re.compile(r"[\x20-\x7e]*")
"""Characters that a header of HTTP and the metadata of gRPC can carry."""
_EXCERPT_LENGTH = 300
_URL_SAFE = str.maketrans("+/", "-_")
_SPELLINGS: tuple[Callable[[str], str], ...] = (str, quote, quote_plus, partial(quote, safe=""))
_TELLING = 8
"""Characters of base64 that other text does not hold by chance."""


def read_key(variable: str, environment: Mapping[str, str]) -> str:
    """Read the key in an environment variable, without white space around it: mounted secrets end in a line break.

    "" if the variable is not set or is blank. Raises EngineUnavailableError, without the key, for a key that cannot be
    sent.
    """
    key = environment.get(variable, "").strip()
    if not _SENDABLE.fullmatch(key):
        raise EngineUnavailableError(
            f"the environment variable {variable} holds characters that no header can carry: a line break or another "
            "control character inside it, or one beyond ASCII",
            fix=f"put only the key into {variable}, as the service issued it",
        )
    return key


def hide(text: str, secrets: Iterable[str], instead: str) -> str:
    """Return ``text`` with ``instead`` for each of ``secrets``: servers repeat data that was sent to them.

    A secret is found verbatim, escaped, percent-encoded, and in base64, also inside a longer text in base64.
    """
    for pattern in _patterns(tuple(secrets)):
        text = pattern.sub(lambda _: instead, text)
    return text


def basic_login(user: str, password: str) -> str:
    """Return a user name and a password as HTTP's basic authentication sends them."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


@lru_cache(maxsize=32)
def _patterns(secrets: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Return a pattern for each spelling of the secrets, the longest first, so that no part of one stays."""
    spellings = {spell(secret) for secret in secrets if secret for spell in _SPELLINGS}
    spellings.update(encoded for secret in secrets for encoded in _base64_forms(secret))
    longest_first = sorted(spellings, key=len, reverse=True)
    # JSON and representations put backslashes between; %2f is %2F
    spaced = ("".join(rf"\\*{re.escape(character)}" for character in spelling) for spelling in longest_first)
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in spaced)


def _base64_forms(secret: str) -> Iterator[str]:
    """Yield the forms of a secret in base64, after any number of other bytes.

    Three bytes become four characters, so a secret has three forms by where it begins; the first and the last
    characters, which depend on neighbouring bytes too, are left out.
    """
    content = secret.encode()
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + content).decode()
        first = -(-before * 8 // 6)
        last = (before + len(content)) * 8 // 6
        if last - first >= _TELLING:
            yield encoded[first:last]
            yield encoded[first:last].translate(_URL_SAFE)


def excerpt(text: str, hidden: Callable[[str], str]) -> str:
    """Make another side's text fit to be shown: ``hidden`` first, then one line, then cut, so no part stays."""
    line = " ".join(hidden(text).split())
    return line if len(line) <= _EXCERPT_LENGTH else f"{line[:_EXCERPT_LENGTH]} …"
