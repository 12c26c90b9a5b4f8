"""The command ``harness``: the one place where errors become messages and exit codes.

A verb writes results to stdout and everything else to stderr, and returns, raises HarnessError, or raises
``typer.Exit`` with a code of the page ``docs/reference/exit-codes-and-errors.md``.
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
from typing import Annotated, Any, NoReturn, cast

import typer
import typer.core
import typer.main

from harness._version import __version__
from harness.cli.verbs import VERBS, ExitCode, load_verb
from harness.errors import HarnessError, UsageError
from harness.plain_url import without_secrets

_COLLECT_AFTER = 100_000
"""New objects between looking for cycles among them: importing makes many and leaves none to collect."""
_FLUSH_FAILED = 120
"""The interpreter's own exit code for that."""


class _QuickExit:
    """End the process after Python's exit handlers, without taking apart what was imported (a fifth of a second)."""

    code: int = ExitCode.FAILED  # Python's own for what nobody caught

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
    """Open those of the standard streams that are closed on the null device, and return their numbers.

    The next file that is opened would get the number of a closed one, and what is printed would go into it.
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # asked to end: like Ctrl-C, so that nothing stays behind
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which nohup sets
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        _require_folder()
        if sys.stdout.fileno() in closed:
            raise UsageError("standard output is closed: results have no place to go", fix="redirect it to a file")
        with _interruptions():
            typer.main.get_command(_build()).main(prog_name="harness")
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

    typer.echo(lists_in_width(f"harness: {error}"), err=True)
    sys.exit(error.exit_code)


def _require_folder() -> None:
    try:
        str(Path.cwd()).encode()
    except FileNotFoundError as error:
        raise UsageError("the current folder was deleted", fix="cd into one that exists") from error
    except UnicodeEncodeError as error:
        raise UsageError(f"the path of the current folder is not UTF-8: {Path.cwd()}", fix="rename it") from error


_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)
"""What Typer raises for a wrong command line, and does not export."""


class _LazyGroup(typer.core.TyperGroup):
    """Verbs are listed from the table and imported when one is resolved."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _interruptions(), _refusals():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _interruptions(), _refusals():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else _load_command(name), rest


def _build() -> typer.Typer:
    app = typer.Typer(
        cls=_LazyGroup,
        help="Benchmark retrieval backends on real engines and hold each one against an exact reference.",
        no_args_is_help=True,
        rich_markup_mode=None,  # help without Rich: a third less to import, the same text for people and generated docs
    )
    app.callback()(_options)
    for name, verb in VERBS.items():
        app.command(name, help=verb.help)(_listed_only)
    return app


def _load_command(name: str) -> Any:
    from harness.cli.verb import VerbGroup, command_of, group_of

    verb = load_verb(name)
    return group_of(verb) if isinstance(verb, VerbGroup) else command_of(name, verb, configured=VERBS[name].configured)


def _listed_only() -> None:
    """Stand for a verb in the list of verbs; resolving it imports the real one."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"harness {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options before the verb."""


@contextmanager
def _interruptions() -> Iterator[None]:
    """Ctrl-C and a reader that went away, which Typer would report with the code of a failed threshold."""
    try:
        yield
        sys.stdout.flush()
    except KeyboardInterrupt as interrupted:
        typer.echo("harness: interrupted", err=True)
        for note in getattr(interrupted, "__notes__", ()):
            typer.echo(f"  {note}", err=True)
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        if not _reader_is_gone():  # another pipe broke
            _exit_with_defect()
        from harness.cli.output import discard_stdout

        discard_stdout()
        sys.exit(ExitCode.BROKEN_PIPE)


@contextmanager
def _refusals() -> Iterator[None]:
    """Show no secret of what Typer does not take."""
    try:
        yield
    except _UsageError as refused:
        refused.message = without_secrets(refused.message)
        raise


def _reader_is_gone() -> bool:
    stdout = select.poll()
    stdout.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in stdout.poll(0))


def _exit_with_defect() -> NoReturn:
    traceback.print_exc()
    typer.echo(
        f"harness: this is a defect of harness {__version__}, not of your input.\n"
        "  Please report it with the lines above, the command, and the output of `pip freeze`.",
        err=True,
    )
    sys.exit(ExitCode.DEFECT)
