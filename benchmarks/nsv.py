"""What nearest support vectors save: vectors touched and time, against labels changed.

The 45 pairs of MNIST digits: machines of the pair's first 4,000 digits (RBF, γ = 0.02, C = 10, and
the normalised polynomial of degree 9, on images of length one ((x·v + 1) / 2)⁹), calibrated on all
of its training digits, asked about its test digits. `reduction` is m over the mean number of steps
of its queries; one answered before the first vector counts one step. `changed` is the number of
labels that differ from `SVC.predict`'s. Rows of `max_disagreement` show what either costs, and rows
of the paper's thresholds its Table 1: without filter, without tug of war, and for test digits of
all ten classes. `fixed_k` are the changes by the weighted vote of as many nearest vectors for every
query.

Times are of one thread, for all queries at once, in microseconds a query, best of some runs.
`SVC` is `SVC.predict`; `dense` is one float32 BLAS product of queries and vectors, then kernel and
coefficients, in chunks that suit the cache; `filtered` is the same for the queries that our linear
filter leaves open. `ours` is `NSVClassifier.predict`, input checks and projection included. Rows of
other data sets: one machine, default settings (max_disagreement = 0.001), official test sets.

What it must cost
-----------------
A dense evaluation of 849 vectors of 784 features is 0.67 M multiply-adds, 12 µs at 16 a cycle and
3.5 GHz. The filter is 784 of them, 0.05 µs with the query from memory. On 40 axes the projection
is 31 k and the approximations 34 k and 849 exponentials, 1.7 µs together; a vector touched is 3 kB
from the third-level cache, 0.1 µs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from common import Config, Row, load, measure
from vicinal.nsv import NSVClassifier

KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.02},
    "poly9": {"kernel": "poly", "degree": 9, "gamma": 0.5, "coef0": 0.5},
}
LIMITS = (0.003, 0.001, 0.0003)
PAPER: dict[str, dict[str, Any]] = {
    "paper": {"start": "bias", "order": "tug_of_war"},
    "paper, no filter": {"start": "bias", "order": "tug_of_war", "linear_filter": False},
    "paper, no tug of war": {"start": "bias", "order": "score"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "mnist": {"gamma": 0.02, "n_train": 20_000},
    "usps": {"gamma": 0.01},
    "satimage": {"gamma": 0.1, "standard": True},
    "letter": {"gamma": 0.2, "standard": True},
    "ijcnn1": {"gamma": 2.0},
    "cod_rna": {"gamma": 0.1, "standard": True},
}
N_TEST, N_SVC, CHUNK = 10_000, 300, 2000


def rows(config: Config) -> Iterator[Row]:
    with threadpool_limits(1):
        for name, settings in OTHERS.items():
            if not config.quick or name in ("usps", "satimage"):
                yield whole(config, name, **settings)
        yield from pairs(config)


# --- pairs of digits ------------------------------------------------------------------------------


def pairs(config: Config) -> Iterator[Row]:
    X, y, X_test, y_test = load(config, "mnist")
    X, X_test = (np.asarray(A.reshape(len(A), -1) / 255, dtype=np.float32) for A in (X, X_test))
    chosen = list(combinations(range(10), 2))[:: 12 if config.quick else 1]
    for kernel in KERNELS:
        found: dict[str, list[Row]] = {}
        for a, b in chosen:
            one = Pair(kernel, (a, b), X, y, X_test, y_test, config.repeats)
            for row in one.rows():
                found.setdefault(row["settings"], []).append(row)
                if row["settings"] == f"max_disagreement={LIMITS[1]}":
                    yield {"pair": f"{a}-{b}", **row}
        for settings, several in found.items():
            yield {"pairs": len(several), **summary(settings, several)}


def summary(settings: str, several: list[Row]) -> Row:
    def mean(name: str) -> float:
        return float(np.mean([row[name] for row in several]))

    def times(name: str) -> float | None:
        ratios = [row[name] / row["ours"] for row in several if row[name] is not None]
        return float(np.exp(np.mean(np.log(ratios)))) if ratios else None

    return {
        "settings": settings,
        "kernel": several[0]["kernel"],
        "m": mean("m"),
        "reduction": mean("reduction"),
        "changed": sum(row["changed"] for row in several),
        "worst": max(row["changed"] / row["n"] for row in several),
        "fixed_k": sum(row["fixed_k"] for row in several),
        "ten_digits": mean("ten_digits"),
        "ten_changed": mean("ten_changed"),
        "ours": mean("ours"),
        "x_SVC": times("SVC"),
        "x_dense": times("dense"),
        "x_filtered": times("filtered"),
    }


class Pair:
    """The machine of two digits."""

    def __init__(self, kernel, digits, X, y, X_test, y_test, repeats) -> None:
        if kernel == "poly9":
            X, X_test = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, X_test))
        kept, tested = np.isin(y, digits), np.isin(y_test, digits)
        self.kernel, self.repeats = kernel, max(3, repeats)
        self.X, self.queries, self.all_digits = X[kept], X_test[tested], X_test[:2000]
        self.svc = SVC(C=10, **KERNELS[kernel]).fit(self.X[:4000], y[kept][:4000])

    def rows(self) -> Iterator[Row]:
        svc, Q = self.svc, self.queries
        exact, exact_all = svc.predict(Q), svc.predict(self.all_digits)
        times = {
            "SVC": microseconds(lambda: svc.predict(Q[:N_SVC]), N_SVC, self.repeats),
            "dense": microseconds(lambda: dense(svc, Q), len(Q), self.repeats),
        }
        ways = {f"max_disagreement={limit}": {"max_disagreement": limit} for limit in LIMITS}
        paper = {"max_disagreement": None, "max_steps": 10**6}
        ways |= {name: paper | settings for name, settings in PAPER.items()}
        for name, settings in ways.items():
            model = NSVClassifier(FrozenEstimator(svc), random_state=0, **settings).fit(self.X)
            steps = np.maximum(model.n_touched(Q), 1)
            steps_all = np.maximum(model.n_touched(self.all_digits), 1)
            filtered = None
            if name in (f"max_disagreement={limit}" for limit in LIMITS):
                filtered = microseconds(
                    lambda model=model: dense_behind_filter(model, Q), len(Q), self.repeats
                )
            yield {
                "settings": name,
                "kernel": self.kernel,
                "n": len(Q),
                "m": model.n_support_,
                "filter": model.calibration_["answered_by_filter"],
                "axes": "+".join(map(str, model.calibration_["n_axes"])),
                "reduction": model.n_support_ / steps.mean(),
                "changed": int((model.predict(Q) != exact).sum()),
                "fixed_k": int((fixed_k(svc, Q, int(steps.mean() + 0.5)) != exact).sum()),
                "ten_digits": model.n_support_ / steps_all.mean(),
                "ten_changed": float((model.predict(self.all_digits) != exact_all).mean()),
                "ours": microseconds(lambda model=model: model.predict(Q), len(Q), self.repeats),
                **times,
                "filtered": filtered,
            }


def fixed_k(svc: SVC, Q: np.ndarray, k: int) -> np.ndarray:
    """The labels by the k nearest vectors alone, weighted by their exact terms."""
    values = kernel_values(svc, Q, svc.support_vectors_.astype(np.float32))
    nearest = np.argpartition(-values, k - 1, axis=1)[:, :k] if k < values.shape[1] else ...
    terms = values * svc.dual_coef_[0].astype(np.float32)
    terms = terms if nearest is ... else np.take_along_axis(terms, nearest, axis=1)
    return svc.classes_[(terms.sum(axis=1) > 0).astype(int)]


# --- whole data sets ------------------------------------------------------------------------------


def whole(
    config: Config, name: str, *, gamma: float, standard: bool = False, n_train: int | None = None
) -> Row:
    X, y, X_test, y_test = split(load(config, name))
    X, X_test = (A.reshape(len(A), -1).astype(np.float32) for A in (X, X_test))
    if name == "mnist":
        X, X_test = X / 255, X_test / 255
    if standard:
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    n_train = 1000 if config.quick else n_train
    svc = SVC(C=10, gamma=gamma, cache_size=1000).fit(X[:n_train], y[:n_train])
    Q = np.ascontiguousarray(X_test[: 500 if config.quick else N_TEST])
    fit = measure(lambda: NSVClassifier(FrozenEstimator(svc), random_state=0).fit(X), repeats=1)
    model = fit.result
    ours = microseconds(lambda: model.predict(Q), len(Q), config.repeats)
    slow = measure(lambda: svc.predict(Q), repeats=1)
    rivals = 1e6 * slow.best / len(Q), microseconds(lambda: dense(svc, Q), len(Q), config.repeats)
    filtered = None
    if len(model.model_.linear.weights):
        filtered = microseconds(lambda: dense_behind_filter(model, Q), len(Q), config.repeats)
    return {
        "data": name,
        "classes": len(svc.classes_),
        "m": model.n_support_,
        "filter": model.calibration_["answered_by_filter"],
        "axes": "+".join(map(str, model.calibration_["n_axes"])) or "exact",
        "reduction": model.n_support_ / np.maximum(model.n_touched(Q), 1).mean(),
        "changed_%": 100 * float((model.predict(Q) != slow.result).mean()),
        "error_%": 100 * float((slow.result != y_test[: len(Q)]).mean()),
        "fit_s": fit.best,
        "ours": ours,
        "SVC": rivals[0],
        "dense": rivals[1],
        "x_SVC": rivals[0] / ours,
        "x_dense": rivals[1] / ours,
        "x_filtered": None if filtered is None else filtered / ours,
    }


def split(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Training and test data; of data without a test set, the last fifth is one."""
    if len(arrays) == 4:
        return arrays
    X, y = arrays
    n = 4 * len(X) // 5
    return X[:n], y[:n], X[n:], y[n:]


# --- rivals ---------------------------------------------------------------------------------------


def kernel_values(svc: SVC, Q: np.ndarray, V: np.ndarray) -> np.ndarray:
    """In place, in one float32 product."""
    K = Q @ V.T
    gamma = np.float32(svc._gamma)
    if svc.kernel == "rbf":
        K *= 2 * gamma
        K -= gamma * np.einsum("ij,ij->i", Q, Q)[:, None]
        K -= gamma * np.einsum("ij,ij->i", V, V)
        return np.exp(K, out=K)
    K *= gamma
    K += np.float32(svc.coef0)
    third = K * K
    third *= K
    np.multiply(third, third, out=K)
    K *= third
    return K


def dense(svc: SVC, Q: np.ndarray) -> np.ndarray:
    """Outputs of all pairs of classes, without the vote: less than all of the work."""
    V, coef = svc.support_vectors_.astype(np.float32), svc.dual_coef_.T.astype(np.float32)
    if len(svc.classes_) == 2:
        return np.concatenate(
            [
                kernel_values(svc, Q[i : i + CHUNK], V) @ coef + svc.intercept_
                for i in range(0, len(Q), CHUNK)
            ]
        )
    ends = np.cumsum(svc.n_support_)
    runs = [slice(end - n, end) for end, n in zip(ends, svc.n_support_, strict=True)]
    return np.concatenate(
        [
            np.column_stack([K[:, run] @ coef[run] for run in runs])
            for K in (kernel_values(svc, Q[i : i + CHUNK], V) for i in range(0, len(Q), CHUNK))
        ]
    )


def dense_behind_filter(model: NSVClassifier, Q: np.ndarray) -> np.ndarray:
    linear = model.model_.linear
    leaders, leads = linear.scores(Q)
    left = leads <= linear.thresholds[leaders]
    return dense(model.estimator_.estimator, Q[left])


def microseconds(function: Any, n: int, repeats: int) -> float:
    return 1e6 * measure(function, repeats=repeats).best / n
