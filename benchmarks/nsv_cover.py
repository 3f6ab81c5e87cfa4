"""What nearest support vectors save in a cover whose machines are large, against labels changed.

FaLKSVC with k of some thousands, C = 10 and local kernel widths, and NSVClassifier over it with its
defaults (max_disagreement = 0.001), calibrated on the training data, asked about test data that
neither has seen. `early` are the machines that stop early, `vectors` and `touched` means over the
queries. Times are of one thread, for all queries at once, in microseconds a query, medians of runs
in turn; `route` is the part of both that finds the machines. With k = 500 no machine is worth it,
and both do the same: what they differ by is the noise of the clock.

What it must cost
-----------------
A machine of 800 vectors of 784 features takes 0.63 M multiply-adds a query, 11 µs at 16 a cycle and
3.5 GHz; a route by rank compares the query with all training points, and costs more than that.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from common import Config, Row, load
from vicinal import FaLKSVC
from vicinal.nsv import NSVClassifier

CELLS: list[tuple[str, int, dict[str, Any]]] = [
    ("usps", 7291, {"n_neighbors": 2000, "routing": "centre"}),
    ("usps", 7291, {"n_neighbors": 2000, "routing": "rank"}),
    ("covtype", 20_000, {"n_neighbors": 500, "routing": "centre"}),
    ("covtype", 20_000, {"n_neighbors": 4000, "routing": "centre"}),
    ("mnist", 5000, {"n_neighbors": 2000, "routing": "centre"}),
]
N_TEST = 5000


def rows(config: Config) -> Iterator[Row]:
    with threadpool_limits(1):
        for cell in CELLS[: 1 if config.quick else None]:
            yield row(config, *cell)


def row(config: Config, name: str, n_train: int, settings: dict[str, Any]) -> Row:
    X, y, X_test = split(config, name, n_train)
    local = FaLKSVC(C=10, **settings)
    seconds = elapsed(lambda: local.fit(X, y))
    early = NSVClassifier(FrozenEstimator(local), random_state=0)
    calibration = elapsed(lambda: early.fit(X))
    model = local.models_[0]
    queries = model.problem.frame.apply(X_test)

    def find(_: np.ndarray) -> np.ndarray:
        return model.route(queries, n_threads=1)

    theirs, ours, route = in_turn((local.predict, early.predict, find), X_test, config.repeats)
    changed = early.predict(X_test) != local.predict(X_test)
    return {
        "data": name,
        **settings,
        "machines": local.n_machines_,
        "early": early.calibration_["n_early_machines"],
        "fit_s": round(seconds, 1),
        "calibration_s": round(calibration, 1),
        "vectors": round(float(local.n_support_[find(queries)].mean()), 1),
        "touched": round(float(early.n_touched(X_test).mean()), 1),
        "changed_percent": round(100 * float(changed.mean()), 3),
        "falk_us": round(theirs, 1),
        "ours_us": round(ours, 1),
        "route_us": round(route, 1),
        "faster": round(theirs / ours, 2),
    }


def split(config: Config, name: str, n_train: int) -> tuple[np.ndarray, ...]:
    """Return standardised training and test data; the official ones where there are any."""
    arrays = load(config, name)
    if len(arrays) == 2:
        order = np.random.default_rng(0).permutation(len(arrays[0]))
        train, test = order[:n_train], order[n_train : n_train + N_TEST]
        X, y, X_test = arrays[0][train], arrays[1][train], arrays[0][test]
    else:
        X, y, X_test, _ = arrays
    X, X_test = (np.asarray(part.reshape(len(part), -1), float) for part in (X, X_test))
    if name == "mnist":
        X, X_test = X / 255, X_test / 255
    else:
        scaler = StandardScaler().fit(X[:n_train])
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    return X[:n_train], y[:n_train], X_test[:N_TEST]


def elapsed(function: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turn(ways: tuple[Callable[[Any], Any], ...], X: np.ndarray, repeats: int) -> list[float]:
    """Return the median microseconds a query of some ways, each run in turn."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(max(3, repeats)):
        for way, kept in zip(ways, times, strict=True):
            kept.append(elapsed(partial(way, X)))
    return [1e6 * statistics.median(kept) / len(X) for kept in times]
