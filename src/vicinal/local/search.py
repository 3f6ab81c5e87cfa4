"""Parameters by the k'-internal cross-validation of neighbourhoods.

The machine of a neighbourhood is used in its inner part only, so only the k' innermost points are
ever held out, fold by fold; the points around them always train (Segata & Blanzieri, JMLR 11, 2010,
Definitions 3 to 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from vicinal import engine
from vicinal.local.machines import Machines, Neighbourhoods, Training
from vicinal.local.model import Trainer
from vicinal.local.progress import Progress
from vicinal.neighbors.index import NeighbourIndex
from vicinal.problem import Floats, Problem

ROUND = 4
"""Centres evaluated before the race drops candidates again."""

_CONFIDENCE = 0.95
_MOST_DRAWS = 20_000


@dataclass(frozen=True)
class Grid:
    """Values of C and of the percentile of the local width, and how to compare them."""

    C: Floats
    percentiles: Floats
    n_folds: int

    @classmethod
    def of(cls, C: Any, percentiles: Any, n_folds: int, training: Training) -> Grid:
        """Sort out the values; without a local width the percentile plays no part."""
        percentiles = np.unique(np.asarray(percentiles, dtype=np.float32))
        if not training.kernel.has_local_width:
            percentiles = percentiles[:1]
        return cls(np.unique(np.asarray(C, dtype=np.float32)), percentiles, n_folds)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of percentiles and of values of C."""
        return len(self.percentiles), len(self.C)

    def part(self, alive: NDArray[np.bool_]) -> tuple[Any, Grid]:
        """Return the smallest grid with all of some candidates, and where in this one it lies."""
        p, c = alive.any(axis=1), alive.any(axis=0)
        return np.ix_(p, c), Grid(self.C[c], self.percentiles[p], self.n_folds)


def internal_errors(
    problem: Problem,
    neighbourhoods: Neighbourhoods,
    n_internal: int | None,
    grid: Grid,
    training: Training,
) -> NDArray[np.float64]:
    """Return the errors of the k'-internal cross-validation.

    Parameters
    ----------
    problem : Problem
    neighbourhoods : int32 array of shape (n_neighbourhoods, k)
    n_internal : int or None
        The number k' of points that are held out in turn; None is half of k.
    grid : Grid
    training : Training

    Returns
    -------
    errors : array of shape (n_neighbourhoods, n_percentiles, n_C)
        Share of the innermost points that are misclassified when they are held out.
    """
    k = neighbourhoods.shape[1]
    n_internal = max(1, k // 2) if n_internal is None else min(n_internal, k)
    return engine.cross_validate(
        problem.points,
        problem.targets,
        problem.weights,
        np.ascontiguousarray(neighbourhoods),
        n_internal,
        max(2, min(grid.n_folds, n_internal)),
        training.kernel,
        percentiles=grid.percentiles.tolist(),
        Cs=grid.C.tolist(),
        tol=training.tol,
        cache_mb=training.cache_mb,
        n_threads=training.n_threads,
    )


@dataclass(frozen=True)
class Results:
    """Errors of every candidate at every centre; NaN where it was not tried.

    Parameters
    ----------
    sizes : list of int
        The values of k that were tried.
    grid : Grid
    errors : array of shape (n_sizes, n_centres, n_percentiles, n_C)
    """

    sizes: list[int]
    grid: Grid
    errors: NDArray[np.float64]

    def mean(self) -> NDArray[np.float64]:
        """Return the mean error of each candidate over the centres where it was tried."""
        return np.nanmean(self.errors, axis=1)

    def n_tried(self) -> NDArray[np.intp]:
        """Return the number of centres at which each candidate was tried."""
        return (~np.isnan(self.errors)).sum(axis=1)

    def finalists(self) -> NDArray[np.bool_]:
        """Return which candidates were tried as often as any: only those may win."""
        n_tried = self.n_tried()
        return n_tried == n_tried.max()

    def best(self) -> tuple[int, float, float]:
        """Return the size, C and percentile of least error: the earliest of several."""
        means = np.where(self.finalists(), self.mean(), np.inf)
        # By size, then C, then percentile, so that ties go to the cheaper machine.
        means = means.transpose(0, 2, 1)
        size, c, p = np.unravel_index(means.argmin(), means.shape)
        return self.sizes[size], float(self.grid.C[c]), float(self.grid.percentiles[p])


def search_parameters(
    problem: Problem,
    index: NeighbourIndex,
    sizes: Sequence[int],
    grid: Grid,
    training: Training,
    *,
    n_centres: int,
    n_internal: int | None,
    search: Literal["race", "full"],
    random_state: np.random.RandomState,
    progress: Progress,
) -> Results:
    """Compare sizes of neighbourhoods, values of C and percentiles on some random centres.

    A size is tried after all smaller ones, unless one of them was worse than its predecessor.
    In a race a candidate is dropped once it is worse than the best of its size by more than chance
    explains: by more than the one-sided 95 % Student bound of the mean of the differences between
    their errors at the same centres. A size is dropped by the same rule against its predecessor.
    """
    centres = draw_centres(problem, index, sizes[0], n_centres, random_state, training.n_threads)
    n_rounds = n_rounds_of(n_centres)
    all_errors: list[NDArray[np.float64]] = []
    previous: NDArray[np.float64] | None = None
    for number, k in enumerate(sizes):
        _, neighbourhoods = index.query(index.points[centres], k, n_threads=training.n_threads)
        errors = np.full((len(centres), *grid.shape), np.nan)
        all_errors.append(errors)
        alive = np.ones(grid.shape, dtype=bool)
        stopped = worse = False
        for begin in range(0, len(centres), ROUND):
            rows = slice(begin, begin + ROUND)
            where, part = grid.part(alive)
            found = internal_errors(problem, neighbourhoods[rows], n_internal, part, training)
            errors[(np.arange(len(centres))[rows, None, None], *where)] = found
            errors[rows, ~alive] = np.nan
            done = errors[: rows.stop]
            stopped = progress.reach((number + (begin / ROUND + 1) / n_rounds) / len(sizes))
            if search == "race":
                alive &= ~_certainly_worse(done, _best_column(done))
                worse = previous is not None and bool(
                    _certainly_worse(_best_column(done)[:, None], previous[: len(done)])[0]
                )
            if stopped or worse:
                break
        best = _best_column(errors[: rows.stop])
        # Means are compared over the centres that both sizes have seen.
        if previous is not None and best.mean() > previous[: len(best)].mean():
            worse = True
        if stopped or worse:
            break
        previous = best
    progress.reach(1.0)
    return Results(list(sizes[: len(all_errors)]), grid, np.stack(all_errors))


def n_rounds_of(n_centres: int) -> int:
    """Return the number of rounds in which some centres are evaluated."""
    return -(-n_centres // ROUND)


def draw_centres(
    problem: Problem,
    index: NeighbourIndex,
    k: int,
    n_centres: int,
    random_state: np.random.RandomState,
    n_threads: int,
) -> NDArray[np.int32]:
    """Draw random points until the k-neighbourhoods of enough of them hold two classes.

    Where the classes are so well separated that 20,000 draws do not yield enough, other points fill
    up: their neighbourhoods prefer no parameters.
    """
    order = random_state.permutation(problem.n_points)[:_MOST_DRAWS].astype(np.int32)
    mixed = order[:0]
    begin, size = 0, 4 * n_centres
    while begin < len(order) and len(mixed) < n_centres:
        drawn = order[begin : begin + size]
        _, neighbours = index.query(index.points[drawn], k, n_threads=n_threads)
        targets = problem.targets[neighbours]
        mixed = np.concatenate([mixed, drawn[targets.min(axis=1) < targets.max(axis=1)]])
        begin, size = begin + size, min(2 * size, 1024)
    if len(mixed) < n_centres:
        mixed = np.concatenate([mixed, np.setdiff1d(order, mixed, assume_unique=True)])
    return mixed[:n_centres]


def best_of_each(errors: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the percentile and the C of least error of each neighbourhood, ties to the least C."""
    n, n_percentiles, n_C = errors.shape
    best = errors.transpose(0, 2, 1).reshape(n, -1).argmin(axis=1)
    c, p = np.unravel_index(best, (n_C, n_percentiles))
    return p, c


def with_its_own_parameters(
    C: Any, percentiles: Any, n_folds: int, n_internal: int | None
) -> Trainer:
    """Return the trainer that lets every machine choose by the cross-validation of its points."""

    def train(problem: Problem, neighbourhoods: Neighbourhoods, training: Training) -> Machines:
        grid = Grid.of(C, percentiles, n_folds, training)
        errors = internal_errors(problem, neighbourhoods, n_internal, grid, training)
        parts, orders = [], []
        for rows, C_of_rows, settings in groups_of_best(errors, grid, training):
            parts.append(Machines.train(problem, neighbourhoods[rows], C_of_rows, settings))
            orders.append(rows)
        return Machines.concatenate(parts).take(np.argsort(np.concatenate(orders)))

    return train


def groups_of_best(
    errors: NDArray[np.float64], grid: Grid, training: Training
) -> Iterator[tuple[NDArray[np.intp], Floats, Training]]:
    """Yield neighbourhoods with the same best percentile, with the best C of each."""
    p, c = best_of_each(errors)
    for at in np.unique(p):
        rows = np.flatnonzero(p == at)
        kernel = training.kernel._replace(percentile=float(grid.percentiles[at]))
        yield rows, grid.C[c[rows]], replace(training, kernel=kernel)


def _best_column(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the errors, centre by centre, of the candidate whose mean is least."""
    columns = errors.reshape(len(errors), -1)
    means = columns.mean(axis=0)
    return columns[:, np.where(np.isnan(means), np.inf, means).argmin()]


def _certainly_worse(errors: NDArray[np.float64], best: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which candidates, one a column, are worse than the best by more than chance."""
    n = len(errors)
    if n < 3:
        return np.zeros(errors.shape[1:], dtype=bool)
    differences = errors - best.reshape(-1, *[1] * (errors.ndim - 1))
    margin = stdtrit(n - 1, _CONFIDENCE) * differences.std(axis=0, ddof=1) / np.sqrt(n)
    return differences.mean(axis=0) > margin
