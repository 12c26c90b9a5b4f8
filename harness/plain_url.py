"""URLs that may be shown and stored: nothing in them can be a password or a key."""

from __future__ import annotations

import re

__all__ = ["PLAIN_FORM", "is_plain_url"]

PLAIN_FORM = "http(s)://HOST[:PORT][/PATH]"
_PLAIN = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:/[^\s?#@;\\]*)?", re.IGNORECASE)


def is_plain_url(text: str) -> bool:
    """Whether ``text`` is of the form :data:`PLAIN_FORM`: no user name, no password, no query, no fragment."""
    return _PLAIN.fullmatch(text) is not None
