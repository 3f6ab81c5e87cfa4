"""A slow, obvious twin of every engine function: NumPy, and scikit-learn's `SVC` as the solver.

It takes and gives the arrays that `vicinal.engine` does, so it can stand in for it, and shares no
code with it. Everything is computed in double precision.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from sklearn.utils.multiclass import _ovr_decision_function

DUPLICATE = -(2**31)
LINEAR, RBF, POLY = 0, 1, 2


def squared_distances(A: NDArray, B: NDArray, metric: tuple) -> NDArray[np.float64]:
    """In the feature space of a polynomial kernel, Euclidean for the others."""
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    if metric[0] != POLY:
        return ((A[:, None] - B[None]) ** 2).sum(axis=2)
    spec = (*metric, 50.0)
    aa = np.array([kernel_values(a[None], a[None], spec, metric[1])[0, 0] for a in A])
    bb = np.array([kernel_values(b[None], b[None], spec, metric[1])[0, 0] for b in B])
    return np.maximum(0.0, aa[:, None] + bb[None] - 2 * kernel_values(A, B, spec, metric[1]))


def kernel_values(A: NDArray, B: NDArray, spec: tuple, gamma: float) -> NDArray[np.float64]:
    kind, _, coef0, degree, _ = spec
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    if kind == RBF:
        return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=2))
    # Sums of products and no BLAS: equal points then have equal rows to the last bit.
    products = (A[:, None] * B[None]).sum(axis=2)
    return gamma * products if kind == LINEAR else (gamma * products + coef0) ** degree


class NeighbourIndex:
    """All distances, sorted. With structure="tree" also the levels of a cover tree."""

    def __init__(
        self,
        points: NDArray,
        *,
        structure: str = "tree",
        base: float | None = None,
        metric: tuple = (LINEAR, 1.0, 0.0, 1),
        n_threads: int = 1,
    ) -> None:
        self.points = points
        self.metric = metric
        self.base = 2.0 if base is None else float(base)
        if structure == "tree":
            self.levels, self.parents = cover_tree(points, self.base, metric)

    def query(self, queries: NDArray, k: int, *, n_threads: int = 1) -> tuple[NDArray, NDArray]:
        squared = np.empty((len(queries), k), dtype=np.float32)
        indices = np.empty((len(queries), k), dtype=np.int32)
        for row, query in enumerate(queries):
            apart = squared_distances(query[None], self.points, self.metric)[0].astype(np.float32)
            indices[row] = np.argsort(apart, kind="stable")[:k]
            squared[row] = apart[indices[row]]
        return squared, indices

    def query_radius(
        self, queries: NDArray, radius: float, *, n_threads: int = 1
    ) -> tuple[NDArray, NDArray, NDArray]:
        squared, indices = self.query(queries, len(self.points))
        inside = np.sqrt(squared, dtype=np.float64) <= radius
        indptr = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        return indptr.astype(np.int64), squared[inside], indices[inside]


def cover_tree(points: NDArray, base: float, metric: tuple) -> tuple[NDArray, NDArray]:
    """Levels and parents of a compressed cover tree, point after point inserted from the root.

    A point goes down to the nearest child that may hold it below itself, as long as there is one.
    Its level i is then the highest with base**i < distance to the parent <= base**(i + 1).
    """
    n = len(points)
    levels, parents = np.zeros(n, dtype=np.int32), np.full(n, -1, dtype=np.int32)
    children: list[list[int]] = [[] for _ in range(n)]
    apart = np.sqrt(squared_distances(points, points, metric))
    for p in range(1, n):
        twins = np.flatnonzero(apart[p, :p] == 0)
        if len(twins):
            levels[p], parents[p] = DUPLICATE, twins[0]
            continue
        parent = 0
        while True:
            holding = [c for c in children[parent] if apart[p, c] <= base ** float(levels[c])]
            if not holding:
                break
            parent = min(holding, key=lambda c: (apart[p, c], c))
        parents[p] = parent
        levels[p] = int(np.ceil(np.log(apart[p, parent]) / np.log(base))) - 1
        children[parent].append(p)
    if children[0]:
        levels[0] = 1 + max(levels[c] for c in children[0])
    return levels, parents


def accept_centres(
    candidates: NDArray,
    neighbours: NDArray,
    n_assigned: int,
    covered: NDArray,
    ranks: NDArray,
    owners: NDArray,
    first_id: int,
) -> NDArray[np.bool_]:
    accepted = np.zeros(len(candidates), dtype=bool)
    centre = first_id
    for row, candidate in enumerate(candidates):
        if covered[candidate]:
            continue
        accepted[row] = True
        assigned = list(neighbours[row, :n_assigned])
        if candidate not in assigned:  # its own duplicates crowd it out
            assigned.append(candidate)
        for rank, point in enumerate(assigned):
            covered[point] = 1
            if rank < ranks[point]:
                ranks[point], owners[point] = rank, centre
        centre += 1
    return accepted


def local_gamma(points: NDArray, percentile: float) -> float:
    """One over a percentile of the squared distances between distinct points."""
    squared = squared_distances(points, points, (LINEAR, 1.0, 0.0, 1))
    squared = squared[np.triu_indices(len(points), 1)]
    squared = squared[squared > 0]
    return 1.0 / float(np.percentile(squared, percentile)) if len(squared) else 1.0


def _solve(
    X: NDArray, y: NDArray, weights: NDArray, spec: tuple, gamma: float, C: float, tol: float
) -> dict[str, NDArray]:
    """One machine: the arrays of its classes, support vectors, coefficients and biases."""
    classes = np.unique(y)
    if len(classes) == 1:
        none = np.empty(0)
        return {
            "classes": classes,
            "class_sv": np.zeros(1, dtype=int),
            "sv": none.astype(int),
            "coef": none,
            "bias": none,
            "n_iter": 0,
        }
    svc = SVC(C=C, kernel="precomputed", tol=tol, cache_size=1000)
    svc.fit(kernel_values(X, X, spec, gamma), y, sample_weight=weights)
    # scikit-learn: positive for the later of two classes, but the earlier of every pair of more.
    sign = 1.0 if len(classes) == 2 else -1.0
    return {
        "classes": classes,
        "class_sv": svc.n_support_,
        "sv": svc.support_,
        "coef": sign * svc.dual_coef_.ravel(),
        "bias": sign * svc.intercept_,
        "n_iter": int(np.sum(svc.n_iter_)),
    }


def train(
    points: NDArray,
    targets: NDArray,
    weights: NDArray,
    neighbourhoods: NDArray,
    spec: tuple,
    *,
    C: NDArray,
    gammas: NDArray | None = None,
    tol: float = 1e-3,
    cache_mb: float = 200,
    n_threads: int = 1,
) -> dict[str, NDArray]:
    machines, widths = [], []
    for m, row in enumerate(neighbourhoods):
        gamma = spec[1] if gammas is None else gammas[m]
        if spec[0] == RBF and gamma <= 0:
            gamma = local_gamma(points[row], spec[4])
        machine = _solve(
            points[row], targets[row], weights[row], spec, float(gamma), float(C[m]), tol
        )
        machine["sv"] = row[machine["sv"]]
        machines.append(machine)
        widths.append(gamma)
    out = {
        "gamma": np.array(widths, dtype=np.float32),
        "n_iter": np.array([machine["n_iter"] for machine in machines], dtype=np.int64),
    }
    for name, ptr, dtype in (
        ("sv", "sv_ptr", np.int32),
        ("classes", "class_ptr", np.int32),
        ("class_sv", "class_ptr", np.int32),
        ("coef", "coef_ptr", np.float32),
        ("bias", "bias_ptr", np.float32),
    ):
        runs = [machine[name] for machine in machines]
        out[name] = np.concatenate(runs).astype(dtype)
        out[ptr] = np.cumsum([0, *map(len, runs)], dtype=np.int64)
    return out


def evaluate(
    points: NDArray,
    machines: dict[str, Any],
    queries: NDArray,
    routes: NDArray,
    n_classes: int,
    spec: tuple,
    *,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    def run(name: str, ptr: str, m: int) -> NDArray:
        return machines[name][machines[ptr][m] : machines[ptr][m + 1]]

    scores = np.full((len(queries), n_classes), -1.0)
    signed = np.empty(len(queries))
    for q, m in enumerate(routes):
        classes, sv = run("classes", "class_ptr", m), run("sv", "sv_ptr", m)
        if len(classes) == 1:
            scores[q, classes[0]] = 0.0
            signed[q] = 2.0 * classes[0] - 1.0
            continue
        coef = run("coef", "coef_ptr", m).reshape(len(classes) - 1, len(sv)).astype(np.float64)
        bias = run("bias", "bias_ptr", m)
        values = kernel_values(points[sv], queries[q][None], spec, float(machines["gamma"][m]))[
            :, 0
        ]
        of = np.repeat(np.arange(len(classes)), run("class_sv", "class_ptr", m))
        pairs = np.empty(len(bias))
        for pair, (a, b) in enumerate(combinations(range(len(classes)), 2)):
            # Row b - 1 of a support vector of class a, row a of one of class b.
            pairs[pair] = bias[pair] + sum(
                coef[row, of == own] @ values[of == own] for own, row in ((a, b - 1), (b, a))
            )
        signed[q] = pairs[0]
        scores[q, classes] = _ovr_decision_function(pairs[None] > 0, pairs[None], len(classes))[0]
    return signed if n_classes == 2 else scores


def train_and_evaluate(
    points: NDArray,
    targets: NDArray,
    weights: NDArray,
    neighbourhoods: NDArray,
    queries: NDArray,
    n_classes: int,
    spec: tuple,
    *,
    C: NDArray,
    gammas: NDArray | None = None,
    tol: float = 1e-3,
    cache_mb: float = 200,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    machines = train(points, targets, weights, neighbourhoods, spec, C=C, gammas=gammas, tol=tol)
    return evaluate(points, machines, queries, np.arange(len(queries)), n_classes, spec)


def cross_validate(
    points: NDArray,
    targets: NDArray,
    weights: NDArray,
    neighbourhoods: NDArray,
    n_internal: int,
    n_folds: int,
    specs: list[tuple],
    *,
    Cs: NDArray,
    tol: float = 1e-3,
    cache_mb: float = 200,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    n_classes = max(2, int(targets.max()) + 1)
    wrong = np.zeros((len(neighbourhoods), len(specs), len(Cs)))
    for m, row in enumerate(neighbourhoods):
        folds = np.where(np.arange(len(row)) < n_internal, np.arange(len(row)) % n_folds, -1)
        for p, spec in enumerate(specs):
            # The width is that of the whole neighbourhood, whatever is held out.
            gamma = spec[1]
            if spec[0] == RBF and gamma <= 0:
                gamma = local_gamma(points[row], spec[4])
            for c, C in enumerate(Cs):
                for fold in range(n_folds):
                    inside, held_out = row[folds != fold], row[folds == fold]
                    if len(inside) == 0 or len(held_out) == 0:
                        continue
                    decisions = train_and_evaluate(
                        points,
                        targets,
                        weights,
                        np.broadcast_to(inside, (len(held_out), len(inside))),
                        points[held_out],
                        n_classes,
                        spec,
                        C=np.full(len(held_out), C),
                        gammas=np.full(len(held_out), gamma),
                        tol=tol,
                    )
                    guess = decisions > 0 if n_classes == 2 else decisions.argmax(axis=1)
                    wrong[m, p, c] += (guess != targets[held_out]).sum()
    return wrong / n_internal
