"""Compressed models: as good as promised, of the same kind, and complete in their files."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import vicinal
from vicinal import FaLKSVC, FaLKSVCCV, FastLSVC
from vicinal.local.machines import by_pair, from_pairs
from vicinal.sparse import ReducedSetClassifier, compress


def moons(n=3000, noise=0.25):
    X, y = make_moons(n, noise=noise, random_state=0)
    return X[: n // 2], y[: n // 2], X[n // 2 :], y[n // 2 :]


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["a", "b", "c"])[y]


def large(**parameters):
    return FaLKSVC(**{"n_neighbors": 200, "routing": "centre", "C": 10, **parameters})


@pytest.fixture(scope="module")
def pair():
    X, y, Q, z = moons()
    model = large().fit(X, y)
    return model, compress(model, (4, 8), max_loss=0.01, X=Q, y=z, random_state=0)


def test_the_loss_is_held(pair):
    model, smaller = pair
    _, _, Q, z = moons()
    assert model.score(Q, z) - smaller.score(Q, z) <= 0.01
    found = smaller.fit_report_["compression"]
    assert found["loss"] == pytest.approx(model.score(Q, z) - smaller.score(Q, z), abs=1e-9)
    assert found["vectors"] == smaller.n_support_.sum() < model.n_support_.sum() / 4


def test_new_points_are_answered_as_well(pair):
    model, smaller = pair
    X, y = make_moons(5000, noise=0.25, random_state=1)
    assert model.score(X, y) - smaller.score(X, y) < 0.015
    assert (model.predict(X) == smaller.predict(X)).mean() > 0.97


def test_the_model_itself_stays_as_it_is(pair):
    model, smaller = pair
    X, y, Q, _ = moons()
    np.testing.assert_array_equal(large().fit(X, y).predict(Q), model.predict(Q))
    assert type(smaller) is FaLKSVC
    assert smaller.get_params() == model.get_params()
    assert hasattr(model, "owners_")
    assert not hasattr(smaller, "owners_")
    assert "compression" not in model.fit_report_
    np.testing.assert_array_equal(smaller.centres_, model.centres_)
    made_of, of = smaller.models_[0], model.models_[0]
    assert made_of.problem.n_rows == len(X)
    for attribute in ("points", "targets", "rows"):
        np.testing.assert_array_equal(
            getattr(made_of.problem, attribute)[made_of.cover.centres],
            getattr(of.problem, attribute)[of.cover.centres],
        )
    assert (smaller.n_support_ <= model.n_support_).all()
    np.testing.assert_array_equal(smaller.fit(X, y).predict(Q), model.predict(Q))


def test_files_hold_no_training_set(tmp_path):
    X, y, Q, _ = moons(6000)
    model = large().fit(X, y)
    smaller = compress(model, 4, max_loss=0.05, random_state=0)
    for name, each in (("large", model), ("small", smaller)):
        vicinal.save(each, tmp_path / name)
        loaded = vicinal.load(tmp_path / name)
        np.testing.assert_array_equal(loaded.decision_function(Q), each.decision_function(Q))
    assert (tmp_path / "small").stat().st_size < (tmp_path / "large").stat().st_size / 3


def test_onnx(pair):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    _, smaller = pair
    Q = moons()[2]
    session = onnxruntime.InferenceSession(vicinal.to_onnx(smaller).SerializeToString())
    np.testing.assert_array_equal(session.run(["label"], {"X": Q})[0], smaller.predict(Q))


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("multi_class", ["local", "global"])
def test_several_classes(kernel, multi_class):
    X, y = wine()
    model = large(n_neighbors=60, kernel=kernel, coef0=1.0, multi_class=multi_class).fit(X, y)
    smaller = compress(model, 6, max_loss=0.05, X=X, y=y, random_state=0)
    assert smaller.n_support_.sum() < model.n_support_.sum()
    assert (smaller.predict(X) == model.predict(X)).mean() > 0.9
    assert smaller.decision_function(X).shape == (len(X), 3)


@pytest.mark.parametrize("several", [False, True])
def test_linear_machines_lose_nothing(several):
    X, y = wine()
    y = y if several else y == "b"
    model = large(n_neighbors=100, kernel="linear", C=1).fit(X, y)
    smaller = compress(model, 1, max_loss=0.0, X=X, y=y, random_state=0)
    assert smaller.n_support_.max() <= (3 if several else 1)
    np.testing.assert_allclose(smaller.decision_function(X), model.decision_function(X), atol=1e-4)


def test_pairs_of_which_no_point_is_given_stay_whole():
    X, y = wine()
    model = large(n_neighbors=60, multi_class="global").fit(X, y)
    only = y == "a"
    smaller = compress(model, 4, max_loss=1.0, X=X[only], y=y[only], random_state=0)
    sizes = [part.machines.n_support.sum() for part in smaller.models_]
    assert sizes[2] == model.models_[2].machines.n_support.sum()  # of "b" and "c"
    assert sizes[0] < model.models_[0].machines.n_support.sum()


@pytest.mark.parametrize("routing", ["rank", "first"])
def test_routes_by_training_points_stay(routing):
    X, y, Q, z = moons()
    model = large(routing=routing).fit(X, y)
    smaller = compress(model, 8, max_loss=0.02, X=Q, y=z, random_state=0)
    routes = [m.models_[0].route(Q.astype(np.float32), n_threads=1) for m in (model, smaller)]
    np.testing.assert_array_equal(*routes)
    assert model.score(Q, z) - smaller.score(Q, z) <= 0.02


@pytest.mark.parametrize("estimator", [FastLSVC(100, random_state=0), FaLKSVCCV(100, C=(1, 10))])
def test_the_other_estimators(estimator):
    X, y, Q, z = moons(1000)
    model = estimator.fit(X, y)
    smaller = compress(model, 8, max_loss=0.05, random_state=0)
    assert type(smaller) is type(model)
    assert model.score(Q, z) - smaller.score(Q, z) < 0.08


def test_threads_and_dtype_change_nothing():
    X, y, Q, z = moons(1000)
    X, Q = X.astype(np.float32), Q.astype(np.float32)
    model = large(n_neighbors=100).fit(X, y)
    first = compress(model, 6, X=Q, y=z, random_state=0, n_jobs=1)
    again = compress(model, 6, X=Q.astype(np.float64), y=z, random_state=0, n_jobs=3)
    np.testing.assert_array_equal(first.decision_function(Q), again.decision_function(Q))


def test_where_nothing_may_be_lost_machines_stay_whole():
    X, y, Q, z = moons(1000, noise=0.4)
    model = large(n_neighbors=100, C=100).fit(X, y)
    smaller = compress(model, 1, max_loss=0.0, X=Q, y=z, random_state=0)
    assert smaller.score(Q, z) >= model.score(Q, z)
    assert smaller.fit_report_["compression"]["whole"] > 0
    again = compress(smaller, 1, max_loss=1.0, X=Q, random_state=0)
    assert (again.n_support_ <= 2).all()


def test_a_pipeline_is_compressed_at_its_end():
    X, y, Q, z = moons(1000)
    model = make_pipeline(MinMaxScaler(), large(n_neighbors=100)).fit(X, y)
    smaller = compress(model, 6, max_loss=0.03, X=Q, y=z, random_state=0)
    assert smaller[0] is model[0]
    assert smaller[-1].n_support_.sum() < model[-1].n_support_.sum()
    assert model.score(Q, z) - smaller.score(Q, z) <= 0.03


class TestSVC:
    """An SVC becomes a reduced set."""

    def test_the_smallest_that_serves(self):
        X, y, Q, z = moons()
        svc = SVC(gamma=2.0, C=10).fit(X, y)
        smaller = compress(svc, max_loss=0.01, X=Q, y=z, random_state=0)
        assert type(smaller) is ReducedSetClassifier
        assert smaller.n_vectors_ < len(svc.support_) / 4
        assert svc.score(Q, z) - smaller.score(Q, z) <= 0.01

    def test_all_vectors_where_none_serves(self):
        X, y, Q, _ = moons(600, noise=0.4)
        svc = SVC(gamma=20.0, C=100).fit(X, y)
        smaller = compress(svc, (1, 2), max_loss=0.0, X=Q, random_state=0)
        assert smaller.n_vectors_ == len(svc.support_)
        np.testing.assert_array_equal(smaller.predict(Q), svc.predict(Q))

    @pytest.mark.parametrize("wrap", [FrozenEstimator, lambda s: make_pipeline("passthrough", s)])
    def test_wrapped(self, wrap):
        X, y, Q, z = moons(600)
        svc = wrap(SVC(gamma=2.0).fit(X, y))
        assert compress(svc, (5, 10, 20), max_loss=0.05, X=Q, y=z).n_vectors_ <= 20

    def test_needs_points(self):
        X, y, _, _ = moons(200)
        with pytest.raises(ValueError, match="give X"):
            compress(SVC().fit(X, y))


@pytest.mark.parametrize(
    ("model", "arguments", "error", "message"),
    [
        (LogisticRegression(), {}, TypeError, "compress takes a FaLKSVC.*got a LogisticRegression"),
        (FaLKSVC(), {}, NotFittedError, "not fitted"),
        (FaLKSVC(), {"n_vectors": 0}, ValueError, "'n_vectors' parameter of compress"),
        (FaLKSVC(), {"n_vectors": [4, 0]}, ValueError, "n_vectors must hold positive integers"),
        (FaLKSVC(), {"n_vectors": [2.5]}, ValueError, "n_vectors must hold positive integers"),
        (FaLKSVC(), {"max_loss": -0.1}, ValueError, "'max_loss' parameter of compress"),
    ],
)
def test_bad_arguments(model, arguments, error, message):
    with pytest.raises(error, match=message):
        compress(model, **arguments)


def test_queries_that_do_not_fit():
    X, y, Q, z = moons(400)
    model = large(n_neighbors=50).fit(X, y)
    for bad, labels, message in (
        (Q[:, :1], None, "1 features"),
        (Q[:, :1], z, "1 features"),
        (Q, z[:-1], "inconsistent numbers"),
        (np.full_like(Q, np.nan), z, "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            compress(model, X=bad, y=labels)


def test_bad_data():
    rng = np.random.default_rng(0)
    twins = np.repeat(rng.normal(size=(6, 2)), 40, axis=0)
    y = np.repeat([0, 1, 0, 1, 2, 2], 40)
    y[::11] = (y[::11] + 1) % 3
    constant = np.column_stack([rng.normal(size=(240, 2)), np.full(240, 7.0)])
    for X in (twins, constant, constant + 1e6):
        model = large(n_neighbors=80).fit(X, y)
        smaller = compress(model, 5, max_loss=0.2, X=X, y=y, random_state=0)
        assert np.isfinite(smaller.decision_function(X)).all()
        assert smaller.score(X, y) > model.score(X, y) - 0.2


@pytest.mark.parametrize("class_sv", [[2, 3], [1, 0, 4], [2, 2, 1, 3]])
def test_layouts_are_inverse(class_sv):
    coef = np.random.default_rng(0).normal(size=(len(class_sv) - 1, sum(class_sv)))
    np.testing.assert_array_equal(from_pairs(by_pair(coef, class_sv), class_sv), coef)
