"""Dataset repositories of the Hugging Face hub: their lists of files, and the files, downloaded once.

``huggingface_hub`` downloads, resumes interrupted downloads and keeps the files in its own cache; ``datasets`` maps
files to configurations and splits. Both are used only for names, so that our own readers read the ids: the libraries'
readers take the ids of CSV and JSON files for numbers and dates.
"""

from __future__ import annotations

import errno
import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from harness.data.progress import Progress
from harness.errors import DataError, UsageError
from harness.loaders.base import OFFLINE, is_offline
from harness.loaders.containers import plain_name
from harness.loaders.records import format_of
from harness.loaders.source import Source
from harness.registry.optional import require
from harness.store.cache import JSON, Cache, file_digest
from harness.store.digests import steady_digest
from harness.store.hub_cache import first_line, hub_client
from harness.store.record_files import decoder
from harness.user_path import user_path
from harness.wording import common_start

_FEATURE = "a dataset of the Hugging Face hub"
_KIND = "hub"
_SCHEME = 3
_STORED = "listing.json"
_README = "README.md"
_EVERYWHERE = (_README, ".gitattributes")
"""Small files; every repository has at least the second."""
_METADATA = b"---"
"""The beginning of a card that says something about configurations or languages."""
_MAX_SUBSETS = 12
_MAX_NAMES = 4
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})(?=[.-])")
_SHA256, _GIT = 64, 40
"""Digits of the hub's checksums: SHA-256 of large files, Git's SHA-1 of small ones."""


class Config(NamedTuple):
    """One configuration: the files of each split, and the names of its columns if the repository's card states them."""

    splits: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...] = ()


class Listing(NamedTuple):
    """The content of a repository: the configurations by name, and the languages that its card names.

    ``unassigned`` are the data files if no card assigns them to configurations.
    """

    configs: Mapping[str, Config]
    languages: tuple[str, ...] = ()
    unassigned: tuple[str, ...] = ()

    def described(self) -> str:
        """Return the first configurations with their splits and known columns, for messages."""
        lines = []
        for name, config in list(self.configs.items())[:_MAX_SUBSETS]:
            columns = f"; columns {', '.join(config.columns)}" if config.columns else ""
            lines.append(f"'{name}' (splits {', '.join(config.splits) or 'none'}{columns})")
        remaining = len(self.configs) - len(lines)
        return ", ".join([*lines, *([f"and {remaining} more"] if remaining > 0 else [])]) or "no configuration"


class UnknownRepositoryError(DataError):
    """The hub has no such repository, or shows it to others only."""


class Repository:
    """A repository in a folder of this machine, as ``hf download --local-dir`` makes them."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        """``name`` is the folder as the user wrote it, ``./FOLDER``: a path forgets the dot."""
        self._folder = user_path(folder)
        self.label = f"hf:{name or folder}"
        if not self._folder.is_dir():
            raise UnknownRepositoryError(self.label, ["there is no such folder"], fix="name a folder, or ORG/NAME")

    @property
    def folder(self) -> Path:
        """Return the local paths of the files."""
        return self._folder

    @property
    def identity(self) -> Mapping[str, str]:
        """Name the content, for keys and for the report; nothing for a folder, whose files' digests do that."""
        return {}

    def source(self) -> Source:
        """Return the files to read from."""
        return Source(self.folder)

    def has(self, name: str) -> bool:
        """Return whether a file is on this machine, whole."""
        return (self.folder / name).is_file()

    @cached_property
    def listing(self) -> Listing:
        """Return the configurations given by the repository's card or by its files' names."""
        return _listing_of(_files_below(self.folder), self.folder)

    def fetch(self, names: Sequence[str], progress: Progress | None) -> None:
        """Download the files that are not there; raises DataError when that cannot be done."""
        error = self.lacking_offline(names)
        if error is not None:
            raise error

    def lacking_offline(self, names: Sequence[str]) -> DataError | None:
        """Return the error of missing files that may not be downloaded; None if all can be had."""
        missing = [f"there is no '{name}'" for name in names if not self.has(name)]
        return DataError(self.label, missing, fix="download the repository") if missing else None

    def paired(self) -> Repository | None:
        """Return the repository of this repository's judgments, named with ``-qrels``; None without one."""
        folder = self.folder.resolve()
        beside = folder.with_name(f"{folder.name}-qrels")
        return Repository(beside) if beside.is_dir() else None


class _Snapshot(Source):
    """One commit's files in the hub's cache, which are links to blobs and may have been put there by any program."""

    def digest(self, member: str) -> str:
        """Return SHA-256 of a file, read once; raises DataError if the hub states another checksum."""
        path = self.path / member
        try:
            blob, digest = path.resolve().name, steady_digest(path)
        except OSError as error:
            raise DataError(self.label(member), [f"cannot be read: {error.strerror}"]) from error
        if len(blob) == _SHA256 and blob != digest:
            problem = f"its checksum is {digest}, and the hub states {blob}"
            raise DataError(self.label(member), [problem], fix="delete it and run the command once more")
        return digest


class HubRepository(Repository):
    """A repository of the hub at one commit.

    Args:
        name: ``ORG/NAME``.
        revision: a branch, a tag or a commit. A branch in the hub's cache is used as cached, so a branch that moved on
            is not noticed.
        network: False to look only at this machine.
    """

    def __init__(self, name: str, revision: str, *, network: bool = True) -> None:
        self.name, self.revision = name, revision
        self.label = f"hf:{name}" if revision == "main" else f"hf:{name}@{revision}"
        self._hub = hub_client("hub", _FEATURE)
        self.cached = self._hub.repository("dataset", name)
        self._network = network and not is_offline() and not self._hub.constants.HF_HUB_OFFLINE

    @property
    def folder(self) -> Path:
        """Return the folder of this commit's files in the hub's cache."""
        return self.cached.snapshot(self.commit)

    @property
    def identity(self) -> Mapping[str, str]:
        """Return the repository and its commit."""
        return {"repository": self.name, "commit": self.commit}

    def source(self) -> Source:
        """Return this commit's files in the hub's cache."""
        return _Snapshot(self.folder)

    def has(self, name: str) -> bool:
        """Return whether a file is in the hub's cache, which names only complete files."""
        commit = vars(self).get("commit") or self.cached.commit(self.revision)
        return commit is not None and (self.cached.snapshot(commit) / name).is_file()

    @cached_property
    def commit(self) -> str:
        """Return the revision's commit: from the hub's cache, or else from the hub."""
        cached = self.cached.commit(self.revision)
        if cached is not None:
            return cached
        info = self._info(self.revision)
        file_names = {sibling.rfilename for sibling in info.siblings or []}
        first = next((name for name in _EVERYWHERE if name in file_names), None)
        if first is not None:  # downloading it makes the hub's cache remember the branch
            self._download(first, self.revision)
        return str(info.sha)

    @cached_property
    def listing(self) -> Listing:
        """Return the configurations, remembered in the harness's cache: a commit never changes."""
        cache, key = Cache(), self._key(holds="listing")
        stored = cache.get(_KIND, key, _stored_listing)
        if stored is not None:
            return stored
        if not self._network:
            return self._listing_of_snapshot()
        names = [sibling.rfilename for sibling in self._info(self.commit).siblings or []]
        if _README in names:
            self.fetch([_README], None)
        listing = _listing_of(names, self.folder)
        self._remember(key, listing, about=self.label)
        return listing

    def local_files(self) -> frozenset[Path]:
        """Return this commit's files on this machine, except files that every repository has."""
        if self.cached.commit(self.revision) is None:
            return frozenset()
        return frozenset(self.folder / name for name in _files_below(self.folder) if name not in _EVERYWHERE)

    def _key(self, *, holds: str) -> Mapping[str, JSON]:
        return {"scheme": _SCHEME, "repository": self.name, "commit": self.commit, "holds": holds}

    def _remember(self, key: Mapping[str, JSON], content: object, *, about: str) -> None:
        def write(folder: Path) -> None:
            (folder / _STORED).write_bytes(msgspec.json.encode(content))

        Cache().put(_KIND, key, write, about=about)

    def _listing_of_snapshot(self) -> Listing:
        """Return the local files of a commit that was downloaded with the hub's own tools."""
        names = _files_below(self.folder)
        if not names:
            raise self._missing_files()
        lacking = _lacking_shards(names)
        if lacking:
            raise self._missing_files(*lacking)
        return _listing_of(names, self.folder)

    def paired(self) -> Repository | None:
        """Return ``ORG/NAME-qrels``, where BEIR keeps the judgments; None if the hub has no such repository.

        A missing repository is remembered for this commit, so that loading needs no network the next time.
        """
        cache, key = Cache(), self._key(holds="no qrels elsewhere")
        if cache.holds(_KIND, key):
            return None
        other = HubRepository(f"{self.name}-qrels", "main", network=self._network)
        try:
            _ = other.commit
        except UnknownRepositoryError:
            self._remember(key, {}, about=f"{self.label}: no qrels elsewhere")
            return None
        return other

    def fetch(self, names: Sequence[str], progress: Progress | None) -> None:
        """Download the files that are not there, each whole or not at all.

        Raises DataError: for a file that is nowhere, a download that fails, and one whose checksum is wrong.
        """
        error = self.lacking_offline(names)
        if error is not None:
            raise error
        missing = [name for name in names if not self.has(name)]
        if missing and progress is not None:
            progress.start(f"downloading {self.name}", len(missing))
        for name in missing:
            self._verify(self._download(name, self.commit), name)
            if progress is not None:
                progress.advance(1)

    def lacking_offline(self, names: Sequence[str]) -> DataError | None:
        """Return the error of missing files if the network may not be used; else None."""
        missing = [] if self._network else [name for name in names if not self.has(name)]
        return self._missing_files(*missing) if missing else None

    def absent_offline(self) -> DataError | None:
        """Return the error of a repository without local files if the network may not be used; else None."""
        return self._missing_files() if not self._network and self.cached.commit(self.revision) is None else None

    def _download(self, name: str, revision: str) -> Path:
        with self._translated(f"'{name}'"):
            return Path(self._hub.api.hf_hub_download(self.name, name, repo_type="dataset", revision=revision))

    def _info(self, revision: str) -> Any:
        if not self._network:
            raise self._missing_files()
        with self._translated("the list of its files"):
            return self._hub.api.HfApi().dataset_info(self.name, revision=revision)

    def _verify(self, path: Path, name: str) -> None:
        """Compare a file that was just downloaded with its checksum at the hub, and remove it if they differ."""
        blob = path.resolve()
        if len(blob.name) == _SHA256:
            checksum = file_digest(blob)
        elif len(blob.name) == _GIT:
            content = blob.read_bytes()
            checksum = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        else:
            return
        if checksum != blob.name:
            path.unlink()
            blob.unlink(missing_ok=True)
            raise DataError(
                self.label,
                [f"the checksum of '{name}' is {checksum}, and the hub states {blob.name}"],
                fix="it was removed again; run the command once more",
            )

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Turn the errors of the hub's client into ours."""
        errors, page = self._hub.errors, f"{self._hub.constants.ENDPOINT}/datasets/{self.name}"
        try:
            yield
        except errors.GatedRepoError as error:
            fix = f"accept its terms on {page}, then log in: `hf auth login`, or HF_TOKEN=…"
            raise DataError(self.label, ["the hub gives it only to users who accepted its terms"], fix=fix) from error
        except errors.RepositoryNotFoundError as error:
            problem = f"the hub has no dataset '{self.name}', or keeps it private"
            fix = "look at its name; a private one needs `hf auth login`, or HF_TOKEN=…"
            raise UnknownRepositoryError(self.label, [problem], fix=fix) from error
        except errors.RevisionNotFoundError as error:
            problem = f"the hub's dataset '{self.name}' has no revision '{self.revision}'"
            raise UsageError(problem, fix=f"its branches and commits are on {page}/commits/main") from error
        except errors.HFValidationError as error:
            raise UsageError(f"{self.label}: {first_line(error)}", fix="a repository is called ORG/NAME") from error
        except errors.LocalEntryNotFoundError as error:  # the hub was not reached
            raise self._failed(action, error) from error
        except errors.EntryNotFoundError as error:
            raise DataError(self.label, [f"the hub has no file {action}"], fix=f"look at {page}/tree/main") from error
        except self._hub.failures as error:
            raise self._failed(action, error) from error

    def _failed(self, action: str, error: Exception) -> DataError:
        if getattr(error, "errno", None) == errno.ENOSPC:
            fix = f"make room on the disk of '{self._hub.constants.HF_HUB_CACHE}', or set HF_HUB_CACHE to another disk"
            return DataError(self.label, [f"{action} was not downloaded: the disk is full"], fix=fix)
        fix = "run the command again: it continues where it stopped; " + self._download_command()
        problem = f"{action} was not downloaded from {self._hub.constants.ENDPOINT}: {first_line(error)}"
        return DataError(self.label, [problem], fix=fix)

    def _missing_files(self, *names: str) -> DataError:
        """Return the error for files that may not be downloaded; without names for all of the repository."""
        variable = OFFLINE if is_offline() else "HF_HUB_OFFLINE" if self._hub.constants.HF_HUB_OFFLINE else None
        why = f" ({variable} is set)" if variable is not None else ""
        problem = f"not on this machine, and the network may not be used{why}"
        problems = [f"'{name}' is {problem}" for name in names] or [f"it is {problem}"]
        return DataError(self.label, problems, fix=self._download_command(*names))

    def _download_command(self, *names: str) -> str:
        revision_option = "" if self.revision == "main" else f" --revision {self.revision}"
        several = f" --include '{common_start(names)}*'"
        files = several if len(names) > _MAX_NAMES else "".join(f" {name}" for name in names)
        return (
            f"on a machine with network access `hf download {self.name}{files} --repo-type "
            f"dataset{revision_option}` fetches it; "
            f"its folder belongs at '{self.cached.folder}'"
        )


def _files_below(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def _lacking_shards(names: Iterable[str]) -> list[str]:
    """Return the parts that numbered files, ``corpus-00000-of-00003.parquet``, say there are and that are not there."""
    present = set(names)
    expected = set[str]()
    for name in present:
        shard = _SHARD.search(name)
        if shard is not None:
            ends = name[: shard.start(1)], name[shard.end(1) :]
            expected.update(f"{ends[0]}{number:05}{ends[1]}" for number in range(int(shard[2])))
    return sorted(expected - present)


def _stored_listing(folder: Path) -> Listing:
    return decoder(Listing).decode((folder / _STORED).read_bytes())


def _listing_of(names: Iterable[str], folder: Path) -> Listing:
    """Return the configurations of files with these names, by the card in ``folder`` or else only by the names.

    ``datasets`` finds them as in a local repository: in a folder of empty files and the card.
    """
    datasets: Any = require("datasets", extra="hub", feature=_FEATURE)
    yaml: Any = require("yaml", extra="hub", feature=_FEATURE)
    safe = [name for name in names if ".." not in PurePosixPath(name).parts and not PurePosixPath(name).is_absolute()]
    with tempfile.TemporaryDirectory(prefix="harness-hub-") as temporary:
        # no file may have this name: a loading script is called like its folder
        root = Path(temporary).resolve() / "repository"
        root.mkdir()
        for name in safe:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if name != _README:
                (root / name).touch()
        card = (folder / _README).read_bytes() if _README in safe else b""
        if card.startswith(_METADATA):
            (root / _README).write_bytes(card)
        try:
            configs = datasets.get_dataset_config_names(str(root))
            if configs == ["default"] and (beir := _beir_configs(safe)):
                return Listing(beir, _languages(root))
            unassigned = () if b"configs:" in card else tuple(name for name in safe if format_of(name) is not None)
            return Listing({name: _config(datasets, root, name) for name in configs}, _languages(root), unassigned)
        except FileNotFoundError:  # no file has an ending that data have
            return Listing({}, _languages(root))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise DataError(str(folder / _README), [f"is not a card of a dataset: {first_line(error)}"]) from error


def _config(datasets: Any, root: Path, name: str) -> Config:
    cache = str(root.parent / "cache")
    builder = datasets.load_dataset_builder(str(root), name, cache_dir=cache)
    splits = {
        str(split): tuple(Path(file).relative_to(root).as_posix() for file in files)
        for split, files in (builder.config.data_files or {}).items()
        if files
    }
    return Config(splits, tuple(builder.info.features or ()))


def _beir_configs(names: Sequence[str]) -> Mapping[str, Config]:
    """Return the parts of a repository in BEIR's layout, whose card names no configurations; nothing for another."""
    parts: dict[str, dict[str, tuple[str, ...]]] = {}
    for name in names:
        path = PurePosixPath(plain_name(name))
        if format_of(name) is None:
            continue
        if len(path.parts) == 1 and path.stem in ("corpus", "queries"):
            parts.setdefault(path.stem, {})[path.stem] = (name,)
        elif len(path.parts) == 2 and path.parts[0] == "qrels":
            parts.setdefault("qrels", {})[path.stem] = (name,)
    return {name: Config(splits) for name, splits in sorted(parts.items())} if "corpus" in parts else {}


def _languages(root: Path) -> tuple[str, ...]:
    """Return the codes of the languages that a repository's card names."""
    cards: Any = require("huggingface_hub", extra="hub", feature=_FEATURE)
    if not (root / _README).is_file():
        return ()
    languages = cards.DatasetCard.load(root / _README, ignore_metadata_errors=True).data.get("language")
    return (languages,) if isinstance(languages, str) else tuple(str(code) for code in languages or ())
