"""Some rows of a file, and what a reader must know to make sense of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.cli.errors import DataError, UsageError, some


@dataclass(frozen=True)
class Batch:
    """Some rows: features as a dense array or a sparse one, and labels if there are any.

    With the names of both, if the file has names.
    """

    X: Any
    y: NDArray[Any] | None
    names: list[str] | None = None
    target: str | None = None


@dataclass(frozen=True)
class Layout:
    """How a file is meant.

    Parameters
    ----------
    target : str or None
        Name or number, from 1, of the column of labels; None is the last column, or the one that
        is no feature of the model.
    zero_based : bool
        Whether features of svmlight files count from 0.
    n_features : int or None
        Of the model that the file is for; then the labels may be absent.
    names : list of str or None
        Of the model's features; where the file has names as well, they tell which columns to take.
    labels : bool
        Whether labels are needed, and not features alone.
    header : bool or None
        Whether line 1 of CSV and TSV has the names of the columns; None looks at it.
    """

    target: str | None = None
    zero_based: bool = False
    n_features: int | None = None
    names: list[str] | None = None
    labels: bool = True
    header: bool | None = None

    def columns(self, titles: list[str], *, named: bool, name: str) -> tuple[list[int], int | None]:
        """Return the positions of the features, and of the labels: None if there are none."""
        if named and self.names is not None:
            features = _places(self.names, titles, name)
            return features, self._target_beside(features, titles, name)
        target = self._target_among(titles, named, name)
        return [i for i in range(len(titles)) if i != target], target

    def _target_beside(self, features: list[int], titles: list[str], name: str) -> int | None:
        others = sorted(set(range(len(titles))).difference(features))
        if not self.labels or not others:
            return None
        if self.target is not None:
            position = _find(self.target, titles, name, named=True)
            if position not in others:
                raise UsageError(
                    f"the column {self.target!r} of {name} is a feature of the model, so it cannot"
                    " hold the labels."
                )
            return position
        if len(others) > 1:
            raise UsageError(
                f"{name} has {len(others)} columns beside the model's features"
                f" ({some([titles[i] for i in others])}): say with --target which has the labels."
            )
        return others[0]

    def _target_among(self, titles: list[str], named: bool, name: str) -> int | None:
        n_columns = len(titles)
        position: int | None = n_columns - 1
        if self.n_features == n_columns:
            position = None
        elif self.target is not None:
            position = _find(self.target, titles, name, named=named)
        n_found = n_columns - (position is not None)
        if n_found < 1:
            raise DataError(f"{name} has no features: it needs two columns or more.")
        if self.n_features is not None and n_found != self.n_features:
            raise DataError(
                f"{name} has {n_columns} columns, and the model needs {self.n_features} features,"
                " with or without a column of labels."
            )
        return position


def _find(target: str, titles: list[str], name: str, *, named: bool) -> int:
    if named and target in titles:
        return titles.index(target)
    if target.isdecimal() and 1 <= int(target) <= len(titles):
        return int(target) - 1
    raise UsageError(f"{name} has no column {target!r}; it has {some(titles)}.")


def _places(names: list[str], titles: list[str], name: str) -> list[int]:
    """Return where the features of a model are."""
    counts = Counter(titles)
    if absent := [each for each in names if each not in counts]:
        s = "s" if len(absent) > 1 else ""
        raise DataError(f"{name} lacks the column{s} {some(absent)}, which the model needs.")
    if repeated := [each for each in names if counts[each] > 1]:
        raise DataError(f"{name} has more than one column {some(repeated)}.")
    place = {title: i for i, title in enumerate(titles)}
    return [place[each] for each in names]


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
