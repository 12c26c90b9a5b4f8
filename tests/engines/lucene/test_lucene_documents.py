"""What the harness's Java makes of texts is what Anserini makes of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from installed import skip_module_without

from harness.data.types import Ids
from harness.engines.base import Documents
from harness.engines.lucene.bm25 import LuceneEngine
from harness.java.bridge import JavaObject
from harness.registry.cards import read_backend_card

skip_module_without("jnius_config")

pytestmark = pytest.mark.integration
DEFAULTS = read_backend_card(Path(__file__).parents[3] / "backends" / "lucene.toml").defaults
IDS = ["d1", "d–2", "3 with spaces", "😀"]
TEXTS = ["Cats and dogs", "über 😀 wörld", " padded\n", "a\x00b \u2028 c"]


def fields_of(engine: LuceneEngine) -> list[str]:
    column = pa.chunked_array([TEXTS])
    (batch,) = engine.java_documents(Documents(Ids.of(IDS), column, None))
    return [str(batch.documents.get(place).toString()) for place in range(batch.documents.size())]


def fields_of_anserini(engine: LuceneEngine) -> list[str]:
    load, cast = engine.bridge.load, engine.bridge.cast
    arguments = load("io.anserini.index.IndexCollection$Args")()
    arguments.storeDocvectors = bool(engine.parameters["rm3"])
    generator = load("io.anserini.index.generator.DefaultLuceneDocumentGenerator")(arguments)
    mapper = load("com.fasterxml.jackson.databind.ObjectMapper")()

    def document(name: str, text: str) -> JavaObject:
        node = mapper.createObjectNode().put("id", name).put("contents", text)
        json = load("io.anserini.collection.JsonCollection$Document")(
            cast("com.fasterxml.jackson.databind.JsonNode", node)
        )
        return generator.createDocument(json)

    return [str(document(*pair).getFields().toString()) for pair in zip(IDS, TEXTS, strict=True)]


@pytest.mark.parametrize("term_vectors", [False, True])
def test_documents_have_the_fields_that_anserini_s_generator_gives_them(term_vectors: bool) -> None:
    engine = LuceneEngine({**DEFAULTS, "rm3": term_vectors})
    engine.info()
    assert fields_of(engine) == fields_of_anserini(engine)
    assert ("termVector" in fields_of(engine)[0]) == term_vectors
