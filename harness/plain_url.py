"""URLs that may be shown and stored: nothing in them can be a password or a key."""

from __future__ import annotations

import re

__all__ = [
    "DATABASE_FORM",
    "HIDDEN",
    "MAY_HIDE_SECRETS",
    "PLAIN_FORM",
    "is_plain_database_url",
    "is_plain_url",
    "names_secret",
    "uses_tls",
    "without_secrets",
]

PLAIN_FORM = "http(s)://HOST[:PORT][/PATH]"
DATABASE_FORM = "postgresql://HOST[:PORT]/DATABASE"
HIDDEN = "***"
"""The replacement for a possible secret."""
_PLAIN = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:/[^\s?#@;\\]*)?", re.IGNORECASE)
_DATABASE = re.compile(r"postgres(?:ql)?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?/[\w.-]+", re.IGNORECASE)
_URL = re.compile(
    r"(?P<setting>url=[\"']?)?(?P<scheme>\b[a-z][a-z0-9+.-]*:/{1,2})(?P<user>[^\s'\"<>?#]*@)?(?P<place>[^\s?#'\"<>]*)"
    r"(?P<query>\?[^\s'\"<>#]*)?(?P<fragment>\#[^\s'\"<>]*)?",
    re.IGNORECASE,
)
"""With one slash, too: the form of a URL that was taken for a path."""
_PLACEHOLDER = re.compile(r"[\w.-]+=\{(?:question|k)\}")
"""A part of a query that holds no more than a placeholder of ``http:url=…``."""
_DONE = re.compile(rf"\?(?:{_PLACEHOLDER.pattern}&)*(?:{_PLACEHOLDER.pattern}|\*\*\*)(?=;|$)")
"""A query with nothing left to hide, up to the options of the endpoint that follow it."""
_SECRET_FRAGMENT = re.compile(r"[=@]|(?=[\w-]*[a-z])(?=[\w-]*[A-Z])(?=[\w-]*\d)[\w-]{20,}")
"""A fragment that is not a place in a page: parameters (``#access_token=…``), a part of a password, or a long key."""
_SENSITIVE = r"(?:api[_-]?key|token|secret|passw(?:or)?d|pwd|credentials?|auth(?:orization)?|signature)"
_NAMED_SECRET = re.compile(
    rf"(?P<name>{_SENSITIVE}[\"']?\s*=\s*)"
    r"(?:\"[^\"]*\"|'[^']*'|[^\s;,&|'\"]+)"
    r"|(?P<header>\bBearer\s+)\S+",
    re.IGNORECASE,
)
"""The names of secrets, in any position. ``key_env=`` and ``api_key_header=`` are excluded: they hold names."""
MAY_HIDE_SECRETS = re.compile(rf":/|{_SENSITIVE}|Bearer", re.IGNORECASE)
"""Text without a match holds nothing that :func:`without_secrets` would hide, also if the text is written as JSON."""


def names_secret(name: str) -> bool:
    """Return whether a field or a parameter of this name holds a secret: ``api_key``, ``accessToken``, ``key`` …"""
    return name.lower() == "key" or re.search(_SENSITIVE, name, re.IGNORECASE) is not None


def is_plain_url(text: str) -> bool:
    """Return whether ``text`` has the form :data:`PLAIN_FORM`: no user name, no password, no query, no fragment."""
    return _PLAIN.fullmatch(text) is not None


def is_plain_database_url(text: str) -> bool:
    """Return whether ``text`` has the form :data:`DATABASE_FORM`, with nothing else in it."""
    return _DATABASE.fullmatch(text) is not None


def uses_tls(url: str) -> bool:
    """Return whether calls to ``url`` are encrypted: only then must a client read all certificates (40 ms)."""
    return not url.lower().startswith("http:")


def without_secrets(text: str) -> str:
    """Return ``text`` with ``***`` for possible secrets; repeating it changes nothing.

    These are the user information and the query of every URL, its fragment if that looks like parameters or a key or
    follows ``url=``, and every value called a key, a token, a secret or a password. Parts of a query like
    ``q={question}`` stay. Other fragments stay too: ids of chunks differ by them (``https://HOST/page#chunk-3``).
    """
    hidden = _URL.sub(_plain, text)
    return _NAMED_SECRET.sub(lambda match: f"{match['name'] or match['header']}{HIDDEN}", hidden)


def _plain(match: re.Match[str]) -> str:
    query, fragment = match["query"] or "", match["fragment"] or ""
    user = f"{HIDDEN}@" if match["user"] else ""
    if not match["user"] and "/" not in match["place"] and "@" in query + fragment:
        return f"{match['setting'] or ''}{match['scheme']}{HIDDEN}"  # a password that holds a ? or #
    if query and _DONE.match(query) is None:
        parts = query[1:].split("&")
        placeholders = [part for part in parts if _PLACEHOLDER.fullmatch(part)]
        query = "?" + "&".join([*placeholders, *([HIDDEN] if len(placeholders) < len(parts) else [])])
    if _SECRET_FRAGMENT.search(fragment) or (fragment and match["setting"]):
        fragment = f"#{HIDDEN}"
    return f"{match['setting'] or ''}{match['scheme']}{user}{match['place']}{query}{fragment}"
