"""A trained kernel machine as plain arrays, in a frame where single precision is enough."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal import engine
from vicinal.kernels import LINEAR, POLY, RBF, Metric, check_polynomial
from vicinal.nsv.embedding import Axes, in_blocks
from vicinal.problem import Codes, Doubles, Floats, Frame

SIGMOID = 3
KINDS = {"linear": LINEAR, "rbf": RBF, "poly": POLY, "sigmoid": SIGMOID, "normalised_poly": POLY}
"""Kernels of machines, by name; a normalised polynomial is one of lifted points."""


@dataclass(frozen=True)
class Lift:
    """Turns a normalised polynomial kernel into a homogeneous one.

    The square root of `gamma` times a point, and of `coef0` as one more coordinate, brought to
    length one: the dot product of two such is the normalised polynomial of degree one.
    """

    gamma: float
    coef0: float

    def __call__(self, X: NDArray[Any]) -> Doubles:
        """Return the lifted points."""
        X = np.asarray(X, dtype=np.float64)
        lifted = np.column_stack([np.sqrt(self.gamma) * X, np.full(len(X), np.sqrt(self.coef0))])
        lengths = np.linalg.norm(lifted, axis=1, keepdims=True)
        return lifted / np.where(lengths > 0, lengths, 1.0)


@dataclass(frozen=True)
class Expansion:
    """One machine for two or more classes, one against one.

    Parameters
    ----------
    vectors : float32 array of shape (n_vectors, n_features)
        In the frame, sorted by class, and within each by place, for the index.
    class_sv : int32 array of shape (n_classes,)
        Number of vectors of each class.
    support : float32 array of shape (n_classes - 1, n_vectors)
        How strongly a vector supports its class against each other, in LIBSVM's layout.
    bias : float32 array of shape (n_pairs,)
        Positive for the later class of a pair.
    kernel : tuple
        Kind, gamma, coef0 and degree, in the frame.
    frame : Frame
    lift : Lift or None
    """

    vectors: Floats
    class_sv: Codes
    support: Floats
    bias: Floats
    kernel: Metric
    frame: Frame
    lift: Lift | None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_sv)

    @property
    def n_features(self) -> int:
        """Number of features, in the frame."""
        return int(self.vectors.shape[1])

    @property
    def n_vectors(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    def queries(self, X: NDArray[Any]) -> Floats:
        """Return queries as the engine takes them; without a copy where that is possible."""
        if self.lift is not None:
            return np.ascontiguousarray(self.lift(X), dtype=np.float32)
        return self.frame.queries(X)

    def machine(self, axes: Axes) -> engine.EarlyMachine:
        """Return the engine's machine, whose approximations live on some axes."""
        return engine.EarlyMachine(
            self.vectors, self.class_sv, self.support, self.bias, self.kernel, *axes
        )

    @classmethod
    def make(
        cls,
        vectors: Doubles,
        class_sv: NDArray[Any],
        support: Doubles,
        bias: Doubles,
        kernel: str,
        gamma: float,
        coef0: float,
        degree: int,
    ) -> Expansion:
        """Bring a machine in the user's units into a frame."""
        if kernel == "linear":
            frame = Frame.if_needed(vectors)
            sums, class_sv, support = one_vector_a_pair(vectors, class_sv, support)
            bias = bias + _by_pair(sums @ frame.offset, len(class_sv))
            return cls.of_arrays(
                sums, class_sv, support, bias, (LINEAR, frame.scale, 0.0, 1), frame
            )
        lift = None
        if kernel == "normalised_poly":
            lift = Lift(gamma, coef0)
            vectors, gamma, coef0 = lift(vectors), 1.0, 0.0
        frame = Frame.if_needed(vectors, centred=kernel == "rbf")
        points = frame.apply(vectors)
        metric = (KINDS[kernel], gamma * frame.squared_scale, coef0, degree)
        if kernel == "poly":
            check_polynomial(points, metric[1], coef0, degree)
        return cls.of_arrays(points, class_sv, support, bias, metric, frame, lift)

    @classmethod
    def of_arrays(
        cls,
        vectors: NDArray[Any],
        class_sv: NDArray[Any],
        support: Doubles,
        bias: Doubles,
        kernel: Metric,
        frame: Frame,
        lift: Lift | None = None,
    ) -> Expansion:
        """Return an expansion of arrays that are in its frame, with close vectors side by side."""
        owners = np.repeat(np.arange(len(class_sv)), class_sv)
        runs = [np.flatnonzero(owners == a) for a in range(len(class_sv))]
        order = np.concatenate([run[in_blocks(vectors[run])] for run in runs])
        vectors, support = vectors[order], support[:, order]
        return cls(
            np.ascontiguousarray(vectors, dtype=np.float32),
            np.asarray(class_sv, dtype=np.int32),
            np.ascontiguousarray(support, dtype=np.float32),
            np.asarray(bias, dtype=np.float32),
            kernel,
            frame,
            lift,
        )


def one_vector_a_pair(
    vectors: Doubles, class_sv: NDArray[Any], support: Doubles
) -> tuple[Doubles, NDArray[Any], Doubles]:
    """Sum the vectors of a linear machine: one for each pair, which supports the later class."""
    n_classes = len(class_sv)
    ends = np.cumsum(class_sv)
    runs = [slice(end - count, end) for end, count in zip(ends, class_sv, strict=True)]
    pairs = _pairs_by_later(n_classes)
    sums = np.empty((len(pairs), vectors.shape[1]))
    one = np.zeros((n_classes - 1, len(pairs)))
    for place, (a, b) in enumerate(pairs):
        sums[place] = support[a, runs[b]] @ vectors[runs[b]]
        sums[place] -= support[b - 1, runs[a]] @ vectors[runs[a]]
        one[a, place] = 1.0
    return sums, np.arange(n_classes), one


def _pairs_by_later(n_classes: int) -> list[tuple[int, int]]:
    return [(a, b) for b in range(n_classes) for a in range(b)]


def _by_pair(values: Doubles, n_classes: int) -> Doubles:
    """Put values of pairs sorted by the later class into LIBSVM's order."""
    of_pair = dict(zip(_pairs_by_later(n_classes), values, strict=True))
    return np.array([of_pair[pair] for pair in combinations(range(n_classes), 2)])
