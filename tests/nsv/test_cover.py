"""Covers of machines that stop early, against the covers themselves."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.nsv.machines import never_stopping

import vicinal
from vicinal import KNNSVC, FaLKSVC, FaLKSVCCV, FastLSVC
from vicinal.inspection import StoppingDisplay
from vicinal.nsv import NSVClassifier, cover


def points(n_classes, n=1600, d=40):
    X, y = make_classification(
        n,
        d,
        n_informative=8,
        n_redundant=d - 8,
        n_classes=n_classes,
        n_clusters_per_class=2,
        class_sep=1.2,
        random_state=0,
    )
    return X[: n // 2], np.array(list("abcdef"))[y[: n // 2]], X[n // 2 :]


@pytest.fixture(autouse=True)
def _small_machines_are_worth_it(monkeypatch):
    monkeypatch.setattr(cover, "WORTH", 1e4)
    monkeypatch.setattr(cover, "CALL", 1.0)


@pytest.mark.parametrize(
    ("local", "n_classes"),
    [
        (FaLKSVC(250), 2),
        (FaLKSVC(250), 4),
        (FaLKSVC(250, kernel="poly", degree=3, coef0=1.0, gamma=0.02), 4),
        (FaLKSVC(250, routing="centre", C=10), 2),
        (FastLSVC(250, random_state=0), 2),
        (FaLKSVCCV((250,), C=(1, 10), n_centres=2, random_state=0), 2),
        (make_pipeline(StandardScaler(), FaLKSVC(250)), 4),
    ],
)
def test_exact_sums_are_those_of_the_cover(local, n_classes):
    X, y, queries = points(n_classes)
    model = NSVClassifier(local, max_disagreement=0.01, random_state=0).fit(X, y)
    exact = model.estimator_.decision_function(queries)
    labels = model.estimator_.predict(queries)
    assert model.calibration_["n_early_machines"] == len(model.model_.numbers) > 0
    assert (model.predict(queries) == labels).mean() > 0.98
    never_stopping(model)
    np.testing.assert_allclose(model.decision_function(queries), exact, atol=2e-3)
    certain = np.abs(exact) > 1e-3 if n_classes == 2 else np.ptp(exact, axis=1) > 0.34
    np.testing.assert_array_equal(model.predict(queries)[certain], labels[certain])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_change_where_none_is_allowed(n_classes):
    X, y, _ = points(n_classes)
    model = NSVClassifier(
        FaLKSVC(250), max_disagreement=0, linear_filter=False, random_state=0
    ).fit(X, y)
    assert model.n_touched(X).mean() < 0.9 * model.estimator_.n_support_.mean()
    assert (model.predict(X) == model.estimator_.predict(X)).all()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_bound_holds_on_data_never_seen(n_classes):
    X, y, queries = points(n_classes, n=6000)
    local = FaLKSVC(1200, routing="centre").fit(X, y)
    model = NSVClassifier(FrozenEstimator(local), max_disagreement=0.005, random_state=0).fit(X)
    assert (model.predict(queries) != local.predict(queries)).mean() <= 0.005
    n_support = local.n_support_[local.models_[0].route(model._queries(queries), n_threads=1)]
    touched = model.n_touched(queries)
    assert (touched <= n_support).all()
    assert touched.mean() < 0.7 * n_support.mean()


def test_a_cover_of_small_machines_is_left_alone(monkeypatch):
    monkeypatch.setattr(cover, "WORTH", 2e7)
    X, y, queries = points(4)
    model = NSVClassifier(FaLKSVC(100), random_state=0).fit(X, y)
    local = model.estimator_
    assert model.calibration_["n_early_machines"] == 0
    np.testing.assert_array_equal(
        model.decision_function(queries), local.decision_function(queries)
    )
    np.testing.assert_array_equal(model.predict(queries), local.predict(queries))
    np.testing.assert_array_equal(model.n_support_, local.n_support_)
    routes = local.models_[0].route(model._queries(queries), n_threads=1)
    np.testing.assert_array_equal(model.n_touched(queries), local.n_support_[routes])


def test_one_query_at_a_time_many_threads_and_copies(tmp_path):
    X, y, queries = points(4)
    model = NSVClassifier(FaLKSVC(250), random_state=0).fit(X, y)
    together = model.decision_function(queries)
    alone = np.vstack([model.decision_function(query[None]) for query in queries[:50]])
    np.testing.assert_array_equal(alone, together[:50])
    again = clone(model).set_params(n_jobs=3).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(queries), together)
    vicinal.save(model, tmp_path / "model")
    for kept in (pickle.loads(pickle.dumps(model)), vicinal.load(tmp_path / "model")):
        np.testing.assert_array_equal(kept.decision_function(queries), together)
        np.testing.assert_array_equal(kept.n_touched(queries), model.n_touched(queries))
    assert model.decision_function(queries[:1]).shape == (1, 4)


def test_classes_that_a_machine_does_not_know():
    """They have -1, as in the cover itself."""
    X, y, queries = points(4)
    X = X + 40.0 * np.isin(y, ["c", "d"])[:, None]  # two and two are far apart
    queries = np.vstack([queries, queries + 40.0])
    model = NSVClassifier(FaLKSVC(300), random_state=0).fit(X, y)
    assert len(model.model_.numbers)
    absent = model.estimator_.decision_function(queries) == -1
    assert absent.any()
    np.testing.assert_array_equal(model.decision_function(queries) == -1, absent)


def test_fidelity():
    X, y, queries = points(2)
    model = NSVClassifier(FaLKSVC(250), random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.fidelity_check(queries, share=0.5, limit=0.02, random_state=0)
    assert 0 < found.n_checked < len(queries)
    assert found.disagreement <= 0.02


def test_a_calibration_set_of_ones_own():
    X, y, queries = points(2)
    model = NSVClassifier(FaLKSVC(250), random_state=0).fit(X, y, X_calibration=queries)
    assert model.calibration_["n_queries"] == len(queries)
    assert (model.predict(queries) == model.estimator_.predict(queries)).mean() > 0.995


def test_what_has_no_machine_to_stop_in():
    X, y, _ = points(4, n=600)
    with pytest.raises(TypeError, match=r"KNNSVC is no kernel machine.*FaLKSVC"):
        NSVClassifier(KNNSVC(50)).fit(X, y)
    with pytest.raises(ValueError, match="multi_class='local'"):
        NSVClassifier(FaLKSVC(50, multi_class="global")).fit(X, y)
    model = NSVClassifier(FaLKSVC(50), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="thresholds of its own"):
        StoppingDisplay.from_estimator(model, X)
