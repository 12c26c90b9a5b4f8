"""Where a Qdrant server is, by the parameters of the backend and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from harness.engines.address import Address, Place, read_address
from harness.engines.qdrant.settings import ServerSettings

__all__ = ["URL_VARIABLE", "address_of"]

URL_VARIABLE = "HARNESS_QDRANT_URL"
_PLACE = Place("Qdrant", 6333, URL_VARIABLE, "QDRANT_API_KEY")


def address_of(settings: ServerSettings, environment: Mapping[str, str] = os.environ) -> Address:
    """The server that ``settings`` name, or ``HARNESS_QDRANT_URL``; raises as :func:`read_address`."""
    return read_address(_PLACE, settings.url, settings.api_key_env, environment)
