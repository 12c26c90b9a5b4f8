"""Ids as they are shown: never cut inside a list, and never two of them alike."""

from __future__ import annotations

import orjson
from explorers import small_explorer
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.report.formats import render
from harness.report.html.payload import payload_of
from harness.wording import id_list, short_ids, shortened

HOST = "https://docs.example.org/en/latest"
URLS = [f"{HOST}/guide/{name}/page.html" for name in ("install-and-upgrade-the-pump", "valves", "filters")]


def test_ids_that_are_short_stay() -> None:
    assert short_ids(["d1", "pump#2"]) == {"d1": "d1", "pump#2": "pump#2"}
    assert short_ids([]) == {}


def test_long_ids_lose_their_common_prefix() -> None:
    assert short_ids(URLS) == {
        URLS[0]: "…install-and-upgrade-the-pump/page.html",
        URLS[1]: "…valves/page.html",
        URLS[2]: "…filters/page.html",
    }


def test_a_long_id_loses_its_middle() -> None:
    (short,) = short_ids([f"{HOST}/{'x' * 90}/end.html"]).values()
    assert len(short) == 48
    assert short.startswith("https://docs.exa")
    assert short.endswith("/end.html")


def test_ids_that_differ_in_the_middle_only_have_a_digest_there() -> None:
    ids = [f"{'a' * 60}{number}{'b' * 60}" for number in range(20)]
    short = short_ids(ids)
    assert len(set(short.values())) == 20
    assert all(len(text) == 48 for text in short.values())


@given(st.lists(st.text("ab/#…", max_size=70), unique=True, max_size=8), st.sampled_from([20, 48]))
def test_no_two_ids_look_the_same(ids: list[str], longest: int) -> None:
    short = short_ids(ids, longest)
    assert list(short) == ids
    assert len(set(short.values())) == len(ids)


def test_a_list_of_ids_is_cut_between_them() -> None:
    ids = [f"document-number-{number}" for number in range(40)]
    said = id_list(ids)
    shown, _, more = said.partition(" + ")
    assert set(shown.split(", ")) < set(ids), "whole ids only"
    assert more == f"{40 - len(shown.split(', '))} more"
    assert shortened(said) == said, "no renderer cuts it again"
    assert id_list(ids[:2]) == "document-number-0, document-number-1"
    assert id_list([]) == ""
    assert id_list(["x" * 300, "y"]).endswith("x + 1 more")


def test_questions_behind_a_failed_requirement_show_whole_ids_in_every_form() -> None:
    ids = [f"{HOST}/guide/chapter-{number:02}/section.html" for number in range(30)]
    golden = [{"id": "q1", "question": "pump", "expected_relevant_doc_ids": ids[:25]}]
    texts = {id_: f"valve {at}" if at < 25 else f"pump {at}" for at, id_ in enumerate(ids)}
    corpus = harness.Dataset.of(texts, {"q": "pump"}, {"q": {ids[0]: 1}})
    checked = harness.check(
        golden, corpus=corpus, backends="csr", require=["Hit@5>=0.9"], timing=False, isolation="none"
    )
    for form in ("table", "markdown"):
        shown = render(checked.report, form, verbose=True)
        assert "chapter-00/section.html" in shown
        assert "more" in shown.partition("chapter-00/section.html")[2]
        assert "characters)" not in shown, "no joined list is cut in its middle"
    assert ids[24] in render(checked.report, "json"), "JSON has all of them in full"


def test_the_page_has_short_names_and_ids_beside_the_full_ones() -> None:
    long = [f"chroma:model=org/{'m' * 30};ef_search={value}" for value in (10, 100)]
    payload = payload_of([small_explorer(labels=long)], 10**6, {long[0]: "chroma[ef_search=10]"})
    data = orjson.loads(payload.data.content)
    assert data["labels"] == long
    assert data["names"] == ["chroma[ef_search=10]", "chroma[ef_search=100]"]
    assert data["shortDocs"] is None
    assert data["shortQueries"] == {}
