"""The classification problems that several benchmarks train on, and how models are named.

CoverType is binary (class 2 against the rest), every feature scaled to [0, 1] over the whole set,
test points drawn at random first and training points from the others, as in the papers of Segata
and Blanzieri. Under `config.quick` a small generated set of the same width stands in for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from common import Config, load
from vicinal.datasets import make_two_spirals

N_TEST = 25_000
NAMED = (
    "n_neighbors", "n_assigned", "C", "gamma", "gamma_percentile",
    "n_estimators", "num_leaves", "learning_rate",
)  # fmt: skip


@dataclass(frozen=True)
class Problem:
    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def two_spirals(n: int, n_test: int, seed: int = 0) -> Problem:
    X, y = make_two_spirals(n, random_state=seed)
    return Problem("two-spirals", X, y, *make_two_spirals(n_test, random_state=seed + 1000))


def covertype(config: Config, n: int, n_test: int = N_TEST, seed: int = 0) -> Problem:
    X, y = _covertype(config)
    order = np.random.default_rng(seed).permutation(len(X))
    test, train = order[:n_test], order[n_test : n_test + n]
    if len(train) < n:
        raise ValueError(f"{n} training and {n_test} test points asked for, of {len(X)}")
    return Problem("CoverType", X[train], y[train], X[test], y[test])


@lru_cache(maxsize=1)
def _covertype(config: Config) -> tuple[np.ndarray, np.ndarray]:
    if config.quick:
        X, y = make_classification(
            8000, 54, n_informative=8, n_clusters_per_class=8, class_sep=2.0, random_state=0
        )
    else:
        X, y = load(config, "covtype")
        y = (y == 2).astype(int)
    return unit_cube(X), y


def unit_cube(X: np.ndarray) -> np.ndarray:
    """Every column scaled to [0, 1], in float32."""
    low, high = X.min(axis=0).astype(float), X.max(axis=0).astype(float)
    return np.asarray((X - low) / np.where(high > low, high - low, 1.0), dtype=np.float32)


def named(model: Any) -> str:
    """The estimator with the parameters that matter, whether or not they are its defaults."""
    values = model.get_params()
    shown = [name for name in NAMED if values.get(name) is not None]
    if values.get("kernel", "rbf") != "rbf" or values.get("gamma") != "local":
        shown = [name for name in shown if name != "gamma_percentile"]
    return f"{type(model).__name__}({', '.join(f'{name}={values[name]}' for name in shown)})"


def percent_correct(model: Any, problem: Problem) -> float:
    return 100.0 * float(np.mean(model.predict(problem.X_test) == problem.y_test))
