"""What the fault matrices of servers share: how a case is written down, and its message without what varies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from faulty_http import Act

from harness.errors import HarnessError
from harness.registry.parameters import ParameterValue

BRIEF: dict[str, ParameterValue] = {"timeout_s": 1, "retry_s": 0.0}


@dataclass
class Case:
    """What is broken in a server, and the kind of error that comes of it; the message is a golden file."""

    name: str
    arrange: Callable[[Any], object]
    kind: type[HarnessError]
    changed: dict[str, ParameterValue] = field(default_factory=dict)


def setting(**state: object) -> Callable[[Any], None]:
    """Set attributes of the server."""

    def arrange(server: object) -> None:
        for name, value in state.items():
            setattr(server, name, value)

    return arrange


def failing(operation: str, act: Act, *, after: int = 0) -> Callable[[Any], None]:
    """Let an operation fail for ever."""
    return lambda server: server.fail(operation, act, after=after)


def said(message: str, url: str) -> str:
    """A message without what differs from run to run."""
    message = message.replace(url, "URL")
    message = re.sub(r"harness-\w+-[0-9a-f]{8}", "COLLECTION", message)
    message = re.sub(r"\[Errno 104\] Connection reset by peer|Server disconnected [\w ]+\.", "RESET", message)
    message = re.sub(r"received \d+ bytes, expected \d+", "received N bytes, expected M", message)
    return re.sub(r"\d+ tries in \d s", "N tries in S s", message)
