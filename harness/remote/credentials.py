"""Keys of servers: read from the environment, and hidden in whatever is shown or stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from urllib.parse import quote, quote_plus

from harness.errors import EngineUnavailableError

_SENDABLE = re.compile(r"[\x20-\x7e]*")
"""Characters that a header of HTTP and the metadata of gRPC can carry."""
_SHOWN = 300
_SPELLINGS: tuple[Callable[[str], str], ...] = (str, quote, quote_plus, partial(quote, safe=""))


def read_key(variable: str, environment: Mapping[str, str]) -> str:
    """Read the key in an environment variable, without white space around it: mounted secrets end in a line break.

    "" where the variable is not set or is blank. Raises EngineUnavailableError, without the key, for one that cannot be
    sent.
    """
    key = environment.get(variable, "").strip()
    if not _SENDABLE.fullmatch(key):
        raise EngineUnavailableError(
            f"the environment variable {variable} holds characters that no header can carry: a line break or another "
            "control character inside it, or one beyond ASCII",
            fix=f"put the key alone into {variable}, as the service gave it",
        )
    return key


def hide(text: str, secrets: Iterable[str], instead: str) -> str:
    """``text`` with ``instead`` for any of ``secrets``, as it is, escaped or percent-encoded: servers repeat them."""
    spellings = {spell(secret) for secret in secrets if secret for spell in _SPELLINGS}
    for spelling in sorted(spellings, key=len, reverse=True):
        # JSON and representations put backslashes between; %2f is %2F
        pattern = "".join(rf"\\*{re.escape(character)}" for character in spelling)
        text = re.sub(pattern, lambda _: instead, text, flags=re.IGNORECASE)
    return text


def shown(text: str, hidden: Callable[[str], str]) -> str:
    """Make another side's text fit to be shown: ``hidden`` first, then one line, then cut, so no part stays."""
    line = " ".join(hidden(text).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]} …"
