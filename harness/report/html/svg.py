"""Scalable pictures as text, and their axes: escaped attributes, a text alternative, and no style.

Colours and patterns come from classes that the page's style sheet defines, so one picture serves light and dark screens
and paper. The page's security policy forbids style attributes, so only presentation attributes are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from harness.results.backend_info import short_labels

SERIES = 8
"""Number of series that differ in colour, pattern and marker; further series begin again."""


class Svg(str):
    """Markup made by this module, fully escaped; it is put into the page unchanged."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return itself: templates take it for markup that needs no escaping."""
        return str(self)


Node = Svg
Number = float | int


def element(name: str, children: Sequence[Node] = (), **attributes: str | Number | None) -> Node:
    """Write an element. A last underscore of a name is dropped, others become hyphens; None leaves one out."""
    written = "".join(
        f' {_name(key)}="{escape(_value(value), quote=True)}"' for key, value in attributes.items() if value is not None
    )
    inner = "".join(children)
    return Svg(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-") if key != "viewBox" else key


def _value(value: str | Number) -> str:
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: Number, y: Number, content: str, class_: str = "label", anchor: str = "start") -> Node:
    """Write a line of text; ``anchor`` is start, middle or end."""
    return element("text", [Svg(escape(content))], x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: Number, y1: Number, x2: Number, y2: Number, class_: str) -> Node:
    """Draw a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(x: Number, y: Number, width: Number, height: Number, class_: str, tip: str = "") -> Node:
    """Draw a rectangle, with a tip that shows when the pointer rests on it."""
    return element("rect", _tip(tip), x=x, y=y, width=max(width, 0), height=max(height, 0), class_=class_)


def circle(x: Number, y: Number, radius: Number, class_: str, tip: str = "") -> Node:
    """Draw a circle, with a tip that shows when the pointer rests on it."""
    return element("circle", _tip(tip), cx=x, cy=y, r=radius, class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str, *, closed: bool = False) -> Node:
    """Draw straight pieces through ``points``."""
    steps = " ".join(f"{'M' if number == 0 else 'L'}{_value(x)} {_value(y)}" for number, (x, y) in enumerate(points))
    return element("path", d=steps + (" Z" if closed else ""), class_=class_)


def group(children: Sequence[Node], **attributes: str | None) -> Node:
    """Put several elements together."""
    return element("g", children, **attributes)


def series(number: int) -> str:
    """Return the class of a series: its colour and pattern."""
    return f"s{number % SERIES}"


def marker(x: float, y: float, number: int, tip: str = "") -> Node:
    """Draw the sign of a series at a point: each has a different shape, because colours are not enough."""
    r, shape = 5.0, number % SERIES
    corners: dict[int, list[tuple[float, float]]] = {
        1: [(-r, -r), (r, -r), (r, r), (-r, r)],
        2: [(0, -r - 1), (r + 1, r - 1), (-r - 1, r - 1)],
        3: [(0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)],
        4: [(0, r + 1), (r + 1, -r + 1), (-r - 1, -r + 1)],
        5: [(-r, -2), (-2, -2), (-2, -r), (2, -r), (2, -2), (r, -2), (r, 2), (2, 2), (2, r), (-2, r), (-2, 2), (-r, 2)],
        6: [(-r, -r), (r, -r), (0, 0), (r, r), (-r, r), (0, 0)],
        7: [(-r - 1, -3), (r + 1, -3), (r + 1, 3), (-r - 1, 3)],
    }
    if shape == 0:
        return circle(x, y, r, f"marker {series(number)}", tip)
    steps = " ".join(
        f"{'M' if position == 0 else 'L'}{_value(x + dx)} {_value(y + dy)}"
        for position, (dx, dy) in enumerate(corners[shape])
    )
    return element("path", _tip(tip), d=f"{steps} Z", class_=f"marker {series(number)}")


def picture(width: Number, height: Number, children: Sequence[Node], alternative: str) -> Svg:
    """Put a picture together; ``alternative`` describes its content in words, with the figures."""
    box = f"0 0 {_value(width)} {_value(height)}"
    return element("svg", children, viewBox=box, role="img", aria_label=alternative, width=width)


def _tip(content: str) -> list[Node]:
    return [Svg(f"<title>{escape(content)}</title>")] if content else []


WIDTH = 440
"""Of every picture: narrow enough that its text can still be read on a telephone."""
_CHARACTER, _CHARACTER_OF_LABEL, _WIDE, _WIDEST = 6.4, 7.2, 9.0, 12.0

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

    def position(self, value: float) -> float:
        """Return the pixel of a value; values beyond the ends lie on them."""
        inside = min(max(value, self.low), self.high)
        low, high = self.low, self.high
        if self.log:
            low, high, inside = (math.log(number) for number in (low, high, inside))
        share = (inside - low) / (high - low) if high > low else 0.0
        return self.start + share * (self.end - self.start)


def linear(low: float, high: float, start: float, end: float, count: int = 5) -> Axis:
    """Return an axis that holds ``low`` to ``high`` and ends on round numbers, with about ``count`` ticks."""
    if not high > low:
        share = 0 <= low <= 1  # or may be: the axis of a share does not exceed 1
        low, high = (max(low - 0.5, 0.0), min(low + 0.5, 1.0)) if share else (low - 0.5, low + 0.5)
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _STEPS if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], start, end, ticks)


def logarithmic(low: float, high: float, start: float, end: float) -> Axis:
    """Return a logarithmic axis for positive values.

    It has ticks at 1, 2 and 5 of each power of ten if their labels have room, else only at powers.
    """
    low, high = (low, high) if high > low else (low / 2, low * 2)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    chosen = _within([digit * 10.0**power for power in powers for digit in (1, 2, 5)], low, high)
    widest = max(len(figure(tick)) for tick in chosen) * _CHARACTER if end > start else 2 * _CHARACTER
    if (len(chosen) - 1) * (widest + _CHARACTER) > abs(end - start):
        chosen = _within([10.0**power for power in powers], low, high)
    return Axis(chosen[0], chosen[-1], start, end, tuple(chosen), log=True)


def _within(ticks: Sequence[float], low: float, high: float) -> list[float]:
    """Return the ticks from the last one that is at most ``low`` to the first one that is at least ``high``."""
    first = max((tick for tick in ticks if tick <= low), default=low)
    last = min((tick for tick in ticks if tick >= high), default=high)
    return [tick for tick in ticks if first <= tick <= last]


def figure(value: float) -> str:
    """Write a tick's number, as short as it can be."""
    return f"{value:,.10g}".replace("-", "−")


def room_for(labels: Iterable[str]) -> float:
    """Return the pixels needed next to a picture for its labels."""
    return 16 + max((sum(map(_advance, label)) for label in labels), default=0)


def _advance(character: str) -> float:
    """Return about how wide a character of a label is, in the widest font of the style sheet."""
    if character in "mwMW…":
        return _WIDEST
    return _WIDE if character.isupper() or character in "=+<>@#%" else _CHARACTER_OF_LABEL


def short_names(labels: Iterable[str], names: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the text next to a picture for each label: at most 24 characters, all different.

    ``names`` are the short labels that the document has for its long ones; others are as short as in narrow tables.
    """
    several = list(dict.fromkeys(labels))
    short = dict(zip(several, short_labels(several), strict=True))
    of_document = short | {label: text for label, text in (names or {}).items() if label in short}
    return of_document if len(set(of_document.values())) == len(of_document) else short
