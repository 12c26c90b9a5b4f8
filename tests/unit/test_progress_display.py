"""What a terminal shows of long work."""

from __future__ import annotations

import io
import time

from rich.console import Console

from harness.reporting.progress import ProgressDisplay


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
