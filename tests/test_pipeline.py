"""What a person combines an estimator with: pipelines, searches, copies, processes, frames."""

from __future__ import annotations

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.local.problems import binary

from vicinal import (
    KNNSVC,
    CoverTreeClassifier,
    CoverTreeNeighbors,
    FaLKSVC,
    FaLKSVCCV,
    FastLSVC,
)

CLASSIFIERS = [
    FaLKSVC(30, C=2.0),
    FaLKSVC(30, routing="centre", kernel="poly", degree=2, coef0=1.0),
    FastLSVC(30, random_state=0),
    KNNSVC(30),
    FaLKSVCCV((20, 40), C=(1, 8), gamma_percentile=(50,), random_state=0),
    CoverTreeClassifier(3),
]
classifiers = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)


def outputs(model, Q):
    method = getattr(model, "decision_function", None) or model.predict_proba
    return method(Q)


@classifiers
class TestEveryClassifier:
    def test_pipeline_and_cross_validation(self, model):
        X, y, _ = binary()
        scores = cross_val_score(make_pipeline(StandardScaler(), model), X * 1000, y, cv=3)
        assert scores.min() > 0.8

    def test_pickle(self, model):
        X, y, Q = binary()
        fitted = clone(model).fit(X, y)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(outputs(again, Q), outputs(fitted, Q))

    def test_clone_is_unfitted_and_equal(self, model):
        X, y, _ = binary()
        before = repr(model)
        fitted = clone(model).fit(X, y)
        copy = clone(fitted)
        assert repr(copy) == before == repr(model)
        assert not [name for name in vars(copy) if name.endswith("_") and name[0] != "_"]

    def test_joblib_processes(self, model):
        X, y, Q = binary(n=200, n_queries=30)
        fitted = clone(model).fit(X, y)
        parts = joblib.Parallel(n_jobs=2, backend="loky")(
            joblib.delayed(fitted.predict)(part) for part in np.array_split(Q, 2)
        )
        np.testing.assert_array_equal(np.concatenate(parts), fitted.predict(Q))

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
    def test_frames_keep_their_names(self, model, frame):
        X, y, Q = binary()
        table = frame({"east": X[:, 0], "north": X[:, 1]})
        queries = frame({"east": Q[:, 0], "north": Q[:, 1]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted = clone(model).fit(table, y)
            answers = outputs(fitted, queries)
        assert list(fitted.feature_names_in_) == ["east", "north"]
        np.testing.assert_array_equal(answers, outputs(clone(model).fit(X, y), Q))
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict(queries[["north", "east"]])

    def test_memory_mapped_input(self, model, tmp_path):
        X, y, Q = binary(n=200, n_queries=30)
        joblib.dump((X, Q), tmp_path / "arrays.joblib")
        X_mapped, Q_mapped = joblib.load(tmp_path / "arrays.joblib", mmap_mode="r")
        fitted = clone(model).fit(X_mapped, y)
        np.testing.assert_array_equal(outputs(fitted, Q_mapped), outputs(fitted, Q))

    def test_fit_leaves_its_input_alone(self, model):
        X, y, Q = binary(n=200, n_queries=30)
        copies = X.copy(), y.copy(), Q.copy()
        clone(model).fit(X, y).predict(Q)
        for one, other in zip((X, y, Q), copies, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_grid_search(n_jobs):
    X, y, _ = binary()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), FaLKSVC()),
        {"falksvc__n_neighbors": [20, 60], "falksvc__C": [1, 16]},
        cv=3,
        n_jobs=n_jobs,
    ).fit(X, y)
    assert search.best_score_ > 0.85
    assert search.best_params_["falksvc__n_neighbors"] in (20, 60)


def test_neighbours_in_a_pipeline_of_graphs():
    X, _, Q = binary(n=200, n_queries=30)
    neighbours = CoverTreeNeighbors(4).fit(X)
    again = pickle.loads(pickle.dumps(neighbours))
    for one, other in zip(neighbours.kneighbors(Q), again.kneighbors(Q), strict=True):
        np.testing.assert_array_equal(one, other)
    assert neighbours.kneighbors_graph(Q).shape == (30, 200)


def test_labels_of_any_type():
    X, y, Q = binary(n=200, n_queries=30)
    numbers = FaLKSVC(30).fit(X, y).predict(Q)
    for labels in (np.array(["no", "yes"]), np.array([-1, 1]), np.array([False, True])):
        predicted = FaLKSVC(30).fit(X, labels[y]).predict(Q)
        np.testing.assert_array_equal(predicted, labels[numbers])
        assert predicted.dtype == labels.dtype
