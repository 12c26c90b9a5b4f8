"""Files of a job for a node that does not see the folders of the command: through Ray's object store, and back.

All files and folders that a job's record names travel there, and files that the job made or changed travel back: its
result, vectors, an index; finished chunks of an encoding while it runs. Only the cache of scores stays behind: the node
has an empty one.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.encoders.stream import MADE, PROGRESS
from harness.store.columns import load_column, save_column
from harness.store.record_files import load, save
from harness.worker.dispatch import job_class
from harness.worker.jobs import DenseSearchJob, EncodeJob, RerankJob


class ReturnedFiles(NamedTuple):
    """A file as the job left it, by its path on the command's machine; None if the job removed it.

    With a ``start`` the content is the file from that byte on.
    """

    path: str
    content: npt.NDArray[np.uint8] | None
    start: int = 0


class SentFiles(NamedTuple):
    """The files of a job as references to objects, by path, and their folders, including empty ones.

    ``roots`` are the files and folders that the job names, without any that lie in others.
    """

    folder: str
    roots: tuple[str, ...]
    folders: tuple[str, ...]
    content: Mapping[str, Any]

    def unpack(self, target: Path, get: Callable[[Any], npt.NDArray[np.uint8]]) -> UnpackedFiles:
        """Write all files below ``target``, with the job's record naming them there."""
        local_roots = {Path(root): target / str(number) / Path(root).name for number, root in enumerate(self.roots)}
        unpacked = UnpackedFiles(local_roots, target / "absent", [], {}, {})
        unpacked.absent.mkdir()
        for local_root in local_roots.values():
            local_root.parent.mkdir()
        for name in self.folders:
            unpacked.local_path(Path(name)).mkdir(parents=True, exist_ok=True)
        for path, reference in self.content.items():
            get(reference).tofile(unpacked.local_path(Path(path)))
        folder = unpacked.local_path(Path(self.folder))
        job = load(folder, job_class(folder))
        unpacked.encodings.extend(part.target for part in (job.parts if isinstance(job, EncodeJob) else ()))
        save(folder, _map_paths(job, unpacked.local_path))
        unpacked.states.update(unpacked.look())
        return unpacked


class UnpackedFiles(NamedTuple):
    """The paths of a job's files on its node, by their paths elsewhere, and their states before it ran.

    ``absent`` is a folder for paths that the job names but that were not sent: missing ones, and a cache. ``encodings``
    are the folders that an encoding writes, by the command's paths, and ``returned`` how many bytes of their columns
    were sent back while the job ran.
    """

    local_roots: Mapping[Path, Path]
    absent: Path
    encodings: list[Path]
    states: dict[Path, tuple[int, int]]
    returned: dict[Path, int]

    def local_path(self, path: Path) -> Path:
        """Return the path on this node for a path of the command."""
        for root, local_root in self.local_roots.items():
            if path.is_relative_to(root):
                return local_root / path.relative_to(root)
        folder = self.absent / hashlib.sha256(bytes(path.parent)).hexdigest()  # several files may have the same name
        folder.mkdir(exist_ok=True)
        return folder / path.name

    def look(self) -> dict[Path, tuple[int, int]]:
        """Return size and time of every file, by its path on the command's machine."""
        states = {}
        for root, local_root in self.local_roots.items():
            for file in _files(local_root):
                states[root if file == local_root else root / file.relative_to(local_root)] = _state(file)
        return states

    def finished_chunks(self) -> Iterator[ReturnedFiles]:
        """Yield the encodings that are complete since the last call; of others added chunks, and then their record.

        A column is sent whole when the job first adds to it: the job has cut off an earlier run's unrecorded rows.
        """
        for folder in self.encodings:
            local_folder = self.local_path(folder)
            if (local_folder / MADE).is_file():
                files = [file for file in local_folder.iterdir() if file.is_file() and file.name != PROGRESS]
                yield from self._changed(folder / file.name for file in files)
                continue
            record = folder / PROGRESS
            try:
                state = _state(local_folder / PROGRESS)
                content = np.fromfile(
                    local_folder / PROGRESS, dtype=np.uint8
                )  # before the columns: they hold as much or more
            except FileNotFoundError:
                continue  # it has not begun, or is complete by now
            if state == self.states.get(record):
                continue
            # rows are only ever appended, so the bytes that came back before are still the same
            for column in (folder / file.name for file in local_folder.glob("*.npy")):
                start = self.returned.get(column, 0)
                added = np.fromfile(self.local_path(column), dtype=np.uint8, offset=start)
                self.returned[column] = start + len(added)
                yield ReturnedFiles(str(column), added, start)
            self.states[record] = state
            yield ReturnedFiles(str(record), content)

    def changes(self) -> Iterator[ReturnedFiles]:
        """Yield files that the job made, changed or removed; the last written comes last, as it may say 'finished'."""
        now = self.look()
        yield from self._changed(now)
        for path in self.states.keys() - now.keys():
            yield ReturnedFiles(str(path), None)

    def _changed(self, paths: Iterable[Path]) -> Iterator[ReturnedFiles]:
        """Yield files that are others than before or than came back, in the order in which they were written."""
        states = {path: _state(self.local_path(path)) for path in paths}
        for path in sorted(states, key=lambda path: states[path][1]):
            if self.states.get(path) != states[path]:
                self.states[path] = states[path]
                yield ReturnedFiles(str(path), np.fromfile(self.local_path(path), dtype=np.uint8))


def send_files(
    folder: Path, put: Callable[[npt.NDArray[np.uint8]], Any], sent: dict[Path, tuple[tuple[int, int], Any]]
) -> SentFiles:
    """Put the files of the job in ``folder`` into the object store; of a file of vectors only the rows that it reads.

    ``sent`` are sizes, times and references of files that were put before: a corpus is put once. References of files
    that are deleted or have changed are dropped, which frees their memory.
    """
    for path in [path for path in tuple(sent) if not path.exists()]:
        sent.pop(path, None)
    paths = [folder]
    job = load(folder, job_class(folder))
    if isinstance(job, DenseSearchJob) and job.vectors.parent != folder:
        rows = folder / "rows.npy"
        save_column(rows, load_column(job.vectors)[job.start : job.stop])
        job = replace(job, vectors=rows, start=0, stop=job.stop - job.start)
        save(folder, job)

    def note(path: Path) -> Path:
        paths.append(path)
        return path

    _map_paths(job, note)  # notes every path that the job names, and changes none
    cache = job.cache if isinstance(job, RerankJob) else None
    present = {path for path in paths if path.exists() and path != cache}
    roots = [path for path in sorted(present) if not any(parent in present for parent in path.parents)]
    content = {}
    for file in (file for root in roots for file in _files(root)):
        state = _state(file)
        state_before, reference = sent.get(file, (None, None))
        if state_before != state:
            # as a plain array: Ray copies its memory, and would pickle one of the class memmap
            mapped = np.memmap(file, dtype=np.uint8, mode="r") if state[0] else np.empty(0, np.uint8)
            reference = put(np.asarray(mapped))
        if not file.is_relative_to(folder):  # a job owns its files exclusively
            sent[file] = state, reference
        content[str(file)] = reference
    folders = [path for root in roots for path in (root, *root.rglob("*")) if path.is_dir()]
    return SentFiles(str(folder), tuple(map(str, roots)), tuple(map(str, folders)), content)


def write_returned(file: ReturnedFiles) -> None:
    """Write or remove a file as a job left it on its node."""
    path = Path(file.path)
    if file.content is None:
        path.unlink(missing_ok=True)
        return
    if file.start:
        with path.open("r+b") as stream:
            stream.seek(file.start)
            stream.write(file.content.data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # renamed when whole: a command that is killed here leaves no file that looks finished
    unfinished = path.with_name(f"{path.name}.part")
    file.content.tofile(unfinished)
    shutil.move(unfinished, path)


def _state(file: Path) -> tuple[int, int]:
    """Return size and time of a file."""
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns


def _files(root: Path) -> list[Path]:
    return [root] if root.is_file() else [path for path in root.rglob("*") if path.is_file()]


def _map_paths(value: Any, change: Callable[[Path], Path]) -> Any:
    """Return a job, or a value in it, with other paths."""
    if isinstance(value, Path):
        return change(value)
    if type(value) is tuple:  # a named tuple is made from its fields, not from one iterable
        return tuple(_map_paths(part, change) for part in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _map_paths(getattr(value, field.name), change) for field in fields(value)})
    return value
