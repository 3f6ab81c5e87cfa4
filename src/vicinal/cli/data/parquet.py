"""Parquet: columns with names, and with types."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.cli.data.arrow import pyarrow
from vicinal.cli.data.batch import Batch, Layout, check_finite
from vicinal.cli.data.streams import Stream, seekable, title
from vicinal.cli.errors import DataError

if pyarrow is None:
    raise ImportError("Parquet files need pyarrow: pip install 'vicinal[parquet]'")
arrow_parquet: Any = import_module("pyarrow.parquet")

_ROWS = 1 << 16


def batches(path: str, layout: Layout) -> Iterator[Batch]:
    """Read a file batch by batch."""
    name = title(path)
    with seekable(path) as stream:
        file = _open(stream, name)
        titles = file.schema_arrow.names
        features, target = layout.columns(titles, named=True, name=name)
        names = [titles[i] for i in features]
        label = None if target is None else titles[target]
        read = [*features] if target is None else [*features, target]
        # Names are no use where all columns are read: two may have the same.
        chosen = None if len(read) == len(titles) else [titles[i] for i in read]
        keys = range(len(titles)) if chosen is None else titles
        first_row = 1
        for rows in file.iter_batches(batch_size=_ROWS, columns=chosen):
            X = np.empty((rows.num_rows, len(features)))
            for i, position in enumerate(features):
                column = rows.column(keys[position])
                X[:, i] = _numbers(column, f"{name}, column {titles[position]}")
            check_finite(X, name, first_row, ((i + 1, titles[i]) for i in features))
            y = None if target is None else _labels(rows.column(keys[target]), name, first_row)
            first_row += rows.num_rows
            yield Batch(X, y, names, label)


def _open(stream: Stream, name: str) -> Any:
    try:
        return arrow_parquet.ParquetFile(stream)
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{name} is no Parquet file: {error}") from error


def _numbers(column: Any, place: str) -> Any:
    try:
        return column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise DataError(f"{place}: its type is {column.type}, and features are numbers.") from error


def _labels(column: Any, name: str, first_row: int) -> Any:
    if column.null_count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataError.at(name, "the label is missing", row=row)
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    labels = column.to_numpy(zero_copy_only=False)
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def write(stream: Stream, X: NDArray[Any], y: NDArray[Any], names: list[str], target: str) -> None:
    """Write all rows, the labels last."""
    columns = [*(pyarrow.array(column) for column in X.T), pyarrow.array(y.tolist())]
    table = pyarrow.Table.from_arrays(columns, names=[*names, target])
    arrow_parquet.write_table(table, stream)
