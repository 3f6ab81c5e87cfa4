"""Many small kernel expansions in a few arrays."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from vicinal import engine
from vicinal.kernels import KernelSpec
from vicinal.local.votes import Decisions
from vicinal.problem import Codes, Floats, Problem

Neighbourhoods = NDArray[np.int32]
"""A row for each machine: positions of its training points, nearest to its centre first."""


@dataclass(frozen=True)
class Training:
    """What training needs beside the data: the kernel in their frame and the solver's settings."""

    kernel: KernelSpec
    tol: float
    cache_mb: float
    n_threads: int


@dataclass(frozen=True)
class Machines:
    """The machines of one problem; machine m has the m-th run of every ragged array.

    Parameters
    ----------
    gamma : float32 array of shape (n_machines,)
        Kernel width in the problem's frame.
    sv, sv_ptr : int32 array, int64 array of shape (n_machines + 1,)
        Support vectors as positions in the problem's points, sorted by class.
    classes, class_ptr : int32 array, int64 array
        Codes of the classes present, in order. A machine of one class is unanimous and has no
        support vectors.
    class_sv : int32 array
        Number of support vectors of each of those classes.
    coef, coef_ptr : float32 array, int64 array
        A block of shape (number of classes - 1, number of support vectors) in LIBSVM's layout.
    bias, bias_ptr : float32 array, int64 array
        One for each pair of present classes, in LIBSVM's order; positive is the later class.
    n_iter : int64 array of shape (n_machines,)
    """

    gamma: Floats
    sv_ptr: NDArray[np.int64]
    sv: Codes
    class_ptr: NDArray[np.int64]
    classes: Codes
    class_sv: Codes
    coef_ptr: NDArray[np.int64]
    coef: Floats
    bias_ptr: NDArray[np.int64]
    bias: Floats
    n_iter: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of machines."""
        return len(self.gamma)

    @property
    def n_support(self) -> NDArray[np.int64]:
        """Number of support vectors of each machine."""
        return np.diff(self.sv_ptr)

    @property
    def unanimous(self) -> NDArray[np.bool_]:
        """Which machines saw one class only."""
        return np.diff(self.class_ptr) == 1

    @classmethod
    def train(
        cls,
        problem: Problem,
        neighbourhoods: Neighbourhoods,
        C: NDArray[np.float32],
        training: Training,
    ) -> Self:
        """Train a machine on each neighbourhood, with a C of its own."""
        arrays = engine.train(
            problem.points,
            problem.targets,
            problem.weights,
            neighbourhoods,
            training.kernel,
            C=C,
            gammas=None,
            tol=training.tol,
            cache_mb=training.cache_mb,
            n_threads=training.n_threads,
        )
        machines = cls(**arrays)
        if (machines.n_iter >= engine.MOST_ITERATIONS).any():
            warnings.warn(
                f"The solver gave up on a machine: single precision, or"
                f" {engine.MOST_ITERATIONS:,} iterations, ended before it reached tol. Scale the"
                " features, or lower C, or raise tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return machines

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Put the machines of several parts behind each other."""
        if len(parts) == 1:
            return parts[0]
        arrays: dict[str, NDArray[Any]] = {}
        for field in fields(cls):
            runs = [getattr(part, field.name) for part in parts]
            if field.name.endswith("_ptr"):
                ends = np.cumsum([0, *(run[-1] for run in runs)])
                runs = [run[1:] + end for run, end in zip(runs, ends[:-1], strict=True)]
                runs.insert(0, np.zeros(1, dtype=np.int64))
            arrays[field.name] = np.concatenate(runs)
        return cls(**arrays)

    def take(self, order: NDArray[np.intp]) -> Self:
        """Return the machines in another order."""
        arrays: dict[str, NDArray[Any]] = {
            "gamma": self.gamma[order],
            "n_iter": self.n_iter[order],
        }
        for name in ("sv", "classes", "class_sv", "coef", "bias"):
            ptr_name = "class_ptr" if name.startswith("class") else f"{name}_ptr"
            ptr = getattr(self, ptr_name)
            lengths = np.diff(ptr)[order]
            ends = np.cumsum(lengths)
            # Position j of run m comes from ptr[order[m]] + j.
            source = np.arange(lengths.sum()) + np.repeat(ptr[order] - (ends - lengths), lengths)
            arrays[name] = getattr(self, name)[source]
            arrays[ptr_name] = np.concatenate([np.zeros(1, dtype=np.int64), ends])
        return type(self)(**arrays)

    def evaluate(
        self,
        problem: Problem,
        queries: Floats,
        routes: Codes,
        kernel: KernelSpec,
        *,
        n_threads: int,
    ) -> Decisions:
        """Return the decision of each query by the machine that its route names."""
        return engine.evaluate(
            problem.points,
            {field.name: getattr(self, field.name) for field in fields(self)},
            queries,
            routes,
            problem.n_classes,
            kernel,
            n_threads=n_threads,
        )


def by_pair(coef: NDArray[Any], class_sv: NDArray[Any]) -> NDArray[Any]:
    """Turn the coefficients of one machine from LIBSVM's layout into a column for each pair.

    Parameters
    ----------
    coef : array of shape (n_classes - 1, n_vectors)
    class_sv : array of shape (n_classes,)
        Number of vectors of each class.

    Examples
    --------
    >>> by_pair(np.array([[1, 2, 3], [4, 5, 6]]), np.array([1, 1, 1])).T
    array([[1, 2, 0],
           [4, 0, 3],
           [0, 5, 6]])
    """
    columns = [np.where(owner, coef[row], 0) for owner, row in _places(class_sv)]
    return np.stack([a + b for a, b in zip(columns[::2], columns[1::2], strict=True)], axis=1)


def from_pairs(columns: NDArray[Any], class_sv: NDArray[Any]) -> NDArray[Any]:
    """Turn a column of coefficients for each pair of classes into LIBSVM's layout."""
    coef = np.zeros((len(class_sv) - 1, len(columns)), dtype=columns.dtype)
    for at, (owner, row) in enumerate(_places(class_sv)):
        coef[row, owner] = columns[owner, at // 2]
    return coef


def _places(class_sv: NDArray[Any]) -> list[tuple[NDArray[np.bool_], int]]:
    """For each pair, the vectors of its earlier and of its later class, and their row."""
    owner = np.repeat(np.arange(len(class_sv)), class_sv)
    return [
        place
        for a, b in combinations(range(len(class_sv)), 2)
        for place in ((owner == a, b - 1), (owner == b, a))
    ]
