"""A kernel expansion whose vectors are shared by all outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal import engine
from vicinal.kernels import LINEAR, POLY, RBF, KernelName, Metric, check_polynomial
from vicinal.problem import Doubles, Floats, Frame

KINDS = {"linear": LINEAR, "rbf": RBF, "poly": POLY}


def kernel_values(
    kernel: Metric,
    points: NDArray[Any],
    vectors: NDArray[Any],
    *,
    out: NDArray[Any] | None = None,
    n_threads: int = 1,
) -> NDArray[Any]:
    """Return the kernel values of some points with all vectors, in the precision of the points."""
    if points.dtype == np.float32:
        if out is None:
            out = np.empty((len(points), len(vectors)), dtype=np.float32)
        points, vectors = np.ascontiguousarray(points), np.ascontiguousarray(vectors)
        return engine.kernel_values(points, vectors, kernel, out, n_threads=n_threads)
    kind, gamma, coef0, degree = kernel
    values = np.matmul(points, vectors.T, out=out)
    if kind == RBF:
        values *= 2 * gamma
        values -= gamma * np.einsum("ij,ij->i", points, points)[:, None]
        values -= gamma * np.einsum("ij,ij->i", vectors, vectors)
        np.minimum(values, 0, out=values)  # what rounding leaves of the distance of equal points
        return np.exp(values, out=values)
    values *= gamma
    if kind == POLY:
        values += coef0
        np.power(values, degree, out=values)
    return values


@dataclass(frozen=True)
class SharedExpansion:
    """One set of vectors, and for every output a column of coefficients and a bias.

    Parameters
    ----------
    vectors : float32 array of shape (n_vectors, n_features)
        In the frame.
    coef : float64 array of shape (n_vectors, n_outputs)
    bias : float64 array of shape (n_outputs,)
    kernel : tuple
        Kind, gamma, coef0 and degree, in the frame.
    frame : Frame
    """

    vectors: Floats
    coef: Doubles
    bias: Doubles
    kernel: Metric
    frame: Frame

    @property
    def n_vectors(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.bias)

    def decision(self, X: NDArray[Any], *, n_threads: int = 1) -> Doubles:
        """Return the outputs for points in the user's units."""
        return self.outputs(self.frame.queries(X), n_threads=n_threads)

    def outputs(self, points: Floats, *, n_threads: int = 1) -> Doubles:
        """Return the outputs for points in the frame."""
        vectors, coef, kernel = self.vectors, np.ascontiguousarray(self.coef), self.kernel
        if kernel[0] == LINEAR:
            # One normal for each output says as much as all vectors.
            normals = kernel[1] * (self.coef.T @ vectors.astype(np.float64))
            vectors, coef = normals.astype(np.float32), np.eye(self.n_outputs)
            kernel = (LINEAR, 1.0, 0.0, 1)
        return engine.expand(points, vectors, coef, self.bias, kernel, n_threads=n_threads)

    @classmethod
    def make(
        cls,
        vectors: NDArray[Any],
        coef: Doubles,
        bias: Doubles,
        kernel: KernelName,
        *,
        gamma: float = 1.0,
        coef0: float = 0.0,
        degree: int = 3,
    ) -> SharedExpansion:
        """Bring an expansion in the user's units into a frame.

        Examples
        --------
        >>> import numpy as np
        >>> bias, coef = np.zeros(1), np.array([[1.0], [-1.0]])
        >>> machine = SharedExpansion.make(np.array([[0.0], [2.0]]), coef, bias, "rbf")
        >>> np.sign(machine.decision(np.array([[0.3], [1.4]]))).ravel().tolist()
        [1.0, -1.0]
        """
        frame = Frame.if_needed(vectors, centred=kernel == "rbf")
        points, unit = frame.apply(vectors), frame.squared_scale
        metric: Metric = (KINDS[kernel], gamma * unit, coef0, degree)
        if kernel == "poly":
            check_polynomial(points, gamma * unit, coef0, degree)
        elif kernel == "linear":
            metric = (LINEAR, unit, 0.0, 1)
        return cls(points, np.asarray(coef), np.asarray(bias), metric, frame)
