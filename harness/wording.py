"""Words that messages and reports share."""

from __future__ import annotations

import hashlib
import os.path
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "LONE_SURROGATE",
    "RANDOM_ID",
    "common_start",
    "counted",
    "few_for_interval",
    "id_list",
    "readable",
    "short_ids",
    "shortened",
    "too_few_to_show",
    "unread_files_in_words",
    "value_and_id",
    "visible",
    "without_middle",
]

_UNSEEN = r"\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
"""Characters that turn the direction of text, break lines or have no width: text with them looks different."""
_CONTROL = re.compile(rf"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff{_UNSEEN}]")
"""Control characters except the line break, lone surrogates, and invisible characters."""
LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Half of a pair that UTF-16 writes a character with: it is not a character, and UTF-8 has no bytes for it."""
RANDOM_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|(?=[0-9a-f]*\d)[0-9a-f]{32,}", re.IGNORECASE)
"""A UUID or a hash."""
_ID_BEGINNING = 8
_UNSEEN_ONLY = re.compile(f"[{_UNSEEN}]")
_LONGEST_PIECE, _LONGEST_LINE = 160, 2000
_QUOTED = re.compile(r"(?<!\w)'([^']*)'(?!\w)")
"""A name or an id in a message; an apostrophe inside a word opens and closes nothing."""
_Y_AFTER_CONSONANT = re.compile(r"[^aeiou]y$")
_ENDINGS = 20
LONGEST_ID = 48
"""Characters up to which an id is shown in full."""
_PREFIX_WORTH_DROPPING = 12
_PATH_SEPARATORS, _ID_SEPARATORS = "/#?", "=&:|_.- "
_FEW = 10
"""Queries below which a bootstrap has too few different values to draw from: of 95 % intervals, about 52 % hold the
true mean with 2 uniform or U-shaped values, 75 % with 3, 87 % with 5, 93 % with 8 and more; a test measures it."""


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return ``1 query``, ``2 queries``: a number with a noun, whose plural is the regular one unless it is given."""
    regular = f"{noun[:-1]}ies" if _Y_AFTER_CONSONANT.search(noun) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural or regular}"


def common_start(texts: Sequence[str]) -> str:
    """Return the longest common beginning of all texts; "" for no texts."""
    return os.path.commonprefix(texts)  # noqa: RUF071 - it compares texts by character, which is what is wanted


def unread_files_in_words(counts: Mapping[str, int]) -> str:
    """Return ``3 files not read: 2 .html, 1 hidden`` from counts by ending, at most 20 of them; "" for no files."""
    if not counts:
        return ""
    *endings, last = [f"{count:,} {ending}" for ending, count in counts.items()]
    items = [*endings, last] if len(counts) <= _ENDINGS else [*endings[:_ENDINGS], "…"]
    return f"{counted(sum(counts.values()), 'file')} not read: {', '.join(items)}"


def readable(text: str) -> str:
    """Return text as a message can hold it: control characters escaped, and long quoted pieces and lines shortened.

    Line breaks stay, except inside quotes. Ids come from files and may hold anything: 5 MB, or sequences that move a
    terminal's cursor.
    """
    text = _QUOTED.sub(lambda match: f"'{shortened(match[1])}'", _escaped(text))
    return "\n".join(_shortened(line, _LONGEST_LINE) for line in text.split("\n"))


def visible(text: str) -> str:
    """Return text with the characters that turn its direction or have no width written out, as ``\\u202e``."""
    return _UNSEEN_ONLY.sub(_written_out, text)


def shortened(text: str) -> str:
    """Return text as a cell of a table can hold it: one line, control characters escaped, about 160 characters."""
    return _shortened(_escaped(text).replace("\n", "\\n"), _LONGEST_PIECE)


def short_ids(ids: Iterable[str], longest: int = LONGEST_ID) -> dict[str, str]:
    """Return how each of several ids is shown, by the id: in full, unless some are longer than ``longest``.

    Then all lose the prefix that they have in common, up to a separator, and texts that are still too long lose their
    middle. No two are shown alike: if only the middle differs, a digest replaces it.
    """
    distinct = list(dict.fromkeys(ids))
    short_by_text = {text: text for text in distinct}
    if all(len(text) <= longest for text in distinct):
        return short_by_text
    common = common_start(distinct) if len(distinct) > 1 else ""
    prefix = max(common.rfind(separator) for separator in _PATH_SEPARATORS) + 1
    if prefix < _PREFIX_WORTH_DROPPING:
        prefix = max(common.rfind(separator) for separator in _ID_SEPARATORS) + 1
    if prefix >= _PREFIX_WORTH_DROPPING:
        short_by_text = {text: f"…{text[prefix:]}" for text in distinct}
    full = dict(short_by_text)
    short_by_text = {text: without_middle(short, longest) for text, short in full.items()}
    alike = Counter(short_by_text.values())
    for text, short in short_by_text.items():
        if alike[short] > 1:
            digest = hashlib.sha256(text.encode()).hexdigest()[:8]
            short_by_text[text] = without_middle(full[text], longest, f"…{digest}…")
    return (
        short_by_text if len(set(short_by_text.values())) == len(short_by_text) else {text: text for text in distinct}
    )


def without_middle(text: str, longest: int, middle: str = "…") -> str:
    """Return text of at most ``longest`` characters: of a longer one its beginning and its end around ``middle``."""
    if len(text) <= longest and middle == "…":
        return text
    room = max(longest - len(middle), 2)
    return f"{text[: room - room // 2]}{middle}{text[len(text) - room // 2 :]}"


def value_and_id(value: str | None, doc_id: str) -> str:
    """Return a document's id after the ``value`` by which it is matched; of a UUID or a hash, only its beginning.

    The id alone if there is no value, or if it begins with the value.
    """
    if value is None or doc_id.startswith(value):
        return doc_id
    return f"{value} ({f'{doc_id[:_ID_BEGINNING]}…' if RANDOM_ID.fullmatch(doc_id) else doc_id})"


def id_list(items: Sequence[str], longest: int = _LONGEST_PIECE) -> str:
    """Return items one after the other, as many as ``longest`` characters hold, and how many more there are.

    It is never cut inside an item: the rest would look like an id without being one.
    """
    fitting = 0
    length = 0
    for number, item in enumerate(items):
        length += len(item) + (2 if number else 0)
        if length > longest and number:
            break
        fitting = number + 1
    left = len(items) - fitting
    return ", ".join(items[:fitting]) + (f" + {left:,} more" if left else "")


def _escaped(text: str) -> str:
    return _CONTROL.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}…{text[-half // 4 :]} ({len(text):,} characters)"


def few_for_interval(counts: Iterable[int], noun: str = "query") -> list[str]:
    """Return a caution if intervals cover few queries, whose numbers are among ``counts``; else empty."""
    few = [count for count in counts if 2 <= count < _FEW]
    if not few:
        return []
    over = counted(min(few), noun)
    why = "this few values hardly show how much they vary (intervals of 0/1 values are exact)"
    return [f"caution: bootstrap intervals over {over} are too narrow, for {why}; use {_FEW} or more"]


def too_few_to_show(queries: int, detectable: float, *means: float, noun: str = "query") -> str:
    """Return a note that this few queries can show no difference, if means up to 1 cannot differ enough; else ""."""
    if not detectable > 1 >= max(means):
        return ""
    return f"{counted(queries, noun)} {'is' if queries == 1 else 'are'} too few to show any difference"


def model_labels_in_words(labels: int, judgments: int, models: Iterable[object]) -> str:
    """Return how many of some judgments are labels by models, and which models."""
    names = "; ".join(map(str, models))
    return f"{labels:,} of {counted(judgments, 'judgment')} by a model, not by a person ({names})"


def label_model_in_words(model: str, prompt_digest: str | None, date: str | None) -> str:
    """Return a model that gave labels, with the digest of its prompt and the date of its latest label."""
    return f"{model}, prompt {prompt_digest or 'unknown'}{f', {date}' if date is not None else ''}"
