"""Moves the vectors of a machine downhill: the outer problem.

Minimises g(Z) = min over β, b of f(β, b; Z) (see `primal.py`) by L-BFGS. A minimum value has the
derivative of f at its minimiser, so a step costs one solution for fixed vectors, which a warm start
makes short, and one product more: 2 N m d multiply-adds and a few N m² in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from vicinal.kernels import RBF, Metric
from vicinal.problem import Doubles
from vicinal.sparse.primal import Primal, Weights

_MEMORY = 20  # Pairs of steps and gradients from which L-BFGS knows the curvature.


@dataclass(frozen=True)
class Placed:
    """Vectors, the kernel, and the best weights for them."""

    vectors: Doubles
    kernel: Metric
    weights: Weights


class _Outer:
    """The outer objective as a function of one array of unknowns.

    Vectors are in units of the kernel's width, or of the points' length where it has none, and
    gamma by its logarithm: a step of one is then a step of sensible length.
    """

    def __init__(self, primal: Primal, start: Placed, learn_gamma: bool) -> None:
        self.primal = primal
        self.learn_gamma = learn_gamma
        self.n_evaluations = 0
        self.last = start
        self._shape = start.vectors.shape
        points, kernel = primal.sides.points, start.kernel
        squares = np.einsum("ij,ij->", points, points, dtype=np.float64) / len(points)
        self._unit = kernel[1] ** -0.5 if kernel[0] == RBF else np.sqrt(squares) or 1.0
        self._unknowns: Doubles | None = None

    def pack(self, placed: Placed) -> Doubles:
        flat = placed.vectors.ravel() / self._unit
        return np.append(flat, np.log(placed.kernel[1])) if self.learn_gamma else flat

    def placed(self, unknowns: Doubles) -> Placed:
        """Return the machine at some unknowns; that of the last ones is at hand."""
        if self._unknowns is None or not np.array_equal(unknowns, self._unknowns):
            (kind, gamma, coef0, degree), flat = self.last.kernel, unknowns
            if self.learn_gamma:
                flat, gamma = unknowns[:-1], float(np.exp(unknowns[-1]))
            vectors = flat.reshape(self._shape) * self._unit
            kernel = (kind, gamma, coef0, degree)
            weights = self.primal.solve(kernel, vectors, self.last.weights)
            self._unknowns, self.last = unknowns.copy(), Placed(vectors, kernel, weights)
            self.n_evaluations += 1
        return self.last

    def __call__(self, unknowns: Doubles) -> tuple[float, Doubles]:
        placed = self.placed(unknowns)
        by_vectors, by_gamma = self.primal.gradient(placed.weights, by_gamma=self.learn_gamma)
        flat = by_vectors.ravel() * self._unit
        return placed.weights.value, np.append(flat, by_gamma) if self.learn_gamma else flat


def place(
    primal: Primal,
    start: Placed,
    *,
    max_iter: int,
    tol: float,
    learn_gamma: bool = False,
    on_step: Callable[[Placed], bool] = lambda placed: False,
) -> tuple[Placed, int]:
    """Return a machine whose vectors stand better than at the start.

    Parameters
    ----------
    primal : Primal
    start : Placed
        Its weights may be any.
    max_iter : int
        Steps, at most.
    tol : float
        A step that lowers the objective by a smaller part is the last.
    learn_gamma : bool
    on_step : callable
        Is given the machine after every step; one that returns True stops here.

    Returns
    -------
    placed : Placed
    n_evaluations : int
        How often weights were found.
    """
    outer = _Outer(primal, start, learn_gamma)

    def after_step(intermediate_result: object) -> None:
        if on_step(outer.placed(intermediate_result.x)):  # type: ignore[attr-defined]
            raise StopIteration

    found = minimize(
        outer,
        outer.pack(start),
        jac=True,
        method="L-BFGS-B",
        callback=after_step,
        options={"maxiter": max_iter, "maxcor": _MEMORY, "ftol": tol, "gtol": 0.0},
    )
    return outer.placed(found.x), outer.n_evaluations
