"""What is wrong is said clearly, and what is only odd works without a sound."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import SVC

from vicinal import (
    KNNSVC,
    CoverTree,
    CoverTreeClassifier,
    CoverTreeNeighbors,
    FaLKSVC,
    FaLKSVCCV,
    FastLSVC,
    engine,
)

X, Y = make_moons(240, noise=0.15, random_state=0)
QUERIES, TRUTH = make_moons(100, noise=0.15, random_state=1)

COVERED = [
    FaLKSVC(40),
    FaLKSVC(40, routing="centre", centres="random", random_state=0),
    FastLSVC(40, random_state=0),
    FaLKSVCCV((20, 40), C=(1, 16), n_centres=4, random_state=0),
]
MACHINES = [*COVERED, KNNSVC(40), KNNSVC(40, C=(1, 16), selection="internal")]
CLASSIFIERS = [*MACHINES, CoverTreeClassifier()]

every_machine = pytest.mark.parametrize("model", MACHINES, ids=str)
every_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=str)


@pytest.fixture(autouse=True)
def no_noise():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@every_classifier
class TestArrays:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, model, value):
        bad = X.copy()
        bad[3, 1] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            clone(model).fit(bad, Y)
        fitted = clone(model).fit(X, Y)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            fitted.predict(bad)

    def test_sparse(self, model):
        with pytest.raises(TypeError, match=r"toarray"):
            clone(model).fit(csr_array(X), Y)
        fitted = clone(model).fit(X, Y)
        with pytest.raises(TypeError, match=r"toarray"):
            fitted.predict(csr_array(X))

    def test_width(self, model):
        fitted = clone(model).fit(X, Y)
        with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2 features"):
            fitted.predict(np.zeros((5, 3)))

    def test_continuous_labels(self, model):
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            clone(model).fit(X, X[:, 0])

    def test_not_fitted(self, model):
        with pytest.raises(NotFittedError):
            clone(model).predict(X)


@every_machine
class TestProblems:
    def test_one_class(self, model):
        with pytest.raises(ValueError, match=r"one class only, 7, .* at least two classes"):
            clone(model).fit(X, np.full(len(X), 7))

    def test_one_class_of_positive_weight(self, model):
        with pytest.raises(ValueError, match="points of positive weight"):
            clone(model).fit(X, Y, sample_weight=Y == 1)

    def test_negative_weight(self, model):
        weights = np.ones(len(X))
        weights[5] = -1
        with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
            clone(model).fit(X, Y, sample_weight=weights)

    def test_class_weight_that_is_not_positive(self, model):
        for weight in (0, -1, np.nan, np.inf):
            with pytest.raises(ValueError, match="class_weight must be positive and finite"):
                clone(model).set_params(class_weight={0: 1, 1: weight}).fit(X, Y)

    def test_polynomials_beyond_single_precision(self, model):
        poly = clone(model).set_params(kernel="poly", gamma=1.0)
        with pytest.raises(ValueError, match="cannot hold: scale the features"):
            poly.fit(1e8 * X, Y)
        labels = poly.fit(X, Y).predict([[1e9, 0.0], [1e30, -1e30]])  # far queries have an answer
        assert set(labels) <= {0, 1}

    @pytest.mark.parametrize(
        ("parameter", "value"),
        [
            ("C", 0),
            ("C", -1.0),
            ("n_neighbors", 0),
            ("n_neighbors", 2.5),
            ("n_assigned", 0),
            ("tol", 0),
            ("gamma", 0),
            ("gamma", "auto"),
            ("gamma_percentile", 101),
            ("kernel", "sigmoid"),
            ("degree", 0),
            ("coef0", -1.0),
            ("cache_size", 0),
            ("algorithm", "ball_tree"),
            ("multi_class", "ovr"),
            ("n_jobs", 1.5),
        ],
    )
    def test_parameters(self, model, parameter, value):
        with pytest.raises(ValueError, match=f"'?{parameter}'? "):
            clone(model).set_params(**{parameter: value}).fit(X, Y)

    def test_more_assigned_than_neighbours(self, model):
        with pytest.raises(ValueError, match=r"n_assigned=41 \(k'\) exceeds n_neighbors="):
            clone(model).set_params(n_assigned=41).fit(X, Y)

    def test_kd_tree_with_a_polynomial_kernel(self, model):
        with pytest.raises(ValueError, match=r"kd_tree.*use algorithm='tree', 'scan' or 'auto'"):
            clone(model).set_params(kernel="poly", algorithm="kd_tree").fit(X, Y)


@pytest.mark.parametrize("values", [[], [1, 0], [1, np.nan], ["a"], [[None]]], ids=str)
def test_grids(values):
    for model in (FaLKSVCCV(40, C=values), KNNSVC(40, C=values, selection="internal")):
        with pytest.raises(ValueError, match="C must hold positive numbers"):
            model.fit(X, Y)
    with pytest.raises(ValueError, match="n_neighbors must hold integers of at least 2"):
        FaLKSVCCV([20.5]).fit(X, Y)


def test_several_values_without_a_selection():
    with pytest.raises(ValueError, match="only with selection='internal'"):
        KNNSVC(40, C=[1, 16]).fit(X, Y)


@every_classifier
def test_more_neighbours_than_points(model):
    too_many = clone(model).set_params(n_neighbors=1000)
    if isinstance(model, CoverTreeClassifier):
        too_many.fit(X, Y)
        with pytest.warns(UserWarning, match="n_neighbors=1000 exceeds the 240 points"):
            predicted = too_many.predict(QUERIES)
    else:
        with pytest.warns(UserWarning, match="n_neighbors=1000 exceeds the 240 training points"):
            predicted = too_many.fit(X, Y).predict(QUERIES)
    expected = clone(model).set_params(n_neighbors=len(X)).fit(X, Y).predict(QUERIES)
    np.testing.assert_array_equal(predicted, expected)


def test_sizes_that_the_data_allow_need_no_warning():
    assert FaLKSVCCV((50, 1000), C=1, random_state=0).fit(X, Y).best_params_["n_neighbors"] == 50


@every_classifier
class TestOddData:
    def test_constant_columns(self, model):
        padded = np.column_stack([np.full(len(X), 1e9), X, np.zeros(len(X)), np.full(len(X), 0.1)])
        fitted = clone(model).fit(padded, Y)
        expected = clone(model).fit(X, Y)
        np.testing.assert_array_equal(fitted.predict(padded), expected.predict(X))

    @pytest.mark.parametrize("offset", [1e9, -3e5])
    def test_offset(self, model, offset):
        # Every coordinate is first rounded to what survives the offset.
        rounded, queries = ((Z + offset) - offset for Z in (X, QUERIES))
        expected = clone(model).fit(rounded, Y).predict(queries)
        moved = clone(model).fit(rounded + offset, Y).predict(queries + offset)
        assert (moved == expected).mean() >= 0.99

    @pytest.mark.parametrize("exponent", [-1000, -66, 66, 1000])
    def test_scale(self, model, exponent):
        expected = clone(model).fit(X, Y).predict(QUERIES)
        scaled = clone(model).fit(np.ldexp(X, exponent), Y).predict(np.ldexp(QUERIES, exponent))
        np.testing.assert_array_equal(scaled, expected)

    def test_extremes_of_double_precision(self, model):
        huge = np.where(X > 0, 1.0, -0.5) * 1e307
        clone(model).fit(huge, Y).predict(huge)
        clone(model).fit(X, Y).predict(huge)

    def test_queries_far_away(self, model):
        fitted = clone(model).fit(X, Y)
        far = np.array([[1e30, 0.0], [-1e300, 1e300], [0.0, -1e12]])
        assert set(fitted.predict(far)) <= {0, 1}

    def test_all_points_equal(self, model):
        same = np.full((60, 3), 0.1)
        labels = np.arange(60) % 3 == 0
        assert set(clone(model).fit(same, labels).predict(same[:5])) <= {True, False}

    def test_two_points(self, model):
        few = clone(model).set_params(n_neighbors=1 if model is CLASSIFIERS[-1] else 2)
        np.testing.assert_array_equal(
            few.fit([[0.0], [1.0]], [0, 1]).predict([[0.1], [0.8]]), [0, 1]
        )

    def test_one_column_of_integers(self, model):
        column = np.arange(100)[:, None]
        labels = np.where(column[:, 0] < 50, "low", "high")
        assert (clone(model).fit(column, labels).predict(column) == labels).mean() > 0.95


@pytest.mark.parametrize("model", COVERED, ids=str)
def test_duplicates_do_not_multiply_machines(model):
    rng = np.random.default_rng(0)
    many = np.concatenate([np.zeros((2000, 2)), rng.normal(size=(300, 2))])
    labels = rng.integers(0, 2, len(many))
    fitted = clone(model).fit(many, labels)
    assert fitted.n_machines_ <= 301
    assert (fitted.owners_ >= 0).all()
    assert len(set(fitted.owners_[:2000])) <= 41  # those that a neighbourhood holds, and the rest


class Stop:
    """A callback that stops a fit at its n-th step, or lets it fail there."""

    def __init__(self, after, error=None):
        self.after, self.error = after, error

    def setup(self, estimator, context):
        self.ended = 0

    def teardown(self, estimator, context):
        self.torn_down = True

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.ended += 1
        if fitted_estimator is not None:
            fitted_estimator.predict(X[:3])
        if self.ended >= self.after and self.error is not None:
            raise self.error
        return self.ended >= self.after


@pytest.mark.parametrize("error", [RuntimeError("no more"), KeyboardInterrupt()], ids=repr)
@every_machine
class TestFailedFit:
    def test_leaves_no_trace(self, model, error):
        model = clone(model)
        before = dict(vars(model))
        stop = Stop(1, error)
        with pytest.raises(type(error)):
            model.set_callbacks(stop).fit(X, Y)
        assert stop.torn_down
        model.set_callbacks()
        assert vars(model) == before

    def test_keeps_the_fit_before(self, model, error):
        model = clone(model).fit(X, Y)
        expected = model.predict(QUERIES)
        with pytest.raises(type(error)):
            model.set_callbacks(Stop(1, error)).fit(np.hstack([X, X]), 1 - Y)
        np.testing.assert_array_equal(model.predict(QUERIES), expected)


@pytest.mark.parametrize("model", COVERED, ids=str)
def test_a_stopped_fit_is_of_use(model):
    rng = np.random.default_rng(0)
    many = rng.uniform(size=(3000, 2))
    labels = (many[:, 0] > 0.5).astype(int)
    stopped = clone(model).set_params(n_neighbors=10).set_callbacks(Stop(1)).fit(many, labels)
    assert stopped.fit_report_["cover"]["stopped_early"]
    assert (
        stopped.n_machines_ < clone(model).set_params(n_neighbors=10).fit(many, labels).n_machines_
    )
    assert (stopped.owners_ >= 0).all()
    assert stopped.score(many, labels) > 0.6


class TestTrees:
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_not_finite(self, value):
        for build in (CoverTree, CoverTreeNeighbors().fit):
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                build([[0.0], [value]])

    def test_width(self):
        tree = CoverTree(X)
        for call in (tree.query, tree.insert, lambda Z: tree.query_radius(Z, 1.0)):
            with pytest.raises(ValueError, match="X has 3 features"):
                call(np.zeros((2, 3)))

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"base": 1.0}, "'base' parameter of CoverTree must be"),
            ({"metric": "cosine"}, "'metric' parameter of CoverTree must be"),
            ({"metric": "poly", "gamma": 0.0}, "'gamma' parameter of CoverTree must be"),
            ({"metric": "poly", "coef0": -1.0}, "'coef0' parameter of CoverTree must be"),
        ],
    )
    def test_parameters(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            CoverTree(X, **parameters)

    def test_queries(self):
        tree = CoverTree(X)
        for k in (0, 1.5):
            with pytest.raises(ValueError, match="k must be a positive integer"):
                tree.query(X, k)
        with pytest.warns(UserWarning, match="k=241 exceeds the 240 points"):
            assert tree.query(X, 241)[1].shape == (240, 240)
        with pytest.raises(ValueError, match="radius must not be negative"):
            tree.query_radius(X, -1.0)

    def test_points_that_are_not_there(self):
        tree = CoverTree(X)
        tree.remove([4])
        for ids in ([4], [len(X)], [-1]):
            with pytest.raises(ValueError, match="which are not in the tree"):
                tree.remove(ids)
        with pytest.raises(ValueError, match="a tree holds at least one"):
            tree.remove(tree.ids)

    def test_neighbours(self):
        neighbours = CoverTreeNeighbors().fit(X)
        with pytest.raises(ValueError, match="n_neighbors must be a positive integer"):
            neighbours.kneighbors(X, 0)
        with pytest.raises(ValueError, match="radius must not be negative"):
            neighbours.radius_neighbors(X, -1.0)
        with pytest.raises(ValueError, match="mode must be"):
            neighbours.kneighbors_graph(X, mode="adjacency")
        with pytest.warns(UserWarning, match="n_neighbors=300 exceeds the 240 points"):
            assert neighbours.kneighbors(X, 300)[1].shape == (240, 240)


def test_callbacks_must_be_callbacks():
    with pytest.raises(TypeError, match="FitCallback"):
        FaLKSVC().set_callbacks(ProgressBar)


@pytest.mark.parametrize(
    "model", [FaLKSVCCV((20, 40), kernel="poly"), KNNSVC(40, selection="internal")], ids=str
)
@pytest.mark.parametrize("gamma", [[], ["auto"], [0.5, -1.0], [np.nan]], ids=str)
def test_lists_of_values(model, gamma):
    with pytest.raises(ValueError, match="gamma must hold positive numbers, 'scale' or 'local'"):
        clone(model).set_params(gamma=gamma).fit(X, Y)


def test_several_kernels_of_lazy_machines():
    with pytest.raises(ValueError, match="take several values only with selection='internal'"):
        KNNSVC(40, gamma=[0.5, 1.0]).fit(X, Y)
    with pytest.raises(ValueError, match="give one gamma, or use FaLKSVCCV"):
        KNNSVC(40, gamma=[0.5, 1.0], kernel="poly", selection="internal").fit(X, Y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("structure", ["tree", "scan"])
def test_the_engine_indexes_finite_points_only(structure, value):
    for at in range(3):
        points = np.array([[0.0], [1.0], [2.0]], dtype=np.float32)
        points[at] = value
        with pytest.raises(ValueError, match="points must be finite"):
            engine.NeighbourIndex(points, structure=structure)


@pytest.mark.parametrize("scale", [1e8, 1e150])
def test_a_tolerance_out_of_reach_is_given_up_soon(scale):
    """Unscaled features leave a linear kernel no digits in single precision: this took hours."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 2))
    y = (points[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    model = FaLKSVC(60, 60, kernel="linear")
    with pytest.warns(ConvergenceWarning, match="Scale the features"):
        model.fit(points * scale, y)
    assert model.score(points * scale, y) > 0.6


@pytest.mark.parametrize("C", [1e4, 1e6, 1e8])
def test_coefficients_that_cancel(C):
    """At a large C decisions are small differences of large sums."""
    rng = np.random.default_rng(0)
    points = np.round(rng.normal(size=(150, 2)))
    y = ((points**2).sum(axis=1) > 2) ^ (rng.random(150) < 0.1)
    model = FaLKSVC(150, 150, gamma=1.0, C=C).fit(points, y)
    np.testing.assert_array_equal(
        model.predict(points), SVC(gamma=1.0, C=C).fit(points, y).predict(points)
    )


def test_bounds_that_underflow():
    model = FaLKSVC(40, C=1e-30).fit(X, Y, np.full(len(X), 1e-20))
    assert np.isfinite(model.decision_function(QUERIES)).all()


def test_a_failed_change_changes_nothing():
    far = np.full((1, 2), 1e9)
    classifier = CoverTreeClassifier(metric="poly", degree=8).fit(X, Y)
    expected = classifier.predict(QUERIES)
    with pytest.raises(ValueError, match="scale the features"):
        classifier.fit(np.repeat(far, 3, axis=0), ["a", "b", "c"])
    np.testing.assert_array_equal(classifier.predict(QUERIES), expected)
    tree = CoverTree(X, metric="poly", degree=8)
    with pytest.raises(ValueError, match="scale the features"):
        tree.insert(far)
    assert len(tree) == len(tree.levels()) == len(X)


def test_ids_are_integers():
    tree = CoverTree(X)
    for ids in ([2.7], np.ones(len(X), dtype=bool)):
        with pytest.raises(TypeError, match="ids must hold integers"):
            tree.remove(ids)


def test_a_single_point_has_no_neighbours():
    with pytest.raises(ValueError, match="one training point"):
        CoverTreeNeighbors(n_neighbors=1).fit([[0.0]]).kneighbors_graph()
