"""What the benchmarks share: configuration, data, timing, memory, and how rows are shown and kept.

How to write a benchmark
------------------------
A benchmark is a file of this folder with

* a docstring, whose first line states the claim that the file measures (`run.py --list` shows it;
  the rest says how it is measured, and with which parameters);
* `rows(config: Config) -> Iterator[dict]`, which yields each row as soon as it is found. Keys are
  column titles in a fixed order, values are str, int, float, bool or None. Rows with other keys
  than the row before start a new table.

`run.py` does the rest: it prints the rows, or gives one JSON object per line, and stores them under
results/ as they come. A benchmark never prints and takes no arguments of its own; under
`config.quick` it runs on little data, to show that it works, and its rows are not stored.

    from common import Config, load, measure

    def rows(config):
        X, y = load(config, "covtype")
        timing = measure(lambda: model.fit(X, y), repeats=config.repeats)
        yield {"n": len(X), "fit_s": timing.median}
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """What was asked for on the command line."""

    data: Path | None = None  # folder of NAME.npz files
    quick: bool = False
    n_jobs: int = os.cpu_count() or 1
    repeats: int = 3


# --- data -----------------------------------------------------------------------------------------


class DataAbsent(Exception):
    """A benchmark needs a data file that is not there; the message says which."""


def load(config: Config, name: str) -> tuple[np.ndarray, ...]:
    """The arrays of NAME.npz: (X, y), or (X, y, X_test, y_test) where the file has a split."""
    if config.data is None:
        raise DataAbsent(f"this benchmark reads {name}.npz: name its folder with --data DIR")
    path = config.data / f"{name}.npz"
    if not path.is_file():
        raise DataAbsent(f"{path} is not there: give a folder that holds {name}.npz to --data")
    with np.load(path) as arrays:
        keys = ["X", "y", "X_test", "y_test"] if "X_test" in arrays else ["X", "y"]
        return tuple(arrays[key] for key in keys)


# --- measuring ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """Wall-clock seconds of a few runs of one thing, and what its last run returned."""

    seconds: tuple[float, ...]
    result: Any

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)


def measure(function: Callable[[], Any], *, repeats: int = 3) -> Timing:
    """Time `function` a few times, one after the other."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return Timing(tuple(seconds), result)


def run_alone(function: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """Run a function of a benchmark file in a new process: its result and its peak memory.

    A process's peak never goes down again, so each size must be measured in a process of its own.
    Function, arguments and result must pickle.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(sender, function, arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        raise RuntimeError(f"the process that ran {function.__name__} ended early") from None
    finally:
        process.join()


def _report(sender: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    result = function(*arguments)
    sender.send((result, peak_memory()))


def peak_memory() -> int:
    """Most bytes this process has held in memory so far."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Linux's ru_maxrss starts from the parent's size; VmHWM is the process's own.
        lines = status.read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    import resource  # absent on Windows, where this one function cannot work

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine() -> dict[str, Any]:
    """The machine and the versions that a row was measured with."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("vicinal", "numpy", "scipy", "scikit-learn")},
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# --- showing and keeping --------------------------------------------------------------------------


class Table:
    """Prints rows as they come, in columns as wide as their title and the first row need."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    def add(self, row: Row) -> None:
        cells = {title: show(value) for title, value in row.items()}
        if list(cells) != list(self._widths):
            if self._widths:
                print()
            self._widths = {title: max(len(title), len(cell), 8) for title, cell in cells.items()}
            self._print({title: title for title in cells}, row)
            self._print({title: "-" * width for title, width in self._widths.items()}, row)
        self._print(cells, row)

    def _print(self, cells: dict[str, str], row: Row) -> None:
        aligned = (
            f"{cell:<{self._widths[title]}}"
            if isinstance(row[title], str)
            else f"{cell:>{self._widths[title]}}"
            for title, cell in cells.items()
        )
        print("  ".join(aligned).rstrip(), flush=True)


def show(value: Any) -> str:
    """One cell of a table: four significant digits, thousands kept apart."""
    if value is None:
        return "-"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def as_json(row: Row) -> str:
    """A row as one line of JSON; NumPy's scalars become Python's."""
    return json.dumps(row, default=lambda value: value.item(), ensure_ascii=False)


def store(name: str, claim: str, found: Iterable[Row]) -> None:
    """Write the rows found so far to results/NAME.json, one line a row."""
    RESULTS.mkdir(exist_ok=True)
    head = {"benchmark": name, "claim": claim, "machine": machine(), "rows": []}
    rows = ",\n  ".join(as_json(row) for row in found)
    text = json.dumps(head, indent=1, ensure_ascii=False)
    text = text.replace('"rows": []', f'"rows": [\n  {rows}\n ]')
    temporary = RESULTS / f"{name}.json.partial"
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(RESULTS / f"{name}.json")
