"""One table of languages, by which analyzers, pages and loaders agree."""

from __future__ import annotations

import pytest

from harness.cli.dataset_pages import code_with_name
from harness.data.languages import language_name, two_letter_code
from harness.loaders import hugging_face
from harness.text import in_words


@pytest.mark.parametrize(
    ("code", "two", "name"),
    [
        ("da", "da", "Danish"),
        ("amh", "am", "Amharic"),
        ("kor_Hang", "ko", "Korean"),
        (" ZH-Hant ", "zh", "Chinese"),
        ("german", "de", "German"),
        ("nob", "nb", "Bokmål"),
        ("gle", "ga", "Irish"),
        ("bs", "bs", None),
        ("tlh", None, None),
        ("python", None, None),
        ("", None, None),
    ],
)
def test_a_language_by_its_codes_and_its_name(code: str, two: str | None, name: str | None) -> None:
    assert (two_letter_code(code), language_name(code)) == (two, name)


def test_what_was_known_in_one_place_only_is_known_everywhere() -> None:
    assert code_with_name("da") == "da (Danish)"
    assert (code_with_name("mul"), in_words("mul")) == ("mul", "'mul'")
    assert in_words("am") == "Amharic (am)"
    assert hugging_face._language(["amh"], "") == "am"
    assert hugging_face._language(["en", "kor"], "kor_Hang") == "ko"
    assert hugging_face._language(["en", "ko"], "de") is None
    assert hugging_face._language(["tlh"], "") is None
