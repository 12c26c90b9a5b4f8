"""What is measured beyond one warm client: a cold index, several clients at once, queries that come at a fixed rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from harness.errors import UsageError
from harness.statistics.under_load import Arrivals

__all__ = ["ARRIVALS", "ClientKind", "LoadOptions", "parse_levels", "parse_rates"]

ARRIVALS: tuple[Arrivals, ...] = ("poisson", "constant")
_OPEN_LOOP_CLIENTS = 8
_MOST_CLIENTS = 256
Number = TypeVar("Number", int, float)


class ClientKind(StrEnum):
    """What a client is."""

    PROCESSES = "processes"
    """A process of its own, with its own engine."""
    THREADS = "threads"
    """A thread of one process, all on one engine: only where the engine's client releases the GIL."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """``concurrency``: numbers of clients of the closed loop; ``rates``: queries a second of the open loop."""

    cold: bool = False
    concurrency: tuple[int, ...] = ()
    clients: ClientKind = ClientKind.PROCESSES
    rates: tuple[float, ...] = ()
    arrivals: Arrivals = "poisson"
    seconds: float = 5.0
    seed: int = 42

    @property
    def wanted(self) -> bool:
        """Whether anything is to be measured."""
        return self.cold or bool(self.concurrency) or bool(self.rates)

    def unused(self) -> Iterator[tuple[str, str]]:
        """Options that were given and would change nothing, each with what it needs."""
        default = LoadOptions()
        if not self.rates and self.arrivals != default.arrivals:
            yield "--arrivals", "--rate"
        if not self.rates and not self.concurrency:
            if self.clients is not default.clients:
                yield "--clients", "--concurrency or --rate"
            if self.seconds != default.seconds:
                yield "--load-seconds", "--concurrency or --rate"

    @property
    def open_loop_clients(self) -> int:
        """As many as the largest level of the closed loop has, 8 when there is none."""
        return max(self.concurrency, default=_OPEN_LOOP_CLIENTS)


def parse_levels(given: str | int | Sequence[int] | None) -> tuple[int, ...]:
    """Numbers of clients from ``1,2,4,8`` or a sequence; nothing for None. Raises UsageError."""
    levels = _numbers(given, int, "--concurrency", "1,2,4,8")
    if any(not 1 <= level <= _MOST_CLIENTS for level in levels):
        raise UsageError(f"--concurrency {_shown(given)}", fix=f"numbers of clients are from 1 to {_MOST_CLIENTS}")
    return levels


def parse_rates(given: str | float | Sequence[float] | None) -> tuple[float, ...]:
    """Queries a second from ``50,100`` or a sequence; nothing for None. Raises UsageError."""
    rates = _numbers(given, float, "--rate", "50,100")
    if any(not 0 < rate < float("inf") for rate in rates):
        raise UsageError(f"--rate {_shown(given)}", fix="rates are queries a second, above 0")
    return rates


def _numbers(
    given: str | float | Sequence[float] | None, kind: type[Number], option: str, example: str
) -> tuple[Number, ...]:
    if given is None:
        return ()
    parts = given.split(",") if isinstance(given, str) else given if isinstance(given, Sequence) else [given]
    try:
        numbers = tuple(kind(part) for part in parts)
    except ValueError as error:
        raise UsageError(f"{option} {_shown(given)}: not a list of numbers", fix=f"write {option} {example}") from error
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"{option} {_shown(given)}: a number occurs twice", fix=f"write {option} {example}")
    return numbers


def _shown(given: object) -> str:
    return given if isinstance(given, str) else ",".join(map(str, given if isinstance(given, Sequence) else [given]))
