"""Pictures of a page saved as SVG and PNG by a real Chromium, from a file on disk."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from browser_page import BrowserPage
from explorers import small_explorer

from harness.document.figures import Bar, Bars, Differences
from harness.document.model import Document, Figure, Section
from harness.report.html.render import render_page

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]
METRIC = "nDCG@10"
DARK_INK, LIGHT_INK = "rgb(232, 234, 238)", "rgb(22, 25, 31)"


@pytest.fixture(scope="module")
def html() -> str:
    explorer = small_explorer()
    moved = explorer.values[1, 0, :4] - explorer.values[0, 0, :4]
    bars = Bars(METRIC, [Bar("old", 0.4, 0.1, 0.9, 0), Bar("new <b>", 0.9, None, None, 1)])
    figures = [
        Figure(f"{METRIC}, with 95 % intervals", bars),
        Figure("changes: new/old", Differences("new", "old", METRIC, moved)),
    ]
    document = Document("cacm: old & new", "", sections=[Section("quality", "Quality", figures, open=True)])
    return render_page(document, [explorer])


def save(opened: BrowserPage, number: int, format_name: str) -> tuple[str, bytes]:
    with opened.page.expect_download() as saved:
        opened.page.get_by_role("button", name=f"Save {format_name}").nth(number).click()
    return saved.value.suggested_filename, Path(saved.value.path()).read_bytes()


@pytest.mark.parametrize(("scheme", "ink"), [("light", LIGHT_INK), ("dark", DARK_INK)])
def test_a_saved_svg_needs_no_page(show: Show, html: str, scheme: str, ink: str) -> None:
    opened = show(html, color_scheme=scheme)
    name, content = save(opened, 0, "SVG")
    assert name == "cacm-old-new-nDCG@10-with-95-intervals.svg"
    drawing = ET.fromstring(content)
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    nodes = list(drawing.iter())
    assert not [
        node for node in nodes if node.tag.endswith("}a") or "class" in node.attrib or "data-backend" in node.attrib
    ]
    labels = {node.text: node.attrib for node in nodes if node.tag.endswith("}text")}
    assert labels["new <b>"]["fill"] == ink
    assert "system-ui" in labels["new <b>"]["font-family"]
    assert labels["0.9000"]["font-weight"] == "600"
    (first, second) = (node for node in nodes if node.tag.endswith("}rect") and node.find("*") is not None)
    assert first.attrib["fill"] != second.attrib["fill"], "series differ in colour"
    assert opened.complaints == []
    assert len(opened.requests) == 1, "only the page itself"


@pytest.mark.parametrize(("ratio", "scale"), [(1, 2), (3, 3)])
def test_a_saved_png_has_the_pixels_of_the_screen(show: Show, html: str, ratio: int, scale: int) -> None:
    opened = show(html, device_scale_factor=ratio)
    shape = (
        opened.page.locator("figure svg")
        .nth(1)
        .evaluate("one => [one.viewBox.baseVal.width, one.viewBox.baseVal.height]")
    )
    name, content = save(opened, 1, "PNG")
    assert name == "cacm-old-new-changes-new-old.png"
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == tuple(side * scale for side in shape)
    assert len(content) > 2000, "it is not empty"
    assert opened.page.locator("figure.picture [role=status]").nth(1).inner_text() == f"Saved as {name}."
    assert opened.complaints == []
