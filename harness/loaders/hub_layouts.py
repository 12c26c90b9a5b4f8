"""Repositories whose files no configuration names, because a loading script read them, which the hub no longer runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from harness.errors import UnknownNameError, UsageError
from harness.loaders.hub_repository import Repository


@dataclass(frozen=True)
class Part:
    """Files of documents, queries, judgments or candidates.

    ``tabbed`` files have no header: an id, a tab and a text on each line. ``md5`` is the required digest of a file.
    """

    repository: Repository
    names: tuple[str, ...]
    tabbed: bool = False
    md5: str | None = None


@dataclass(frozen=True)
class HubParts:
    """The parts of a dataset by split; parts that no split divides have one split, of any name.

    ``candidates`` are the documents that each query is ranked among, ``unread`` configurations that change the task's
    queries and are not read here. ``facts`` go into the report.
    """

    documents: Mapping[str, Part]
    queries: Mapping[str, Part] = field(default_factory=dict)
    judgments: Mapping[str, Part] = field(default_factory=dict)
    candidates: Mapping[str, Part] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    default_split: str | None = None
    language: str | None = None
    identical_ids: Literal["keep", "drop"] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Language:
    """A language of a collection: how its files spell it, in how many files its documents are, and its splits."""

    word: str
    files: int = 1
    splits: tuple[str, ...] = ("train", "dev")


@dataclass(frozen=True)
class FileLayout:
    """Places of the files of a collection in several languages.

    ``documents``, ``queries`` and ``judgments`` are names of files with ``{language}``, ``{split}`` and ``{number}``.
    ``corpus`` is the repository of the documents, if it is another. With ``pairs`` documents and queries may be in two
    languages, ``de-en``: documents first. ``md5`` holds the digest of each split's judgments.
    """

    documents: str
    queries: str
    judgments: str
    languages: Mapping[str, Language]
    default_split: str
    corpus: str | None = None
    tabbed_documents: bool = False
    pairs: bool = False
    identical_ids: Literal["keep", "drop"] | None = None
    md5: Mapping[str, str] = field(default_factory=dict)

    def parts(self, repository: Repository, config: str, other: Callable[[str], Repository]) -> HubParts:
        """Return the parts of one configuration, a language or a pair; ``other`` opens another repository by name."""
        of_documents, of_queries = self._pair(repository.label, config)
        document_language, query_language = self.languages[of_documents], self.languages[of_queries]
        corpus = repository if self.corpus is None else other(self.corpus)
        names = tuple(
            self.documents.format(language=document_language.word, number=n) for n in range(document_language.files)
        )

        def files(pattern: str, split: str) -> tuple[str, ...]:
            return (pattern.format(language=query_language.word, split=split),)

        return HubParts(
            {"corpus": Part(corpus, names, self.tabbed_documents)},
            {name: Part(repository, files(self.queries, name), tabbed=True) for name in query_language.splits},
            {
                name: Part(repository, files(self.judgments, name), md5=self.md5.get(name))
                for name in query_language.splits
            },
            default_split=self.default_split,
            language=of_documents if of_documents == of_queries else None,
            identical_ids=self.identical_ids,
            facts={}
            if of_documents == of_queries
            else {"languages": f"documents {of_documents}, queries {of_queries}"},
        )

    def _pair(self, label: str, config: str) -> tuple[str, str]:
        if not config:
            example = f"{label}:{'de' if 'de' in self.languages else next(iter(self.languages))}"
            both = ", or documents and queries in two, as :de-en" if self.pairs else ""
            raise UsageError(f"{label} is in several languages", fix=f"name one, as {example}{both}")
        words = re.split("-", config.lower(), maxsplit=1) if self.pairs else [config.lower()]
        for word in words:
            if word not in self.languages:
                raise UnknownNameError(f"language of {label}", word, self.languages)
        return words[0], words[-1]


def _miracl(counts: str, *, only_dev: tuple[str, ...]) -> Mapping[str, Language]:
    """Return MIRACL's languages of ``ar 5, …``, the number of files that hold the passages of each."""
    pairs = (entry.split() for entry in counts.split(", "))
    return {code: Language(code, int(n), ("dev",) if code in only_dev else ("train", "dev")) for code, n in pairs}


_MIRACL = FileLayout(
    corpus="miracl/miracl-corpus",
    documents="miracl-corpus-v1.0-{language}/docs-{number}.jsonl.gz",
    queries="miracl-v1.0-{language}/topics/topics.miracl-v1.0-{language}-{split}.tsv",
    judgments="miracl-v1.0-{language}/qrels/qrels.miracl-v1.0-{language}-{split}.tsv",
    languages=_miracl(
        "ar 5, bn 1, de 32, en 66, es 21, fa 5, fi 4, fr 30, hi 2, id 3, ja 14, ko 3, ru 20, sw 1, te 2, th 2, yo 1, "
        "zh 10",
        only_dev=("de", "yo"),
    ),
    default_split="dev",
    # 203 judgments of dev and 540 of train name a passage that has its query's id, and many of them are relevant
    identical_ids="keep",
)
_MMARCO_SPLITS = ("dev.small", "dev")
_MMARCO = FileLayout(
    documents="data/google/collections/{language}_collection.tsv",
    queries="data/google/queries/dev/{language}_queries.{split}.tsv",
    judgments="data/qrels.{split}.tsv",
    languages={
        code: Language(word, splits=_MMARCO_SPLITS)
        for code, word in {
            "ar": "arabic",
            "de": "german",
            "en": "english",
            "es": "spanish",
            "fr": "french",
            "hi": "hindi",
            "id": "indonesian",
            "it": "italian",
            "ja": "japanese",
            "nl": "dutch",
            "pt": "portuguese",
            "ru": "russian",
            "vi": "vietnamese",
            "zh": "chinese",
        }.items()
    },
    default_split="dev.small",  # the split of the published figures
    tabbed_documents=True,
    pairs=True,
    # the judgments of MS MARCO's passages: one set for every language
    md5={"dev": "9157ccaeaa8227f91722ba5770787b16", "dev.small": "38a80559a561707ac2ec0f150ecd1e8a"},
)

LAYOUTS: Mapping[str, FileLayout] = MappingProxyType(
    {"miracl/miracl": _MIRACL, "macavaney/miracl-noauth": _MIRACL, "unicamp-dl/mmarco": _MMARCO}
)
"""Repository -> layout of its files. The second has MIRACL's topics and qrels without terms to accept."""
