"""What `compress` makes of covers on CoverType, at a loss of at most 0.3 points of accuracy.

`FaLKSVC(routing="centre")` on 100,000 points of binary CoverType, and `compress` of it with its
defaults: twice with parameters that `FaLKSVCCV` chose on draws like these (covertype_curve), once
with larger neighbourhoods. Compressed, a model needs no training set: its route is by centre, and
its machines have vectors of their own. Target: a smaller file, and three times faster predictions.
The loss is held on 75,000 points that are neither trained on nor counted in the table; `test_loss`
is that on 100,000 others, in points.

Predictions are timed on one thread, whole and compressed models in turn within one run, medians.

What it must cost
-----------------
A query pays for its route and for the kernel values of one machine. The route compares it with some
1,150 centres of 54 features: 62,000 subtractions and multiply-adds, of which the sieve leaves about
a third. A whole machine has 250 to 460 vectors of 54 features, 13,000 to 25,000 of them and as many
exponentials as vectors; a compressed one has 16 to 64, 900 to 3,500. So the ratio ends where the
route begins: at route + whole over route + compressed.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import vicinal
from common import Config, measure
from problems import Problem, covertype, percent_correct
from vicinal import FaLKSVC
from vicinal.sparse import compress

N_TRAIN, N_TEST, N_HELD_OUT = 100_000, 100_000, 75_000
SEED = 1000

CHOSEN = (
    {"n_neighbors": 1000, "n_assigned": 250, "C": 16.0, "gamma_percentile": 1.0},
    {"n_neighbors": 1000, "n_assigned": 250, "C": 64.0, "gamma_percentile": 10.0},
    {"n_neighbors": 2000, "n_assigned": 250, "C": 64.0, "gamma_percentile": 10.0},
)


def rows(config: Config) -> Iterator[dict[str, Any]]:
    n, n_test, n_held_out = (2000, 1000, 1000) if config.quick else (N_TRAIN, N_TEST, N_HELD_OUT)
    problem = covertype(config, n, n_test + n_held_out, seed=SEED)
    for parameters in CHOSEN:
        yield one(config, problem, n_test, parameters)


def one(
    config: Config, problem: Problem, n_test: int, parameters: dict[str, Any]
) -> dict[str, Any]:
    if config.quick:
        parameters = {**parameters, "n_neighbors": 200, "n_assigned": 50}
    tested = replace(problem, X_test=problem.X_test[:n_test], y_test=problem.y_test[:n_test])
    whole = FaLKSVC(routing="centre", n_jobs=config.n_jobs, **parameters)
    fit = measure(lambda: whole.fit(problem.X, problem.y), repeats=1)
    begin = time.perf_counter()
    smaller = compress(
        whole,
        X=problem.X_test[n_test:],
        y=problem.y_test[n_test:],
        random_state=0,
        n_jobs=config.n_jobs,
    )
    compress_s = time.perf_counter() - begin
    correct = [percent_correct(model, tested) for model in (whole, smaller)]
    sizes = [megabytes(model) for model in (whole, smaller)]
    whole.set_params(n_jobs=1)
    smaller.set_params(n_jobs=1)
    seconds: list[list[float]] = [[], []]
    for _ in range(2 * config.repeats + 1):
        for model, found in zip((whole, smaller), seconds, strict=True):
            found.append(
                measure(lambda model=model: model.predict(tested.X_test), repeats=1).median
            )
    per_query = [1e6 * statistics.median(found) / n_test for found in seconds]
    report = smaller.fit_report_["compression"]
    return {
        "chosen": ", ".join(f"{name}={value}" for name, value in parameters.items()),
        "machines": whole.n_machines_,
        "vectors": float(whole.n_support_.mean()),
        "compressed": float(smaller.n_support_.mean()),
        "kept_whole": report["whole"],
        "fit_s": fit.median,
        "compress_s": compress_s,
        "accuracy": correct[0],
        "test_loss": correct[0] - correct[1],
        "file_MB": sizes[0],
        "compressed_MB": sizes[1],
        "predict_us": per_query[0],
        "compressed_us": per_query[1],
        "times_faster": per_query[0] / per_query[1],
    }


def megabytes(model: FaLKSVC) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        vicinal.save(model, path)
        return path.stat().st_size / 1e6
