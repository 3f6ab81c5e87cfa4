"""Data files: what their endings mean, and how they become arrays.

A format is a module with `batches(path, layout)`, which yields some rows at a time, and
`write(stream, X, y, names, target)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import gen_batches

from vicinal.cli.data.batch import Batch, Layout
from vicinal.cli.data.labels import Labels, natural
from vicinal.cli.data.streams import ending, sink, title
from vicinal.cli.errors import DataError, UsageError
from vicinal.cli.formats import ENDINGS, Format

__all__ = ["Data", "DataFile", "data_file", "write"]

_MODULES = {
    Format.SVMLIGHT: "svmlight",
    Format.CSV: "delimited",
    Format.TSV: "delimited",
    Format.NPZ: "npz",
    Format.PARQUET: "parquet",
}

_DENSE_BYTES = 32 << 20
"""Of rows that are predicted together."""


@dataclass(frozen=True)
class Data:
    """All rows of a file, with the names of its columns if it has any."""

    X: NDArray[np.float64]
    y: Labels | None
    names: list[str] | None
    target: str | None


@dataclass(frozen=True)
class DataFile:
    """A file to read.

    Parameters
    ----------
    path : str
        "-" is standard input.
    format : Format or None
        None goes by the ending.
    layout : Layout
    """

    path: str
    format: Format | None = None
    layout: Layout = field(default_factory=Layout)

    @property
    def title(self) -> str:
        """What messages call it."""
        return title(self.path)

    def for_model(self, model: Any, *, labels: bool = True) -> DataFile:
        """Return the same file as one for a model, whose labels may be absent, or not needed."""
        names = getattr(model, "feature_names_in_", None)
        layout = replace(
            self.layout,
            n_features=model.n_features_in_,
            names=None if names is None else names.tolist(),
            labels=labels,
        )
        return replace(self, layout=layout)

    def batches(self) -> Iterator[Batch]:
        """Yield dense rows for a model, a bounded number at a time."""
        width = self.layout.n_features
        assert width is not None
        empty = True
        size = max(1, _DENSE_BYTES // (8 * width))
        for batch in self._raw():
            for rows in gen_batches(batch.X.shape[0], size):
                empty = False
                X = _dense(batch.X[rows], width)
                yield Batch(X, None if batch.y is None else batch.y[rows])
        if empty:
            raise self._without_rows

    def labels(self) -> Labels:
        """Return the labels alone."""
        found = [batch.y for batch in self._raw()]
        return natural(_joined(found, self.title))

    def read(self, done: Callable[[int], None] = lambda n: None) -> Data:
        """Return all rows; `done` hears how many more have been read."""
        found = []
        for batch in self._raw():
            found.append(batch)
            done(batch.X.shape[0])
        if not found or not sum(batch.X.shape[0] for batch in found):
            raise self._without_rows
        width = self.layout.n_features or max(batch.X.shape[1] for batch in found)
        X = np.zeros((sum(batch.X.shape[0] for batch in found), width))
        row = 0
        for batch in found:
            n_rows, n_columns = batch.X.shape
            X[row : row + n_rows, :n_columns] = _dense(batch.X, n_columns)
            row += n_rows
        y = None if found[0].y is None else natural(_joined([b.y for b in found], self.title))
        return Data(X, y, found[0].names, found[0].target)

    def _raw(self) -> Iterator[Batch]:
        return self._module.batches(self.path, self.layout)

    @property
    def _without_rows(self) -> DataError:
        return DataError(f"{self.title} is empty: it has no rows.")

    @property
    def _module(self) -> Any:
        kind = self.format or ENDINGS.get(ending(self.path), Format.SVMLIGHT)
        return import_module(f"vicinal.cli.data.{_MODULES[kind]}")


def data_file(
    path: str,
    format: Format | None,
    target: str | None,
    zero_based: bool,
    header: bool | None = None,
) -> DataFile:
    """Return a file as options describe it."""
    return DataFile(path, format, Layout(target, zero_based, header=header))


def write(path: str, kind: Format | None, data: Data) -> None:
    """Write all rows in the format that is asked for, or that the ending says."""
    kind = kind or ENDINGS.get(ending(path), Format.SVMLIGHT)
    module = import_module(f"vicinal.cli.data.{_MODULES[kind]}")
    if data.y is None:
        raise UsageError("there are no labels to write.")
    names = data.names or [f"x{i}" for i in range(1, data.X.shape[1] + 1)]
    to_stream = module.write_tabs if kind is Format.TSV else module.write
    with sink(path) as stream:
        to_stream(stream, data.X, data.y, names, data.target or "y")


def _dense(X: Any, width: int) -> NDArray[np.float64]:
    if issparse(X):
        X.resize((X.shape[0], width))
        return X.toarray()
    return X


def _joined(labels: list[Labels | None], name: str) -> Labels:
    known = [each for each in labels if each is not None]
    if not known or len(known) < len(labels):
        raise DataError(f"{name} has no labels.")
    joined = np.concatenate(known)
    if joined.dtype.kind == "U":
        for end in "\n\r":
            if (broken := np.char.find(joined, end) >= 0).any():
                label = str(joined[broken][0])
                raise DataError(f"{name}: the label {label!r} holds the end of a line.")
    return joined
