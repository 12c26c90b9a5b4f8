"""A real Elasticsearch: what a real OpenSearch passes, and a server that is killed while documents are sent.

The server is that of ``HARNESS_ELASTICSEARCH_URL``, or one that is started here (``search_server.py``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from search_server import SearchServer
from test_opensearch_server import QUESTIONS, TEXTS, ServerContract, ServerTests, ask

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.opensearch.connection import ELASTICSEARCH, Product
from harness.engines.opensearch.engine import ElasticsearchEngine
from harness.errors import EngineUnavailableError
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import count_words
from harness.text.term_texts import term_texts

pytestmark = [pytest.mark.contract, pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


@pytest.fixture(scope="module")
def product() -> Product:
    return ELASTICSEARCH


class TestElasticsearch(ServerContract):
    """The tests that another product can change: OpenSearch's class has run the others of the same engine.

    All run where what they prove is written down.
    """

    variant = "HARNESS_UPDATE_PROVEN" not in os.environ
    engine = ElasticsearchEngine
    card = "elasticsearch"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"keep": True, "batch_size": 100}


class TestElasticsearchServer(ServerTests):
    engine = ElasticsearchEngine

    def test_a_killed_server_is_waited_for_and_has_every_document(
        self, started: SearchServer | None, tmp_path: Path
    ) -> None:
        """What it acknowledged is there when it comes back, and the batch that it did not answer is sent again."""
        if started is None:
            pytest.skip("the server that the environment names is not killed")
        ids = Ids.of(f"d{row}" for row in range(len(TEXTS)))
        restart = Thread(target=started.start)

        class KillAfterTheFirstBatch(RecordingProgress):
            """Kill the server, find that it cannot be searched, and have it start again meanwhile."""

            def advance(self, by: int) -> None:
                super().advance(by)
                if restart.ident is None:
                    started.kill()
                    with pytest.raises(EngineUnavailableError, match="cannot be reached while searching for query 'q'"):
                        ask(kept, "a b", 9)
                    restart.start()

        with (
            self.opened(tmp_path / "kept", ids, keep=True, retry_s=0.0) as kept,
            self.opened(tmp_path / "index", ids, batch_size=1, retry_s=120.0) as engine,
        ):
            self.index(kept, TEXTS, ids)
            before = ask(kept, "a b", 9)
            terms = term_texts(count_words(TEXTS, QUESTIONS), "documents")
            report = engine.index(Inputs(ids, terms=terms), KillAfterTheFirstBatch(), StepClock())
            restart.join()
            after, repeated = ask(kept, "a b", 9), engine.repeated_calls
        assert (report.sent, report.indexed, len(report.missing_rows)) == (len(TEXTS), len(TEXTS), 0)
        assert repeated > 0
        assert (after.rows.tolist(), after.scores.tolist()) == (before.rows.tolist(), before.scores.tolist())
