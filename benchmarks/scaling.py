"""Fit time grows like N to 1.1 at most, queries hardly at all, on 3 million points under 2 GB.

Two-spirals of 100k, 300k, 1M and 3M points, each fitted once in a process of its own, so that the
peak is that of this size alone: data, index, machines and predictions included. `exponent` is that
of the fit time against the row before, and over all sizes in the last table; a query's time is that
of 100,000 at once and may grow threefold. `tree_distances` is how many distances the cover tree
computes to find one nearest neighbour, whatever index the fit chose: at most logarithmic if
`per_log2` does not grow. The last table fits 1M points on one core and on all, with the cheap
machines of the other tables and with those of the 2008 report (k = 1000, C = 256): on 16 cores at
least 11 times faster.

What it must cost
-----------------
|C| ≈ 2 · N / k' machines of the same size whatever N is: a cost in proportion to N. The tree adds
log N distances a point and a query. Memory: 4 · d bytes a point and about 30 for the tree, ranks
and owners; a support vector costs 8 bytes, and at 25 % of k in each machine, k = 2 k' and |C| k' =
2 N, that is a support vector for each point; a thread holds one Gram matrix, 4 · k² bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from common import Config, measure, run_alone
from problems import named, percent_correct, two_spirals
from vicinal import FaLKSVC, engine

SIZES = (100_000, 300_000, 1_000_000, 3_000_000)
N_QUERIES = 100_000
PARAMETERS = {"n_neighbors": 250, "C": 1.0, "gamma_percentile": 90}
PAPER = {"n_neighbors": 1000, "n_assigned": 250, "C": 256.0}  # of RBF-FastLSVM, 2008, Table 2
N_SPEED_UP = 1_000_000


def rows(config: Config) -> Iterator[dict[str, Any]]:
    sizes = (1000, 3000, 10_000) if config.quick else SIZES
    found: list[dict[str, Any]] = []
    for n in sizes:
        row, peak = run_alone(fit_and_predict, n, config.n_jobs, N_QUERIES)
        row["peak_MB"] = peak / 1e6
        row["exponent"] = exponent(found[-1], row) if found else None
        row["tree_distances"], _ = run_alone(tree_distances, n, config.n_jobs)
        row["per_log2"] = row["tree_distances"] / math.log2(n)
        found.append(row)
        yield row
    yield {
        "from": sizes[0],
        "to": sizes[-1],
        "fit_exponent": exponent(found[0], found[-1]),
        "query_growth": found[-1]["query_us"] / found[0]["query_us"],
        "peak_MB": found[-1]["peak_MB"],
    }
    n = sizes[-1] if config.quick else N_SPEED_UP
    for parameters in (PARAMETERS, PAPER):
        alone: float | None = None
        for n_jobs in sorted({1, config.n_jobs}):
            row, _ = run_alone(fit_and_predict, n, n_jobs, N_QUERIES, parameters)
            alone = alone or row["fit_s"]
            yield {
                "speed_up_at": n,
                "model": row["model"],
                "cores": n_jobs,
                "fit_s": row["fit_s"],
                "times_faster": alone / row["fit_s"],
            }


def fit_and_predict(
    n: int, n_jobs: int, n_queries: int, parameters: dict[str, Any] = PARAMETERS
) -> dict[str, Any]:
    """One size, in a process of its own."""
    problem = two_spirals(n, n_queries)
    model = FaLKSVC(**parameters, n_jobs=n_jobs)
    fitting = measure(lambda: model.fit(problem.X, problem.y), repeats=1)
    predicting = measure(lambda: model.predict(problem.X_test), repeats=3)
    return {
        "points": n,
        "cores": n_jobs,
        "model": named(model),
        "machines": int(model.n_machines_),
        "fit_s": fitting.median,
        "query_us": 1e6 * predicting.median / n_queries,
        "accuracy": percent_correct(model, problem),
    }


def tree_distances(n: int, n_threads: int) -> float:
    """Distances that a cover tree computes for one nearest neighbour."""
    problem = two_spirals(n, 10_000)
    points, queries = (
        np.ascontiguousarray(X, dtype=np.float32) for X in (problem.X, problem.X_test)
    )
    tree = engine.NeighbourIndex(points, structure="tree", n_threads=n_threads)
    return tree.count_distances(queries, 1)


def exponent(smaller: dict[str, Any], larger: dict[str, Any]) -> float:
    return math.log(larger["fit_s"] / smaller["fit_s"]) / math.log(
        larger["points"] / smaller["points"]
    )
