"""Contract of an engine that searches indexes made outside the harness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from harness.data.inputs import Inputs
from harness.engines.interface import EngineInterface, ExpectedContent, IndexHandle
from harness.engines.mapped_inputs import expected_content
from harness.errors import BackendError, RejectedInputError
from harness.registry.parameters import ParameterValue
from harness.testing.mapped_samples import mapped, mapped_counts
from harness.testing.samples import RecordingProgress, random_texts, word
from harness.testing.suite import Base, has_external_indexes, offers
from harness.text import count_terms, create_analyzer

_TEXTS = random_texts(31, 60)
_QUERIES = [word(0), f"{word(1)} {word(3)}", f"{word(2)} {word(2)} {word(7)}", "unheard"]


class ExternalIndexContract(Base):
    """Tests of engines with the capability ``external``."""

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Make a user's index of ``documents`` below ``folder``, and return the parameters that attach to it.

        Override it if users would not name a folder built by the engine with ``path``. An index on a server leaves the
        folder empty.
        """
        with self.built(folder, documents):
            pass
        return {"external": True, "path": str(folder)}

    def test_external_is_what_the_class_is(self) -> None:
        """An engine declares ``external`` if and only if it has the methods."""
        declared, offered = self.engine.capabilities.external, offers(self.engine, "attach")
        assert declared == offered, "'external' is declared without 'attach', or the other way round"

    @has_external_indexes
    def test_external_index_answers_like_a_new_one(self, tmp_path: Path) -> None:
        """Searches return the same documents with the same scores, under the ids that the index keeps."""
        documents, queries = self.inputs(_TEXTS, _QUERIES)
        with self.built(_new(tmp_path / "new"), documents) as (engine, _):
            fresh = self.search(engine, queries, len(_TEXTS), 20)
        with self._attached(tmp_path, documents) as (engine, attached):
            assert sorted(attached.ids) == sorted(documents.ids), "the index names other documents"
            hits = self.search(engine, queries, len(_TEXTS), 20)
            assert engine.storage().index_bytes != 0, "an external index takes no space"
        self.assert_repeated(fresh, hits._replace(rows=documents.ids.rows_of(attached.ids)[hits.rows]), "external")

    @has_external_indexes
    def test_external_index_is_left_as_it_was(self, tmp_path: Path) -> None:
        """Attaching, comparing, searching and closing change no file of the user's, and the folder is named."""
        documents, queries = self.inputs(_TEXTS, _QUERIES)
        parameters = self.external_index(_new(tmp_path / "theirs"), documents)
        before = _digests(tmp_path / "theirs")
        with self._opened_external(tmp_path, parameters) as (engine, attached):
            source = engine.source
            engine.mismatch(_content(attached, documents, queries, _TEXTS), RecordingProgress())
            self.search(engine, queries, len(_TEXTS), 10)
        assert bool(before) == (source is not None), "an index in a folder has a source, whose files are hashed"
        assert source is None or source.is_relative_to(tmp_path / "theirs"), "the source is not the user's folder"
        after = _digests(tmp_path / "theirs")
        changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        assert not changed, f"files of the user's index changed: {changed}"

    @has_external_indexes
    def test_external_index_of_the_collection_is_proven(self, tmp_path: Path) -> None:
        """An index made from the collection, or from a part of it, can be compared with a reference."""
        documents, queries = self.inputs(_TEXTS, _QUERIES)
        with self._attached(tmp_path, documents) as (engine, attached):
            reason = engine.mismatch(_content(attached, documents, queries, _TEXTS), RecordingProgress())
        assert reason is None, f"no reference for an index made of the same documents: {reason}"

    @has_external_indexes
    def test_external_index_of_other_texts_is_not_proven(self, tmp_path: Path) -> None:
        """Documents that changed after they were indexed are noticed, or refused."""
        documents, queries = self.inputs(_TEXTS, _QUERIES)
        changed = [*_TEXTS[:-1], f"{_TEXTS[-1]} {word(0)} {word(1)}"]
        with self._attached(tmp_path, documents) as (engine, attached):
            content = _content(attached, self.inputs(changed, _QUERIES)[0], queries, changed)
            try:
                reason = engine.mismatch(content, RecordingProgress())
            except RejectedInputError:
                return
        assert reason, "a document changed, and the index is taken for an index of the collection"

    @has_external_indexes
    def test_external_index_that_is_damaged_is_refused(self, tmp_path: Path) -> None:
        """Emptied files raise a harness error when the index is attached; a server's index has no files here."""
        documents, _ = self.inputs(_TEXTS, _QUERIES)
        parameters = self.external_index(_new(tmp_path / "theirs"), documents)
        files = [path for path in (tmp_path / "theirs").rglob("*") if path.is_file()]
        for path in files:
            path.write_bytes(b"")
        if not files:
            return
        with pytest.raises(BackendError, match=r"\w"), self._opened_external(tmp_path, parameters):
            pass

    @contextmanager
    def _attached(self, tmp_path: Path, documents: Inputs) -> Iterator[tuple[EngineInterface, IndexHandle]]:
        with self._opened_external(tmp_path, self.external_index(_new(tmp_path / "theirs"), documents)) as opened:
            yield opened

    @contextmanager
    def _opened_external(
        self, tmp_path: Path, parameters: Mapping[str, ParameterValue]
    ) -> Iterator[tuple[EngineInterface, IndexHandle]]:
        engine = self.engine({**self.parameters, **parameters})
        try:
            attached = engine.attach(_new(tmp_path / "work"), RecordingProgress())
            self.record(attached.info)
            yield engine, attached
        finally:
            engine.close()


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


def _content(attached: IndexHandle, documents: Inputs, queries: Inputs, texts: Sequence[str]) -> ExpectedContent:
    """Return the argument of ``mismatch`` for a collection of ``documents``."""
    terms = mapped_counts(count_terms(create_analyzer("whitespace"), [list(texts)], _QUERIES))
    return expected_content(documents.ids.rows_of(attached.ids), mapped(documents), mapped(queries), terms)
