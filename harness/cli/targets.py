"""Files that a command writes: refused before anything runs if they are its inputs or part of its result."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.errors import UsageError
from harness.plan.option_fields import OptionField
from harness.store.result_folder import target_path
from harness.user_path import existing_path

_IN_EXPRESSION = re.compile(r"(?:=|\brun:)([^,;|+=]+)")
"""The value of a parameter, or the file of a run: parts of an expression that may be paths."""
_STREAMS = {1: "standard output", 2: "standard error"}


def check_written_files(fields: Mapping[str, OptionField], values: Mapping[str, object]) -> None:
    """Refuse files that the options name if writing them would destroy an input or part of the result.

    Args:
        fields: the options of the verb, by name; options with ``written`` name output files.
        values: the values of the options that were given.

    Raises:
        UsageError: for an output that is a folder, a device or an input, that lies in an input folder or in the
            result's, and for a standard output or error that is redirected to an input.
    """
    inputs = dict(_inputs(fields, values))
    _check_streams(inputs)
    out = values.get("out")
    result = None if out is None else target_path(Path(str(out))).resolve()  # text if harness.toml has it
    for name, field in fields.items():
        value = values.get(name)
        if not field.option.written or value is None:
            continue
        path = target_path(Path(str(value))).resolve()
        refused = f"{field.flag} {value}"
        if path.is_dir():
            raise UsageError(f"{refused} is a folder", fix="name a file")
        if str(value) == os.devnull:
            raise UsageError(f"{refused} keeps nothing", fix=f"name a file, or leave {field.flag} out")
        if result is not None and path.is_relative_to(result):
            raise UsageError(
                f"{refused} lies in the result folder (--out {out}), whose files only the harness writes",
                fix="name a file outside of it",
            )
        for flag, paths in inputs.items():
            if field.option.replaces not in fields or flag != fields[field.option.replaces].flag:
                _check_input(refused, path, flag, paths)


def _check_input(refused: str, path: Path, flag: str, paths: list[Path]) -> None:
    for source in paths:
        if source.is_dir() and path.is_relative_to(source.resolve()) and path.is_file() and not _was_written(path):
            raise UsageError(f"{refused} lies in the input {flag} {source}", fix="name a file outside of it")
        if source.is_file() and path.exists() and path.samefile(source):
            raise UsageError(f"{refused} is the input {flag} {source}", fix="name another file")


def _was_written(path: Path) -> bool:
    """Return whether an earlier command wrote a file, JUnit XML or a baseline: it is never read as data."""
    with path.open("rb") as stream:
        beginning = stream.read(1000)
    return b"<testsuite" in beginning or b'"kind": "baseline"' in beginning


def _check_streams(inputs: Mapping[str, list[Path]]) -> None:
    """Refuse an output stream that goes to an input file: the shell emptied that file before the harness started."""
    for number, name in _STREAMS.items():
        try:
            stream = os.fstat(number)
        except OSError:  # closed
            continue
        if not stat.S_ISREG(stream.st_mode):
            continue
        for flag, paths in inputs.items():
            for source in paths:
                if os.path.samestat(stream, source.stat()):
                    state = "the shell emptied it before harness started" if stream.st_size == 0 else "it would change"
                    raise UsageError(
                        f"{name} is redirected to '{source}', which is an input ({flag}): {state}",
                        fix="redirect to another file",
                    )


def _inputs(fields: Mapping[str, OptionField], values: Mapping[str, object]) -> Iterator[tuple[str, list[Path]]]:
    """Yield the flag of each option that names existing files or folders, and these."""
    for name, field in fields.items():
        value = values.get(name)
        if value is None or name == "out" or field.option.written:
            continue
        texts = [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
        parts = [part for text in texts for part in (text, *text.split(","), *_IN_EXPRESSION.findall(text)) if part]
        paths = {path: None for path in map(existing_path, parts) if path is not None}
        yield field.flag, list(paths)
