"""The compiled core behind plain functions.

Points are float32 and C-contiguous, already in the frame of their problem. Every function takes the
number of threads, releases the GIL while it works, checks for Ctrl-C, and returns the same values
for any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from vicinal.engine._load import load
from vicinal.kernels import EUCLIDEAN, KernelSpec, Metric

INSTRUCTION_SET, _core = load()

DUPLICATE: int = _core.DUPLICATE
"""The level of a point that has the place of an earlier one."""

MOST_ITERATIONS: int = _core.MOST_ITERATIONS
"""The solver gives up on a problem after about as many."""

_SAMPLE = 4096
"""Points that the axes of a sieve are found from, at most about."""

Floats = NDArray[np.float32]
Codes = NDArray[np.int32]
Arrays = dict[str, NDArray[Any]]


class Walking(NamedTuple):
    """How a machine takes its steps."""

    corrected: bool = True
    """Outputs start at their approximations, not at the bias."""
    weighted: bool = False
    """The largest term comes first, not the largest kernel value."""
    balanced: bool = False
    """Tug of war: the class of the least cumulative weight has the next step."""


EMBEDDINGS = ("pca", "kernel_pca", "index")
"""What a machine's approximations are made of, in the core's order."""


class NeighbourIndex:
    """Exact nearest neighbours by a cover tree or by a blocked scan.

    Parameters
    ----------
    points : float32 array of shape (n_points, n_features)
    structure : {"tree", "scan", "sieve"}
        A sieve is a scan that answers queries for one neighbour faster, where a few axes hold most
        of the variance.
    base : float, optional
        Base of the tree's levels, above 1; chosen from the data by default.
    metric : tuple
        Kind, gamma, coef0 and degree of the kernel whose feature space gives the distance.
    n_threads : int
    """

    def __init__(
        self,
        points: Floats,
        *,
        structure: Literal["tree", "scan", "sieve"] = "tree",
        base: float | None = None,
        metric: Metric = EUCLIDEAN,
        n_threads: int = 1,
    ) -> None:
        self.points = points
        self.structure = structure
        self.metric = metric
        searched = "scan" if structure == "sieve" else structure
        self._index = _core.NeighbourIndex(points, searched, base or 0.0, metric, n_threads)
        if structure == "sieve":
            axes, origin, _ = sieve_axes(points)
            self._index.sift(axes, origin, n_threads)

    def query(self, queries: Floats, k: int, *, n_threads: int = 1) -> tuple[Floats, Codes]:
        """Return squared distances and indices of the k nearest, by distance and then index."""
        squared, indices, _ = self._index.query(queries, k, n_threads)
        return squared, indices

    def count_distances(self, queries: Floats, k: int) -> float:
        """Return how many distances a query for k neighbours computes, on average."""
        return self._index.query(queries, k, 1)[2] / len(queries)

    def query_radius(
        self, queries: Floats, radius: float, *, n_threads: int = 1
    ) -> tuple[NDArray[np.int64], Floats, Codes]:
        """Return row starts, squared distances and indices of all points within a radius."""
        return self._index.query_radius(queries, radius, n_threads)

    @property
    def levels(self) -> Codes:
        """The level of each point in the tree."""
        return self._index.levels()

    @property
    def parents(self) -> Codes:
        """The parent of each point in the tree, -1 for the root."""
        return self._index.parents()

    @property
    def base(self) -> float:
        """Base of the tree's levels."""
        return self._index.base()

    def state(self) -> dict[str, Any]:
        """Return what has to be kept of the index beside the points."""
        if self.structure == "sieve":
            return {"structure": "scan", "metric": self.metric, "sieve": True}
        built = self._index.state() if self.structure == "tree" else {}
        return {"structure": self.structure, "metric": self.metric, **built}

    @classmethod
    def from_state(cls, points: Floats, state: Mapping[str, Any], *, n_threads: int = 1) -> Self:
        """Return the index whose state was kept, without building it again."""
        if state["structure"] == "scan":
            structure: Any = "sieve" if state.get("sieve") else "scan"
            return cls(points, structure=structure, metric=state["metric"], n_threads=n_threads)
        self = cls.__new__(cls)
        self.points = points
        self.structure = state["structure"]
        self.metric = state["metric"]
        self._index = _core.tree_from_state(
            points,
            *(
                state[name]
                for name in ("metric", "base", "order", "levels", "parents", "cells", "radius")
            ),
            n_threads,
        )
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the points and the state."""
        return (type(self).from_state, (self.points, self.state()))


def sieve_axes(points: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the axes and the origin of a sieve, and the share of the variance that they hold."""
    sample = points[:: -(-len(points) // _SAMPLE)].astype(np.float64)
    origin = sample.mean(axis=0)
    sample -= origin
    variances, axes = np.linalg.eigh(sample.T @ sample)
    share = variances[-_core.SIEVE_AXES :].sum() / max(variances.sum(), np.finfo(np.float64).tiny)
    return np.ascontiguousarray(axes.T[-_core.SIEVE_AXES :][::-1]), origin, float(share)


class EarlyMachine:
    """A kernel expansion that is evaluated only as far as a query needs: nearest support vectors.

    Parameters
    ----------
    vectors : float32 array of shape (n_vectors, n_features)
        Sorted by class.
    class_sv : int32 array of shape (n_classes,)
        Number of vectors of each class.
    support : float32 array of shape (n_classes - 1, n_vectors)
        How strongly, at least 0, a vector supports its class against each other, in LIBSVM's
        layout.
    bias : float32 array
        One for each pair of classes, positive for the later one.
    kernel : tuple
        Kind, gamma, coef0 and degree.
    axes : float32 array of shape (n_axes, n_features)
        Principal axes, where kernel values may be approximated, most important first.
    landmarks : int32 array of shape (n_landmarks,)
        Vectors that kernel values may be approximated with.
    basis : float32 array of shape (n_landmarks, n_landmarks)
        Lower triangular: from kernel values with the landmarks to orthogonal axes.

    For approximations by the index, vectors that follow each other in a class should lie close
    together, sixteen by sixteen.
    """

    def __init__(
        self,
        vectors: Floats,
        class_sv: Codes,
        support: Floats,
        bias: Floats,
        kernel: Metric,
        axes: Floats,
        landmarks: Codes,
        basis: Floats,
    ) -> None:
        self._arguments = (vectors, class_sv, support, bias, kernel, axes, landmarks, basis)
        self._machine = _core.EarlyMachine(*self._arguments)

    def answer(
        self,
        queries: Floats,
        levels: Sequence[tuple[str, int, Floats]],
        linear: tuple[Floats, Floats, Floats],
        walking: Walking,
        *,
        sketch: tuple[Floats, Floats, Floats, Floats, Floats, Floats] | None = None,
        regions: Codes | None = None,
        n_threads: int = 1,
    ) -> tuple[NDArray[np.float64], Codes, Codes]:
        """Return decisions, codes of classes, and how many vectors each query touched.

        Each level is an embedding, a number of its axes and thresholds: a query is answered as soon
        as the leaning of its leader exceeds ``thresholds[leader, step]``, and goes to the next
        level after the last step. Where queries have regions, the row is ``region * n_classes +
        leader``. After all levels it is answered exactly. `linear` has the weights, biases and
        thresholds of a linear filter, of no rows where there is none; `sketch` has the axes,
        landmarks, weights of coordinates and of kernel values, biases and thresholds of the small
        machine that comes next. A decision is one signed value for two classes; for more, a column
        for each class, its votes plus its outputs squeezed into (-1/3, 1/3).
        """
        if regions is None:
            regions = np.zeros(0, dtype=np.int32)
        coded = [(EMBEDDINGS.index(name), n_axes, limits) for name, n_axes, limits in levels]
        return self._machine.answer(
            queries, *linear, sketch, coded, regions, tuple(walking), n_threads
        )

    def settle(self, queries: Floats, *, n_threads: int = 1) -> tuple[Codes, Floats]:
        """Return each query's class and the exact leaning of every class: its least output."""
        return self._machine.settle(queries, n_threads)

    def trace(
        self,
        queries: Floats,
        embedding: str,
        n_axes: int,
        n_steps: int,
        walking: Walking,
        *,
        n_threads: int = 1,
    ) -> tuple[Codes, Floats]:
        """Return each query's leader and its leaning after 0, 1, … `n_steps` steps."""
        code = EMBEDDINGS.index(embedding)
        return self._machine.trace(queries, code, n_axes, n_steps, tuple(walking), n_threads)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays it was made of."""
        return (type(self), self._arguments)


def kernel_values(
    points: Floats, vectors: Floats, kernel: Metric, out: Floats, *, n_threads: int = 1
) -> Floats:
    """Write the kernel values of points with vectors into an array, a row a point."""
    _core.kernel_values(points, vectors, kernel, out, n_threads)
    return out


def expand(
    points: Floats,
    vectors: Floats,
    coef: NDArray[np.float64],
    bias: NDArray[np.float64],
    kernel: Metric,
    *,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    """Return the outputs of a kernel expansion, a column for each column of coefficients.

    The outputs of a point do not depend on the points that come with it.
    """
    return _core.expand(points, vectors, coef, bias, kernel, n_threads)


def accept_centres(
    candidates: Codes,
    neighbours: Codes,
    n_assigned: int,
    covered: NDArray[np.uint8],
    ranks: Codes,
    owners: Codes,
    first_id: int,
) -> NDArray[np.bool_]:
    """Return which candidates become centres when they are taken one by one.

    A candidate that an earlier neighbourhood covers is refused. An accepted one covers its first
    `n_assigned` neighbours and owns those whose rank it lowers; `covered`, `ranks` and `owners` are
    brought up to date in place. Centres are numbered from `first_id`.
    """
    return _core.accept_centres(
        candidates, neighbours, n_assigned, covered, ranks, owners, first_id
    )


def train(
    points: Floats,
    targets: Codes,
    weights: Floats,
    neighbourhoods: Codes,
    kernel: KernelSpec,
    *,
    C: Floats,
    gammas: Floats | None = None,
    tol: float = 1e-3,
    cache_mb: float = 200.0,
    n_threads: int = 1,
) -> Arrays:
    """Train a machine on each neighbourhood and return the arrays of all.

    `C` and `gammas` have a value for each machine; without `gammas`, the kernel says how wide it
    is. Kernel matrices above `cache_mb` are computed row by row, on demand.
    """
    return _core.train(
        points,
        targets,
        weights,
        neighbourhoods,
        tuple(kernel),
        C,
        gammas,
        tol,
        cache_mb,
        n_threads,
    )


def evaluate(
    points: Floats,
    machines: Mapping[str, NDArray[Any]],
    queries: Floats,
    routes: Codes,
    n_classes: int,
    kernel: KernelSpec,
    *,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    """Return the decision of each query by the machine that its route names.

    One signed value a query for two classes. For more, a column for each class: its votes, plus the
    sum of its outputs squeezed into (-1/3, 1/3); -1 where the machine does not know the class.
    """
    names = (
        "gamma",
        "sv_ptr",
        "sv",
        "class_ptr",
        "classes",
        "class_sv",
        "coef_ptr",
        "coef",
        "bias_ptr",
        "bias",
    )
    return _core.evaluate(
        points,
        *(machines[name] for name in names),
        queries,
        routes,
        n_classes,
        tuple(kernel),
        n_threads,
    )


def train_and_evaluate(
    points: Floats,
    targets: Codes,
    weights: Floats,
    neighbourhoods: Codes,
    queries: Floats,
    n_classes: int,
    kernel: KernelSpec,
    *,
    C: Floats,
    gammas: Floats | None = None,
    tol: float = 1e-3,
    cache_mb: float = 200.0,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    """Return the decision of each query by a machine trained for it alone."""
    return _core.train_and_evaluate(
        points,
        targets,
        weights,
        neighbourhoods,
        queries,
        n_classes,
        tuple(kernel),
        C,
        gammas,
        tol,
        cache_mb,
        n_threads,
    )


def cross_validate(
    points: Floats,
    targets: Codes,
    weights: Floats,
    neighbourhoods: Codes,
    n_internal: int,
    n_folds: int,
    kernels: Sequence[KernelSpec],
    *,
    Cs: Sequence[float],
    tol: float = 1e-3,
    cache_mb: float = 200.0,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    """Return the error of each neighbourhood for each kernel and each C, which ascend.

    The kernels are of one kind; they may differ in their parameters.
    The `n_internal` innermost points of a neighbourhood are held out in turn: point j in fold
    ``j % n_folds``, while the machine trains on all others of the neighbourhood.
    """
    return _core.cross_validate(
        points,
        targets,
        weights,
        neighbourhoods,
        n_internal,
        n_folds,
        [tuple(kernel) for kernel in kernels],
        [float(c) for c in Cs],
        tol,
        cache_mb,
        n_threads,
    )
