"""The weights for fixed vectors: a squared-hinge machine on as many features as there are vectors.

Solves, for every output on its own,

    min over β, b of  f(β, b) = ½ βᵀKβ + Σᵢ cᵢ max(0, 1 - yᵢ (βᵀψᵢ + b))²

Given: K, the kernel values of the vectors z with each other, ψᵢ = (κ(xᵢ, z₁), …, κ(xᵢ, zₘ)), signs
yᵢ and costs cᵢ (C times a weight). The bias is not regularised. It is Equation 8 of

    Z. Fu, G. Lu, K.-M. Ting, D. Zhang: Learning sparse kernel classifiers in the primal, 2012,

and what its minimum value loses when a vector moves is the derivative of f at the minimiser.

Method: in the coordinates θ = K^½ β the problem is a linear machine on the features K^-½ ψ, each of
length one at most, and f is quadratic wherever no point crosses its margin. Newton's method with an
exact search along its direction ends after a few steps, and warm starts leave one or two. Hessians
are kept as long as they predict: across steps, and across positions of the vectors.

Where vectors meet, K loses rank. Directions of next to no length are left out: a machine gains
nothing from them that its regulariser would let it keep.

Cost: N m d multiply-adds for the kernel values, N m² for the features, for a Hessian half as many
over the points inside the margin, and N m for a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from sklearn.utils import gen_batches

from vicinal.kernels import Metric
from vicinal.problem import Doubles, Problem, as_factors
from vicinal.sparse.expansion import kernel_values
from vicinal.sparse.slopes import pull_back

LEAST_EIGENVALUE = 1e-7
"""Directions of K shorter than this, relative to the longest, are left out."""

BLOCK_BYTES = 8 << 20
"""Kernel values that are made at a time."""

_MOST_STEPS = 100
_FALLS = (
    0.1  # A Hessian predicts as long as every step leaves less than this part of the decrement.
)


@dataclass(frozen=True)
class Sides:
    """The binary problems of one set of points.

    Parameters
    ----------
    points : array of shape (n_points, n_features)
        Products are made in its precision.
    signs : array of shape (n_outputs, n_points)
        1 and -1.
    costs : array of shape (n_points,)
    """

    points: NDArray[Any]
    signs: NDArray[Any]
    costs: NDArray[Any]

    @classmethod
    def of_classes(cls, problem: Problem, C: float) -> Sides:
        """Return the problem of two classes, or one against the rest for each of more."""
        n_classes = problem.n_classes
        codes = np.arange(n_classes) if n_classes > 2 else np.array([1])
        signs = np.where(problem.targets == codes[:, None], 1, -1).astype(np.float32)
        return cls(problem.points, signs, as_factors(C * problem.weights.astype(np.float64)))


@dataclass(frozen=True)
class Weights:
    """What a machine adds to its vectors.

    Parameters
    ----------
    coef : float64 array of shape (n_vectors, n_outputs)
    bias : float64 array of shape (n_outputs,)
    value : float
        Of the objective, summed over the outputs.
    n_steps : int
        Newton's.
    theta : float64 array of shape (n_vectors, n_outputs) or None
        The coefficients in the coordinates of the solver, from which it starts for other vectors.
    """

    coef: Doubles
    bias: Doubles
    value: float
    n_steps: int
    theta: Doubles | None = None

    @classmethod
    def none(cls, n_vectors: int, n_outputs: int) -> Weights:
        """Return weights to begin with."""
        return cls(np.zeros((n_vectors, n_outputs)), np.zeros(n_outputs), np.inf, 0)


class Primal:
    """Finds weights for one set of vectors after the other.

    Parameters
    ----------
    sides : Sides
    cache_bytes : float
        Memory for kernel values and features of the points; those of the others are made again in
        every pass.
    tol : float
        The objective may end above its minimum by this part.
    n_threads : int
        For kernel values; products of matrices use those of BLAS.
    """

    def __init__(
        self,
        sides: Sides,
        *,
        cache_bytes: float = 500e6,
        tol: float = 1e-6,
        n_threads: int = 1,
    ) -> None:
        self.sides = sides
        self.n_threads = n_threads
        self.tol = tol
        self.cache_bytes = cache_bytes
        self._cache: NDArray[Any] = np.empty((2, 0, 0))
        self._hessians: list[Any] = [None] * len(sides.signs)

    def solve(self, kernel: Metric, vectors: Doubles, start: Weights | None = None) -> Weights:
        """Return the best weights for some vectors."""
        self._move(kernel, vectors)
        n_outputs, m = len(self.sides.signs), len(vectors)
        state = np.zeros((n_outputs, m + 1))  # θ and the bias
        if start is not None and start.coef.shape == (m, n_outputs):
            # Coefficients of vectors that nearly meet are large and cancel, which they no longer do
            # when vectors move; θ is never longer than the objective allows.
            theta = self._root @ start.coef if start.theta is None else start.theta
            state[:, :m], state[:, m] = theta.T, start.bias
        outputs = self._outputs(state)
        values = np.array([self._value(k, state[k], outputs[k]) for k in range(n_outputs)])
        left, before = list(range(n_outputs)), np.full(n_outputs, np.inf)
        n_steps = 0
        while left and n_steps < _MOST_STEPS:
            slopes = self._slopes(state, outputs)
            outdated = [k for k in left if self._hessians[k] is None]
            self._refresh(outdated, outputs)
            steps, decrements = self._steps(slopes)
            open_ = [k for k in left if decrements[k] > self.tol * values.sum()]
            poor = [k for k in open_ if k not in outdated and decrements[k] > _FALLS * before[k]]
            if poor:
                self._refresh(poor, outputs)
                steps, decrements = self._steps(slopes)
                open_ = [k for k in open_ if decrements[k] > self.tol * values.sum()]
            before = decrements
            if not open_:
                break
            changes = self._outputs(steps, only=open_)
            moved = []
            for place, k in enumerate(open_):
                length, value = self._search(k, state[k], steps[k], outputs[k], changes[place])
                if value < values[k]:
                    state[k] += length * steps[k]
                    outputs[k] += length * changes[place]
                    moved.append(k)
                    values[k] = value
                elif k not in outdated and k not in poor:
                    self._hessians[k] = None
                    moved.append(k)
            left = moved
            n_steps += 1
        self._pulls = self._loss_slopes(outputs)
        coef = self._inverse_root @ state[:, :m].T
        theta, bias = state[:, :m].T.copy(), state[:, m].copy()
        return Weights(coef, bias, float(values.sum()), n_steps, theta)

    def gradient(self, weights: Weights, *, by_gamma: bool = True) -> tuple[Doubles, float]:
        """Return the derivatives of the last minimum by the vectors, and by the log of gamma."""
        kernel, vectors, coef = self._kernel, self._vectors, weights.coef
        pairs = coef @ coef.T
        by_vectors, by_log_gamma = pull_back(kernel, pairs, vectors, vectors, self._gram)
        by_log_gamma /= 2
        coef_t = np.ascontiguousarray(coef.T, dtype=self._pulls.dtype)
        for rows, values, _ in self._blocks(features=False):
            pulls = self._pulls[:, rows].T @ coef_t
            block = pull_back(
                kernel,
                pulls,
                self.sides.points[rows],
                self._products_of,
                values,
                by_gamma=by_gamma,
            )
            by_vectors += block[0]
            by_log_gamma += block[1]
        return by_vectors, by_log_gamma

    # --- Kernel values and features -------------------------------------------------------------

    def _move(self, kernel: Metric, vectors: Doubles) -> None:
        """Take other vectors."""
        points, m = self.sides.points, len(vectors)
        if self._cache.shape[2] != m:
            n_cached = int(min(len(points), self.cache_bytes / (2 * m * points.itemsize)))
            self._cache = np.empty((2, n_cached, m), dtype=points.dtype)
            self._hessians = [None] * len(self.sides.signs)
        self._kernel, self._vectors = kernel, np.asarray(vectors, dtype=np.float64)
        self._products_of = np.ascontiguousarray(vectors, dtype=points.dtype)
        self._gram = kernel_values(kernel, self._vectors, self._vectors)
        lengths, axes = eigh(self._gram)
        kept = lengths > LEAST_EIGENVALUE * lengths[-1]
        lengths, axes = np.sqrt(lengths[kept]), axes[:, kept]
        self._root = (axes * lengths) @ axes.T
        self._inverse_root = (axes / lengths) @ axes.T
        self._is_cached = False

    def _blocks(
        self, *, features: bool = True
    ) -> Iterator[tuple[slice, NDArray[Any], NDArray[Any]]]:
        """Yield kernel values and features of some rows after the other."""
        points, (kept_values, kept_features) = self.sides.points, self._cache
        n, n_cached, m = len(points), kept_values.shape[0], len(self._vectors)
        inverse_root = self._inverse_root.astype(points.dtype)
        size = max(256, BLOCK_BYTES // (m * points.itemsize))
        room = np.empty((2, size if n_cached < n else 0, m), dtype=points.dtype)
        for start in [*range(0, n_cached, size), *range(n_cached, n, size)]:
            rows = slice(start, min(start + size, n_cached if start < n_cached else n))
            if start < n_cached and self._is_cached:
                yield rows, kept_values[rows], kept_features[rows]
                continue
            values, found = (
                self._cache[:, rows] if start < n_cached else room[:, : len(points[rows])]
            )
            kernel_values(
                self._kernel, points[rows], self._products_of, out=values, n_threads=self.n_threads
            )
            if features or start < n_cached:
                np.matmul(values, inverse_root, out=found)
            yield rows, values, found
        self._is_cached = True

    # --- The objective ----------------------------------------------------------------------------

    def _outputs(self, state: Doubles, only: Any = slice(None)) -> NDArray[Any]:
        """Return the outputs of some machines for all points."""
        points = self.sides.points
        chosen = state[only].astype(points.dtype)
        outputs = np.empty((len(chosen), len(points)), dtype=points.dtype)
        for rows, _, found in self._blocks():
            outputs[:, rows] = chosen[:, :-1] @ found.T
        outputs += chosen[:, -1:]
        return outputs

    def _short(self, k: Any, outputs: NDArray[Any]) -> NDArray[Any]:
        """Return by how much each point falls short of its margin."""
        short = self.sides.signs[k] * outputs
        np.subtract(1, short, out=short)
        return np.maximum(short, 0, out=short)

    def _value(self, k: int, state: Doubles, outputs: NDArray[Any]) -> float:
        short = self._short(k, outputs)
        total = sum(
            float(np.dot(short[rows] * self.sides.costs[rows], short[rows]))
            for rows in gen_batches(len(short), 1 << 14)
        )
        return 0.5 * float(state[:-1] @ state[:-1]) + total

    def _loss_slopes(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Return the derivative of every loss by its output."""
        slopes = self._short(slice(None), outputs)
        slopes *= self.sides.signs
        slopes *= -2 * self.sides.costs
        return slopes

    def _slopes(self, state: Doubles, outputs: NDArray[Any]) -> Doubles:
        """Return the derivative of every objective by its weights and bias."""
        losses, slopes = self._loss_slopes(outputs), state.copy()
        slopes[:, -1] = losses.sum(axis=1, dtype=np.float64)
        for rows, _, found in self._blocks():
            slopes[:, :-1] += losses[:, rows] @ found
        return slopes

    def _refresh(self, outdated: list[int], outputs: NDArray[Any]) -> None:
        """Factorise the Hessians of some outputs."""
        if not outdated:
            return
        m, costs, signs = len(self._vectors), self.sides.costs, self.sides.signs
        hessians = np.zeros((len(outdated), m + 1, m + 1))
        for rows, _, found in self._blocks():
            for hessian, k in zip(hessians, outdated, strict=True):
                inside = np.flatnonzero(signs[k, rows] * outputs[k, rows] < 1)
                scale = np.sqrt(2 * costs[rows][inside])
                part = found[inside] * scale[:, None]
                hessian[:m, :m] += part.T @ part
                hessian[:m, m] += part.T @ scale
                hessian[m, m] += float(scale @ scale)
        for hessian, k in zip(hessians, outdated, strict=True):
            hessian[m, :m] = hessian[:m, m]
            hessian[range(m), range(m)] += 1.0
            hessian[m, m] = max(hessian[m, m], float(costs.min()))
            self._hessians[k] = _factor(hessian)

    def _steps(self, slopes: Doubles) -> tuple[Doubles, Doubles]:
        """Return Newton's steps, and by how much each should lower its objective."""
        steps = np.zeros_like(slopes)
        for k, factor in enumerate(self._hessians):
            if factor is not None:
                steps[k] = -cho_solve(factor, slopes[k])
        return steps, -0.5 * np.einsum("ij,ij->i", steps, slopes)

    def _search(
        self,
        k: int,
        state: Doubles,
        step: Doubles,
        outputs: NDArray[Any],
        changes: NDArray[Any],
    ) -> tuple[float, float]:
        """Return the length of the step with the least value, nearly, and that value."""
        signs, costs = self.sides.signs[k], self.sides.costs
        theta, move = state[:-1], step[:-1]

        def slope_and_curvature(length: float) -> tuple[float, float]:
            short = self._short(k, outputs + outputs.dtype.type(length) * changes)
            weighted = costs * changes
            slope = float((theta + length * move) @ move)
            slope -= 2 * float(np.dot(weighted * signs, short))
            curvature = float(move @ move) + 2 * float(np.dot(weighted * (short > 0), changes))
            return slope, curvature

        low, high, length = 0.0, np.inf, 1.0
        first = abs(slope_and_curvature(0.0)[0])
        for _ in range(20):
            slope, curvature = slope_and_curvature(length)
            if abs(slope) <= 0.1 * first:
                break
            low, high = (length, high) if slope < 0 else (low, length)
            length -= slope / curvature
            if not low < length < high:
                length = 0.5 * (low + high) if np.isfinite(high) else 2 * low
        moved = outputs + outputs.dtype.type(length) * changes
        return length, self._value(k, state + length * step, moved)


def _factor(hessian: Doubles) -> Any:
    """Return the Cholesky factor; a Hessian that rounding has bent is straightened first."""
    diagonal = np.einsum("ii->i", hessian)
    for share in (0.0, 1e-10, 1e-7, 1e-4, 1e-2):
        diagonal += share * diagonal.max()
        try:
            return cho_factor(hessian, lower=True, check_finite=False)
        except LinAlgError:
            continue
    raise FloatingPointError(
        "The kernel values are more than single precision can hold: scale the features, or lower C."
    )
