"""What Java objects hold, by way of Java's own writer of JSON."""

from __future__ import annotations

import json
from typing import Any

from harness.java.bridge import JavaBridge


def to_python(bridge: JavaBridge, value: Any) -> Any:
    """Plain lists, dictionaries, numbers and strings."""
    mapper = bridge.load("com.fasterxml.jackson.databind.ObjectMapper")()
    return json.loads(bytes(mapper.writeValueAsBytes(value)))
