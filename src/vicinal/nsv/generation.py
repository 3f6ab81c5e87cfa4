"""Calibration points where thresholds are likely to be too low, and which may well come.

    D. DeCoste, D. Mazzoni: Fast query-time classification with nearest support vectors, ICML 2003,
    Section 5.2.

A query is misled where many support vectors of a class crowd, and yet the border runs between them
and the query. Such a point lies on the way from a representative query that another class wins to a
support vector in a crowd, as far as that class still does not win: a convex combination of the two,
so inside the hull of the data.

Cost: one product of some support vectors with themselves and one with some queries, and a few
exact sums for each point.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from vicinal.kernels import LINEAR
from vicinal.nsv.calibration import Traces, Truth
from vicinal.nsv.filters import FILTERED, SKETCHED
from vicinal.nsv.model import NearestVectors
from vicinal.nsv.settings import Settings
from vicinal.problem import Floats

CROWD = 10
"""Neighbours that tell how many support vectors of its class are around one."""

RIVALS = 3
"""A way starts at one of so many queries that are nearest among those other classes win."""

HALVINGS = 8
"""Exact sums of each point, which find the border on its way to one part in 256."""

MOST = 5000
"""At most so many queries, and so many support vectors, are compared."""


def between_classes(
    model: NearestVectors,
    queries: Floats,
    n_points: int,
    *,
    random_state: np.random.RandomState,
    n_threads: int,
) -> Floats:
    """Return points just before the border to a crowd of support vectors.

    Parameters
    ----------
    model : NearestVectors
    queries : array of shape (n_queries, n_features)
        Representative ones, in the frame of the model.
    n_points : int
    random_state : RandomState
    n_threads : int

    Returns
    -------
    points : array of shape (n_points, n_features)
        Fewer, or none, where the queries are of one class only, or the machine is linear and has
        no support vectors.
    """
    expansion, machine = model.expansion, model.machine
    if expansion.kernel[0] == LINEAR:
        return queries[:0]
    queries = queries[random_state.permutation(len(queries))[:MOST]]
    winners, _ = machine.settle(queries, n_threads=n_threads)
    some = random_state.permutation(expansion.n_vectors)[:MOST]
    vectors = expansion.vectors[some]
    classes = np.repeat(np.arange(expansion.n_classes), expansion.class_sv)[some]
    targets = random_state.choice(len(vectors), n_points, p=_crowds(vectors, classes))
    starts = np.full(n_points, -1)
    for code in range(expansion.n_classes):
        mine, others = np.flatnonzero(classes[targets] == code), np.flatnonzero(winners != code)
        if len(mine) and len(others):
            n_rivals = min(RIVALS, len(others))
            nearest = NearestNeighbors(n_neighbors=n_rivals).fit(queries[others])
            rivals = nearest.kneighbors(vectors[targets[mine]], return_distance=False)
            chosen = rivals[np.arange(len(mine)), random_state.randint(n_rivals, size=len(mine))]
            starts[mine] = others[chosen]
    found = starts >= 0
    targets, starts = targets[found], starts[found]

    def at(share: NDArray[np.float64]) -> Floats:
        part = share[:, None].astype(np.float32)
        points = (1 - part) * queries[starts] + part * vectors[targets]
        if expansion.lift is not None:  # lifted points have length one, and stay lifted points
            points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-30)
        return np.ascontiguousarray(points, dtype=np.float32)

    near, far = np.zeros(len(starts)), np.ones(len(starts))
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        won, _ = machine.settle(at(middle), n_threads=n_threads)
        beyond = won == classes[targets]
        near, far = np.where(beyond, near, middle), np.where(beyond, middle, far)
    return at(near)


def _crowds(vectors: Floats, classes: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the chance of each vector: by how many around it are of its class."""
    n_around = min(CROWD, len(vectors) - 1)
    nearest = NearestNeighbors(n_neighbors=n_around).fit(vectors)
    around = nearest.kneighbors(return_distance=False)
    crowd = 1.0 + (classes[around] == classes[:, None]).sum(axis=1)
    return np.asarray(crowd / crowd.sum())


def widened(
    model: NearestVectors, points: Floats, settings: Settings, *, n_threads: int
) -> NearestVectors:
    """Return a model whose thresholds are also those of some points, where these are higher."""
    if not len(points):
        return model
    truth = Truth.of(model.machine, points, n_threads=n_threads)
    levels = []
    for level in model.levels:
        n_steps = level.thresholds.shape[-1] - 1
        paths = model.machine.trace(
            points, level.embedding, level.n_axes, n_steps, model.walking, n_threads=n_threads
        )
        also = np.tile(settings.thresholds(Traces(*paths, truth)), (model.regions.n_regions, 1))
        levels.append(level._replace(thresholds=np.maximum(level.thresholds, also)))
    linear = model.linear
    if len(linear.weights):
        leaders, leads = linear.scores(points)
        also = settings.filter_thresholds(leaders, leads, truth, FILTERED)
        linear = linear._replace(thresholds=np.maximum(linear.thresholds, also))
    sketch = model.sketch
    if sketch is not None:
        leaders, leads = sketch.scores(points, model.expansion.kernel)
        also = settings.filter_thresholds(leaders, leads, truth, SKETCHED)
        sketch = sketch._replace(thresholds=np.maximum(sketch.thresholds, also))
    return replace(model, linear=linear, sketch=sketch, levels=tuple(levels))
