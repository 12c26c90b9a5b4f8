"""What was found out of a task of MTEB besides its texts, kept in the cache: to load it again, MTEB is not imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

import orjson

from harness.storage.cache import JSON, Cache

__all__ = ["About", "Judged", "Known", "recall", "remember"]

_KIND = "judgments"
_SCHEME = 1
_FILE = "judged.json"


class About(NamedTuple):
    """The facts of one subset and split.

    ``key`` names the content, None where it may change under the same name. ``bundled`` tasks are MTEB's own; others
    were registered by the running program.
    """

    task: str
    subset: str
    split: str
    key: Mapping[str, JSON] | None
    bundled: bool
    splits: tuple[str, ...]
    identical_ids: Literal["keep", "drop"]
    provenance: Mapping[str, str]
    language: str | None


class Judged(NamedTuple):
    """Grades by query and document, and the documents that each query is to be ranked among; None without them."""

    qrels: Mapping[str, Mapping[str, float]]
    candidates: Mapping[str, Sequence[str]] | None


class Known(NamedTuple):
    """The facts and the judgments of what was loaded before."""

    about: About
    judged: Judged


def recall(name: str) -> Known | None:
    """Return what :func:`remember` kept under this name with the version of MTEB that is installed; None without."""
    key = _key(name)
    return Cache().read(_KIND, key, _read) if key is not None else None


def remember(name: str, known: Known, *, label: str) -> None:
    """Keep facts and judgments of a task of MTEB's own whose content never changes; others are not kept.

    ``label`` names the dataset to whoever lists the cache.
    """
    key = _key(name)
    if key is None or known.about.key is None or not known.about.bundled:
        return
    content = orjson.dumps([known.about._asdict(), known.judged._asdict()], option=orjson.OPT_SERIALIZE_NUMPY)
    Cache().put(_KIND, key, lambda folder: _write(folder, content), about=label, state="complete")


def _key(name: str) -> Mapping[str, JSON] | None:
    try:
        return {"scheme": _SCHEME, "mteb": name, "library": version("mteb")}
    except PackageNotFoundError:
        return None


def _write(folder: Path, content: bytes) -> None:
    (folder / _FILE).write_bytes(content)


def _read(folder: Path) -> Known:
    facts, judged = orjson.loads((folder / _FILE).read_bytes())
    return Known(About(**{**facts, "splits": tuple(facts["splits"])}), Judged(**judged))
