"""A kernel expansion whose vectors are shared by all outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from vicinal.kernels import LINEAR, POLY, RBF, KernelName, Metric, check_polynomial
from vicinal.problem import Doubles, Floats, Frame

KINDS = {"linear": LINEAR, "rbf": RBF, "poly": POLY}

ROWS = 1024
"""Points whose kernel values are in memory at a time: they stay in the cache."""

_FEW = 64
"""So few points are answered in double precision: single rounds by the shape of a product."""


def kernel_values(kernel: Metric, points: NDArray[Any], vectors: NDArray[Any]) -> NDArray[Any]:
    """Return the kernel values of some points with all vectors, by one product."""
    kind, gamma, coef0, degree = kernel
    values = points @ vectors.T
    exact = values.dtype.type
    if kind == RBF:
        values *= exact(2 * gamma)
        values -= exact(gamma) * np.einsum("ij,ij->i", points, points)[:, None]
        values -= exact(gamma) * np.einsum("ij,ij->i", vectors, vectors)
        np.minimum(values, 0, out=values)  # what rounding leaves of the distance of equal points
        return np.exp(values, out=values)
    values *= exact(gamma)
    if kind == POLY:
        values += exact(coef0)
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

    def decision(self, X: NDArray[Any]) -> Doubles:
        """Return the outputs for points in the user's units."""
        return self.outputs(self.frame.queries(X))

    def outputs(self, points: NDArray[Any]) -> Doubles:
        """Return the outputs for points in the frame."""
        found = np.empty((len(points), self.n_outputs))
        dtype = np.float64 if len(points) <= _FEW else np.float32
        points, vectors = points.astype(dtype, copy=False), self.vectors.astype(dtype, copy=False)
        coef = self.coef.astype(dtype, copy=False)
        if self.kernel[0] == LINEAR:
            normals = (self.kernel[1] * self.vectors.T.astype(np.float64)) @ self.coef
            return points @ normals.astype(dtype, copy=False) + self.bias
        for rows in gen_batches(len(points), ROWS):
            found[rows] = kernel_values(self.kernel, points[rows], vectors) @ coef
        found += self.bias
        return found

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
