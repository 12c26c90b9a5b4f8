"""Where a server is, and the secrets that open it: they come from the environment and go nowhere else."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from harness.errors import EngineUnavailableError, RejectedInputError
from harness.plain_url import PLAIN_FORM, is_plain_url
from harness.remote.credentials import hide, read_key

__all__ = ["Address", "Place", "read_address"]

_HIDDEN = "***"


class Place(NamedTuple):
    """How servers of one engine are named.

    ``engine`` as people call it; ``url_variable`` and ``key_variable`` are environment variables, the second a default
    that the parameter ``api_key_env`` may replace.
    """

    engine: str
    port: int
    url_variable: str
    key_variable: str


@dataclass(frozen=True, slots=True)
class Address:
    """A server: ``url`` without user-info, fit to be shown, and the secrets apart.

    ``key_variable`` names the environment variable that an API key is looked for in; ``headers`` hold a user name and a
    password; ``secrets`` are whatever must not be shown.
    """

    engine: str
    url: str
    port: int
    key_variable: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def authentication(self) -> str:
        """What is sent along, in words."""
        used = (["API key"] if self.api_key else []) + (["user name and password"] if self.headers else [])
        plainly = ", not encrypted" if used and self.url.startswith("http:") else ""
        return (" and ".join(used) or "none") + plainly

    def hide(self, text: str) -> str:
        """``text`` without any secret in it, as it is, escaped or percent-encoded: a server may repeat them."""
        return hide(text, self.secrets, _HIDDEN)


def read_address(place: Place, url: str, key_variable: str, environment: Mapping[str, str]) -> Address:
    """From the parameter ``url``, or from the environment where that is empty.

    A user name and a password are taken from the environment only. Raises RejectedInputError for a URL that is
    none or that holds what must not be shown, EngineUnavailableError when a variable that was asked for is not set
    or holds a key that cannot be sent.
    """
    named = url or environment.get(place.url_variable, "")
    if not named:
        raise EngineUnavailableError(
            f"no {place.engine} server is named",
            fix=f"give url=http://HOST:{place.port}, or set {place.url_variable}",
        )
    if url and not is_plain_url(url):
        raise RejectedInputError(
            f"the URL of the {place.engine} server is not of the form {PLAIN_FORM}",
            fix=f"mend it; a user name and a password may stand in {place.url_variable} only, an API key in "
            f"{place.key_variable}",
        )
    parts = _split(named, place)
    key = read_key(key_variable, environment)
    if key_variable not in environment and key_variable != place.key_variable:
        raise EngineUnavailableError(
            f"the environment variable {key_variable} is not set (api_key_env)",
            fix="set it to the API key, or leave api_key_env out",
        )
    headers, secrets = _basic(unquote(parts.username or ""), unquote(parts.password or ""))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port or place.port
    return Address(
        engine=place.engine,
        url=urlunsplit((parts.scheme, f"{host}:{port}", parts.path.rstrip("/"), "", "")),
        port=port,
        key_variable=key_variable,
        api_key=key or None,
        headers=headers,
        secrets=(*secrets, *([key] if key else [])),
    )


def _split(url: str, place: Place) -> SplitResult:
    """The parts of ``url``; raises RejectedInputError without repeating it, because it may hold a password."""
    if not _is_usable(url):
        raise RejectedInputError(
            f"the URL of the {place.engine} server is not of the form http(s)://[USER:PASSWORD@]HOST[:PORT][/PATH]",
            fix=f"mend the parameter 'url' or the variable {place.url_variable}, in which / ? # @ of a password are "
            f"written %2F %3F %23 %40; an API key goes into {place.key_variable}",
        )
    return urlsplit(url)


def _is_usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return parts.port != 0 and is_plain_url(urlunsplit((*parts[:1], host, *parts[2:])))
    except ValueError:  # a port that is no number, brackets that do not match
        return False


def _basic(user: str, password: str) -> tuple[dict[str, str], list[str]]:
    """The header of HTTP's basic authentication, and what of it must never be shown."""
    if not user and not password:
        return {}, []
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"authorization": f"Basic {token}"}, [secret for secret in (token, password) if secret]
