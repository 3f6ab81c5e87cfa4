"""Learnt vectors against support vectors: accuracy, training time, prediction time and memory.

Fu et al.: Learning sparse kernel classifiers in the primal (2012), Tables 2 and 3 and Figure 1.

Accuracy and time: ten random partitions of the paper's sizes, features of unit variance, γ = 1/d,
C = 10 and the paper's numbers of vectors m for every method. `SVC` is scikit-learn's, `RS` its
reduced set, `RSVM` random vectors, `SKLA` the dual version (on the first six sets, as in the
paper), and `PSKC` ours; all else at its defaults. A column is the mean over the partitions, and
`best` names the sparse methods that a paired t-test at 95 % does not tell from the best of them.
`paper` is the paper's PSKC, ± our deviation or its own. SensIT, the paper's twelfth set (83.6), is
not at hand. Seconds are medians over the partitions, of one fit, on all cores.

Tuned: γ and C of `SVC` and PSKC each by threefold cross-validation on up to 4,000 training points,
then trained on all, with 1 % and 0.1 % of the points as vectors; `gap` is in points of accuracy.

Growth: four Gaussian clusters, 4 vectors, for PSKC and SKLA; CoverType up to 500,000 points with
100 vectors, 20 steps, each in a process of its own.

Prediction: all test points at once, best of some runs, in microseconds a query; `product` is one
float32 product of the queries with as many vectors. Cells are kept as they finish (cells.py).

What it must cost
-----------------
A step of PSKC makes 2 N m d multiply-adds for kernel values and gradients, N m² for features, and
half of that for each Hessian over the points inside the margin: on mnist (m = 100) 9.4 G, 0.6 G
and, for ten classes of which each has a sixth inside, 0.5 G; at 45 G a second on one AVX-512 core
about 0.25 s. A prediction is m d multiply-adds, m exponentials of about a cycle each, and m
multiply-adds an output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from cells import Cells
from common import Config, Row, load, measure, run_alone
from problems import covertype
from vicinal.sparse import PSKClassifier, ReducedSetClassifier, RSVMClassifier, SKLAClassifier

# training points, test points, vectors, and the paper's accuracy of PSKC and its deviation
SETS: dict[str, tuple[int, int, int, float, float]] = {
    "australian": (346, 344, 10, 85.8, 1.6),
    "breast_cancer": (342, 341, 10, 96.0, 0.8),
    "dna": (1001, 999, 10, 94.2, 0.5),
    "segment": (1155, 1155, 12, 92.9, 0.9),
    "satimage": (4435, 2000, 44, 90.4, 0.6),
    "usps": (7291, 2007, 73, 97.0, 0.9),
    "letter": (15000, 5000, 100, 94.6, 0.3),
    "shuttle": (43500, 14500, 100, 99.8, 0.0),
    "ijcnn1": (49990, 91701, 100, 98.5, 0.2),
    "connect4": (33780, 33777, 100, 80.1, 0.5),
    "mnist": (60000, 10000, 100, 95.8, 0.2),
}
WITH_SKLA = tuple(SETS)[:6]
SPARSE = ("RS", "RSVM", "SKLA", "PSKC")
N_PARTITIONS = 10
TUNED = ("satimage", "usps", "letter", "ijcnn1", "connect4", "mnist")
GRID = {"C": (1, 10, 100), "gamma": (0.25, 1.0, 4.0)}  # gamma in units of 1/d
MOST_TUNED = 4000
CLUSTERS = ((-2.0, -2.0), (-2.0, 2.0), (2.0, -2.0), (2.0, 2.0))


def rows(config: Config) -> Iterator[Row]:
    cells = Cells("sparse", config)
    yield from prediction(config, cells)
    yield from memory(config, cells)
    yield from figure_1(config, cells)
    names = ("australian", "segment") if config.quick else tuple(SETS)
    n_partitions = 2 if config.quick else N_PARTITIONS
    found = {name: table_2(config, cells, name, n_partitions) for name in names}
    yield from (accuracies(name, each) for name, each in found.items())
    yield from (times(name, each) for name, each in found.items())
    yield from (tuned(config, cells, name) for name in (("segment",) if config.quick else TUNED))


# --- Tables 2 and 3 -------------------------------------------------------------------------------


def table_2(config: Config, cells: Cells, name: str, n_partitions: int) -> dict[str, list[Row]]:
    """The cells of a data set: for each method one a partition."""
    found: dict[str, list[Row]] = {}
    for seed in range(n_partitions):
        for method in methods(name):
            key = {"data": name, "method": method, "seed": seed}
            cell = cells(key, lambda m=method, s=seed: trained(config, name, m, s))
            found.setdefault(method, []).append(cell)
    return found


def methods(name: str) -> list[str]:
    # Reduced sets come with the machine that they reduce.
    return ["SVC", "RSVM", *(["SKLA"] if name in WITH_SKLA else []), "PSKC"]


def trained(config: Config, name: str, method: str, seed: int) -> Row:
    X, y, X_test, y_test = partition(config, name, seed)
    common = {"C": 10, "gamma": 1 / X.shape[1]}
    m = SETS[name][2]
    if method == "SVC":
        model: Any = SVC(cache_size=1000, **common)
    else:
        jobs = {} if method == "SKLA" else {"n_jobs": config.n_jobs}
        model = classifier(method)(m, random_state=seed, **common, **jobs)
    fit = measure(lambda: model.fit(X, y), repeats=1)
    row = {"accuracy": percent(model, X_test, y_test), "fit_s": fit.best}
    if method == "SVC":
        reduced = ReducedSetClassifier(FrozenEstimator(model), m, random_state=seed)
        fit = measure(lambda: reduced.fit(X, y), repeats=1)
        row["n_support"] = len(model.support_)
        row["RS_accuracy"] = percent(reduced, X_test, y_test)
        row["RS_fit_s"] = row["fit_s"] + fit.best  # the machine's included, as in the paper
    return row


def classifier(method: str) -> Any:
    return {"RSVM": RSVMClassifier, "SKLA": SKLAClassifier, "PSKC": PSKClassifier}[method]


def values(found: dict[str, list[Row]], method: str, column: str) -> np.ndarray | None:
    if method == "RS":
        return np.array([cell[f"RS_{column}"] for cell in found["SVC"]])
    return np.array([cell[column] for cell in found[method]]) if method in found else None


def accuracies(name: str, found: dict[str, list[Row]]) -> Row:
    each = {method: values(found, method, "accuracy") for method in ("SVC", *SPARSE)}
    n_support = float(np.mean([cell["n_support"] for cell in found["SVC"]]))
    row: Row = {"accuracy of": name, "m": SETS[name][2], "SVs": round(n_support)}
    row |= {method: None if a is None else float(a.mean()) for method, a in each.items()}
    known = {method: each[method] for method in SPARSE if each[method] is not None}
    best = max(known, key=lambda method: known[method].mean())
    ties = [m for m in known if m == best or same(known[m], known[best])]
    ours, (paper, its_deviation) = each["PSKC"], SETS[name][3:]
    deviation = float(ours.std(ddof=1))
    row |= {"PSKC_±": deviation, "paper": paper, "best": " ".join(ties)}
    row["as_paper"] = bool(ours.mean() >= paper - max(deviation, its_deviation))
    row["not_behind"] = bool(ours.mean() >= known[best].mean() - deviation)
    return row


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a paired t-test at 95 % does not tell two methods apart."""
    return bool(np.array_equal(a, b) or ttest_rel(a, b).pvalue > 0.05)


def times(name: str, found: dict[str, list[Row]]) -> Row:
    each = {method: values(found, method, "fit_s") for method in ("SVC", *SPARSE)}
    row: Row = {"seconds of": name, "n": SETS[name][0]}
    row |= {method: None if a is None else float(np.median(a)) for method, a in each.items()}
    row["PSKC/SVC"] = row["PSKC"] / row["SVC"]
    return row


# --- Tuned ----------------------------------------------------------------------------------------


def tuned(config: Config, cells: Cells, name: str) -> Row:
    svc = cells({"data": name, "tuned": "SVC"}, lambda: tuned_svc(config, name))
    row: Row = {"tuned": name, "SVs": svc["n_support"], "SVC": svc["accuracy"]}
    for share in (0.01, 0.001):
        key = {"data": name, "tuned": "PSKC", "share": share}
        ours = cells(key, lambda s=share: tuned_pskc(config, name, s))
        at = f"{100 * share:g}%"
        row |= {f"m_{at}": ours["m"], f"PSKC_{at}": ours["accuracy"]}
        row[f"gap_{at}"] = svc["accuracy"] - ours["accuracy"]
    return row


def tuned_svc(config: Config, name: str) -> Row:
    X, y, X_test, y_test = partition(config, name, 0)
    model = refitted(SVC(cache_size=1000), X, y)
    return {"accuracy": percent(model, X_test, y_test), "n_support": len(model.support_)}


def tuned_pskc(config: Config, name: str, share: float) -> Row:
    X, y, X_test, y_test = partition(config, name, 0)
    m = max(10, round(share * len(X)))
    model = refitted(PSKClassifier(m, random_state=0, n_jobs=config.n_jobs), X, y)
    return {"accuracy": percent(model, X_test, y_test), "m": m}


def refitted(model: Any, X: np.ndarray, y: np.ndarray) -> Any:
    grid = {"C": GRID["C"], "gamma": [g / X.shape[1] for g in GRID["gamma"]]}
    search = GridSearchCV(clone(model), grid, cv=3, refit=False)
    search.fit(X[:MOST_TUNED], y[:MOST_TUNED])
    return model.set_params(**search.best_params_).fit(X, y)


# --- Figure 1, memory -----------------------------------------------------------------------------


def figure_1(config: Config, cells: Cells) -> Iterator[Row]:
    sizes = (100, 200) if config.quick else (200, 400, 800, 1600)
    widths = (2, 4) if config.quick else (2, 8, 32, 128)
    for n, d in [(n, 2) for n in sizes] + [(sizes[1], d) for d in widths[1:]]:
        cell = cells({"clusters": n, "features": d}, lambda n=n, d=d: clusters(n, d))
        yield {"n": n, "d": d, **cell}


def clusters(n: int, d: int) -> Row:
    centres = np.zeros((4, d))
    centres[:, :2] = CLUSTERS
    X, y = make_blobs(n, centers=centres, cluster_std=1.0, random_state=0)
    far = np.random.default_rng(0).normal(size=(4, d))
    parameters = {"C": 10, "gamma": 1 / d, "init": far}
    ours = measure(lambda: PSKClassifier(4, **parameters).fit(X, y), repeats=3)
    dual = measure(lambda: SKLAClassifier(4, **parameters).fit(X, y), repeats=1)
    return {"PSKC_s": ours.median, "SKLA_s": dual.best, "SKLA/PSKC": dual.best / ours.median}


def memory(config: Config, cells: Cells) -> Iterator[Row]:
    sizes = (1000, 2000) if config.quick else (62_500, 125_000, 250_000, 500_000)
    for n in sizes:
        cell = cells({"covertype": n}, lambda n=n: alone(config, n))
        yield {"CoverType": n, "m": 100, **cell}


def alone(config: Config, n: int) -> Row:
    row, peak = run_alone(fit_covertype, config, n)
    return {**row, "us_a_point": 1e6 * row["fit_s"] / n, "peak_GB": peak / 1e9}


def fit_covertype(config: Config, n: int) -> Row:
    problem = covertype(config, n, n_test=1000 if config.quick else 25_000)
    model = PSKClassifier(100, gamma=8.0, C=10, max_iter=20, tol=0, random_state=0)
    model.set_params(n_jobs=config.n_jobs)
    fit = measure(lambda: model.fit(problem.X, problem.y), repeats=1)
    evaluations = model.fit_report_["training"]["evaluations"]
    return {
        "fit_s": fit.best,
        "evaluations": evaluations,
        "accuracy": percent(model, problem.X_test, problem.y_test),
    }


# --- Prediction -----------------------------------------------------------------------------------


def prediction(config: Config, cells: Cells) -> Iterator[Row]:
    for name in ("segment",) if config.quick else ("connect4", "mnist"):
        cell = cells({"prediction": name}, lambda name=name: predicted(config, name))
        yield {"prediction": name, **cell}


def predicted(config: Config, name: str) -> Row:
    X, y, Q, _ = partition(config, name, 0)
    common = {"C": 10, "gamma": 1 / X.shape[1]}
    m = SETS[name][2]
    svc = SVC(cache_size=1000, **common).fit(X, y)
    model = PSKClassifier(m, max_iter=5, random_state=0, n_jobs=config.n_jobs, **common).fit(X, y)
    V = np.ascontiguousarray(model.vectors_, dtype=np.float32)
    few = Q[: 1000 if len(Q) > 1000 else None]
    slow = 1e6 * measure(lambda: svc.predict(few), repeats=1).best / len(few)
    repeats = max(config.repeats, 7)
    ours = 1e6 * measure(lambda: model.predict(Q), repeats=repeats).best / len(Q)
    product = 1e6 * measure(lambda: Q @ V.T, repeats=repeats).best / len(Q)
    return {
        "m": m,
        "SVs": len(svc.support_),
        "SVC_us": slow,
        "PSKC_us": ours,
        "product_us": product,
        "SVC/PSKC": slow / ours,
        "PSKC/product": ours / product,
    }


# --- Data -----------------------------------------------------------------------------------------


def partition(config: Config, name: str, seed: int) -> tuple[np.ndarray, ...]:
    """Training and test points at random, in units of the training points' deviation."""
    arrays = load(config, name)
    X = np.concatenate([part.reshape(len(part), -1) for part in arrays[::2]])
    y = np.concatenate(arrays[1::2])
    if name == "connect4":
        X = np.concatenate([np.equal(X, value) for value in np.unique(X)], axis=1)
    order = np.random.default_rng(seed).permutation(len(X))
    n, n_test = SETS[name][:2]
    train, test = order[:n], order[n : n + n_test]
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    X = ((X - mean) / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)
    return X[train], y[train], X[test], y[test]


def percent(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return 100.0 * float(np.mean(model.predict(X) == y))
