"""FaLK-SVMl: its cross-validation against the slow reference, and what a search promises."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.local.problems import binary, three_classes
from tests.reference.classifiers import Kernel, internal_error, neighbours

from vicinal import FaLKSVC, FaLKSVCCV, engine
from vicinal.local.search import draw_centres

EUCLIDEAN = (0, 1.0, 0.0, 1)


def cross_validate(X, y, centres, k, n_internal, n_folds, kernel, percentiles, Cs):
    points = np.ascontiguousarray(X - X.mean(axis=0), dtype=np.float32)
    rows = neighbours(X, X[centres], k, Kernel()).astype(np.int32)
    kinds = {"linear": 0, "rbf": 1, "poly": 2}
    gamma = -1.0 if kernel.gamma == "local" else kernel.gamma
    return rows, engine.cross_validate(
        points,
        y.astype(np.int32),
        np.ones(len(X), dtype=np.float32),
        rows,
        n_internal,
        n_folds,
        [(kinds[kernel.name], gamma, kernel.coef0, kernel.degree, p) for p in percentiles],
        Cs=Cs,
        tol=1e-4,
        cache_mb=200.0,
        n_threads=2,
    )


@pytest.mark.parametrize("data", [binary, three_classes], ids=["binary", "multi-class"])
@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("rbf", 2.0)], ids=str)
def test_internal_cross_validation(data, kernel):
    X, y, _ = data()
    y = np.unique(y, return_inverse=True)[1]
    Cs = (0.5, 4.0, 32.0)
    rows, errors = cross_validate(X, y, [0, 50, 100, 200], 60, 20, 5, kernel, (50,), Cs)
    assert errors.shape == (4, 1, 3)
    for row, of_row in zip(rows, errors[:, 0], strict=True):
        expected = [internal_error(X[row], y[row], 20, 5, kernel, C) for C in Cs]
        # a point on the boundary may fall to either side: one of the twenty
        np.testing.assert_allclose(of_row, expected, atol=0.0501)


def test_internal_cross_validation_over_widths():
    X, y, _ = binary()
    percentiles, Cs = (1, 10, 50, 90), (1.0, 16.0)
    kernel = Kernel("rbf", "local")
    rows, errors = cross_validate(X, y, [3, 77, 150], 80, 40, 5, kernel, percentiles, Cs)
    assert errors.shape == (3, 4, 2)
    for row, of_row in zip(rows, errors, strict=True):
        for p, of_width in zip(percentiles, of_row, strict=True):
            expected = [
                internal_error(X[row], y[row], 40, 5, Kernel("rbf", "local", p), C) for C in Cs
            ]
            np.testing.assert_allclose(of_width, expected, atol=0.0751)


@pytest.fixture(scope="module")
def searched():
    X, y, Q = binary(n=1200, n_queries=400, seed=5)
    grid = {
        "n_neighbors": (50, 100, 200),
        "C": (1, 16),
        "gamma_percentile": (10, 50),
        "random_state": 0,
    }
    return X, y, Q, {s: FaLKSVCCV(search=s, **grid).fit(X, y) for s in ("race", "full")}


@pytest.mark.parametrize("search", ["race", "full"])
class TestSearch:
    def test_the_best_comes_from_the_grid(self, searched, search):
        best = searched[3][search].best_params_
        assert best["n_neighbors"] in (50, 100, 200)
        assert best["C"] in (1, 16)
        assert best["gamma_percentile"] in (10, 50)

    def test_the_refit_is_a_plain_fit(self, searched, search):
        X, y, Q, models = searched
        model = models[search]
        plain = FaLKSVC(**model.best_params_).fit(X, y)
        np.testing.assert_array_equal(plain.predict(Q), model.predict(Q))

    def test_results_are_a_table(self, searched, search):
        results = searched[3][search].cv_results_
        lengths = {key: len(value) for key, value in results.items()}
        assert len(set(lengths.values())) == 1, lengths
        assert {"params", "mean_test_score", "rank_test_score"} <= set(results)
        scored = np.asarray(results["mean_test_score"], dtype=float)
        best = int(np.argmin(results["rank_test_score"]))
        assert scored[best] == np.nanmax(scored)
        for name, value in searched[3][search].best_params_.items():
            if name in results["params"][best]:
                assert results["params"][best][name] == value

    def test_it_repeats_itself(self, searched, search):
        X, y, _, models = searched
        grid = models[search].get_params()
        assert FaLKSVCCV(**grid).fit(X, y).best_params_ == models[search].best_params_
        grid["n_jobs"] = 2
        assert FaLKSVCCV(**grid).fit(X, y).best_params_ == models[search].best_params_


def test_the_race_finds_what_the_full_search_finds(searched):
    _X, _y, Q, models = searched
    same = (models["race"].predict(Q) == models["full"].predict(Q)).mean()
    assert same > 0.95


def test_a_rare_class_is_still_found():
    """Centres are drawn until their neighbourhoods hold two classes."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(3000, 2))
    y = (np.hypot(*(X - 0.5).T) < 0.05).astype(int)
    model = FaLKSVCCV(n_neighbors=(50, 100), C=(1, 16), random_state=0).fit(X, y)
    scores = np.asarray(model.cv_results_["mean_test_score"], dtype=float)
    assert np.nanmin(scores) < 1.0  # some of the ten neighbourhoods were not unanimous
    assert model.score(X, y) > 0.995


def test_sizes_beyond_the_data_are_left_out():
    X, y, _Q = binary(n=300)
    model = FaLKSVCCV(random_state=0).fit(X, y)  # the paper's sizes start at 500
    assert model.best_params_["n_neighbors"] <= len(X)
    assert (model.predict(X) == y).mean() > 0.85


def test_parameters_per_machine():
    X, y, Q = binary(n=1000, n_queries=500, seed=6)
    truth = binary(n=1500, n_queries=0, seed=6)[1][1000:]
    grid = {"n_neighbors": (100,), "C": (1, 64), "gamma_percentile": (10, 90), "random_state": 0}
    model = FaLKSVCCV(per_machine=True, **grid).fit(X, y)
    together = FaLKSVCCV(**grid).fit(X, y)
    accuracy = (model.predict(Q) == truth).mean()
    assert accuracy > (together.predict(Q) == truth).mean() - 0.03


class TestKernels:
    def test_several_widths_and_rules(self):
        X, y, Q = binary(n=400)
        grid = {"n_neighbors": (50, 100), "C": (1, 16), "random_state": 0}
        widths = ["local", 0.01, 2.0]
        model = FaLKSVCCV(gamma=widths, gamma_percentile=(10, 50), **grid).fit(X, y)
        results = model.cv_results_
        tried = {(p["gamma"], p.get("gamma_percentile")) for p in results["params"]}
        assert tried == {("local", 10), ("local", 50), (0.01, None), (2.0, None)}
        assert model.best_params_["gamma"] != 0.01
        at_a_number = [p["gamma"] != "local" for p in results["params"]]
        np.testing.assert_array_equal(results["param_gamma_percentile"].mask, at_a_number)
        plain = FaLKSVC(**model.best_params_).fit(X, y)
        np.testing.assert_array_equal(plain.predict(Q), model.predict(Q))

    def test_several_polynomials(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, size=(800, 2))
        y = (X[:, 0] * X[:, 1] > 0).astype(int)  # a polynomial of degree 2, and of no other below
        model = FaLKSVCCV(
            n_neighbors=(400, 800), C=(1, 16), kernel="poly", degree=(1, 2), coef0=(0, 1),
            random_state=0,
        ).fit(X, y)  # fmt: skip
        assert model.best_params_["degree"] == 2
        assert {(p["degree"], p["coef0"]) for p in model.cv_results_["params"]} == {
            (1, 0.0), (1, 1.0), (2, 0.0), (2, 1.0),
        }  # fmt: skip
        plain = FaLKSVC(kernel="poly", **model.best_params_).fit(X, y)
        np.testing.assert_array_equal(plain.predict(X), model.predict(X))


def test_without_refit_nothing_predicts():
    X, y, Q = binary(n=400)
    model = FaLKSVCCV(n_neighbors=(50,), random_state=0).fit(X, y)
    model.set_params(refit=False).fit(X, y)
    assert model.best_params_["n_neighbors"] == 50
    with pytest.raises(NotFittedError):
        model.predict(Q)


def test_full_search_is_the_cross_validation_of_all_candidates():
    """The table's means are those of the slow reference, centre by centre."""
    X, y, _ = binary(n=500)
    model = FaLKSVCCV(
        n_neighbors=(60,), n_assigned=12, C=(1, 16), gamma=2.0, n_centres=6, search="full",
        random_state=0, tol=1e-4,
    ).fit(X, y)  # fmt: skip
    points = np.ascontiguousarray(X, dtype=np.float32)
    index = engine.NeighbourIndex(points)
    problem = SimpleNamespace(n_points=len(X), targets=y)
    centres = draw_centres(problem, index, 60, 6, np.random.RandomState(0), 1)
    rows = neighbours(X, X[centres], 60, Kernel())
    errors = [
        np.mean([internal_error(X[r], y[r], 12, 5, Kernel("rbf", 2.0), C) for r in rows])
        for C in (1, 16)
    ]
    np.testing.assert_allclose(1 - model.cv_results_["mean_test_score"], errors, atol=1.01 / 72)


@pytest.mark.parametrize("search", ["race", "full"])
def test_what_is_reported_is_what_is_trained(search):
    """On data of few distinct values candidates tie, or differ by a rounding error."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = np.round(rng.normal(size=(rng.integers(20, 120), 2)), rng.integers(0, 2))
        y = rng.integers(0, 2, len(X))
        model = FaLKSVCCV(
            (3, 6, 12, 24), C=(1, 16), n_centres=4, search=search, random_state=seed
        ).fit(X, y)  # fmt: skip
        plain = FaLKSVC(**model.best_params_).fit(X, y)
        np.testing.assert_array_equal(plain.decision_function(X), model.decision_function(X))
        chosen = {k: v for k, v in model.best_params_.items() if k != "n_assigned"}
        row = model.cv_results_["params"].index(chosen)
        assert model.cv_results_["rank_test_score"][row] == 1
        assert model.cv_results_["mean_test_score"][row] == model.best_score_


@pytest.mark.parametrize("n", range(2, 9))
def test_a_race_on_a_handful_of_points(n):
    X = np.arange(2.0 * n).reshape(n, 2)
    model = FaLKSVCCV(n_neighbors=(2, 3, 4), random_state=0).fit(X, np.arange(n) % 2)
    assert model.best_params_["n_neighbors"] <= n


@pytest.mark.filterwarnings("ignore:n_neighbors=100 exceeds")
def test_best_parameters_are_parameters():
    X, y, _ = binary(n=60)
    model = FaLKSVCCV(n_neighbors=100, n_assigned=80, random_state=0).fit(X, y)
    FaLKSVC(**model.best_params_).fit(X, y)
    model.set_params(refit=False).fit(X[:40], y[:40])
    assert {name for name in vars(model) if name.endswith("_")} == {
        "n_features_in_", "best_params_", "best_score_", "cv_results_", "fit_report_",
    }  # fmt: skip
