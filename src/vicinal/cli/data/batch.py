"""Some rows of a file, and what a reader must know to make sense of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.cli.errors import DataError, UsageError


@dataclass(frozen=True)
class Batch:
    """Some rows: features as a dense array or a sparse one, and labels if there are any."""

    X: Any
    y: NDArray[Any] | None


@dataclass(frozen=True)
class Layout:
    """How a file is meant.

    Parameters
    ----------
    target : str or None
        Name or number, from 1, of the column of labels; None is the last column.
    zero_based : bool
        Whether features of svmlight files count from 0.
    n_features : int or None
        Of the model that the file is for; then the labels may be absent.
    """

    target: str | None = None
    zero_based: bool = False
    n_features: int | None = None

    def target_among(self, titles: list[str], *, named: bool, name: str) -> int | None:
        """Return the position of the column of labels, None if all columns are features."""
        n_columns = len(titles)
        position: int | None = n_columns - 1
        if self.n_features == n_columns:
            position = None
        elif self.target is not None:
            position = _find(self.target, titles, named)
            if position is None:
                known = f"; it has {', '.join(titles)}" if n_columns <= 30 else ""
                raise UsageError(f"{name} has no column {self.target!r}{known}.")
        n_found = n_columns - (position is not None)
        if n_found < 1:
            raise DataError(f"{name} has no features: it needs two columns or more.")
        if self.n_features is not None and n_found != self.n_features:
            raise DataError(
                f"{name} has {n_columns} columns, and the model needs {self.n_features} features,"
                " with or without a column of labels."
            )
        return position


def _find(target: str, titles: list[str], named: bool) -> int | None:
    if named and target in titles:
        return titles.index(target)
    if target.isdecimal() and 1 <= int(target) <= len(titles):
        return int(target) - 1
    return None


def check_finite(
    X: NDArray[np.float64], name: str, first_row: int, columns: Iterable[tuple[int, str]]
) -> None:
    """Raise for the first value that is missing or infinite; `columns` are numbers and titles."""
    if np.isfinite(X).all():
        return
    row, feature = np.argwhere(~np.isfinite(X))[0].tolist()
    column, title = list(columns)[feature]
    problem = "a value is missing" if np.isnan(X[row, feature]) else "a value is infinite"
    raise DataError.at(name, problem, row=first_row + row, column=column, title=title)
