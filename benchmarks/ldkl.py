"""Local deep trees: 94 % of CoverType at 32 times the price of a linear machine, 95 % at 96 times.

Costs are counted in dot products of D numbers, three an inner node of the path and two at the leaf
(for one output), over all trees; `x_linear` are those of a linear machine, one an output. The paper
(Jose et al., 2013) has 88.67 % on Banana at 4.52, and 88.2 % on CoverType at 33.

Banana: ten random splits of 1,000 training points, the best of `n_init` starts by the training
loss. CoverType: class 2 against the rest, 80 % for training, ten continuous columns standardised,
others 0 or 1. `starts` are the same fit from other random states, after 20 epochs and not 40 to
save time. Throughput: one thread, all test points of CoverType in float32, depth 10; `product` is
one float32 product of the queries with a weight vector; a single query goes through the source of
`to_c`, compiled by `cc`, called in a loop of C over 4,096 queries. Regimes: training with nodes
that most samples reach computed for all of them (`dense`), and with samples followed only where
they arrive (`paths`), each switched off; five passes, at depth 11 over a fifth of the points.
From the default sharpness on, few nodes are soft where samples are followed, and `dense` beside
`paths` hardly counts; it does where all nodes are computed.

Accuracy against cost: budgets of 5, 14 and 32 times a linear machine; for several classes 5 and 14,
with a depth of 8 at most. At that cost m vectors or components have as many dot products, which is
cost / (1 + outputs / D), since the normalisation of Nyström's features folds into the weights;
exponentials, cosines and tanh are not counted. `PSKC` are m learned vectors; `softmax` and
`anchors`, at 14 alone, the gates of LMKL and LLSVM from our training code. Official test sets, or
the last fifth; columns standardised but for pixels and a9a's zeros and ones. Every method chooses
among its settings by the accuracy on up to 5,000 points held out of the training set, and is then
trained on all: γ and C are chosen with up to 5,000 of the other points, our decay with 40,000, as
the more points there are the less of it they need. `ahead` names the best at equal cost.

Smaller than it could be, to end within 18 minutes on two cores: `RBF` is trained on at most 10,000
points, chosen with 3,000 and tested on 5,000 random ones of the test set; PSKC has at most 20,000;
CoverType has 100,000 there; mnist is passed 10 times by ours and the others 40 times.

What it must cost
-----------------
A query at depth 10 is 29 dot products of 55 numbers: 1,595 multiply-adds, 0.03 µs at 16 a cycle and
3.5 GHz; it reads 29 rows of 256 bytes out of 560 kB, from the second-level cache, 0.03 µs more at
64 bytes a cycle; and each step waits for the split before. We take 0.16 µs, of which 0.01 µs are
scikit-learn's checks; six million a second are 0.17 µs. An epoch of hard paths is six multiply-adds
a feature, node and sample: at depth 11 465,000 × 11 × 330 = 1.7 G, 0.03 s; 314 G with all nodes.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

import vicinal
from cells import Cells
from common import Config, Row, load, measure
from vicinal import LDKLClassifier, PSKClassifier
from vicinal.engine import LocalDescent

BUDGETS, BUDGETS_OF_MANY, DEEPEST_OF_MANY = (5, 14, 32), (5, 14), 8
DECAYS = (0.0, 0.3, 1.0, 3.0)
GAMMAS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0)  # in units of 1 / D
PENALTIES = (1.0, 100.0)
N_CHOOSING, N_CHOOSING_DECAY, N_HELD_OUT = 5000, 40_000, 5000
N_RBF, N_RBF_CHOOSING, N_RBF_TEST, N_PSKC = 10_000, 3000, 5000, 20_000
N_COVERTYPE = 100_000
EPOCHS = {"mnist": 10}
N_STARTS = 4  # of the smallest trees, which vary most
REGIMES: dict[str, dict[str, bool]] = {
    "dense and paths": {},
    "paths alone": {"dense": False},
    "dense alone": {"paths": False},
    "neither": {"dense": False, "paths": False},
}
RIVALS = ("Nyström", "Fourier", "PSKC", "softmax", "anchors")
TIMED_ROWS = 4096


def rows(config: Config) -> Iterator[Row]:
    yield from banana(config)
    data = covertype(config)
    yield from covertype_rows(config, data)
    with threadpool_limits(1):
        yield from throughput(config, data)
    yield from regimes(config, data)
    yield from starts(config, data)
    del data
    yield from accuracy_against_cost(config)


# --- data -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y))

    @property
    def n_outputs(self) -> int:
        return 1 if self.n_classes == 2 else self.n_classes

    def shuffled(self, most: int | None = None) -> Data:
        """With the training points in random order, and no more than some of them."""
        order = np.random.default_rng(0).permutation(len(self.X))[:most]
        return Data(self.name, self.X[order], self.y[order], self.X_test, self.y_test)


def covertype(config: Config) -> Data:
    X, y = load(config, "covtype")
    order = np.random.default_rng(0).permutation(len(X))[: 25_000 if config.quick else None]
    X, y = X[order].astype(np.float32), (y[order] == 2).astype(int)
    n = 4 * len(X) // 5
    scaler = StandardScaler().fit(X[:n, :10])
    X[:, :10] = scaler.transform(X[:, :10])
    return Data("covtype", X[:n], y[:n], X[n:], y[n:])


def problem(config: Config, name: str) -> Data:
    """A data set as it is compared on; "letter, 2" is by halves of the alphabet."""
    if name == "covtype":
        return covertype(config).shuffled(N_COVERTYPE)
    file = name.partition(",")[0]
    arrays = load(config, file)
    if len(arrays) == 2:
        X, y = arrays
        n = 4 * len(X) // 5
        arrays = X[:n], y[:n], X[n:], y[n:]
    X, y, X_test, y_test = arrays
    X, X_test = (A.reshape(len(A), -1).astype(np.float32) for A in (X, X_test))
    if name == "letter, 2":
        y, y_test = y > 12, y_test > 12
    if name == "mnist":
        X, X_test = X / 255, X_test / 255
    elif name not in ("usps", "a9a"):
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    return Data(name, X, y, X_test, y_test).shuffled(2000 if config.quick else None)


# --- Banana and CoverType -------------------------------------------------------------------------


def banana(config: Config) -> Iterator[Row]:
    X, y = load(config, "banana")
    for n_init in (8, 1):
        right, seconds, cost = [], [], 0.0
        for seed in range(2 if config.quick else 10):
            order = np.random.default_rng(seed).permutation(len(X))
            train, test = order[:1000], order[1000:]
            scaler = StandardScaler().fit(X[train])
            model = LDKLClassifier.from_budget(
                cost=5, n_init=n_init, random_state=seed, n_jobs=config.n_jobs
            )
            points = scaler.transform(X[train])
            fit = measure(lambda m=model, p=points, t=train: m.fit(p, y[t]), repeats=1)
            right.append(percent(model, scaler.transform(X[test]), y[test]))
            seconds.append(fit.median)
            cost = model.cost_
        yield {
            "banana": f"n_init={n_init}",
            "splits": len(right),
            "cost": cost,
            "accuracy": float(np.mean(right)),
            "±": float(np.std(right, ddof=1)),
            "least": min(right),
            "fit_s": float(np.median(seconds)),
            "target": 88.7,
        }


def covertype_rows(config: Config, data: Data) -> Iterator[Row]:
    for n_trees, epochs, target in ((1, 20, 92.0), (1, 40, 94.0), (3, 40, 95.0)):
        yield covertype_row(config, data, n_trees, epochs, target)


def covertype_row(config: Config, data: Data, n_trees: int, epochs: int, target: float) -> Row:
    model = LDKLClassifier.from_budget(
        cost=33 * n_trees,
        n_trees=n_trees,
        max_iter=2 if config.quick else epochs,
        random_state=0,
        n_jobs=config.n_jobs,
    )
    fit = measure(lambda: model.fit(data.X, data.y), repeats=1)
    return {
        "covtype": f"n_trees={n_trees}, depth={model.depth}, max_iter={model.max_iter}",
        "n": len(data.X),
        "cores": config.n_jobs,
        "cost": model.cost_,
        "fit_s": fit.median,
        "accuracy": percent(model, data.X_test, data.y_test),
        "target": target,
        "file_MB": size_of(model) / 1e6,
        "x_product": times_a_product(config, model, data),
    }


def size_of(model: LDKLClassifier) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        vicinal.save(model, path)
        return path.stat().st_size


def starts(config: Config, data: Data) -> Iterator[Row]:
    right = []
    for seed in range(2 if config.quick else 10):
        model = LDKLClassifier.from_budget(
            cost=33, max_iter=2 if config.quick else 20, random_state=seed, n_jobs=config.n_jobs
        )
        right.append(percent(model.fit(data.X, data.y), data.X_test, data.y_test))
    yield {
        "covtype": f"depth={model.depth}, max_iter={model.max_iter}",
        "starts": len(right),
        "accuracy": float(np.mean(right)),
        "±": float(np.std(right, ddof=1)),
        "least": min(right),
        "most": max(right),
        "target_±": 0.5,
    }


# --- throughput -----------------------------------------------------------------------------------


def throughput(config: Config, data: Data) -> Iterator[Row]:
    ours = LDKLClassifier(10, max_iter=2 if config.quick else 20, random_state=0)
    ours.set_params(n_jobs=config.n_jobs).fit(data.X, data.y).set_params(n_jobs=1)
    trees = LGBMClassifier(n_estimators=100, n_jobs=config.n_jobs, random_state=0, verbose=-1)
    trees.fit(data.X, data.y).set_params(n_jobs=1)
    Q = data.X_test
    weights = np.random.default_rng(0).normal(size=Q.shape[1]).astype(np.float32)
    repeats = max(5, config.repeats)
    product = measure(lambda: Q @ weights, repeats=repeats).median
    linear = linear_svm(1.0).fit(data.X[:N_CHOOSING], data.y[:N_CHOOSING])
    models = {
        f"LDKLClassifier, depth {ours.depth}": ours,
        f"LGBMClassifier, {trees.n_estimators} trees": trees,
        f"LinearSVC, of {N_CHOOSING:,} points": linear,
    }
    seconds = {
        name: measure(lambda m=model: m.predict(Q), repeats=repeats).median
        for name, model in models.items()
    }
    _, boosted, _ = seconds.values()
    for name, model in models.items():
        ours_here = model is ours
        yield {
            "one thread": name,
            "queries": len(Q),
            "million_a_s": len(Q) / seconds[name] / 1e6,
            "target": 6.0 if ours_here else None,
            "accuracy": percent(model, Q, data.y_test),
            "x_product": seconds[name] / product,
            "x_LightGBM": boosted / seconds[name],
            "its target": 15.0 if ours_here else None,
        }
    queries = np.ascontiguousarray(Q[:TIMED_ROWS])
    expected = ours.predict(queries)
    if (compiler := shutil.which("cc")) is None:
        return
    for options in (("-O2", "-march=native"), ("-O2",)):
        yield {
            "single query": f"cc -std=c99 {' '.join(options)}",
            **single_queries(compiler, options, ours.to_c("ldkl"), queries, expected, repeats),
            "target_us": 1.0,
        }


# The calls cross from one file to another, as a device's would.
LOOP = """
int ldkl_predict(const float *x);

void predict_all(const float *x, int n, int n_features, int rounds, int *codes)
{
    for (int round = 0; round < rounds; ++round)
        for (int i = 0; i < n; ++i) codes[i] = ldkl_predict(x + (long)i * n_features);
}
"""


def single_queries(
    compiler: str,
    options: Sequence[str],
    source: str,
    queries: np.ndarray,
    expected: np.ndarray,
    repeats: int,
) -> Row:
    """Call the C function for each query, and compare its labels with those of `predict`."""
    rounds = 20
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "ldkl.c").write_text(source, encoding="utf-8")
        (place / "loop.c").write_text(LOOP, encoding="utf-8")
        command = [compiler, "-std=c99", *options, "-shared", "-fPIC", "ldkl.c", "loop.c"]
        subprocess.run([*command, "-o", "ldkl.so", "-lm"], cwd=place, check=True)
        predict_all = ctypes.CDLL(str(place / "ldkl.so")).predict_all
        codes = np.empty(len(queries), dtype=np.int32)
        x, found = (array.ctypes.data_as(ctypes.c_void_p) for array in (queries, codes))
        seconds = measure(
            lambda: predict_all(x, *queries.shape, rounds, found), repeats=repeats
        ).median
        return {
            "source_MB": len(source) / 1e6,
            "us": 1e6 * seconds / rounds / len(queries),
            "other_labels": int((codes != expected).sum()),
        }


def times_a_product(config: Config, model: Any, data: Data) -> float:
    """The time of `predict` over that of one float32 product with the outputs, on one thread."""
    Q = data.X_test[:100_000]
    weights = np.zeros((Q.shape[1], data.n_outputs), dtype=np.float32)
    model.set_params(n_jobs=1)
    repeats = max(5, config.repeats)
    with threadpool_limits(1):
        product = measure(lambda: Q @ weights, repeats=repeats).median
        return measure(lambda: model.predict(Q), repeats=repeats).median / product


# --- regimes --------------------------------------------------------------------------------------


class OfRegime(LDKLClassifier):
    """Ours, with a regime of training switched off."""

    regime: dict[str, bool]

    def _descent(self) -> LocalDescent:
        return super()._descent()._replace(**self.regime)


def regimes(config: Config, data: Data) -> Iterator[Row]:
    epochs = 1 if config.quick else 5
    for depth, n in ((8, len(data.X)), (11, len(data.X) // 5)):
        both: float | None = None
        for name, regime in REGIMES.items():
            model = OfRegime(depth, max_iter=epochs, random_state=0, n_jobs=config.n_jobs)
            model.regime = regime
            fit = measure(lambda m=model, n=n: m.fit(data.X[:n], data.y[:n]), repeats=1)
            both = both or fit.median
            yield {
                "regimes": name,
                "depth": depth,
                "n": n,
                "max_iter": epochs,
                "fit_s": fit.median,
                "x_both": fit.median / both,
                "accuracy": percent(model, data.X_test, data.y_test),
            }


# --- accuracy against cost ------------------------------------------------------------------------


def accuracy_against_cost(config: Config) -> Iterator[Row]:
    cells = Cells("ldkl", config)
    names = ("banana", "letter, 2", "letter, 26", "usps", "ijcnn1", "cod_rna", "a9a")
    names = ("banana", "usps") if config.quick else (*names, "covtype", "mnist")
    n_cells, cells_won, behind = 0, 0, []
    for name in names:
        data = problem(config, name)
        reference = cells({"data": name, "what": "reference"}, lambda d=data: references(d))
        budgets = BUDGETS if data.n_outputs == 1 else BUDGETS_OF_MANY
        for budget in budgets[:1] if config.quick else budgets:
            key = {"data": name, "budget": budget}
            found = cells(key, lambda d=data, b=budget: at_cost(config, d, b))
            equal = {m: found[m] for m in ("LDKL", *RIVALS) if found[m] is not None}
            better = [method for method in equal if equal[method] > equal["LDKL"]]
            cells_won += not {"Nyström", "Fourier"} & set(better)
            n_cells += 1
            behind += [f"{name} at {budget}: {method}" for method in better]
            yield {
                "data": name,
                "n": len(data.X),
                **found,
                **reference,
                "ahead": max(equal, key=lambda method: equal[method]),
                "LDKL is behind": " ".join(better) or "none",
            }
    yield {
        "cells": n_cells,
        "ahead of Nyström and Fourier": cells_won,
        "LDKL is behind": "; ".join(behind) or "none",
    }


def references(data: Data) -> Row:
    """A linear machine, and a kernel machine of unlimited cost."""
    _, linear = chosen(data, [linear_svm(C) for C in PENALTIES])
    some = np.random.default_rng(0).permutation(len(data.X_test))[:N_RBF_TEST]
    few = Data(data.name, data.X, data.y, data.X_test[some], data.y_test[some])
    settings = [SVC(C=10, gamma=g / data.X.shape[1], cache_size=500) for g in GAMMAS]
    rbf, accuracy = chosen(few, settings, N_RBF_CHOOSING, most=N_RBF)
    cost = len(rbf.support_) * (1 + (data.n_classes - 1) / data.X.shape[1])
    return {"linear": linear, "RBF": accuracy, "RBF_x_linear": cost / data.n_outputs}


def at_cost(config: Config, data: Data, budget: int) -> Row:
    """All methods of one cost: accuracies in percent."""
    ours, accuracy = chosen(data, local_machines(config, data, budget, "tree"), N_CHOOSING_DECAY)
    row: Row = {
        "depth": ours.depth,
        "cost": ours.cost_,
        "x_linear": ours.cost_ / data.n_outputs,
        "x_product": times_a_product(config, ours, data),
        "LDKL": accuracy,
    }
    m = max(1, int(ours.cost_ / (1 + data.n_outputs / data.X.shape[1])))
    row["Nyström"] = chosen(data, approximations(Nystroem, data, m))[1]
    row["Fourier"] = chosen(data, approximations(RBFSampler, data, m))[1]
    row["PSKC"] = chosen(data, learned_vectors(config, data, m), most=N_PSKC)[1]
    for embedding in ("softmax", "anchors"):
        row[embedding] = None
        if budget == BUDGETS[1]:
            machines = local_machines(config, data, budget, embedding)
            row[embedding] = chosen(data, machines, N_CHOOSING_DECAY)[1]
    return row


def local_machines(config: Config, data: Data, budget: int, embedding: str) -> list[LDKLClassifier]:
    model = LDKLClassifier.from_budget(
        budget,
        n_classes=data.n_classes,
        embedding=embedding,
        n_init=N_STARTS if budget == BUDGETS[0] else 1,
        max_iter=EPOCHS.get(data.name, "auto" if len(data.X) < 5000 else 40),
        random_state=0,
        n_jobs=config.n_jobs,
    )
    if data.n_outputs > 1:
        model.set_params(depth=min(model.depth, DEEPEST_OF_MANY))
    decays = ("alpha_weights", "alpha_splits", "alpha_gates")
    return [clone(model).set_params(**dict.fromkeys(decays, alpha)) for alpha in DECAYS]


def linear_svm(C: float) -> LinearSVC:
    return LinearSVC(C=C, dual=False, random_state=0)


def approximations(kind: type, data: Data, m: int) -> list[Any]:
    return [
        make_pipeline(
            kind(gamma=gamma / data.X.shape[1], n_components=m, random_state=0), linear_svm(C)
        )
        for gamma in GAMMAS
        for C in PENALTIES
    ]


def learned_vectors(config: Config, data: Data, m: int) -> list[Any]:
    return [
        PSKClassifier(m, C=10, gamma=gamma / data.X.shape[1], random_state=0, n_jobs=config.n_jobs)
        for gamma in GAMMAS[2:]
    ]


def chosen(
    data: Data, settings: list[Any], n_choosing: int = N_CHOOSING, *, most: int | None = None
) -> tuple[Any, float]:
    """Train the best of some settings, by points held out, on all training points or the most."""
    n_held_out = min(N_HELD_OUT, n_choosing // 2, len(data.X) // 5)
    held_out, others = slice(n_held_out), slice(n_held_out, n_held_out + n_choosing)
    scores = [
        percent(
            clone(model).fit(data.X[others], data.y[others]), data.X[held_out], data.y[held_out]
        )
        for model in settings
    ]
    best = clone(settings[int(np.argmax(scores))]).fit(data.X[:most], data.y[:most])
    return best, percent(best, data.X_test, data.y_test)


def percent(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return 100.0 * float(np.mean(model.predict(X) == y))
