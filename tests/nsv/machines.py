"""Random machines, as the engine takes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vicinal.nsv.cover import EarlyCover
from vicinal.nsv.embedding import spread_landmarks

KERNELS = {
    "linear": (0, 0.7, 0.0, 1),
    "rbf": (1, 0.15, 0.0, 1),
    "poly": (2, 0.2, 1.0, 3),
    "sigmoid": (3, 0.1, -0.2, 1),
}


def random_machine(n_classes=2, m=60, d=12, n_axes=6, kernel=KERNELS["rbf"], seed=0):
    """Arguments of an engine's machine, and queries near its vectors."""
    rng = np.random.default_rng(seed)
    class_sv = np.full(n_classes, m // n_classes, dtype=np.int32)
    class_sv[0] += m - class_sv.sum() - 3
    class_sv[-1] += 3
    spread = np.linspace(2.0, 0.2, d)
    centres = rng.normal(size=(n_classes, d)) * spread
    vectors = centres.repeat(class_sv, axis=0) + rng.normal(size=(m, d)) * spread
    support = rng.uniform(0, 1, size=(n_classes - 1, m))
    bias = rng.normal(0, 0.2, size=n_classes * (n_classes - 1) // 2)
    axes = np.linalg.svd(vectors, full_matrices=False)[2][:n_axes]
    queries = vectors[rng.integers(m, size=70)] + rng.normal(size=(70, d)) * spread * 0.7
    single = [np.ascontiguousarray(a, dtype=np.float32) for a in (vectors, support, bias, axes)]
    vectors, support, bias, axes = single
    # Sigmoid kernel matrices are not definite: any triangle is good enough there.
    landmarks = rng.permutation(m)[:n_axes].astype(np.int32)
    basis = np.tril(rng.normal(size=(n_axes, n_axes))).astype(np.float32)
    if kernel is not KERNELS["sigmoid"]:
        landmarks, basis = spread_landmarks(vectors, kernel, n_axes, np.random.RandomState(seed))
    arguments = (vectors, class_sv, support, bias, kernel, axes, landmarks, basis)
    return arguments, queries.astype(np.float32)


def never_stopping(classifier):
    """The same classifier with all thresholds widened to infinity."""
    model = classifier.model_
    if isinstance(model, EarlyCover):
        classifier.model_ = replace(model, early=tuple(map(_widened, model.early)))
    else:
        classifier.model_ = _widened(model)
    return classifier


def _widened(model):
    def wide(part):
        return part and part._replace(thresholds=part.thresholds + np.inf)

    return replace(
        model,
        linear=wide(model.linear),
        sketch=wide(model.sketch),
        levels=tuple(map(wide, model.levels)),
    )
