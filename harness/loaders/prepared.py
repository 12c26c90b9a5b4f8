"""Texts made ready: parsed once into an Arrow IPC file in the cache, memory-mapped from then on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.data.texts import (
    TEXT_SCHEMA,
    ColumnDigest,
    JoinRule,
    TitleCounter,
    TitleCounts,
    joined,
    joined_digest,
    note_duplicates,
)
from harness.data.types import Ids, Int64Array
from harness.loaders.base import TextSource
from harness.store.cache import JSON, Cache
from harness.store.cache_entries import PREPARED, WORK, note_user
from harness.store.columns import load_table
from harness.store.scratch import scratch_folder

_SCHEME = 4
_TABLE, _FACTS = "texts.arrow", "facts.json"


class Texts(NamedTuple):
    """Prepared documents or queries.

    ``digest`` and ``path`` as in :class:`harness.data.types.Corpus`; ``notes`` list accepted oddities; ``titles``
    counts the titles among the records.
    """

    ids: Ids
    texts: pa.ChunkedArray
    digest: str
    path: Path
    notes: tuple[str, ...]
    titles: TitleCounts


def prepare_texts(
    source: TextSource,
    rule: JoinRule,
    cache: Cache,
    progress: Progress | None,
    total: int | None = None,
    *,
    about: str = "",
) -> Texts:
    """Return the texts of a source, from the cache when the same content was prepared before.

    A source without a key is read each time, and stored by its content. ``total`` is the expected number of records,
    for ``progress``; ``about`` names the dataset in lists of the cache. Raises DataError with every problem of the
    source; one without any record is an error too.
    """
    if source.key is None:
        with scratch_folder(cache.folder(WORK), PREPARED) as folder:
            content = _build(folder, source, rule, progress, total)
            key: dict[str, JSON] = {"scheme": _SCHEME, "content": content}

            def move(entry: Path) -> None:
                for name in (_TABLE, _FACTS):
                    shutil.move(folder / name, entry / name)

            entry = cache.get_or_build("texts", key, move, about=about)
    else:
        key = {"scheme": _SCHEME, **source.key, "join": [*rule.fields, rule.separator]}

        def build(folder: Path) -> None:
            with source.unchanged():
                _build(folder, source, rule, progress, total)

        entry = cache.get_or_build("texts", key, build, about=about)
    note_user(entry, about)
    table = load_table(entry / _TABLE)
    facts = orjson.loads((entry / _FACTS).read_bytes())
    ids, titles = Ids(table.column("id").combine_chunks()), TitleCounts(**facts["titles"])
    return Texts(ids, table.column("text"), facts["digest"], entry / _TABLE, tuple(facts["notes"]), titles)


def _build(folder: Path, source: TextSource, rule: JoinRule, progress: Progress | None, total: int | None) -> str:
    """Write the table of ids and texts and the facts about it; return its digest."""
    problems, notes = Problems(source.label, source.unit), list[str]()
    of_ids, of_texts = ColumnDigest(), ColumnDigest()
    lines, ids, count = list[Int64Array](), list[pa.StringArray](), 0
    titles = TitleCounter()
    if progress is not None:
        progress.start(f"reading {source.name}", total)
    with pa.OSFile(str(folder / _TABLE), "wb") as sink, pa.ipc.new_file(sink, TEXT_SCHEMA) as writer:
        for batch in source.read(problems, notes):
            if not len(batch.ids):
                continue
            numbers = np.arange(count + 1, count + 1 + len(batch.ids))
            count += len(batch.ids)
            if batch.lines is not None:
                numbers = np.array(batch.lines, dtype=np.int64)
            columns = joined(batch, numbers, rule, problems)
            titles.add(batch)
            of_ids.update(columns.column("id"))
            of_texts.update(columns.column("text"))
            writer.write_batch(columns)
            lines.append(numbers[: columns.num_rows])
            ids.append(columns.column("id"))
            if progress is not None:
                progress.advance(len(batch.ids))
    if ids:
        note_duplicates(pa.concat_arrays(ids), np.concatenate(lines), problems)
    elif not problems.count:
        problems.add(None, "the file holds no records")
    problems.raise_if_any()
    digest = joined_digest(of_ids, of_texts)
    facts = {"digest": digest, "notes": notes, "titles": titles.counts(rule)._asdict()}
    (folder / _FACTS).write_bytes(orjson.dumps(facts))
    return digest
