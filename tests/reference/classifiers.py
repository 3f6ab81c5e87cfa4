"""Slow, obvious twins of the local classifiers: NumPy sorting and scikit-learn's `SVC`.

They follow the papers line by line, one point and one centre at a time, in float64, and share no
code with the library. The one thing they borrow is the *order* in which centres are tried: it comes
from the levels of the library's own cover tree, or from its random permutation.

Segata & Blanzieri, Fast and Scalable Local Kernel Machines, JMLR 11, 2010; Segata & Blanzieri, Fast
Local Support Vector Machines for Large Datasets, DISI-08-063, 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.svm import SVC
from sklearn.utils.multiclass import _ovr_decision_function

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Order = Callable[[Array], Iterable[int]]
"""From the points of one problem to the order in which they may become centres."""


@dataclass(frozen=True)
class Kernel:
    name: Literal["linear", "rbf", "poly"] = "rbf"
    gamma: float | Literal["local"] = 1.0
    percentile: float = 50
    degree: int = 3
    coef0: float = 0.0

    def __call__(self, A: Array, B: Array, gamma: float) -> Array:
        # Sums of products and no BLAS: equal points have bit-equal rows, so that ties are ties.
        if self.name == "rbf":
            return np.exp(-gamma * cdist(A, B, "sqeuclidean"))
        products = (A[:, None, :] * B[None, :, :]).sum(axis=2)
        return products if self.name == "linear" else (gamma * products + self.coef0) ** self.degree

    def squared_distances(self, A: Array, B: Array) -> Array:
        """In feature space; Euclidean where that gives the same order."""
        if self.name != "poly":
            return cdist(A, B, "sqeuclidean")
        assert self.gamma != "local"
        aa = np.array([self(a[None], a[None], self.gamma)[0, 0] for a in A])
        bb = np.array([self(b[None], b[None], self.gamma)[0, 0] for b in B])
        return aa[:, None] + bb[None, :] - 2 * self(A, B, self.gamma)

    def gamma_of(self, points: Array) -> float:
        """The width for one neighbourhood; "local" takes a percentile over all pairs."""
        if self.gamma != "local":
            return self.gamma
        squared = pdist(points, "sqeuclidean")
        squared = squared[squared > 0]
        return 1.0 / float(np.percentile(squared, self.percentile)) if len(squared) else 1.0


def neighbours(points: Array, queries: Array, k: int, kernel: Kernel) -> Indices:
    """The k nearest points of every query, by distance and then by index."""
    return np.argsort(kernel.squared_distances(queries, points), axis=1, kind="stable")[:, :k]


class Machine:
    """One-against-one SVMs over the classes present in one neighbourhood."""

    def __init__(self, X: Array, y: Indices, weights: Array, kernel: Kernel, C: float) -> None:
        self.classes = np.unique(y)
        if len(self.classes) > 1:
            self.svc = SVC(
                C=C,
                kernel=kernel.name,
                gamma=kernel.gamma_of(X),
                degree=kernel.degree,
                coef0=kernel.coef0,
                tol=1e-6,
                decision_function_shape="ovo",
            ).fit(X, y, sample_weight=weights)

    def pair_decisions(self, Q: Array) -> Array:
        """A column for each pair a < b of present classes, positive for the later class."""
        pairs = self.svc.decision_function(Q)
        # For two classes scikit-learn is positive for the second class, for more for the first.
        return pairs[:, None] if len(self.classes) == 2 else -pairs

    def decide(self, Q: Array, n_classes: int) -> Array:
        """In scikit-learn's shapes; a class that is absent here loses to every present one."""
        if n_classes == 2 and len(self.classes) == 1:
            return np.full(len(Q), 2.0 * self.classes[0] - 1.0)
        if n_classes == 2:
            return self.pair_decisions(Q)[:, 0]
        scores = np.full((len(Q), n_classes), -1.0)
        if len(self.classes) == 1:
            scores[:, self.classes[0]] = 0.0
        else:
            pairs = self.pair_decisions(Q)
            scores[:, self.classes] = _ovr_decision_function(pairs > 0, pairs, len(self.classes))
        return scores


@dataclass(frozen=True)
class Cover:
    centres: list[int]
    first: Indices  # number of the first centre that covered each point (2008 report)
    nearest: Indices  # number of the centre in whose neighbourhood it ranks best (Eq. 11)


def cover(
    order: Iterable[int], neighbourhood: Callable[[int], Indices], n: int, n_assigned: int
) -> Cover:
    """Centres tried one by one; a point already covered never becomes one (Eq. 9)."""
    centres: list[int] = []
    first, nearest = np.full(n, -1), np.full(n, -1)
    best = np.full(n, n)
    for candidate in order:
        if first[candidate] >= 0:
            continue
        number = len(centres)
        centres.append(int(candidate))
        for rank, point in enumerate(neighbourhood(candidate)[:n_assigned]):
            if first[point] < 0:
                first[point] = number
            if rank < best[point]:
                best[point], nearest[point] = rank, number
    return Cover(centres, first, nearest)


@dataclass
class _Reference:
    k: int
    C: float = 1.0
    kernel: Kernel = Kernel()
    multi_class: Literal["local", "global"] = "local"

    def fit(self, X: Array, y: NDArray, sample_weight: Array | None = None) -> _Reference:
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
        kept = weights > 0
        X, y, weights = np.asarray(X, float)[kept], np.asarray(y)[kept], weights[kept]
        self.classes, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes)
        if n_classes == 2 or self.multi_class == "local":
            self.parts = [self._fit_part(X, codes, weights, n_classes)]
        else:
            self.parts = []
            for a, b in combinations(range(n_classes), 2):
                both = (codes == a) | (codes == b)
                part = self._fit_part(X[both], (codes[both] == b).astype(int), weights[both], 2)
                self.parts.append(part)
        return self

    def decision_function(self, Q: Array) -> Array:
        parts = [part(np.asarray(Q, float)) for part in self.parts]
        if len(parts) == 1:
            return parts[0]
        pairs = np.column_stack(parts)
        return _ovr_decision_function(pairs > 0, pairs, len(self.classes))

    def predict(self, Q: Array) -> NDArray:
        decisions = self.decision_function(Q)
        codes = (decisions > 0).astype(int) if decisions.ndim == 1 else decisions.argmax(axis=1)
        return self.classes[codes]

    def _fit_part(
        self, X: Array, y: Indices, weights: Array, n_classes: int
    ) -> Callable[[Array], Array]:
        raise NotImplementedError

    def _machine(self, inside: Indices, X: Array, y: Indices, weights: Array) -> Machine:
        return Machine(X[inside], y[inside], weights[inside], self.kernel, self.C)


@dataclass
class KNNSVM(_Reference):
    """A machine for every query, trained on its neighbourhood and thrown away."""

    def _fit_part(
        self, X: Array, y: Indices, weights: Array, n_classes: int
    ) -> Callable[[Array], Array]:
        def decide(Q: Array) -> Array:
            rows = neighbours(X, Q, self.k, self.kernel)
            return np.concatenate(
                [
                    self._machine(row, X, y, weights).decide(q[None], n_classes)
                    for row, q in zip(rows, Q, strict=True)
                ]
            )

        return decide


@dataclass
class FaLKSVM(_Reference):
    """A cover of machines made beforehand; queries take the machine that owns them."""

    n_assigned: int = 1
    order: Order = lambda points: range(len(points))
    routing: Literal["rank", "first", "centre"] = "rank"

    def _fit_part(
        self, X: Array, y: Indices, weights: Array, n_classes: int
    ) -> Callable[[Array], Array]:
        rows = neighbours(X, X, self.k, self.kernel)
        chosen = cover(self.order(X), lambda centre: rows[centre], len(X), self.n_assigned)
        machines = [self._machine(rows[centre], X, y, weights) for centre in chosen.centres]
        self.cover = chosen  # of the last part: the only one unless multi_class is "global"

        def route(q: Array) -> int:
            if self.routing == "centre":  # Eq. 10
                return int(neighbours(X[chosen.centres], q[None], 1, self.kernel)[0, 0])
            nearest = int(neighbours(X, q[None], 1, self.kernel)[0, 0])
            owners = chosen.nearest if self.routing == "rank" else chosen.first
            return int(owners[nearest])  # Eq. 12

        def decide(Q: Array) -> Array:
            return np.concatenate([machines[route(q)].decide(q[None], n_classes) for q in Q])

        return decide


def internal_error(
    X: Array, y: Indices, n_internal: int, n_folds: int, kernel: Kernel, C: float
) -> float:
    """Error of the k'-internal cross-validation of one neighbourhood, innermost point first.

    Only the `n_internal` innermost points are ever left out; the width is the neighbourhood's own.
    """
    kernel = Kernel(kernel.name, kernel.gamma_of(X), kernel.percentile, kernel.degree, kernel.coef0)
    position = np.arange(len(X))
    wrong = 0
    for fold in range(n_folds):
        left_out = (position < n_internal) & (position % n_folds == fold)
        if not left_out.any():
            continue
        machine = Machine(X[~left_out], y[~left_out], np.ones((~left_out).sum()), kernel, C)
        n_classes = max(int(y.max()) + 1, 2)
        scores = machine.decide(X[left_out], n_classes)
        guess = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        wrong += int((guess != y[left_out]).sum())
    return wrong / n_internal
