"""Axes: round numbers for ticks, and from a value to a place on the picture, linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["WIDTH", "Axis", "figure", "linear", "logarithmic", "room_for", "shortened"]

WIDTH = 440
"""Of every picture: narrow enough that its text can still be read on a telephone."""
_CHARACTER = 6.4

_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``; ``ticks`` are values to label."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value; values beyond the ends lie on them."""
        inside = min(max(value, self.low), self.high)
        low, high, inside = (
            (math.log(v) for v in (self.low, self.high, inside)) if self.log else (self.low, self.high, inside)
        )
        share = (inside - low) / (high - low) if high > low else 0.0
        return self.start + share * (self.end - self.start)


def linear(low: float, high: float, start: float, end: float, count: int = 5) -> Axis:
    """Return an axis that holds ``low`` to ``high`` and ends on round numbers, with about ``count`` ticks."""
    if not high > low:
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(one * power for one in _STEPS if one * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], start, end, ticks)


def logarithmic(low: float, high: float, start: float, end: float) -> Axis:
    """Return a logarithmic axis for positive values: ticks at 1, 2 and 5 of each power of ten, or at powers alone."""
    low, high = (low, high) if high > low else (low / 2, low * 2)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    chosen = fine if high / low < 300 else [10.0**power for power in powers]
    below = max((tick for tick in chosen if tick <= low), default=low)
    above = min((tick for tick in chosen if tick >= high), default=high)
    return Axis(below, above, start, end, tuple(tick for tick in chosen if below <= tick <= above), log=True)


def figure(value: float) -> str:
    """Write a tick's number, as short as it can be."""
    return f"{value:,.10g}".replace("-", "−")


def room_for(labels: Iterable[str]) -> float:
    """Return the pixels beside a picture for labels, each of which is shortened."""
    return 16 + _CHARACTER * max((len(shortened(label)) for label in labels), default=0)


def shortened(label: str, length: int = 24) -> str:
    """Return a label that fits beside a picture: its middle is left out where it is too long."""
    if len(label) <= length:
        return label
    half = (length - 1) // 2
    return f"{label[: length - 1 - half]}…{label[-half:]}"
