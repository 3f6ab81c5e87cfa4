"""Learning curves, selections and routes as pictures: their numbers are those of the models."""

from __future__ import annotations

import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import FaLKSVC, FaLKSVCCV
from vicinal.inspection import LearningCurve, RoutingDisplay, SelectionDisplay

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    X, y = make_moons(900, noise=0.25, random_state=0)
    return X[:500], y[:500], X[500:], y[500:]


def test_routing(data):
    X, y, X_test, y_test = data
    model = FaLKSVC(40).fit(X, y)
    display = RoutingDisplay.from_estimator(model, X_test, y_test)
    nearest = np.linalg.norm(X_test[:, None] - X, axis=2).argmin(axis=1)
    routes = model.owners_[nearest]
    correct = model.predict(X_test) == y_test
    for machine in range(model.n_machines_):
        mine = routes == machine
        assert display.n_queries[machine] == mine.sum()
        if mine.any():
            assert display.accuracy[machine] == pytest.approx(correct[mine].mean())
        else:
            assert np.isnan(display.accuracy[machine])
    assert display.score == pytest.approx(model.score(X_test, y_test))
    several, one = display.machines_
    for drawn, kind in ((several, ~display.unanimous), (one, display.unanimous)):
        asked = kind & (display.n_queries > 0)
        places = np.column_stack([display.n_queries, display.accuracy])[asked]
        assert len(drawn.get_offsets()) == len(np.unique(places, axis=0))
        assert (drawn.get_sizes() ** 2).sum() == pytest.approx(18**2 * asked.sum())
    errors = display.n_queries - display.n_correct
    excess = errors - (1 - display.score) * display.n_queries
    assert display.weakest[0] == excess.argmax()
    assert (np.diff(excess[display.weakest]) <= 1e-9).all()
    assert any(str(display.weakest[0]) in text.get_text() for text in display.ax_.texts)


def test_routing_of_a_perfect_model_names_nobody(data):
    X = data[0]
    easy = (X[:, 0] > 0).astype(int)
    X = X + np.c_[10 * easy, 0 * easy]
    model = make_pipeline(StandardScaler(), FaLKSVC(40)).fit(X, easy)
    display = RoutingDisplay.from_estimator(model, X, easy)
    assert display.score == 1
    assert len(display.weakest) == 0
    assert not display.ax_.texts


def test_learning_curve_of_several(data):
    X, y, *_ = data
    display = LearningCurve.from_estimator(
        {"local": FaLKSVC(40), "dummy": DummyClassifier()}, X, y, train_sizes=[50, 400]
    )
    assert display.train_sizes.tolist() == [50, 400]
    assert set(display.scores) == {"local", "dummy"}
    assert display.scores["local"].shape == display.fit_times["local"].shape == (2, 3)
    assert display.scores["local"][1].mean() > display.scores["dummy"][1].mean() + 0.2
    for lines, values in [
        (display.score_lines_, display.scores),
        (display.time_lines_, display.fit_times),
    ]:
        for line, runs in zip(lines, values.values(), strict=True):
            np.testing.assert_allclose(line.get_ydata(), runs.mean(axis=1))
    assert [text.get_text() for text in display.axes_[0].get_legend().get_texts()] == [
        "local",
        "dummy",
    ]
    assert all(ax.get_xscale() == "log" for ax in display.axes_)


def test_learning_curve_takes_splits_and_axes(data):
    X, y, *_ = data
    figure, axes = plt.subplots(1, 2)
    splits = ((np.arange(400), np.arange(400, 500)) for _ in range(1))  # can be read once only
    pair = {"a": FaLKSVC(40), "b": FaLKSVC(20)}
    display = LearningCurve.from_estimator(pair, X, y, train_sizes=[400], cv=splits, axes=axes)
    assert display.figure_ is figure
    expected = FaLKSVC(40).fit(X[:400], y[:400]).score(X[400:], y[400:])
    assert display.scores["a"].item() == pytest.approx(expected)
    loss = LearningCurve.from_estimator(
        DummyClassifier(), X, y, train_sizes=[400], scoring="neg_log_loss"
    )
    assert loss.axes_[0].get_ylabel() == "neg log loss on held-out points"
    with pytest.raises(ValueError, match="at least one"):
        LearningCurve.from_estimator({}, X, y)


def fitted(X, y, **grid):
    return FaLKSVCCV(n_centres=4, random_state=0, **grid).fit(X, y)


def test_selection_as_heat_maps(data):
    X, y, *_ = data
    model = fitted(X, y, n_neighbors=(30, 60), C=(1, 8, 64), gamma_percentile=(1, 50))
    display = SelectionDisplay.from_estimator(model)
    assert len(display.images_) == len(display.axes_) == len(display.sizes)
    size, kernel, C = display.best
    assert display.sizes[size] == model.best_params_["n_neighbors"]
    assert display.kernels[kernel] == {"gamma_percentile": model.best_params_["gamma_percentile"]}
    assert display.C[C] == model.best_params_["C"]
    assert display.accuracy[display.best] == pytest.approx(model.best_score_)
    assert display.best_.get_xy() == (C, kernel)
    results = model.cv_results_
    for params, mean, n in zip(
        results["params"], results["mean_test_score"], results["n_centres"], strict=True
    ):
        place = (
            display.sizes.index(params["n_neighbors"]),
            display.kernels.index({"gamma_percentile": params["gamma_percentile"]}),
            display.C.index(params["C"]),
        )
        assert display.accuracy[place] == mean
        assert display.n_centres[place] == n
    tried = int((display.n_centres > 0).sum())
    assert tried == len(results["params"]) == sum(len(ax.texts) for ax in display.axes_)
    hatched = [patch for ax in display.axes_ for patch in ax.patches if patch.get_hatch()]
    assert len(hatched) == display.dropped.sum() > 0


def test_candidates_that_were_not_tried():
    display = SelectionDisplay(
        sizes=[30],
        kernels=[{"gamma_percentile": 1}, {"gamma_percentile": 50}],
        C=[1.0, 8.0],
        accuracy=np.array([[[0.8, np.nan], [0.9, 0.7]]]),
        n_centres=np.array([[[4, 0], [4, 4]]]),
        best=(0, 1, 0),
    ).plot()
    (ax,) = display.axes_
    (place,) = [patch.get_xy() for patch in ax.patches if patch.get_label() == "not tried"]
    assert place == (1, 0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["not tried"]


@pytest.mark.parametrize(
    ("grid", "label", "n_lines", "n_places"),
    [
        ({"n_neighbors": (30, 60), "C": (1, 8), "gamma_percentile": 50}, "C", 2, 2),
        ({"n_neighbors": 30, "C": 1, "gamma_percentile": (1, 50, 90)}, "gamma_percentile", 1, 3),
        ({"n_neighbors": (30, 60), "C": 1, "gamma_percentile": 50}, "k", 1, 2),
        ({"n_neighbors": 30, "C": 1, "gamma": ("local", 2.0)}, "kernel", 1, 5),
    ],
)
def test_selection_as_lines(data, grid, label, n_lines, n_places):
    X, y, *_ = data
    model = fitted(X, y, search="full", **grid)
    display = SelectionDisplay.from_estimator(make_pipeline(model))
    assert display.images_ == []
    (ax,) = display.axes_
    assert ax.get_xlabel() == label
    assert [len(line.get_ydata()) for line in display.lines_] == [n_places] * n_lines
    assert display.best_.get_ydata()[0] == pytest.approx(model.best_score_)


def test_selection_of_a_model_without_one(data):
    X, y, *_ = data
    with pytest.raises(TypeError, match="selects no parameters"):
        SelectionDisplay.from_estimator(FaLKSVC(40).fit(X, y))


def test_dark_styles_get_light_letters(data):
    X, y, X_test, y_test = data
    model = FaLKSVC(40).fit(X, y)
    with plt.style.context("dark_background"):
        display = RoutingDisplay.from_estimator(model, X_test, y_test)
    assert {text.get_color() for text in display.ax_.texts} == {"white"}


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from vicinal.inspection import RoutingDisplay\n"
        "try:\n    RoutingDisplay.from_estimator(None, [], [])\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'vicinal[plot]'" in done.stdout
