"""Where a Chroma server is, by the parameters of the backend and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from harness.engines.address import Address, Place, read_address
from harness.engines.chroma.settings import ServerSettings
from harness.errors import RejectedInputError

__all__ = ["URL_VARIABLE", "address_of", "headers_of"]

URL_VARIABLE = "HARNESS_CHROMA_URL"
_PLACE = Place("Chroma", 8000, URL_VARIABLE, "CHROMA_API_KEY")


def address_of(settings: ServerSettings, environment: Mapping[str, str] = os.environ) -> Address:
    """The server that ``settings`` name, or ``HARNESS_CHROMA_URL``; raises as :func:`read_address`."""
    return read_address(_PLACE, settings.url, settings.api_key_env, environment)


def headers_of(address: Address, header: str) -> dict[str, str]:
    """What is sent along with every call; ``header`` carries the API key.

    Raises RejectedInputError when a user name needs the header that the key was to have.
    """
    headers = dict(address.headers)
    if address.api_key is None:
        return headers
    if header in headers:
        raise RejectedInputError(
            f"the user name in {URL_VARIABLE} and the key in {address.key_variable} both need the header '{header}'",
            fix="give one of them only, or api_key_header=x-chroma-token",
        )
    headers[header] = f"Bearer {address.api_key}" if header == "authorization" else address.api_key
    return headers
