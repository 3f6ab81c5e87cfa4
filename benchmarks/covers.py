"""What each approximation costs: machines per point, accuracy lost to kNNSVM, and time.

First table: |C| · k' / N, how often a cover holds each point, for centres by the levels of the
cover tree, for centres in random order (mean of five) and for a greedy set cover, which takes the
neighbourhood with most uncovered points each time: slow, and about as small as one can find.

Second table: test accuracy and time against k' = 1, k/8, k/4, k/2, then routing by the nearest
centre and FastLSVM's random, first-come cover, beside kNNSVM itself. `lambda` is the error above
kNNSVM's in percentage points: what Segata & Blanzieri (2010) call E[λ], estimated on the test set.

What it must cost
-----------------
A cover of N points makes N / k' machines and more, each with a k-neighbourhood (k distances and
their share of the tree walk), k²/2 kernel values and its SMO iterations: time is in proportion to
1 / k'. kNNSVM pays the same for each query. A query of FaLK-SVM is one nearest neighbour and at
most k kernel values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from common import Config, load, measure
from problems import Problem, covertype, named, percent_correct, two_spirals, unit_cube
from vicinal import KNNSVC, FaLKSVC, FastLSVC

SETTINGS = {
    "two-spirals": {"n_neighbors": 250, "C": 1.0, "gamma_percentile": 90},
    "CoverType": {"n_neighbors": 500, "C": 8.0, "gamma_percentile": 5},
}


def rows(config: Config) -> Iterator[dict[str, Any]]:
    for name, X, y in small_sets(config):
        for n_assigned in (10, 50, 250):
            yield redundancy(name, X, y, n_assigned)
    n, n_test = (1500, 200) if config.quick else (20_000, 2000)
    for problem in (two_spirals(n, n_test), covertype(config, n, n_test)):
        yield from prices(config, problem)


def small_sets(config: Config) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    spirals = two_spirals(1000 if config.quick else 4000, 2)
    yield spirals.name, spirals.X, spirals.y
    if config.data is not None and not config.quick:
        for name in ("svmguide1", "banana", "satimage"):
            X, y = load(config, name)[:2]
            yield name, unit_cube(X), y


# --- how many machines ----------------------------------------------------------------------------


def redundancy(name: str, X: np.ndarray, y: np.ndarray, n_assigned: int) -> dict[str, Any]:
    def n_machines(order: str, seed: int = 0) -> int:
        # Only the cover counts here: the cheapest machines will do.
        cheap = {"n_neighbors": n_assigned, "kernel": "linear", "C": 1e-3, "random_state": seed}
        return int(FaLKSVC(n_assigned=n_assigned, centres=order, **cheap).fit(X, y).n_machines_)

    share = n_assigned / len(X)
    random = [n_machines("random", seed) for seed in range(5)]
    return {
        "data": name,
        "points": len(X),
        "k'": n_assigned,
        "levels": share * n_machines("levels"),
        "random": share * float(np.mean(random)),
        "greedy": share * greedy_cover(X, n_assigned),
    }


def greedy_cover(X: np.ndarray, n_assigned: int) -> int:
    """The number of neighbourhoods that the greedy set cover takes."""
    inside = NearestNeighbors(n_neighbors=n_assigned).fit(X).kneighbors(X, return_distance=False)
    by_point = np.argsort(inside.ravel(), kind="stable") // n_assigned
    starts = np.searchsorted(np.sort(inside.ravel()), np.arange(len(X) + 1))
    uncovered = np.ones(len(X), dtype=bool)
    gain = np.full(len(X), n_assigned)
    taken = 0
    while uncovered.any():
        best = inside[gain.argmax()]
        taken += 1
        for point in best[uncovered[best]]:
            uncovered[point] = False
            gain[by_point[starts[point] : starts[point + 1]]] -= 1
    return taken


# --- what they are worth --------------------------------------------------------------------------


def prices(config: Config, problem: Problem) -> Iterator[dict[str, Any]]:
    settings = SETTINGS[problem.name] | {"n_jobs": config.n_jobs}
    if config.quick:
        settings["n_neighbors"] = 64
    k = settings["n_neighbors"]
    lazy = KNNSVC(**settings)
    models = {
        "kNNSVM": lazy,
        **{f"k' = {n}": FaLKSVC(n_assigned=n, **settings) for n in (1, k // 8, k // 4, k // 2)},
        "routing by centre": FaLKSVC(routing="centre", **settings),
        "FastLSVM": FastLSVC(random_state=0, **settings),
    }
    of_lazy = 0.0
    for name, model in models.items():
        fitting = measure(lambda model=model: model.fit(problem.X, problem.y), repeats=1)
        predicting = measure(lambda model=model: model.predict(problem.X_test), repeats=1)
        accuracy = percent_correct(model, problem)
        if model is lazy:
            of_lazy = accuracy
        yield {
            "data": problem.name,
            "points": len(problem.X),
            "approximation": name,
            "machines": len(problem.X_test) if model is lazy else int(model.n_machines_),
            "accuracy": accuracy,
            "lambda": of_lazy - accuracy,
            "fit_s": fitting.median,
            "query_ms": 1e3 * predicting.median / len(problem.X_test),
            "model": named(model),
        }
