"""Covers whose machines have a few vectors of their own.

Every machine is taught to say what it said, by fewer vectors, on the training points around its
centre (`distillation.py`). It is tried in several sizes, and one number for the whole cover decides
which size each machine gets: the smallest one whose misfit lies below it, or all of its support
vectors where none does. That number is the largest one at which the cover loses no more accuracy
than it may on points that no small machine has learned from. Machine by machine there are far too
few such points to tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits

from vicinal.kernels import LINEAR, RBF
from vicinal.local.cover import Cover
from vicinal.local.machines import Machines, by_pair, from_pairs
from vicinal.local.model import LocalModel
from vicinal.local.votes import winners
from vicinal.neighbors.index import make_index
from vicinal.problem import Codes, Doubles, Floats, Problem
from vicinal.sparse.distillation import Lesson, Small
from vicinal.sparse.expansion import kernel_values

_LARGEST_STACK = 1 << 18
"""Kernel values of machines that learn together: their descent is one, and slower the more there are."""

_MAX_ITER = 100
_LEFT_OUT = 5
"""Without other points to measure by, one training point of so many is left out of the lessons."""


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


@dataclass(frozen=True)
class Outcome:
    """A cover of smaller machines.

    Parameters
    ----------
    model : LocalModel
    loss : float
        By how much accuracy fell, as measured.
    n_whole : int
        Machines that were left as they were.
    """

    model: LocalModel
    loss: float
    n_whole: int


def compress_cover(
    model: LocalModel,
    sizes: list[int],
    max_loss: float,
    measured: tuple[Floats, Codes] | None,
    *,
    random_state: np.random.RandomState,
    n_threads: int,
) -> Outcome:
    """Give every machine of a cover as few vectors as the loss allows.

    Parameters
    ----------
    model : LocalModel
    sizes : list of int
        Numbers of vectors to try, ascending.
    max_loss : float
        Share of answers that may turn from right to wrong, net; with a standard error's room.
    measured : tuple of arrays, default=None
        Queries in the frame and their classes, to measure the loss by. None leaves some training
        points out of the lessons for that.
    random_state : RandomState
        For the places where vectors start.
    n_threads : int
    """
    problem = model.problem
    learned = np.ones(problem.n_points, dtype=bool)
    if measured is None:
        learned[::_LEFT_OUT] = False
        measured = problem.points[~learned], problem.targets[~learned]
    trials = [
        _trial(model, size, learned, random_state.randint(2**31), n_threads) for size in sizes
    ]
    choice, loss = _choose(model, trials, max_loss, *measured, n_threads=n_threads)
    return Outcome(_assembled(model, trials, choice), loss, int((choice == len(trials)).sum()))


# --- Lessons --------------------------------------------------------------------------------------


def _trial(
    model: LocalModel, size: int, learned: NDArray[np.bool_], seed: int, n_threads: int
) -> Trial:
    """Train small machines in the place of all that have more vectors than they."""
    machines = model.machines
    n_classes = np.diff(machines.class_ptr)
    large = machines.n_support > np.maximum(size, n_classes)
    if model.kernel.kind == LINEAR:
        large = machines.n_support > n_classes * (n_classes - 1) // 2
    around, apart = _around(model, learned, n_threads)
    jobs = []
    for c in np.unique(n_classes[large]):
        numbers = np.flatnonzero(large & (n_classes == c))
        m = max(size, int(c))
        together = max(1, _LARGEST_STACK // (around.shape[1] * m))
        jobs += [(numbers[rows], m) for rows in gen_batches(len(numbers), together)]
    seeds = np.random.SeedSequence(seed).spawn(len(jobs))
    with threadpool_limits(1, user_api="blas"):
        parts = Parallel(n_jobs=n_threads, prefer="threads")(
            delayed(_taught)(model, numbers, m, around[numbers], apart[numbers], seed)
            for (numbers, m), seed in zip(jobs, seeds, strict=True)
        )
    return _joined(parts, model)


def _around(
    model: LocalModel, learned: NDArray[np.bool_], n_threads: int
) -> tuple[Codes, Floats]:
    """Return the points to learn from around each centre, and their distances in units of k'.

    Twice as many as the centre covers: queries that it answers lie among those, if they are like
    the training points.
    """
    problem, cover = model.problem, model.cover
    places = np.flatnonzero(learned).astype(np.int32)
    n = min(2 * cover.n_assigned, len(places))
    index = make_index(problem.points[places], model.kernel.metric, k=n, n_threads=n_threads)
    squared, found = index.query(problem.points[cover.centres], n, n_threads=n_threads)
    unit = squared[:, min(cover.n_assigned, n) - 1, None]
    return places[found], squared / np.where(unit > 0, unit, 1)


def _taught(
    model: LocalModel,
    numbers: NDArray[np.intp],
    size: int,
    around: Codes,
    apart: Floats,
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
        [np.searchsorted(own, problem.targets[row]) for own, row in zip(classes, around, strict=True)]
    )
    # A class of the neighbourhood is known; others that lie around count for no pair.
    known = np.stack(
        [np.isin(problem.targets[row], own) for own, row in zip(classes, around, strict=True)]
    )
    near = (problem.weights[around] > 0) / (1 + apart.astype(np.float64) ** 2)
    weights = np.zeros(outputs.shape)
    for pair, (a, b) in enumerate(_pairs(classes.shape[1])):
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
        machines.gamma[numbers].astype(np.float64),
    )
    vectors = np.take_along_axis(X - origin, start[:, :, None], axis=1)
    small = lesson.learn(vectors, _MAX_ITER)
    return replace(small, vectors=small.vectors + origin), owners, numbers


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
        first = [
            chosen[np.flatnonzero(codes[row][chosen] == c)[:1]]
            for c in range(n_classes)
        ]
        taken = np.concatenate([*first, chosen])
        taken = taken[np.sort(np.unique(taken, return_index=True)[1])][:size]
        taken = np.resize(taken, size)
        own = np.minimum(codes[row][taken], n_classes - 1)
        order = np.argsort(own, kind="stable")
        start[row], owners[row] = taken[order], own[order]
    return start, owners


def _outputs(model: LocalModel, number: int, X: Floats) -> Doubles:
    """Return the outputs of a machine for all its pairs of classes."""
    machines = model.machines
    run = slice(machines.sv_ptr[number], machines.sv_ptr[number + 1])
    counts = machines.class_sv[machines.class_ptr[number] : machines.class_ptr[number + 1]]
    block = machines.coef[machines.coef_ptr[number] : machines.coef_ptr[number + 1]]
    bias = machines.bias[machines.bias_ptr[number] : machines.bias_ptr[number + 1]]
    coef = by_pair(block.reshape(len(counts) - 1, -1).astype(np.float64), counts)
    vectors = model.problem.points[machines.sv[run]]
    kernel = (model.kernel.kind, float(machines.gamma[number]), *model.kernel[2:4])
    # From one of the vectors, where the squared distances of near points do not cancel.
    origin = vectors[0] if model.kernel.kind == RBF else np.float32(0)
    return kernel_values(kernel, X - origin, vectors - origin) @ coef + bias


def _runs(values: NDArray[Any], ptr: NDArray[Any], numbers: NDArray[Any]) -> NDArray[Any]:
    """Return some runs of a ragged array, all of one length, as rows."""
    length = ptr[numbers[0] + 1] - ptr[numbers[0]]
    return values[ptr[numbers, None] + np.arange(length)]


def _pairs(n_classes: int) -> Iterator[tuple[int, int]]:
    return ((a, b) for a in range(n_classes) for b in range(a + 1, n_classes))


def _joined(
    parts: list[tuple[Small, NDArray[Any], NDArray[np.intp]]], model: LocalModel
) -> Trial:
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


# --- The choice of sizes --------------------------------------------------------------------------


def _choose(
    model: LocalModel,
    trials: list[Trial],
    max_loss: float,
    queries: Floats,
    targets: Codes,
    *,
    n_threads: int,
) -> tuple[NDArray[np.intp], float]:
    """Return which trial each machine is taken from, the last but one meaning none, and the loss."""
    n_machines = len(model.machines)
    routes = model.route(queries, n_threads=n_threads)
    problem, kernel = model.problem, model.kernel
    decided = model.machines.evaluate(problem, queries, routes, kernel, n_threads=n_threads)
    right = np.tile((winners(decided) == targets)[:, None], len(trials) + 1)
    misfit = np.full((n_machines, len(trials) + 1), np.inf)
    for at, trial in enumerate(trials):
        misfit[trial.numbers, at] = trial.misfit
        place = np.full(n_machines, -1, dtype=np.int32)
        place[trial.numbers] = np.arange(len(trial.numbers))
        asked = np.flatnonzero(place[routes] >= 0)
        if len(asked):
            with_vectors = replace(problem, points=trial.vectors)
            decided = trial.machines.evaluate(
                with_vectors, queries[asked], place[routes[asked]], kernel, n_threads=n_threads
            )
            right[asked, at] = winners(decided) == targets[asked]
    finite = misfit[np.isfinite(misfit)]
    limits = np.unique(np.quantile(finite, np.linspace(0, 1, 201))) if len(finite) else []
    for limit in limits[::-1]:
        fits = misfit <= limit
        choice = np.where(fits.any(axis=1), fits.argmax(axis=1), len(trials))
        now = right[np.arange(len(routes)), choice[routes]]
        lost = right[:, -1].astype(np.float64) - now
        room = float(lost.std()) / np.sqrt(max(1, len(lost)))
        if float(lost.mean()) + room <= max_loss:
            return choice, float(lost.mean())
    return np.full(n_machines, len(trials), dtype=np.intp), 0.0


def _assembled(model: LocalModel, trials: list[Trial], choice: NDArray[np.intp]) -> LocalModel:
    """Return the cover with the machines chosen, its points being their vectors and the centres."""
    problem, cover = model.problem, model.cover
    whole = np.flatnonzero(choice == len(trials))
    kept = model.machines.take(whole)
    used, place = np.unique(kept.sv, return_inverse=True)
    n_centres = len(cover.centres)
    parts = [replace(kept, sv=(place + n_centres).astype(np.int32))]
    points = [problem.points[cover.centres], problem.points[used]]
    targets = [problem.targets[cover.centres], problem.targets[used]]
    owners = [np.arange(n_centres, dtype=np.int32), cover.owners[used]]
    numbers = [whole]
    n_points = n_centres + len(used)
    for at, trial in enumerate(trials):
        rows = np.flatnonzero(choice[trial.numbers] == at)
        if not len(rows):
            continue
        chosen = trial.machines.take(rows)
        parts.append(replace(chosen, sv=n_points + np.arange(len(chosen.sv), dtype=np.int32)))
        points.append(trial.vectors[chosen.sv])
        targets.append(trial.targets[chosen.sv])
        owners.append(np.repeat(trial.numbers[rows], chosen.n_support).astype(np.int32))
        numbers.append(trial.numbers[rows])
        n_points += len(chosen.sv)
    order = np.argsort(np.concatenate(numbers), kind="stable")
    return replace(
        model,
        problem=_problem_of(problem, np.concatenate(points), np.concatenate(targets)),
        cover=Cover(
            np.arange(n_centres, dtype=np.int32), np.concatenate(owners), cover.n_assigned
        ),
        machines=Machines.concatenate(parts).take(order),
    )


def _problem_of(problem: Problem, points: Floats, targets: Codes) -> Problem:
    return replace(
        problem,
        points=np.ascontiguousarray(points),
        targets=targets.astype(np.int32),
        weights=np.ones(len(points), dtype=np.float32),
        rows=np.arange(len(points), dtype=np.int32),
        n_rows=len(points),
    )
