"""Small machines that answer, near one place, as large ones do.

A local machine is asked about queries near its centre only, so what counts is not how far the
weights of two machines are apart (that is what a reduced set minimises) but how far their outputs
differ on points around the centre. For m vectors Z, a bias and a kernel, find

    min over Z, gamma of  min over b, bias of  sum_i w_i e_i^2 + ridge * b' K_zz b

where e_i = t_i - f(x_i), t being the output of the large machine cut to [-1, 1], and e_i = 0 where
both lie beyond the margin on one side: there an output may be as large as it likes. The inner
problem is a squared hinge, solved by Newton's method: points beyond the margin leave, the rest is a
linear system of m + 1 unknowns. The outer one descends by L-BFGS; the gradient is that with b and
the bias held fixed, as Z. Fu, G. Lu, K.-M. Ting, D. Zhang do for labels (Learning sparse kernel
classifiers in the primal, 2012). Many machines are one stack of matrices, and one descent: their
objectives add up.

A step costs n m (d + m) operations for each machine and pair of classes, n being the points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from vicinal.kernels import RBF, KernelSpec
from vicinal.problem import Doubles, Floats

_RIDGE = 1e-4
_JITTER = 1e-8
_MOST_ROUNDS = 4
"""Newton steps for one position of the vectors; the next position starts where they ended."""


@dataclass(frozen=True)
class Small:
    """A stack of machines.

    Parameters
    ----------
    vectors : float32 array of shape (n_machines, n_vectors, n_features)
    coef : float64 array of shape (n_machines, n_pairs, n_vectors)
    bias : float64 array of shape (n_machines, n_pairs)
    gamma : float64 array of shape (n_machines,)
    misfit : float64 array of shape (n_machines,)
        What is left of the squared differences from the large machine, on average over points and
        pairs.
    """

    vectors: Floats
    coef: Doubles
    bias: Doubles
    gamma: Doubles
    misfit: Doubles


@dataclass
class Lesson:
    """What a stack of small machines is to learn from large ones.

    Parameters
    ----------
    points : float32 array of shape (n_machines, n_points, n_features)
        Relative to a point of theirs, if the kernel is translation invariant.
    outputs : float32 array of shape (n_machines, n_points, n_pairs)
        Of the large machines, cut to [-1, 1].
    weights : float32 array of the same shape
        Adding up to one for each machine and pair.
    owners : int array of shape (n_machines, n_vectors)
        The class of each vector: it takes part in the pairs of its class, unless there is one only.
    kernel : KernelSpec
    gamma : float64 array of shape (n_machines,)
    """

    points: Floats
    outputs: Floats
    weights: Floats
    owners: NDArray[Any]
    kernel: KernelSpec
    gamma: Doubles
    _settled: dict[int, NDArray[np.bool_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_pairs = self.outputs.shape[2]
        n_classes = int((1 + np.sqrt(1 + 8 * n_pairs)) / 2)
        self._pairs = [
            np.ones_like(self.owners, dtype=bool)
            if n_pairs == 1
            else (self.owners == a) | (self.owners == b)
            for a, b in combinations(range(n_classes), 2)
        ]
        self._is_far = np.abs(self.outputs) >= 1.0

    def learn(self, start: Floats, max_iter: int) -> Small:
        """Return the machines that descent from some vectors ends at."""
        n = start.size
        flat = np.concatenate([start.ravel().astype(np.float64), np.zeros(len(start))])

        def objective(flat: Doubles) -> tuple[float, Doubles]:
            value, by_vectors, by_width, _ = self._value(flat[:n].reshape(start.shape), flat[n:])
            return value, np.concatenate([by_vectors.ravel(), by_width])

        found = minimize(
            objective,
            flat,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iter, "ftol": 1e-7, "gtol": 0.0},
        )
        vectors = found.x[:n].reshape(start.shape).astype(np.float32)
        *_, small = self._value(vectors, found.x[n:])
        return small

    def _value(self, Z: NDArray[Any], width: Doubles) -> tuple[float, Doubles, Doubles, Small]:
        """Return the objective, its gradient in the vectors and in log(gamma), and the machines."""
        X, vectors, gamma = self.points, Z.astype(np.float32), self.gamma * np.exp(width)
        K, by_product = self._kernel(X, vectors, gamma)
        K_zz, by_product_zz = self._kernel(vectors, vectors, gamma)
        ridge = _RIDGE * np.maximum(np.einsum("bmm->b", K_zz) / Z.shape[1], 1e-30)[:, None, None]
        pull, pull_zz = np.zeros_like(K), np.zeros_like(K_zz)
        value, misfit = 0.0, np.zeros(len(Z))
        coefs, biases = [], []
        for pair, takes_part in enumerate(self._pairs):
            coef, bias, left = self._solve(pair, K, ridge * K_zz, takes_part)
            misfit += np.einsum("bn,bn,bn->b", left, left, self._active(pair)) / len(self._pairs)
            value += float(np.einsum("bi,bij,bj->", coef, ridge * K_zz, coef, optimize=True))
            pull -= 2 * (left * self._active(pair))[:, :, None] * coef.astype(np.float32)[:, None]
            pull_zz += (ridge * coef[:, :, None] * coef[:, None]).astype(np.float32)
            coefs.append(coef)
            biases.append(bias)
        value += float(misfit.sum()) * len(self._pairs)
        pull *= by_product
        pull_zz *= by_product_zz
        by_vectors = pull.transpose(0, 2, 1) @ X + 2 * (pull_zz @ vectors)
        by_width = np.zeros(len(Z))
        if self.kernel.kind == RBF:
            # Of exp(-gamma |x - z|^2) by_product is the value times 2 gamma.
            by_vectors -= pull.sum(axis=1)[:, :, None] * vectors
            by_vectors -= 2 * pull_zz.sum(axis=1)[:, :, None] * vectors
            for part, values in ((pull, K), (pull_zz, K_zz)):
                by_width += np.einsum("bij,bij->b", part, np.log(np.maximum(values, 1e-37))) / (
                    2 * gamma
                )
        small = Small(vectors, np.stack(coefs, axis=1), np.stack(biases, axis=1), gamma, misfit)
        return value, by_vectors.astype(np.float64), by_width, small

    def _solve(
        self, pair: int, K: Floats, penalty: Floats, takes_part: NDArray[np.bool_]
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the best coefficients and biases of a pair, and what they leave of its outputs."""
        targets = self.outputs[:, :, pair]
        mask = takes_part.astype(np.float32)
        if not takes_part.all():
            K = K * mask[:, None]
        K = np.concatenate([K, np.ones((*K.shape[:2], 1), np.float32)], axis=2)
        n = K.shape[2]
        fixed = np.zeros((len(K), n, n))
        fixed[:, :-1, :-1] = penalty * (mask[:, :, None] * mask[:, None])
        fixed[:, np.arange(n - 1), np.arange(n - 1)] += 1.0 - mask
        fixed += _JITTER * np.eye(n)
        for _ in range(_MOST_ROUNDS):
            active = self._active(pair)
            weighted = (K * active[:, :, None]).transpose(0, 2, 1)
            solution = np.linalg.solve(
                weighted @ K + fixed, (weighted @ targets[:, :, None]).astype(np.float64)
            )
            left = targets - (K @ solution.astype(np.float32))[:, :, 0]
            settled = self._is_far[:, :, pair] & (left * targets <= 0)
            before = self._settled.get(pair)
            self._settled[pair] = settled
            if before is not None and np.array_equal(before, settled):
                break
        return solution[:, :-1, 0], solution[:, -1, 0], left

    def _active(self, pair: int) -> Floats:
        """Return the weights of the points that are not beyond the margin already."""
        weights, settled = self.weights[:, :, pair], self._settled.get(pair)
        return weights if settled is None else np.where(settled, np.float32(0), weights)

    def _kernel(self, X: Floats, Z: Floats, gamma: Doubles) -> tuple[Floats, Floats]:
        """Return kernel values, and their derivatives by dot products."""
        values = X @ Z.transpose(0, 2, 1)  # dot products, in whose place the others come
        wide = gamma.astype(np.float32)[:, None, None]
        if self.kernel.kind == RBF:
            of_points, of_vectors = (np.einsum("bnd,bnd->bn", part, part) for part in (X, Z))
            values *= 2
            values -= of_points[:, :, None]
            values -= of_vectors[:, None]
            np.minimum(values, 0, out=values)
            values *= wide
            np.exp(values, out=values)
            return values, 2 * wide * values
        values *= wide
        values += np.float32(self.kernel.coef0)
        degree = self.kernel.degree
        return values**degree, degree * wide * values ** (degree - 1)
