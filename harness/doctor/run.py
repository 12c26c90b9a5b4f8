"""All checks, each on its own: one that breaks says so and hides no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from harness.doctor import chroma, resources, servers, software
from harness.doctor.finding import Finding, fail
from harness.errors import HarnessError

__all__ = ["CHECKS", "examine"]

_REPORT = "report it with this message"
Check = Callable[[], Finding]

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "Python": software.python,
        "cards": software.cards,
        **{wanted.name: partial(software.package, wanted) for wanted in software.PACKAGES},
        "Java": software.java,
        "Anserini's jar": software.lucene_jar,
        "memory": resources.memory,
        "disk": resources.disk,
        "cache": resources.cache,
        "Docker": servers.docker,
    }
)
"""Every check but those of servers, which need their addresses, by the name that it reports under."""


def examine(url: str = "", checks: Mapping[str, Check] = CHECKS, *, chroma_url: str = "") -> list[Finding]:
    """What every check says, in their order, the servers last: Qdrant's at ``url`` (see
    :func:`servers.qdrant_server`), and Chroma's at ``chroma_url`` (see :func:`chroma.chroma_server`).
    """
    every: dict[str, Check] = {
        **checks,
        "Qdrant server": partial(servers.qdrant_server, url),
        "Chroma server": partial(chroma.chroma_server, chroma_url),
    }
    return [_outcome(name, check) for name, check in every.items()]


def _outcome(name: str, check: Check) -> Finding:
    try:
        return check()
    except HarnessError as error:
        return fail(name, error.what, error.fix or _REPORT)
    except Exception as error:  # noqa: BLE001 - a check that breaks is itself a finding, and hides no other
        return fail(name, f"the check itself failed: {type(error).__name__}: {error}", _REPORT)
