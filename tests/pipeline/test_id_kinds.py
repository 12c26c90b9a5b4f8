"""Ids that can never meet, and ids that only did not."""

from __future__ import annotations

import pytest

from harness.pipeline.check.id_match import id_kinds

UUID = "8544a3db-0b16-5b1c-a72d-7b7f47536f62"


@pytest.mark.parametrize(
    ("named", "hits", "reason", "fix"),
    [
        (
            {"manual#1"},
            {UUID},
            "expected ids are names, and the ids of hits are UUIDs or hashes",
            "key of the metadata",
        ),
        ({"manual#1"}, {"d41d8cd98f00b204e9800998ecf8427e"}, "the ids of hits are UUIDs or hashes", "metadata"),
        ({"7", "12"}, {"terms", "manual"}, "expected ids are numbers, and the ids of hits are names", "metadata"),
        ({"manual"}, {"manual#1", "x"}, "the hit 'manual#1' is called like a chunk of 'manual'", "--delimiter '#'"),
        ({"my_doc"}, {"my_doc_chunk_3"}, "like a chunk of 'my_doc'", "--delimiter '_'"),
        ({"a.pdf"}, {"a.pdf::p12"}, "like a chunk of 'a.pdf'", "--delimiter '::'"),
        ({"manual#1"}, {"manual"}, "the expected 'manual#1' is called like a chunk of the hit 'manual'", "chunks"),
        ({"Terms-A"}, {"terms-a"}, "the hit 'terms-a' is 'Terms-A' in another spelling", "spells"),
        ({"7", "12"}, {"7.0", "12.0"}, "is '12' in another spelling, the same but for a decimal part", "spells"),
        ({"7"}, {"0007"}, "the hit '0007' is '7' in another spelling", "spells"),
        ({"caf\u00e9"}, {"cafe\u0301"}, "'cafe\\u0301' is 'caf\\xe9' in another spelling", "spells"),
        ({"a"}, {"b'a'"}, "the hit 'b'a'' is 'a' in another spelling", "spells"),
        ({"terms a"}, {"terms_a"}, "the hit 'terms_a' is 'terms a' in another spelling", "spells"),
        ({UUID}, {UUID.replace("-", "")}, "in another spelling, the same but for how UUIDs are written", "spells"),
        ({"manual.md"}, {"docs/manual.md"}, "is 'manual.md' in another spelling", "spells"),
        ({"docs/manual.md"}, {"manual"}, "is 'docs/manual.md' in another spelling", "spells"),
        ({"index"}, {"C:\\docs\\index.html"}, "is 'index' in another spelling", "spells"),
    ],
)
def test_ids_of_two_kinds_are_told(named, hits, reason, fix) -> None:
    found = id_kinds(named, hits)
    assert found is not None
    assert reason in found.reason
    assert fix in found.fix


@pytest.mark.parametrize(
    ("named", "hits"),
    [
        ({"chunk-1"}, {"chunk-10", "chunk-2"}),
        ({"1"}, {"10", "2"}),
        ({UUID}, {UUID.replace("8", "9")}),
        ({"paris"}, {"paris-metro", "new-york"}),
        ({"a/index.md"}, {"b/index.md"}),
        ({"7", "terms"}, {"8"}),
        ({"face"}, {"deed"}),
        ({"a#1"}, {"b#1"}),
    ],
)
def test_ids_of_one_kind_are_not(named, hits) -> None:
    assert id_kinds(named, hits) is None
