"""URLs that may be shown and stored: nothing in them can be a password or a key."""

from __future__ import annotations

import re

__all__ = ["PLAIN_FORM", "is_plain_url", "without_secrets"]

PLAIN_FORM = "http(s)://HOST[:PORT][/PATH]"
_PLAIN = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:/[^\s?#@;\\]*)?", re.IGNORECASE)
_URL = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<user>[^\s'\"<>?#]*@)?(?P<place>[^\s?#'\"<>]*)(?P<rest>[?#][^\s'\"<>]*)?",
    re.IGNORECASE,
)
_HIDDEN = "***"


def is_plain_url(text: str) -> bool:
    """Whether ``text`` is of the form :data:`PLAIN_FORM`: no user name, no password, no query, no fragment."""
    return _PLAIN.fullmatch(text) is not None


def without_secrets(text: str) -> str:
    """``text`` with ``***`` for the user information, the query and the fragment of every URL in it."""

    def plain(found: re.Match[str]) -> str:
        if not found["user"] and "/" not in found["place"] and "@" in (found["rest"] or ""):
            return f"{found['scheme']}{_HIDDEN}"  # a password that holds a ? or #
        user = f"{_HIDDEN}@" if found["user"] else ""
        rest = f"{found['rest'][0]}{_HIDDEN}" if found["rest"] else ""
        return f"{found['scheme']}{user}{found['place']}{rest}"

    return _URL.sub(plain, text)
