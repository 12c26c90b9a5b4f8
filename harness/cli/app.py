"""The command ``harness``: the only module that turns errors into messages and exit codes.

A verb writes results to stdout and everything else to stderr, and returns, raises HarnessError, or raises
click's ``Exit`` with a code of the page ``docs/reference/exit-codes-and-errors.md``.
"""

from __future__ import annotations

import atexit
import gc
import os
import select
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

from harness._version import __version__
from harness.cli.group import OrderedGroup
from harness.cli.verbs import VERBS, ExitCode, load_verb
from harness.errors import HarnessError, UsageError
from harness.plain_url import without_secrets

_COLLECT_AFTER = 100_000
"""New objects between looking for cycles among them: importing makes many and leaves none to collect."""
_FLUSH_FAILED = 120
"""The interpreter's own exit code for that."""


class _QuickExit:
    """End the process after Python's exit handlers, without dismantling imported modules (a fifth of a second)."""

    code: int = ExitCode.FAILED  # Python's own for an uncaught exception

    def __call__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                os._exit(_FLUSH_FAILED)
        os._exit(self.code)


def main() -> NoReturn:
    """Run the command line on ``sys.argv`` and exit: the entry point of ``harness`` and ``python -m harness``."""
    gc.set_threshold(_COLLECT_AFTER)
    closed = _open_standard_streams()
    leave = _QuickExit()
    atexit.register(leave)  # before all others, so that it is called after them
    try:
        _run(closed)
    except SystemExit as ended:
        leave.code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise


def _open_standard_streams() -> frozenset[int]:
    """Open closed standard streams on the null device, and return their numbers.

    The next opened file would get the number of a closed stream, and printed text would go into it.
    """
    closed = set()
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            closed.add(number)
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, os.fdopen(opened, mode, encoding="utf-8"))
    return frozenset(closed)


def _run(closed: frozenset[int]) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, so that nothing stays behind
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which nohup sets
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        _require_folder()
        if sys.stdout.fileno() in closed:
            raise UsageError("standard output is closed: results have no place to go", fix="redirect it to a file")
        with _interruptions():
            _build().main(prog_name="harness")
    except HarnessError as error:
        _exit_with(error)
    except Exception as error:  # noqa: BLE001 - the one boundary: a traceback, how to report it, and a code of its own
        from harness.store.machine_state import machine_error

        state = machine_error(error)
        if state is not None:
            _exit_with(state)
        _exit_with_defect()
    sys.exit(ExitCode.FINE)


def _exit_with(error: HarnessError) -> NoReturn:
    from harness.cli.plain import lists_in_width

    click.echo(lists_in_width(f"harness: {error}"), err=True)
    sys.exit(error.exit_code)


def _require_folder() -> None:
    try:
        str(Path.cwd()).encode()
    except FileNotFoundError as error:
        raise UsageError("the current folder was deleted", fix="cd into one that exists") from error
    except UnicodeEncodeError as error:
        raise UsageError(f"the path of the current folder is not UTF-8: {Path.cwd()}", fix="rename it") from error


class _LazyGroup(OrderedGroup):
    """Verbs are listed from the table and imported when one is resolved."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _interruptions(), _refusals():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        with _interruptions(), _refusals():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else _load_command(name), rest


def _build() -> click.Group:
    return _LazyGroup(
        "harness",
        help="Benchmark retrieval backends on real engines and compare each with an exact reference.",
        params=[
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                help="Show the version and exit.",
            )
        ],
        commands={name: click.Command(name, short_help=verb.help) for name, verb in VERBS.items()},
        no_args_is_help=True,
    )


def _load_command(name: str) -> click.Command:
    from harness.cli.verb import VerbCommand, VerbGroup

    verb = load_verb(name)
    return verb if isinstance(verb, VerbGroup) else VerbCommand(name, verb, configured=VERBS[name].configured)


def _print_version(context: click.Context, _parameter: click.Parameter, requested: bool) -> None:
    if requested and not context.resilient_parsing:
        click.echo(f"harness {__version__}")
        context.exit()


@contextmanager
def _interruptions() -> Iterator[None]:
    """Ctrl-C and a reader that went away, which click would report with the code of a failed threshold."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt as interrupted:
        click.echo("harness: interrupted", err=True)
        for note in getattr(interrupted, "__notes__", ()):
            click.echo(f"  {note}", err=True)
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        if not _reader_is_gone():  # another pipe broke
            _exit_with_defect()
        from harness.cli.output import discard_stdout

        discard_stdout()
        sys.exit(ExitCode.BROKEN_PIPE)


@contextmanager
def _refusals() -> Iterator[None]:
    """Hide secrets in arguments that click refuses."""
    try:
        yield
    except click.UsageError as refused:
        message = refused.format_message()
        if without_secrets(message) == message:
            raise
        raise click.UsageError(without_secrets(message), refused.ctx) from refused


def _reader_is_gone() -> bool:
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in stdout.poll(0))


def _exit_with_defect() -> NoReturn:
    traceback.print_exc()
    click.echo(
        f"harness: this is a defect of harness {__version__}, not of your input.\n"
        "  Please report it with the lines above, the command, and the output of `pip freeze`.",
        err=True,
    )
    sys.exit(ExitCode.DEFECT)
