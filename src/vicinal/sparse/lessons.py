"""The machines of a cover, taught to fewer vectors: what each learns, and from which points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits

from vicinal.kernels import LINEAR, RBF
from vicinal.local.machines import Machines, by_pair, from_pairs
from vicinal.local.model import LocalModel
from vicinal.neighbors.index import make_index
from vicinal.problem import Codes, Doubles, Floats
from vicinal.sparse.distillation import Lesson, Small
from vicinal.sparse.expansion import kernel_values

_LARGEST_STACK = 1 << 18
"""Kernel values of machines that learn together: the more they are, the slower their descent."""

_MAX_ITER = 100

_WIDTH = 2.5
"""Kernels start no narrower than this, over the squared distance of the k'-th neighbour: a few
vectors have to reach everywhere."""


@dataclass(frozen=True)
class Trial:
    """Machines of one size, and what they are worth.

    Parameters
    ----------
    machines : Machines
        Whose vectors are rows of `vectors`.
    vectors : float32 array of shape (n_vectors, n_features)
    targets : int32 array of shape (n_vectors,)
        The class that each vector is of.
    numbers : int array of shape (len(machines),)
        Which machines of the cover they stand for.
    misfit : float64 array of shape (len(machines),)
    """

    machines: Machines
    vectors: Floats
    targets: Codes
    numbers: NDArray[np.intp]
    misfit: Doubles


def small_machines(
    model: LocalModel,
    size: int,
    wanted: NDArray[np.bool_],
    learned: NDArray[np.bool_],
    seed: int,
    n_threads: int,
) -> Trial:
    """Train small machines in the place of some, if those have more vectors than they.

    Parameters
    ----------
    model : LocalModel
    size : int
        Vectors of each; at least as many as it knows classes.
    wanted : bool array of shape (n_machines,)
    learned : bool array of shape (n_points,)
        The training points to learn from.
    seed : int
    n_threads : int
    """
    machines = model.machines
    n_classes = np.diff(machines.class_ptr)
    large = machines.n_support > np.maximum(size, n_classes)
    if model.kernel.kind == LINEAR:  # a vector for each pair says all
        large = machines.n_support > n_classes * (n_classes - 1) // 2
        return _joined([_summed(model, int(m)) for m in np.flatnonzero(large & wanted)], model)
    large &= wanted
    around, apart, unit = _around(model, learned, n_threads)
    jobs = []
    for c in np.unique(n_classes[large]):
        numbers = np.flatnonzero(large & (n_classes == c))
        m = max(size, int(c))
        together = max(1, _LARGEST_STACK // (around.shape[1] * m))
        jobs += [(numbers[rows], m) for rows in gen_batches(len(numbers), together)]
    seeds = np.random.SeedSequence(seed).spawn(len(jobs))
    with threadpool_limits(1, user_api="blas"):
        parts = Parallel(n_jobs=n_threads, prefer="threads")(
            delayed(_taught)(
                model, numbers, m, around[numbers], apart[numbers], unit[numbers], seed
            )
            for (numbers, m), seed in zip(jobs, seeds, strict=True)
        )
    return _joined(parts, model)


def _summed(model: LocalModel, number: int) -> tuple[Small, NDArray[np.intp], NDArray[np.intp]]:
    """Return a linear machine of one vector a pair, which belongs to the pair's later class."""
    vectors, coef, bias = _expansion(model, number)
    n_classes = int(np.diff(model.machines.class_ptr)[number])
    pairs = list(combinations(range(n_classes), 2))
    by_later = sorted(range(len(pairs)), key=lambda pair: pairs[pair][1])
    small = Small(
        (coef.T @ vectors)[None, by_later].astype(np.float32),
        np.eye(len(pairs))[None, :, by_later],
        bias[None].astype(np.float64),
        model.machines.gamma[[number]].astype(np.float64),
        np.zeros(1),
    )
    return small, np.array([[pairs[pair][1] for pair in by_later]]), np.array([number])


def _around(
    model: LocalModel, learned: NDArray[np.bool_], n_threads: int
) -> tuple[Codes, Doubles, Doubles]:
    """Return the points to learn from around each centre, their squared distances, and a unit.

    The unit is the squared distance of the k'-th, the reach of what a centre covers. Twice as many
    points are learned from as it covers: queries that it answers lie among those, if they are like
    the training points.
    """
    problem, cover = model.problem, model.cover
    places = np.flatnonzero(learned).astype(np.int32)
    n = min(2 * cover.n_assigned, len(places))
    index = make_index(problem.points[places], model.kernel.metric, k=n, n_threads=n_threads)
    squared, found = index.query(problem.points[cover.centres], n, n_threads=n_threads)
    unit = squared[:, min(cover.n_assigned, n) - 1].astype(np.float64)
    unit[unit == 0] = 1.0  # twins
    return places[found], squared / unit[:, None], unit


def _taught(
    model: LocalModel,
    numbers: NDArray[np.intp],
    size: int,
    around: Codes,
    apart: Doubles,
    unit: Doubles,
    seed: np.random.SeedSequence,
) -> tuple[Small, NDArray[Any], NDArray[np.intp]]:
    """Return a stack of small machines, the classes of their vectors, and their numbers."""
    problem, machines = model.problem, model.machines
    X = problem.points[around]
    classes = _runs(machines.classes, machines.class_ptr, numbers)
    outputs = np.stack(
        [_outputs(model, number, part) for number, part in zip(numbers, X, strict=True)]
    )
    codes = np.stack(
        [
            np.searchsorted(own, problem.targets[row])
            for own, row in zip(classes, around, strict=True)
        ]
    )
    # A class of the neighbourhood is known; others that lie around count for no pair.
    known = np.stack(
        [np.isin(problem.targets[row], own) for own, row in zip(classes, around, strict=True)]
    )
    near = 1 / (1 + apart**2)
    weights = np.zeros(outputs.shape)
    for pair, (a, b) in enumerate(combinations(range(classes.shape[1]), 2)):
        of_pair = known & ((codes == a) | (codes == b)) if classes.shape[1] > 2 else True
        weights[:, :, pair] = near * of_pair
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    origin = X[:, :1] if model.kernel.kind == RBF else np.float32(0)
    start, owners = _starts(codes, known, near, size, classes.shape[1], np.random.default_rng(seed))
    lesson = Lesson(
        X - origin,
        np.clip(outputs, -1, 1).astype(np.float32),
        weights.astype(np.float32),
        owners,
        model.kernel,
        _gamma(model, numbers, unit),
    )
    vectors = np.take_along_axis(X - origin, start[:, :, None], axis=1)
    small = lesson.learn(vectors, _MAX_ITER)
    return replace(small, vectors=small.vectors + origin), owners, numbers


def _gamma(model: LocalModel, numbers: NDArray[np.intp], unit: Doubles) -> Doubles:
    gamma = model.machines.gamma[numbers].astype(np.float64)
    return np.minimum(gamma, _WIDTH / unit) if model.kernel.kind == RBF else gamma


def _starts(
    codes: NDArray[Any],
    known: NDArray[np.bool_],
    near: Doubles,
    size: int,
    n_classes: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw points of every class to start from, the near ones more often, sorted by class."""
    keys = np.log(np.maximum(near, 1e-300)) + rng.gumbel(size=near.shape)
    start = np.zeros((len(codes), size), dtype=np.intp)
    owners = np.zeros_like(start)
    for row in range(len(codes)):
        chosen = np.argsort(-np.where(known[row], keys[row], -np.inf), kind="stable")
        # A class that is rare here has its nearest point all the same.
        first = [chosen[np.flatnonzero(codes[row][chosen] == c)[:1]] for c in range(n_classes)]
        taken = np.concatenate([*first, chosen])
        taken = taken[np.sort(np.unique(taken, return_index=True)[1])][:size]
        taken = np.resize(taken, size)
        own = np.minimum(codes[row][taken], n_classes - 1)
        order = np.argsort(own, kind="stable")
        start[row], owners[row] = taken[order], own[order]
    return start, owners


def _expansion(model: LocalModel, number: int) -> tuple[Floats, Doubles, Floats]:
    """Return the vectors of a machine, a column of coefficients for each pair, and the biases."""
    machines = model.machines

    def run(values: NDArray[Any], ptr: NDArray[np.int64]) -> NDArray[Any]:
        return values[ptr[number] : ptr[number + 1]]

    counts = run(machines.class_sv, machines.class_ptr)
    block = run(machines.coef, machines.coef_ptr).reshape(len(counts) - 1, -1)
    vectors = model.problem.points[run(machines.sv, machines.sv_ptr)]
    bias = run(machines.bias, machines.bias_ptr)
    return vectors, by_pair(block.astype(np.float64), counts), bias


def _outputs(model: LocalModel, number: int, X: Floats) -> Doubles:
    """Return the outputs of a machine for all its pairs of classes."""
    vectors, coef, bias = _expansion(model, number)
    kernel = (model.kernel.kind, float(model.machines.gamma[number]), *model.kernel[2:4])
    return kernel_values(kernel, X, vectors) @ coef + bias


def _runs(values: NDArray[Any], ptr: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
    """Return some runs of a ragged array, all of one length, as rows."""
    length = ptr[numbers[0] + 1] - ptr[numbers[0]]
    return values[ptr[numbers, None] + np.arange(length)]


def _joined(parts: list[tuple[Small, NDArray[Any], NDArray[np.intp]]], model: LocalModel) -> Trial:
    """Lay stacks of small machines out as the machines of a cover."""
    machines, vectors, targets, order, misfit = [], [], [], [], []
    n_vectors = 0
    for small, owners, numbers in parts:
        B, m, d = small.vectors.shape
        classes = _runs(model.machines.classes, model.machines.class_ptr, numbers)
        c = classes.shape[1]
        counts = (owners[:, None, :] == np.arange(c)[:, None]).sum(axis=2)
        coef = np.stack(
            [from_pairs(each.T, count) for each, count in zip(small.coef, counts, strict=True)]
        )
        steps = np.arange(B + 1, dtype=np.int64)
        machines.append(
            Machines(
                gamma=small.gamma.astype(np.float32),
                sv_ptr=steps * m,
                sv=np.arange(n_vectors, n_vectors + B * m, dtype=np.int32),
                class_ptr=steps * c,
                classes=classes.ravel(),
                class_sv=counts.ravel().astype(np.int32),
                coef_ptr=steps * ((c - 1) * m),
                coef=coef.ravel().astype(np.float32),
                bias_ptr=steps * (c * (c - 1) // 2),
                bias=small.bias.ravel().astype(np.float32),
                n_iter=model.machines.n_iter[numbers],
            )
        )
        vectors.append(small.vectors.reshape(-1, d))
        targets.append(np.take_along_axis(classes, owners, axis=1).ravel())
        order.append(numbers)
        misfit.append(small.misfit)
        n_vectors += B * m
    if not parts:
        nothing = model.machines.take(np.empty(0, dtype=np.intp))
        none = np.empty(0)
        return Trial(
            nothing, model.problem.points[:0], none.astype(np.int32), none.astype(np.intp), none
        )
    return Trial(
        Machines.concatenate(machines),
        np.concatenate(vectors),
        np.concatenate(targets),
        np.concatenate(order),
        np.concatenate(misfit),
    )
