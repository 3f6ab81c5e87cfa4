"""What a person sees, tables and progress, and what a script does: one JSON object."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import rich
from rich.console import Console
from rich.table import Table


def emit(result: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    print(json.dumps(plain(result), allow_nan=False), flush=True)


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: no NumPy types, null for what is no number."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def pairs(rows: Mapping[str, Any], title: str | None = None) -> None:
    """Print names and values, one pair a line; those without a value are left out."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, cell(value))
    _print(table)


def grid(headings: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """Print a table with a heading; numbers stand to the right."""
    found = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for i, heading in enumerate(headings):
        numbers = all(not isinstance(row[i], str) for row in found)
        table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    for row in found:
        table.add_row(*map(cell, row))
    _print(table)


def cell(value: Any) -> str:
    """Return one cell of a table: four significant digits, thousands kept apart."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    if type(value) is int:
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return cell(value.item()) if hasattr(value, "item") else str(value)


def size(n_bytes: int) -> str:
    """Return a number of bytes for people."""
    from rich.filesize import decimal

    return decimal(n_bytes)


def _print(table: Table) -> None:
    # Into a pipe, lines are as long as they need to be.
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().split("\n")), end="", flush=True)


@contextmanager
def progress_of_fit(model: Any) -> Iterator[None]:
    """Show the steps of a fit on a terminal's standard error."""
    if not sys.stderr.isatty() or not hasattr(model, "set_callbacks"):
        yield
        return
    from sklearn.callback import ProgressBar

    rich.reconfigure(file=sys.stderr)  # the console that scikit-learn's progress bar takes
    model.set_callbacks(ProgressBar())
    try:
        yield
    finally:
        model.set_callbacks()  # they are not part of the model
        rich.reconfigure()


@contextmanager
def progress_of_rows(what: str, *, to_terminal: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes a number of rows done, and shows them on a terminal.

    Unless the rows themselves go there.
    """
    if not sys.stderr.isatty() or (to_terminal and sys.stdout.isatty()):
        yield lambda n: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{what} {{task.completed:,}} rows"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda n: progress.advance(task, n)


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Yield a function that takes the name of each step as it begins, and shows it."""
    console = Console(stderr=True, highlight=False, markup=False)
    with console.status("") as spinner:  # which moves on a terminal alone

        def begin(step: str) -> None:
            console.print(step)
            spinner.update(f"{step} …")

        yield begin
