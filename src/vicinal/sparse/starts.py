"""Where the vectors are before they move."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from vicinal.problem import Doubles, Problem

_POINTS_PER_CENTRE = 256  # More move the centres of k-means by less than the vectors will move.
_ROUNDS = 20


def start_vectors(
    problem: Problem, n_vectors: int, init: str, random_state: np.random.RandomState
) -> Doubles:
    """Return vectors in the frame of a problem: centres of each class, or random points."""
    points = problem.points
    if n_vectors == problem.n_points:
        return points.astype(np.float64)
    if init == "random":
        return points[random_state.permutation(len(points))[:n_vectors]].astype(np.float64)
    counts = np.bincount(problem.targets, minlength=problem.n_classes)
    centres = [
        _centres(points[problem.targets == code], count, random_state)
        for code, count in enumerate(shares(counts, n_vectors))
        if count
    ]
    return np.concatenate(centres)


def shares(counts: NDArray[Any], n_vectors: int) -> NDArray[np.intp]:
    """Divide vectors among classes in proportion to their points.

    Every class has one if there are enough, and none has more than it has points.

    Examples
    --------
    >>> shares([90, 9, 1], 10).tolist()
    [8, 1, 1]
    """
    counts = np.asarray(counts)
    given = np.zeros(len(counts), dtype=np.intp)
    for _ in range(n_vectors):
        # The next one goes where a vector has to stand for the most points (D'Hondt).
        wanted = np.where(given > 0, counts / (given + 1), np.inf if given.min() == 0 else counts)
        given[np.where(given < counts, wanted, -1.0).argmax()] += 1
    return given


def _centres(points: NDArray[Any], count: int, random_state: np.random.RandomState) -> Doubles:
    if count == len(points):
        return points.astype(np.float64)
    most = count * _POINTS_PER_CENTRE
    if len(points) > most:
        points = points[random_state.permutation(len(points))[:most]]
    means = KMeans(count, n_init=1, max_iter=_ROUNDS, random_state=random_state)
    with warnings.catch_warnings():
        # Of fewer distinct points than centres, which then repeat.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return means.fit(points).cluster_centers_.astype(np.float64)
