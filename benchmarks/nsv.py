"""What nearest support vectors save: vectors touched and time, against labels changed.

The 45 pairs of MNIST digits: machines of the pair's first 4,000 digits (RBF, γ = 0.02, C = 10, and
the normalised polynomial of degree 9, on images of length one ((x·v + 1) / 2)⁹), calibrated on all
of its training digits, asked about its test digits. `reduction` is m over the mean number of steps
of its queries; one answered before the first vector counts one step. `changed` is the number of
labels that differ from `SVC.predict`'s, `worst` the largest share in a pair. The trade-off is that
of `max_disagreement=0.001` with all thresholds (margins) widened by a factor. Rows of the paper's
thresholds, without filter and without tug of war, are its Table 1; `ten_digits` and `ten_changed`
are reduction and share of changes for the test digits of all ten classes. At the same number of
vectors, `fixed_k` are the labels changed by the weighted vote of the nearest, and `reduced` those
changed by a reduced set.

Times are of one thread, for all queries at once, in microseconds a query, best of some runs; their
ratios are geometric means. `SVC` is `SVC.predict`; `dense` is one float32 BLAS product of queries
and vectors, then kernel and coefficients, in chunks that suit the cache; `filtered` is the same
for the queries that our linear filter leaves open, which the rival has even where it answers so
little that we leave it out. `ours` is `NSVClassifier.predict`, input checks and projection
included. Rows of other data sets: one machine, default settings (max_disagreement = 0.001),
official test sets. `estimator` is SVC, or a machine of a tenth as many vectors, for which `SVC` is
its own prediction.

What it must cost
-----------------
A dense evaluation of 849 vectors of 784 features is 0.67 M multiply-adds, 12 µs at 16 a cycle and
3.5 GHz. The filter is 784 of them, 0.05 µs with the query from memory; a sketch of 128 vectors on
20 axes 16 k for the projection and 6 k for the rest, 0.5 µs. On 40 axes the projection is 31 k and
the approximations 34 k and 849 exponentials, 1.7 µs together; a vector touched is 3 kB from the
third-level cache, 0.1 µs.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from common import Config, Row, load, measure
from vicinal.nsv import NSVClassifier, filters
from vicinal.nsv.model import LinearFilter
from vicinal.sparse import PSKClassifier, ReducedSetClassifier

KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.02},
    "poly9": {"kernel": "poly", "degree": 9, "gamma": 0.5, "coef0": 0.5},
}
MAIN = {"max_disagreement": 0.001}
MARGINS = (1.0, 1.25, 1.5, 2.0, 3.0)
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
SPARSE = ("usps", "satimage")
"""Where machines of few vectors are asked, too."""


def rows(config: Config) -> Iterator[Row]:
    with threadpool_limits(1):
        for name, settings in OTHERS.items():
            if not config.quick or name in ("usps", "satimage"):
                yield from whole(config, name, **settings)
        yield from pairs(config)


# --- pairs of digits ------------------------------------------------------------------------------


def pairs(config: Config) -> Iterator[Row]:
    X, y, X_test, y_test = load(config, "mnist")
    X, X_test = (np.asarray(A.reshape(len(A), -1) / 255, dtype=np.float32) for A in (X, X_test))
    chosen = list(combinations(range(10), 2))[:: 12 if config.quick else 1]
    for kernel in KERNELS:
        found: dict[str, list[Row]] = {}
        for a, b in chosen:
            for row in Pair(kernel, (a, b), X, y, X_test, y_test, config.repeats).rows():
                found.setdefault(row["settings"], []).append(row)
                if row["settings"] == settings_of(MARGINS[0]):
                    yield {"pair": f"{a}-{b}", **row}
        for settings, several in found.items():
            yield {"pairs": len(several), **summary(settings, several)}


def settings_of(margin: float) -> str:
    return f"max_disagreement=0.001, margins x {margin:g}"


def summary(settings: str, several: list[Row]) -> Row:
    def mean(name: str) -> float:
        return float(np.mean([row[name] for row in several]))

    def times(name: str) -> float:
        return float(np.exp(np.mean([np.log(row[name] / row["ours"]) for row in several])))

    return {
        "settings": settings,
        "kernel": several[0]["kernel"],
        "m": mean("m"),
        "reduction": mean("reduction"),
        "changed": sum(row["changed"] for row in several),
        "worst": max(row["changed"] / row["n"] for row in several),
        "fixed_k": sum(row["fixed_k"] for row in several),
        "reduced": sum(row["reduced"] for row in several),
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
        self.X, self.queries, self.all_digits = X[kept], X_test[tested], X_test
        self.svc = SVC(C=10, cache_size=500, **KERNELS[kernel])
        self.svc.fit(self.X[:4000], y[kept][:4000])

    def rows(self) -> Iterator[Row]:
        svc, Q = self.svc, self.queries
        exact = svc.predict(Q)
        main = self.calibrated(MAIN)
        ways = {settings_of(margin): widened(main, margin) for margin in MARGINS}
        paper = {"max_disagreement": None, "max_steps": 10**6}
        ways |= {name: self.calibrated(paper | settings) for name, settings in PAPER.items()}
        with patch.object(filters, "LEAST", 0.0):
            linear = self.calibrated(MAIN).model_.linear
        times = {
            "SVC": self.microseconds(lambda: svc.predict(Q[:N_SVC]), N_SVC),
            "dense": self.microseconds(lambda: dense(svc, Q)),
            "filtered": self.microseconds(lambda: dense_behind_filter(svc, linear, Q)),
        }
        queries_of_all = main._queries(self.all_digits)
        exact_all = svc.classes_[main.model_.answer_exactly(queries_of_all, n_threads=1).codes]
        for name, model in ways.items():
            steps = np.maximum(model.n_touched(Q), 1)
            steps_all = np.maximum(model.n_touched(self.all_digits), 1)
            k = int(steps.mean() + 0.5)
            yield {
                "settings": name,
                "kernel": self.kernel,
                "n": len(Q),
                "m": model.n_support_,
                "filter": model.calibration_["answered_by_filter"],
                "sketch": model.calibration_["answered_by_sketch"],
                "axes": "+".join(map(str, model.calibration_["n_axes"])),
                "reduction": model.n_support_ / steps.mean(),
                "changed": int((model.predict(Q) != exact).sum()),
                "fixed_k": int((fixed_k(svc, Q, k) != exact).sum()),
                "reduced": int((self.reduced(max(k, 2)).predict(Q) != exact).sum()),
                "ten_digits": model.n_support_ / steps_all.mean(),
                "ten_changed": float((model.predict(self.all_digits) != exact_all).mean()),
                "ours": self.microseconds(lambda model=model: model.predict(Q)),
                **times,
            }

    def calibrated(self, settings: dict[str, Any]) -> NSVClassifier:
        return NSVClassifier(FrozenEstimator(self.svc), random_state=0, **settings).fit(self.X)

    @cache  # noqa: B019 - a pair is short-lived
    def reduced(self, k: int) -> ReducedSetClassifier:
        model = ReducedSetClassifier(FrozenEstimator(self.svc), k, random_state=0)
        return model.fit(self.X[:4000])

    def microseconds(self, function: Any, n: int | None = None) -> float:
        return microseconds(function, n or len(self.queries), self.repeats)


def widened(model: NSVClassifier, margin: float) -> NSVClassifier:
    """The same model, all of whose thresholds are so many times as large."""

    def wide(part: Any) -> Any:
        return part and part._replace(thresholds=part.thresholds * np.float32(margin))

    early, other = model.model_, copy(model)
    other.model_ = replace(
        early,
        linear=wide(early.linear),
        sketch=wide(early.sketch),
        levels=tuple(map(wide, early.levels)),
    )
    return other


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
) -> Iterator[Row]:
    X, y, X_test, y_test = split(load(config, name))
    X, X_test = (A.reshape(len(A), -1).astype(np.float32) for A in (X, X_test))
    if name == "mnist":
        X, X_test = X / 255, X_test / 255
    if standard:
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        X, X_test = (X - mean) / deviation, (X_test - mean) / deviation
    n_train = 1000 if config.quick else n_train
    Q = np.ascontiguousarray(X_test[: 500 if config.quick else N_TEST])
    svc = SVC(C=10, gamma=gamma, cache_size=1000).fit(X[:n_train], y[:n_train])
    yield of_machine(config, name, svc, X, Q, y_test)
    if name in SPARSE:
        m = len(svc.support_) // 10
        reduced = ReducedSetClassifier(FrozenEstimator(svc), m, random_state=0)
        yield of_machine(config, name, reduced.fit(X[:n_train]), X, Q, y_test)
        learnt = PSKClassifier(m, C=10, gamma=gamma, random_state=0)
        yield of_machine(config, name, learnt.fit(X[:n_train], y[:n_train]), X, Q, y_test)


def of_machine(
    config: Config, name: str, machine: Any, X: np.ndarray, Q: np.ndarray, y_test: np.ndarray
) -> Row:
    fit = measure(lambda: NSVClassifier(FrozenEstimator(machine), random_state=0).fit(X), repeats=1)
    model = fit.result
    ours = microseconds(lambda: model.predict(Q), len(Q), config.repeats)
    slow = measure(lambda: machine.predict(Q), repeats=1 if isinstance(machine, SVC) else 3)
    row = {
        "data": name,
        "estimator": type(machine).__name__,
        "classes": len(model.classes_),
        "m": model.n_support_,
        "filter": model.calibration_["answered_by_filter"],
        "sketch": model.calibration_["answered_by_sketch"],
        "levels": " ".join(
            f"{embedding}:{n_axes}"
            for embedding, n_axes in zip(
                model.calibration_["embeddings"], model.calibration_["n_axes"], strict=True
            )
        )
        or "exact",
        "reduction": model.n_support_ / np.maximum(model.n_touched(Q), 1).mean(),
        "changed_%": 100 * float((model.predict(Q) != slow.result).mean()),
        "error_%": 100 * float((slow.result != y_test[: len(Q)]).mean()),
        "fit_s": fit.best,
        "ours": ours,
        "SVC": 1e6 * slow.best / len(Q),
        "dense": None,
        "x_SVC": 1e6 * slow.best / len(Q) / ours,
        "x_dense": None,
        "x_filtered": None,
    }
    if isinstance(machine, SVC):
        row["dense"] = microseconds(lambda: dense(machine, Q), len(Q), config.repeats)
        row["x_dense"] = row["dense"] / ours
        if len((linear := model.model_.linear).weights):
            filtered = lambda: dense_behind_filter(machine, linear, Q)  # noqa: E731
            row["x_filtered"] = microseconds(filtered, len(Q), config.repeats) / ours
    return row


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


def dense_behind_filter(svc: SVC, linear: LinearFilter, Q: np.ndarray) -> np.ndarray:
    if not len(linear.weights):
        return dense(svc, Q)
    leaders, leads = linear.scores(Q)
    return dense(svc, Q[leads <= linear.thresholds[leaders]])


def microseconds(function: Any, n: int, repeats: int) -> float:
    return 1e6 * measure(function, repeats=repeats).best / n
