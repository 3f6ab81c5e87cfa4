"""The command line: `vicinal train DATA -o MODEL` and so on; `vicinal --help` tells more.

__init__    errors and exit codes          commands/   what each command does
options     what they all understand       data/       formats of data files
models      names of estimators            show        tables, progress, JSON
predictor   a model and a long file        errors      what is told in one line
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

__all__ = ["main"]

DONE, FAILED, WRONG_USE, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, default=None
        None takes those of the process.
    """
    _open_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"] or ["--help"]
    try:
        return _run(given)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _forget_output()
        return CLOSED_PIPE
    except Exception as error:
        if debug:
            raise
        return _explain(error)


def _open_closed_streams() -> None:
    """Let what is shown go nowhere if there is no stream for it, as after `>&-`."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _forget_output() -> None:
    """Keep what is still in the buffer from going to a broken stream when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(given: list[str]) -> int:
    try:
        import typer

        from vicinal.cli.app import app
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        return _say("the command line needs more packages: pip install 'vicinal[cli]'", FAILED)
    try:
        return _invoke(typer.main.get_command(app), given)
    except typer.Exit as end:
        return int(end.exit_code)
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None:  # files have given their names
            error.filename = "standard output"
            _forget_output()
        raise


def _invoke(command: Any, given: list[str]) -> int:
    try:
        with warnings.catch_warnings(), command.make_context("vicinal", given) as context:
            warnings.showwarning = _show_warning
            # Columns are matched by name before they become the arrays that this is about.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            command.invoke(context)
    finally:
        sys.stdout.flush()
    return DONE


def _explain(error: Exception) -> int:
    """Tell in one line what is wrong."""
    from vicinal.cli.errors import UsageError

    if isinstance(error, UsageError):
        return _say(f"{error}", WRONG_USE)
    if hasattr(error, "format_message"):  # of the parser, in all its versions
        context = getattr(error, "ctx", None)
        place = context.command_path if context is not None else "vicinal"
        return _say(f"{error.format_message()} See {place} --help.", WRONG_USE)
    if isinstance(error, MemoryError):
        return _say(f"out of memory. {error}", FAILED)
    if isinstance(error, OSError) and error.filename is not None:
        return _say(f"{error.filename}: {error.strerror}", FAILED)
    if isinstance(error, OSError | ValueError | ImportError):
        return _say(f"{error}", FAILED)
    return _say(f"{type(error).__name__}: {error} (--debug shows where)", FAILED)


def _say(message: str, code: int) -> int:
    print(f"vicinal: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"warning: {message}", DONE)
