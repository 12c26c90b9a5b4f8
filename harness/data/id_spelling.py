"""Explain why ids that judgments or runs name are missing.

They are spelled otherwise (``123`` and ``doc123``, ``7`` and ``0007``, ``7.0``, ``b'7'``), of another split, or beyond
the end of a cut file.
"""

from __future__ import annotations

import itertools
import re
import shlex
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, numbers, strings
from harness.data.types import Ids
from harness.wording import counted

_FEWEST = 3
"""Fewer ids that meet are slips of spelling and no rule."""
_SAMPLE = 20
"""Missing ids from which texts before or after ids are guessed."""
_CANDIDATES = 4
"""The most frequent guesses that are tried on all missing ids."""
_MATCHES = 50
"""Known ids that are looked at for one missing id."""


UNICODE = "but for Unicode normalisation"
"""The rule of ids that look alike, and that only Unicode normalisation distinguishes."""


class Respelling(NamedTuple):
    """One rule of spelling that makes ids meet.

    ``rule`` completes "the ids are the same …". ``names`` are the ids that meet by it, and ``corpus_id`` is the id
    that the first of them meets.
    """

    rule: str
    names: tuple[str, ...]
    corpus_id: str

    @property
    def met(self) -> int:
        """The number of ids that meet by the rule."""
        return len(self.names)

    @property
    def as_text(self) -> str:
        """The first id that meets by the rule."""
        return self.names[0]

    def __str__(self) -> str:
        """Return a clause of a sentence: the matching ids, the rule, and an example, escaped if its ids look alike."""
        return f"{self.met:,} of them {'is' if self.met == 1 else 'are'} the same {self.rule}: {self.example}"

    @property
    def example(self) -> str:
        """The first pair of ids that meet, escaped if both would look alike."""
        if unicodedata.normalize("NFKC", self.as_text) == unicodedata.normalize("NFKC", self.corpus_id):
            return f"{self.as_text!a} is {self.corpus_id!a}"
        return f"'{self.as_text}' is '{self.corpus_id}'"


def respelling(missing: Sequence[str], corpus_ids: Ids, share: float = 0.5) -> Respelling | None:
    """Return the rule by which at least ``share`` of the ``missing`` ids, and 3, meet one ``corpus_ids`` id each.

    Tried in this order: Unicode normalisation, ``b'…'`` around an id, quotation marks, how a UUID is written, letter
    case, a decimal part ``.0``, leading zeros of numbers, dashes, underscores and spaces, folders before a file, the
    suffix of a file, and text before or after every id of one side. Numbers are never split: ``3`` is not ``13`` with
    ``1`` before it. The first rule that reaches the share is returned. If none does, a rule by which ids differ only by
    mistake (the first four) is returned for any number of ids; else None, and for no ids.

    Args:
        missing: distinct ids, all unknown.
        corpus_ids: the ids to meet.
        share: of the missing ids, above 0.
    """
    if not missing or not len(corpus_ids):
        return None
    required_count = max(_FEWEST, int(np.ceil(share * len(missing))))
    enough, mistakes = required_count <= len(missing), []
    for rule in (rule for rule in _RULES if enough or rule.mistake):
        meeting = _apply_rule(rule, missing, corpus_ids)
        if meeting is not None and meeting.met >= required_count:
            return meeting
        if meeting is not None and rule.mistake:
            mistakes.append(meeting)
    affixed = (
        [meeting for meeting in _respell_by_affix(missing, corpus_ids) if meeting.met >= required_count]
        if enough
        else []
    )
    return max(affixed or mistakes, key=lambda meeting: meeting.met, default=None)


def respellings(
    missing: Sequence[str], corpus_ids: Ids, share: float = 0.5, *, any_number: bool = False
) -> list[Respelling]:
    """Return each rule of :func:`respelling`, applied to the ids that do not meet by the rules before it.

    With ``any_number``, rules of :func:`spelled_otherwise` follow, however few ids meet by them.
    """
    left, spellings = list(missing), list[Respelling]()
    while left:
        spelling = respelling(left, corpus_ids, share) or (spelled_otherwise(left, corpus_ids) if any_number else None)
        if spelling is None:
            break
        spellings.append(spelling)
        met = set(spelling.names)
        left = [name for name in left if name not in met]
    return spellings


def spelled_otherwise(missing: Sequence[str], corpus_ids: Ids) -> Respelling | None:
    """Return the first rule by which any of the ``missing`` ids meets one ``corpus_ids`` id; None for none.

    For few ids that are all unknown. Folders and suffixes are not such a rule: they distinguish documents.
    """
    meetings = (_apply_rule(rule, missing, corpus_ids) for rule in _RULES if not rule.shortens)
    return next((meeting for meeting in meetings if meeting is not None), None)


def separate_options(option: str, name: str, *ids: Ids) -> list[str]:
    """Return an option for each id of a list with commas, as a shell takes it; none if a part of it is in no ``ids``.

    Ids may contain commas, so a list of them is one unknown id.
    """
    parts = list(dict.fromkeys(part.strip() for part in name.split(",")))
    rows = [of.rows_of(Ids.of(parts)) for of in ids]
    if "," not in name or not rows or (np.max(rows, axis=0) < 0).any():
        return []
    return [f"{option} {shlex.quote(part)}" for part in parts]


def _replaced(ids: pa.Array, *, pattern: str, replacement: str) -> pa.Array:
    return pc.replace_substring_regex(ids, pattern=pattern, replacement=replacement)


class _Rule(NamedTuple):
    """A way to write ids alike.

    It changes only ids with one of the ASCII characters ``marks`` or another character than ASCII's. ``mistake`` says
    that ids which differ so never mean two documents; ``shortens`` that a part of the id is lost. Ids meet only if they
    match the pattern ``form``; "" if any form is allowed.
    """

    clause: str
    respell: Callable[[pa.Array], pa.Array]
    marks: str
    mistake: bool = False
    shortens: bool = False
    form: str = ""

    def may_change(self, ids: pa.Array) -> bool:
        """Return whether the rule may change an id, by the bytes of all ids: respelling millions takes far longer."""
        buffer = ids.buffers()[2]
        text = buffer.to_pybytes() if buffer is not None else b""
        return not text.isascii() or any(mark in text for mark in self.marks.encode())

    def may_meet(self, missing: pa.Array, corpus_ids: pa.Array) -> bool:
        """Return whether a missing id may meet a known one by this rule."""
        if self.form and not pc.any(pc.match_substring_regex(missing, self.form, ignore_case=True)).as_py():
            return False
        return self.may_change(missing) or self.may_change(corpus_ids)


def _plain_uuid(ids: pa.Array) -> pa.Array:
    lower = pc.utf8_lower(ids)
    plain = _replaced(lower, pattern=_UUID, replacement=r"\1\2\3\4\5")
    return pc.if_else(pc.equal(plain, lower), ids, plain)


def _regex(
    clause: str, pattern: str, replacement: str, marks: str, *, mistake: bool = False, shortens: bool = False
) -> _Rule:
    return _Rule(clause, partial(_replaced, pattern=pattern, replacement=replacement), marks, mistake, shortens)


_UUID = r"^(?:urn:uuid:|\{)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?$"
_RULES = (
    _Rule(UNICODE, partial(pc.utf8_normalize, form="NFKC"), "", mistake=True),
    _regex("but for b'…' around them", r"""^b(?:'(.*)'|"(.*)")$""", r"\1\2", "'\"", mistake=True),
    _regex("but for quotation marks", "[\"'`´‘’‚‛“”„‟«»‹›]", "", "\"'`", mistake=True),  # noqa: RUF001 - those of all languages
    _Rule("but for how UUIDs are written", _plain_uuid, "-{:", mistake=True, form=_UUID),
    _Rule("but for upper and lower case", pc.utf8_lower, string.ascii_uppercase),
    _regex("but for a decimal part", r"^(\d+)\.0+$", r"\1", "."),
    _regex("but for leading zeros", r"(^|[^0-9])0+([0-9])", r"\1\2", "0"),
    _regex("but for dashes, underscores and spaces", r"[-_ \x{2010}-\x{2015}\x{2212}]", "-", "_ "),
    _regex("but for folders", r"^.*[/\\]", "", "/\\", shortens=True),
    _regex("but for the suffix of a file", r"\.[A-Za-z]{1,5}[0-9]?$", "", ".", shortens=True),
)


def _apply_rule(rule: _Rule, missing: Sequence[str], corpus_ids: Ids) -> Respelling | None:
    """Return how many ids meet exactly one known id once both sides are respelled; None for none."""
    written = strings(missing)
    if not rule.may_meet(written, corpus_ids.values):
        return None
    respelled, spelled = rule.respell(written), rule.respell(corpus_ids.values)
    if respelled.equals(written) and spelled.equals(corpus_ids.values):
        return None
    counts = pc.value_counts(spelled.filter(pc.is_in(spelled, value_set=respelled)))
    unambiguous = counts.field("values").filter(numbers(as_numpy(counts.field("counts")) == 1))
    met = np.flatnonzero(as_numpy(pc.is_in(respelled, value_set=unambiguous)))
    if not len(met):
        return None
    first = int(met[0])
    row = int(as_numpy(pc.index_in(respelled.slice(first, 1), value_set=spelled))[0])
    return Respelling(rule.clause, tuple(missing[int(position)] for position in met), corpus_ids[row])


class _Affix(NamedTuple):
    """Text before or after ids: of the known ids if ``added``, else of the missing ones."""

    text: str
    before: bool
    added: bool

    def respell(self, name: str) -> str | None:
        """Return the known id that a missing one represents; None if it lacks the text."""
        if self.added:
            return self.text + name if self.before else name + self.text
        rest = name.removeprefix(self.text) if self.before else name.removesuffix(self.text)
        return rest if rest != name else None

    def splits_number(self, name: str) -> bool:
        """Return whether the text and the rest of the longer id meet with a digit each."""
        number = (self.respell(name) or "") if self.added else name
        cut = len(self.text) if self.before else len(number) - len(self.text)
        return number[cut - 1].isdigit() and number[cut].isdigit()

    def __str__(self) -> str:
        return f"{'with' if self.added else 'without'} '{self.text}' {'before' if self.before else 'after'} them"


def _respell_by_affix(missing: Sequence[str], corpus_ids: Ids) -> Iterator[Respelling]:
    """Yield the ids that meet with a text put before or after the missing ids, or taken away there."""
    sample = missing[:_SAMPLE]
    cuts = ((name[:position], name[position:]) for name in sample for position in range(1, len(name)))
    parts = _existing_ids(itertools.chain.from_iterable(cuts), corpus_ids)
    seen = Counter(affix for name in sample for affix in set(_affixes(name, corpus_ids, parts)))
    tried = {affix: [affix.respell(name) for name in missing] for affix, _ in seen.most_common(_CANDIDATES)}
    present = _existing_ids(
        (spelling for spellings in tried.values() for spelling in spellings if spelling), corpus_ids
    )
    for affix, spellings in tried.items():
        met = [(name, spelling) for name, spelling in zip(missing, spellings, strict=True) if spelling in present]
        if met:
            yield Respelling(str(affix), tuple(name for name, _ in met), met[0][1])


def _existing_ids(names: Iterable[str], corpus_ids: Ids) -> set[str]:
    """Return the names that are known. Hashing the few names, not the known ids, is the cheap direction."""
    distinct = strings(dict.fromkeys(names))
    return set(corpus_ids.values.filter(pc.is_in(corpus_ids.values, value_set=distinct)).to_pylist())


def _affixes(name: str, corpus_ids: Ids, parts: Set[str]) -> Iterator[_Affix]:
    """Yield the texts that distinguish ``name`` from a known id, but none that splits a number (``doc1``, ``doc10``).

    ``parts`` are the known ids among the ends and beginnings of names.
    """
    ends = corpus_ids.values.filter(pc.ends_with(corpus_ids.values, pattern=name))[:_MATCHES].to_pylist()
    starts = corpus_ids.values.filter(pc.starts_with(corpus_ids.values, pattern=name))[:_MATCHES].to_pylist()
    affixes = [_Affix(corpus_id.removesuffix(name), before=True, added=True) for corpus_id in ends]
    affixes += [_Affix(corpus_id.removeprefix(name), before=False, added=True) for corpus_id in starts]
    cuts = [(name[:position], name[position:]) for position in range(1, len(name))]
    affixes += [_Affix(first, before=True, added=False) for first, last in cuts if last in parts]
    affixes += [_Affix(last, before=False, added=False) for first, last in cuts if first in parts]
    yield from (affix for affix in affixes if not affix.splits_number(name))


_LAST_NUMBER = re.compile(r"(\d{1,18})\D*$")
_FEW_DOCUMENTS = 10


def unmet_queries(judged: Ids, query_ids: Ids, source: str) -> str | None:
    """Return why judged queries may be missing from the file ``source``; None for none, or without a sign of why."""
    missing = _missing(judged, query_ids)
    if not missing:
        return None
    verb = "is" if len(missing) == 1 else "are"
    problem = f"{len(missing):,} of {len(judged):,} judged queries {verb} not in {source}"
    spelled = respellings(missing, query_ids)
    if spelled:
        return f"{problem}, and {', and '.join(map(str, spelled))}: write ids alike in both files"
    if 2 * len(missing) > len(judged):
        return f"{problem}, which looks like the judgments of another split (--split, --qrels) or dataset"
    return None


def unmet_documents(judged: Ids, corpus_ids: Ids, source: str) -> str | None:
    """Return why judged documents may be missing from the file ``source``; None for none.

    Ids in another spelling are named; else numbers that all lie beyond the last document's of an ascending file show
    that it was cut.
    """
    missing = _missing(judged, corpus_ids)
    if not missing:
        return None
    count = f"{len(missing):,} of {len(judged):,} judged documents"
    verb = "is" if len(missing) == 1 else "are"
    reason, advice = _reason_and_advice(missing, corpus_ids)
    because = f", and {reason}" if reason else ""
    return f"{count} {verb} not in {source} ({counted(len(corpus_ids), 'document')}){because}: {advice}"


def advice_on_documents(judged: Ids, corpus_ids: Ids) -> str:
    """Return the remedy for missing judged documents, after the reason if there is one."""
    reason, advice = _reason_and_advice(_missing(judged, corpus_ids), corpus_ids)
    return f"{reason}: {advice}" if reason else advice


def _reason_and_advice(missing: Sequence[str], corpus_ids: Ids) -> tuple[str | None, str]:
    spelled = respellings(missing, corpus_ids)
    if spelled:
        return ", and ".join(map(str, spelled)), "write ids alike in both files"
    if _is_cut(missing, corpus_ids):
        last = corpus_ids[len(corpus_ids) - 1]
        after = "it comes" if len(missing) == 1 else "all of them come"
        return f"{after} after its last, '{last}'", "the file was cut; get it whole"
    return None, "get the corpus that the judgments were made on"


def _missing(judged: Ids, ids: Ids) -> list[str]:
    return judged.take(np.flatnonzero(ids.rows_of(judged) < 0))


def _is_cut(missing: Sequence[str], ids: Ids) -> bool:
    """Return whether the numbers at the end of ids rise through the file, and are larger in all missing ids."""
    if len(ids) < _FEW_DOCUMENTS:
        return False
    numbered, lost = ([_LAST_NUMBER.search(name) for name in names] for names in (ids, missing))
    if None in numbered or None in lost:
        return False
    rising, beyond = ([int(match[1]) for match in matches if match is not None] for matches in (numbered, lost))
    return all(first < second for first, second in itertools.pairwise(rising)) and min(beyond) > rising[-1]
