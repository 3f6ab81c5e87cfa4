"""One small job that passes through every loop of the core, and what it answers."""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVC

from vicinal import (
    KNNSVC,
    CoverTreeClassifier,
    CoverTreeNeighbors,
    FaLKSVC,
    FaLKSVCCV,
    FastLSVC,
    NSVClassifier,
)


def data(n=900, n_queries=200, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n + n_queries, 5)).astype(np.float32)  # the same in float64
    y = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2], [-0.6, 0.7])
    y[rng.random(len(y)) < 0.05] = 1
    X = X.astype(dtype)
    return X[:n], y[:n], X[n:]


def estimators(n_jobs):
    yield "FaLKSVC", FaLKSVC(60, C=4.0, n_jobs=n_jobs)
    yield "FaLKSVC linear", FaLKSVC(60, kernel="linear", routing="centre", n_jobs=n_jobs)
    yield "FaLKSVC poly", FaLKSVC(50, kernel="poly", gamma=0.3, degree=2, coef0=1, n_jobs=n_jobs)
    yield "FaLKSVC tree", FaLKSVC(50, algorithm="tree", n_jobs=n_jobs)
    yield "FaLKSVC small cache", FaLKSVC(500, cache_size=0.2, n_jobs=n_jobs)
    yield "FaLKSVC global", FaLKSVC(60, multi_class="global", n_jobs=n_jobs)
    yield "FastLSVC", FastLSVC(60, random_state=3, n_jobs=n_jobs)
    yield "KNNSVC", KNNSVC(60, C=4.0, n_jobs=n_jobs)
    yield (
        "FaLKSVCCV",
        FaLKSVCCV((50, 100), C=(1, 16), n_centres=4, random_state=1, n_jobs=n_jobs),
    )
    for embedding, n_regions in (("pca", 1), ("kernel_pca", 1), ("index", 2)):
        yield (
            f"NSVClassifier {embedding}",
            NSVClassifier(
                SVC(C=4.0, gamma=0.5),
                max_disagreement=None,
                embedding=embedding,
                n_components=4,
                n_regions=n_regions,
                linear_filter=False,
                random_state=0,
                n_jobs=n_jobs,
            ),
        )
    yield "CoverTreeClassifier", CoverTreeClassifier(7, n_jobs=n_jobs)


def answers(n_jobs=1, dtype=np.float64, chunk=None):
    """Everything the estimators say about the queries, by name."""
    X, y, Q = data(dtype=dtype)
    chunks = [Q] if chunk is None else np.split(Q, range(chunk, len(Q), chunk))
    found = {}
    for name, model in estimators(n_jobs):
        model.fit(X, y)
        method = "decision_function" if "SVC" in name else "predict_proba"
        found[name] = np.concatenate([getattr(model, method)(part) for part in chunks])
    neighbours = CoverTreeNeighbors(9, n_jobs=n_jobs).fit(X)
    parts = [neighbours.kneighbors(part) for part in chunks]
    found["distances"] = np.concatenate([part[0] for part in parts])
    found["indices"] = np.concatenate([part[1] for part in parts])
    return found


if __name__ == "__main__":  # run in a fresh process, under another VICINAL_ISA
    import sys

    np.savez(sys.argv[1], **answers())
