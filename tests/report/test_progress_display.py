"""What a terminal shows of long work."""

from __future__ import annotations

import io
import time

from rich.console import Console

from harness.report.progress import ProgressDisplay


def test_a_terminal_shows_how_far_how_fast_and_how_long() -> None:
    shown = io.StringIO()
    with ProgressDisplay(Console(file=shown, force_terminal=True, width=120, color_system=None)) as display:
        section = display.section("minilm")
        section.start("encode documents", 1000)
        for _ in range(4):
            time.sleep(0.05)  # rich measures speed by its own clock
            section.advance(100)
        time.sleep(0.2)
    page = shown.getvalue()
    assert "minilm: encode documents" in page
    assert "400/1000" in page
    assert "/s " in page
    assert "0:00:0" in page


def test_a_log_shows_now_and_then_that_a_long_phase_goes_on() -> None:
    times = iter([0.0, 0.0, 10.0, 31.0, 40.0, 61.0, 100.0, 110.0])
    written = io.StringIO()
    display = ProgressDisplay(Console(file=written, force_terminal=False), clock=lambda: next(times))
    with display:
        section = display.section("model")
        section.start("encode documents", 3_000)
        for _ in range(4):
            section.advance(300)
        section.start("write", None)
        section.advance(7)
        display.done("model", "encoded")
    assert written.getvalue().splitlines() == [
        "model: encode documents: 600 of 3,000, 19/s, time left 0:02:04",
        "model: encode documents: 1,200 of 3,000, 20/s, time left 0:01:32",
        "model: encoded",
    ]


def test_labels_are_shown_as_they_are() -> None:
    """Rich takes ``:factory:`` for a picture and ``[bold]`` for a style."""
    label = "flat:model=python:own:factory:x[bold]"
    for terminal in (True, False):
        shown = io.StringIO()
        with ProgressDisplay(Console(file=shown, force_terminal=terminal, width=120, color_system=None)) as display:
            display.section(label).start("index", 10)
            time.sleep(0.2 if terminal else 0)
            display.done(label, "indexed")
        assert f"{label}: indexed" in shown.getvalue()
        assert not terminal or f"{label}: index " in shown.getvalue()
