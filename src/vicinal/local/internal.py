"""The k'-internal cross-validation of neighbourhoods.

The machine of a neighbourhood is used in its inner part only, so only the k' innermost points are
held out, fold by fold; the points around them always train (Segata & Blanzieri, JMLR 11, 2010,
Definitions 3 and 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal import engine
from vicinal.kernels import KernelSpec
from vicinal.local.machines import Machines, Neighbourhoods, Training
from vicinal.local.model import Trainer
from vicinal.problem import Floats, Problem, as_factors


@dataclass(frozen=True)
class Grid:
    """Values of C, in ascending order, and kernels of one metric; and how to compare them."""

    C: Floats
    kernels: tuple[KernelSpec, ...]
    n_folds: int

    @classmethod
    def of(cls, C: Any, kernels: Iterable[KernelSpec], n_folds: int) -> Grid:
        """Sort out the values."""
        return cls(np.unique(as_factors(C)), tuple(kernels), n_folds)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of kernels and of values of C."""
        return len(self.kernels), len(self.C)

    def part(self, wanted: NDArray[np.bool_]) -> tuple[Any, Grid]:
        """Return where the smallest grid with all of some candidates lies in this one, and it."""
        p, c = wanted.any(axis=1), wanted.any(axis=0)
        kernels = tuple(compress(self.kernels, np.atleast_1d(p)))
        return np.ix_(p, c), replace(self, C=self.C[c], kernels=kernels)


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
        The number k' of points, the first of each row, that are held out; None is half of k.
    grid : Grid
    training : Training

    Returns
    -------
    errors : array of shape (n_neighbourhoods, n_kernels, n_C)
        Share of those points that are misclassified when they are held out.
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
        grid.kernels,
        Cs=grid.C.tolist(),
        tol=training.tol,
        cache_mb=training.cache_mb,
        n_threads=training.n_threads,
    )


def groups_of_best(
    errors: NDArray[np.float64], grid: Grid, training: Training
) -> Iterator[tuple[NDArray[np.intp], Floats, Training]]:
    """Yield neighbourhoods that are best off with the same kernel, and the best C of each.

    Of equally good candidates that of the least C is taken, then that of the first kernel.
    """
    by_C = errors.transpose(0, 2, 1).reshape(len(errors), len(grid.C) * len(grid.kernels))
    c, p = np.unravel_index(by_C.argmin(axis=1), (len(grid.C), len(grid.kernels)))
    for at in np.unique(p):
        rows = np.flatnonzero(p == at)
        yield rows, grid.C[c[rows]], replace(training, kernel=grid.kernels[at])


def with_its_own_parameters(grid: Grid, n_internal: int | None) -> Trainer:
    """Return the trainer that lets every machine choose by the cross-validation of its points."""

    def train(problem: Problem, neighbourhoods: Neighbourhoods, training: Training) -> Machines:
        errors = internal_errors(problem, neighbourhoods, n_internal, grid, training)
        parts, orders = [], []
        for rows, C_of_rows, settings in groups_of_best(errors, grid, training):
            parts.append(Machines.train(problem, neighbourhoods[rows], C_of_rows, settings))
            orders.append(rows)
        return Machines.concatenate(parts).take(np.argsort(np.concatenate(orders)))

    return train
