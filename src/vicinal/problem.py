"""What a machine is trained on: encoded labels, weights, and points in a well-scaled frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int32]

FLOATS = [np.float64, np.float32]
"""The dtypes that estimators take without a conversion."""

FAR = 1e15
"""Coordinates in the frame end here, so that sums of their squares stay finite floats."""

_SAMPLE = 1024
"""About how many rows are asked where the bulk of each column lies."""

# Single precision takes coordinates between these, and offsets of less than so many spreads, as
# they are.
_SMALL, _LARGE, _NEAR = 1e-4, 1e4, 8.0

_ROWS = 16384
"""Rows moved into a frame at a time: the double precision copy stays small."""

_FEWER_ROWS = 1024
"""The same without such a copy: the points stay in the cache."""

_SMALLEST_UNIT = 1e-30


@dataclass(frozen=True)
class Frame:
    """An origin and a unit in which single precision is enough.

    Coordinates relative to the origin are exact for data with large offsets, and the unit, one
    power of two for all columns, neither rounds anything nor changes the order of distances.
    """

    offset: Doubles
    scale: float

    @classmethod
    def of(cls, X: NDArray[Any], *, centred: bool = True) -> Frame:
        """Find the frame of some data; the origin stays where it is unless `centred`."""
        low, high = _of_columns(np.min, X), _of_columns(np.max, X)
        offset = _round_centres(X, low, high) if centred else np.zeros(X.shape[1])
        with np.errstate(over="ignore"):
            reach = max(float((high - offset).max()), float((offset - low).max()))
        return cls(offset, float(_power_of_two_above(np.asarray(reach))) if reach > 0 else 1.0)

    @classmethod
    def if_needed(cls, X: NDArray[Any], *, centred: bool = True) -> Frame:
        """Find the frame of some data; the user's own units where single precision takes them."""
        with np.errstate(over="ignore", invalid="ignore"):
            means = X.mean(axis=0, dtype=np.float64)
            spread = float(np.sqrt(X.var(axis=0, dtype=np.float64).sum()))
            is_near = not centred or float(np.linalg.norm(means)) <= _NEAR * spread
        if is_near and _SMALL <= max(float(X.max()), -float(X.min())) <= _LARGE:
            return cls(np.zeros(X.shape[1]), 1.0)
        return cls.of(X, centred=centred)

    @property
    def is_identity(self) -> bool:
        """Whether points stay what they are."""
        return self.scale == 1.0 and not self.offset.any()

    @property
    def squared_scale(self) -> float:
        """A squared distance of one in this frame, in the user's units."""
        return min(max(self.scale, 1e-150), 1e150) ** 2

    def undo(self, points: NDArray[Any]) -> Doubles:
        """Return points of this frame in the user's units."""
        return points.astype(np.float64) * self.scale + self.offset

    def queries(self, X: NDArray[Any]) -> Floats:
        """Return points as the engine takes them; without a copy where that is possible."""
        if not self.is_identity:
            return self.apply(X)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(X, dtype=np.float32)

    def apply(self, X: NDArray[Any]) -> Floats:
        """Return the points in this frame, as the engine takes them."""
        points = np.empty(X.shape, dtype=np.float32)
        with np.errstate(over="ignore", under="ignore"):
            # A difference of two singles is rounded the same way in double precision and then in
            # single as in single at once, and the unit rounds nothing.
            offset = self.offset.astype(np.float32)
            single = X.dtype == np.float32 and np.array_equal(offset, self.offset)
            if single and _SMALLEST_UNIT < self.scale < 1.0 / _SMALLEST_UNIT:
                for rows in gen_batches(len(X), _FEWER_ROWS):
                    block = np.subtract(X[rows], offset, out=points[rows])
                    block *= np.float32(1.0 / self.scale)
                    np.clip(block, -FAR, FAR, out=block)
                return points
            for rows in gen_batches(len(X), _ROWS):
                block = (X[rows] - self.offset) * (1.0 / self.scale)
                points[rows] = np.clip(block, -FAR, FAR)
        return points


def _round_centres(X: NDArray[Any], low: Doubles, high: Doubles) -> Doubles:
    """Return the middle of the bulk of each column, to four binary digits of the bulk's spread.

    The bulk, and not the range or the mean, which one far value would draw away from all others.
    Coordinates of few digits keep few digits relative to it, and equal distances between points of
    a lattice stay equal in single precision.
    """
    sample = X[:: max(1, len(X) // _SAMPLE)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        first, middle, last = np.quantile(sample, [0.25, 0.5, 0.75], axis=0, method="nearest")
        first, last = np.where(first < last, [first, last], [low, high])
        step = _power_of_two_above(np.maximum(last - middle, middle - first)) / 16
        return np.where(high > low, np.rint(middle / step) * step, low)


def _of_columns(reduce: Callable[..., Any], X: NDArray[Any]) -> Doubles:
    # NumPy reduces short rows one by one: a few columns are faster each on its own.
    if X.shape[1] < 8:
        return np.array([reduce(column) for column in X.T], dtype=np.float64)
    return np.asarray(reduce(X, axis=0), dtype=np.float64)


def _power_of_two_above(x: Doubles) -> Doubles:
    exponents = np.frexp(np.minimum(x, np.finfo(np.float64).max))[1]
    return np.exp2(np.clip(exponents, -1000, 1000).astype(np.float64))


@dataclass(frozen=True)
class Problem:
    """A classification problem as plain arrays.

    Parameters
    ----------
    points : float32 array of shape (n_points, n_features)
        In the frame.
    targets : int32 array of shape (n_points,)
        Positions in `classes`.
    weights : float32 array of shape (n_points,)
        Factors of C, all positive.
    classes : array of shape (n_classes,)
    frame : Frame
    rows : int32 array of shape (n_points,)
        The row of the user's data that each point comes from.
    n_rows : int
        Number of rows of the user's data.
    """

    points: Floats
    targets: Codes
    weights: Floats
    classes: NDArray[Any]
    frame: Frame
    rows: Codes
    n_rows: int

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.points)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def variance(self) -> float:
        """Return the variance of all coordinates together, in squared units of the frame."""
        squares = np.einsum("ij,ij->", self.points, self.points, dtype=np.float64)
        means = self.points.mean(axis=0, dtype=np.float64)
        within = squares / self.points.size - float((means**2).mean())
        origins = means + (self.frame.offset - self.frame.offset.mean()) / self.frame.scale
        return max(within, 0.0) + float(origins.var())

    def by_pairs(self) -> Iterator[Problem]:
        """Yield the binary problems of all pairs of classes, the earlier class first."""
        for a, b in combinations(range(self.n_classes), 2):
            kept = np.flatnonzero((self.targets == a) | (self.targets == b))
            yield replace(
                self,
                points=self.points[kept],
                targets=(self.targets[kept] == b).astype(np.int32),
                weights=self.weights[kept],
                classes=self.classes[[a, b]],
                rows=self.rows[kept],
            )


def make_problem(
    X: NDArray[Any],
    y: NDArray[Any],
    *,
    sample_weight: Any = None,
    class_weight: Any = None,
    centred: bool = True,
    find_frame: Callable[..., Frame] = Frame.of,
) -> Problem:
    """Encode labels and weights and move the points into their frame.

    A point of weight zero is dropped, as if it had never been there.
    """
    check_classification_targets(y)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    n_rows = len(X)
    kept = np.flatnonzero(weights > 0)
    if len(kept) < n_rows:
        X, y, weights = X[kept], y[kept], weights[kept]
    classes = np.unique(y)
    targets = np.searchsorted(classes, y)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only, {classes[0]}, among the {len(X)} points of positive weight:"
            " a classifier needs points of at least two classes."
        )
    factors = np.ones(len(classes))
    if class_weight is not None:
        factors = compute_class_weight(class_weight, classes=classes, y=y)
    if not (np.isfinite(factors) & (factors > 0)).all():
        raise ValueError(
            f"class_weight must be positive and finite for every class, got {class_weight!r}."
            " To leave a class out, drop its points or give them a sample_weight of zero."
        )
    frame = find_frame(X, centred=centred)
    return Problem(
        points=frame.apply(X),
        targets=targets.astype(np.int32),
        weights=as_factors(weights * factors[targets]),
        classes=classes,
        frame=frame,
        rows=kept.astype(np.int32),
        n_rows=n_rows,
    )


def as_factors(values: Any) -> Floats:
    """Return positive numbers as the engine takes them, cut to the reach of single precision."""
    info = np.finfo(np.float32)
    return np.clip(np.asarray(values, dtype=np.float64), info.tiny, info.max).astype(np.float32)
