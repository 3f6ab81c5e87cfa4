"""A sketch of a machine: a few of its vectors on a few axes, weighted anew to say what it says.

Problem: Nearest support vectors approximate every kernel value before they can leave any of them
out. Most queries are so clear that far less would do, but not so clear that a linear filter could
tell. Between the two stands a machine of a few vectors, in the place that the paper has for reduced
sets. Its scores are the least squares fit to the leanings of the exact machine on representative
queries, so that it is good where queries are, and it is believed by the same rule as the filter.

D. DeCoste, D. Mazzoni: Fast query-time classification with nearest support vectors, ICML 2003.
C. J. C. Burges: Simplified support vector decision rules, ICML 1996.

Cost of a query: e d multiply-adds for e axes, and n (e + c) and n kernel values for n vectors and c
classes. Training: N n² for N queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import solve

from vicinal.kernels import Metric
from vicinal.nsv.calibration import Truth
from vicinal.nsv.embedding import kernel_values
from vicinal.nsv.model import Sketch
from vicinal.problem import Doubles, Floats

AXES = (10, 20, 40, 80)
"""The numbers of axes that are tried."""

LANDMARKS = (128, 256, 512, 1024)
"""The numbers of vectors that are tried."""

RIDGE = 1e-5
"""Of the mean square of a feature, on the diagonal of the normal equations."""

CLIPPED = 2.0
"""Leanings beyond so many times the median winner's are as good as these: certain."""


def sketches(
    vectors: Floats,
    axes: Floats,
    kernel: Metric,
    queries: Floats,
    truth: Truth,
    *,
    random_state: np.random.RandomState,
) -> Iterator[Sketch]:
    """Train sketches of every size on some queries; their thresholds are infinite."""
    targets = _targets(truth)
    thresholds = np.full(truth.n_classes, np.inf, dtype=np.float32)
    sizes = [n for n in LANDMARKS if n <= min(len(vectors), len(queries)) // 2]
    chosen = random_state.permutation(len(vectors))[: max(sizes, default=0)]
    for n_axes in (n for n in AXES if sizes and n <= len(axes)):
        some = np.ascontiguousarray(axes[:n_axes])
        z, landmarks = queries @ some.T, vectors[chosen] @ some.T
        fit = _LeastSquares.of(z, kernel_values(z, landmarks, kernel), targets)
        for n in sizes:
            linear, weights, bias = fit.of_first(n)
            yield Sketch(some, landmarks[:n].copy(), linear, weights, bias, thresholds)


def _targets(truth: Truth) -> Doubles:
    certain = CLIPPED * float(np.median(truth.leanings.max(axis=1)))
    leanings = truth.leanings[:, 1:] if truth.n_classes == 2 else truth.leanings
    return np.clip(leanings, -certain, certain).astype(np.float64)


class _LeastSquares(NamedTuple):
    """The normal equations of all features, which those of fewer are part of."""

    matrix: Doubles
    right: Doubles
    units: Doubles
    means: Doubles
    target_means: Doubles
    n_axes: int

    @classmethod
    def of(cls, z: Floats, values: Floats, targets: Doubles) -> Self:
        features = np.hstack([z, values]).astype(np.float64)
        means = features.mean(axis=0)
        features -= means
        units = np.sqrt(np.square(features).mean(axis=0))
        units[units == 0] = 1.0
        features /= units
        right = features.T @ (targets - targets.mean(axis=0))
        matrix = features.T @ features
        matrix.flat[:: len(matrix) + 1] += RIDGE * len(z)
        return cls(matrix, right, units, means, targets.mean(axis=0), z.shape[1])

    def of_first(self, n: int) -> tuple[Floats, Floats, Floats]:
        """Return what weights coordinates and the first so many landmarks, and the biases."""
        used = slice(self.n_axes + n)
        weights = solve(self.matrix[used, used], self.right[used], assume_a="pos")
        weights /= self.units[used, None]
        bias = self.target_means - self.means[used] @ weights
        rows = np.ascontiguousarray(weights.T, dtype=np.float32)
        linear, of_landmarks = rows[:, : self.n_axes], rows[:, self.n_axes :]
        return linear.copy(), of_landmarks.copy(), bias.astype(np.float32)
