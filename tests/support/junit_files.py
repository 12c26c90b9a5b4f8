"""JUnit XML read back, by a validator of its schema first."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET


@functools.cache
def _schema() -> Any:
    import xmlschema

    return xmlschema.XMLSchema(str(Path(__file__).with_name("junit.xsd")))


def read_junit(written: str | Path) -> ET.Element:
    """The root of a file or of its text; raises what the validator raises."""
    text = written.read_text(encoding="utf-8") if isinstance(written, Path) else written
    root = ET.fromstring(text)
    _schema().validate(root)
    return root
