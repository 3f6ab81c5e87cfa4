"""CSV and TSV: one line a row, commas, semicolons or tabs between cells, with a header or without.

The delimiter is the one that the first line has most of, if the second has as many cells. The first
line is a header if a column begins with text there and goes on with a number, or if it is alone.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from math import isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.cli.data.arrow import arrow_csv, held_by_arrow, pyarrow
from vicinal.cli.data.batch import Batch, Layout
from vicinal.cli.data.labels import as_text
from vicinal.cli.data.streams import Stream, source, title
from vicinal.cli.data.text import Block, blocks
from vicinal.cli.errors import DataError, UsageError

_TAKEN_AS_DATA = "(line 1 was taken as data: --header says that it has names)"

_MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}


@dataclass(frozen=True)
class Columns:
    """What the first lines tell of all others."""

    delimiter: str
    names: list[str] | None
    n_columns: int
    features: list[int]
    target: int | None
    first_row: int
    guessed: bool

    @property
    def read(self) -> list[int]:
        """Positions of features and labels; what is in other columns does not matter."""
        return self.features if self.target is None else [*self.features, self.target]

    def title(self, position: int | None) -> str | None:
        """Return the name of a column, if there are names."""
        return None if self.names is None or position is None else self.names[position]

    def named(self, batch: Batch) -> Batch:
        """Return a batch with the names of its columns."""
        if self.names is None:
            return batch
        names = [self.names[i] for i in self.features]
        return replace(batch, names=names, target=self.title(self.target))

    def hint(self, line: int) -> str:
        """Return what else may be wrong with a line."""
        guessed = self.guessed and self.names is None and line == self.first_row
        return f" {_TAKEN_AS_DATA}" if guessed else ""


def batches(path: str, layout: Layout) -> Iterator[Batch]:
    """Read a file block by block."""
    name = title(path)
    columns: Columns | None = None
    empty = True
    with source(path) as stream:
        for block in blocks(stream, name):
            if columns is None and not block.text.strip():
                continue
            if columns is None:
                columns, block = _begin(block, layout)
            if block.text.strip():
                empty = False
                yield columns.named(parse(block, columns))
    if empty and columns is not None:
        raise DataError(f"{name} has a header and no rows.")


def _begin(block: Block, layout: Layout) -> tuple[Columns, Block]:
    """Learn the columns from the first lines, and take the header off."""
    lines = ((number, line) for number, line in block.lines() if line.strip())
    number, first = next(lines, (1, ""))
    second = next(lines, (0, ""))[1]
    delimiter = _delimiter(block.name, first, second)
    cells = _cells(block.name, first, delimiter)
    below = _cells(block.name, second, delimiter)
    header = _is_header(cells, below, layout) if layout.header is None else layout.header
    titles = cells if header else [str(i) for i in range(1, len(cells) + 1)]
    try:
        features, target = layout.columns(titles, named=header, name=block.name)
    except (DataError, UsageError) as error:
        if header or layout.header is not None or any(map(_may_be_number, cells)):
            raise
        raise type(error)(f"{error} {_TAKEN_AS_DATA}") from error
    columns = Columns(
        delimiter,
        cells if header else None,
        len(cells),
        features,
        target,
        first_row=number,
        guessed=layout.header is None,
    )
    if header:
        skipped = number - block.first_line + 1
        rest = block.text.split(b"\n", skipped)[skipped:]
        block = Block(b"".join(rest), block.name, number + 1)
    return columns, block


def _delimiter(name: str, first: str, second: str) -> str:
    """Return what separates cells: commas may also be in numbers, or in text."""

    def fit(delimiter: str) -> tuple[bool, int]:
        n_cells = len(_cells(name, first, delimiter))
        alike = not second or n_cells == len(_cells(name, second, delimiter))
        return n_cells > 1 and alike, n_cells

    return max(";\t,", key=fit)


def _is_header(cells: list[str], below: list[str], layout: Layout) -> bool:
    if layout.names is not None and set(layout.names) <= set(cells):
        return True
    if not below:
        return not any(map(_may_be_number, cells))
    return any(
        not _may_be_number(name) and _may_be_number(value)
        for name, value in zip(cells, below, strict=False)
    )


def parse(block: Block, columns: Columns) -> Batch:
    """Return the rows of a block."""
    try:
        batch = _parse_fast(block.text, columns) or _parse(block.text, columns)
    except ValueError as error:
        raise _located(block, columns) or DataError(f"{block.name}: {error}") from error
    empty = batch.y is not None and (batch.y == "").any()
    if (empty or not np.isfinite(batch.X).all()) and (problem := _located(block, columns)):
        raise problem
    return batch


def _parse_fast(text: bytes, columns: Columns) -> Batch | None:
    """Read with pyarrow; None if it is not there, or does not understand."""
    if pyarrow is None:
        return None
    titles = [str(i) for i in range(columns.n_columns)]
    types = {titles[i]: pyarrow.float64() for i in columns.features}
    if columns.target is not None:
        types[titles[columns.target]] = pyarrow.string()
    try:
        table = arrow_csv.read_csv(
            held_by_arrow(text),
            read_options=arrow_csv.ReadOptions(column_names=titles),
            parse_options=arrow_csv.ParseOptions(delimiter=columns.delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                null_values=[],
                include_columns=[titles[i] for i in columns.read],
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    X = np.empty((table.num_rows, len(columns.features)))
    for i in range(len(columns.features)):
        X[:, i] = table.column(i).to_numpy()
    if columns.target is None:
        return Batch(X, None)
    return Batch(X, np.char.strip(table.column(-1).to_numpy().astype(str)))


def _parse(text: bytes, columns: Columns) -> Batch:
    """Read with NumPy."""
    lines = [line for line in text.decode().split("\n") if line.strip()]
    cells = np.loadtxt(
        lines,
        dtype=str,
        delimiter=columns.delimiter,
        quotechar='"',
        comments=None,
        ndmin=2,
    )
    if cells.shape[1] != columns.n_columns:
        raise ValueError(f"{cells.shape[1]} columns, where the first line has {columns.n_columns}")
    if len(cells) != len(lines):
        raise ValueError("a cell in quotation marks holds the end of a line")
    numbers = cells[:, columns.features]
    if (np.char.find(numbers, "_") >= 0).any():
        raise ValueError("numbers have no underscores")  # which Python would take
    X = numbers.astype(np.float64)
    return Batch(X, None if columns.target is None else np.char.strip(cells[:, columns.target]))


def _located(block: Block, columns: Columns) -> DataError | None:
    """Find the first thing that is wrong, slowly."""
    read = set(columns.read)
    for number, line in block.lines():
        if not line.strip():
            continue
        cells = _cells(block.name, line, columns.delimiter)
        if len(cells) != columns.n_columns:
            what = f"{len(cells)} columns, where the first line has {columns.n_columns}"
            return DataError.at(block.name, what + columns.hint(number), line=number)
        for position, cell in enumerate(cells):
            what = _problem(cell, position == columns.target)
            if what and position in read:
                return DataError.at(
                    block.name,
                    what + columns.hint(number),
                    line=number,
                    column=position + 1,
                    title=columns.title(position),
                )
    return None


def _problem(cell: str, is_label: bool) -> str:
    if is_label:
        return "" if cell else "the label is missing"
    if cell.lower() in _MISSING:
        return "a value is missing"
    number = _number(cell)
    if number is None and _has_commas(cell):
        return f"{cell!r} is no number: numbers have a decimal point, and no commas"
    if number is None:
        return f"{cell!r} is no number"
    return f"{cell!r} is not finite" if isinf(number) else ""


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _has_commas(cell: str) -> bool:
    return "," in cell and _number(cell.replace(",", "")) is not None


def _may_be_number(cell: str) -> bool:
    return cell.lower() in _MISSING or _number(cell) is not None or _has_commas(cell)


def _cells(name: str, line: str, delimiter: str) -> list[str]:
    try:
        rows: Sequence[list[str]] = list(csv.reader([line.rstrip("\r")], delimiter=delimiter))
    except csv.Error as error:
        if "\r" not in line:
            raise DataError(f"{name} is no usable CSV: {error}") from error
        what = "lines end with a carriage return alone, as on old Macs; they need a line feed"
        raise DataError(f"{name}: {what}.") from error
    return [cell.strip() for cell in rows[0]] if rows else []


def write(stream: Stream, X: NDArray[Any], y: NDArray[Any], names: list[str], target: str) -> None:
    """Write all rows, the labels last, below a header."""
    _write(stream, X, y, [*names, target], ",")


def write_tabs(
    stream: Stream, X: NDArray[Any], y: NDArray[Any], names: list[str], target: str
) -> None:
    """Write all rows with tabs."""
    _write(stream, X, y, [*names, target], "\t")


def _write(
    stream: Stream, X: NDArray[Any], y: NDArray[Any], header: list[str], delimiter: str
) -> None:
    text = StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    for values, label in zip(X.tolist(), as_text(y), strict=True):
        writer.writerow([*values, label])
        if text.tell() > 1 << 20:
            stream.write(text.getvalue().encode())
            text.seek(0)
            text.truncate()
    stream.write(text.getvalue().encode())
