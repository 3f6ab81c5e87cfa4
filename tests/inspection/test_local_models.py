"""The map: what is drawn is what the model says."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import KNNSVC, FaLKSVC, FaLKSVCCV, FastLSVC
from vicinal.inspection import LocalModelsDisplay

matplotlib.use("Agg")
SMALL = {"resolution": 40}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_moons(400, noise=0.25, random_state=0)


def grid(display):
    """The places at which a display asked, row by row from below."""
    left, right, lower, upper = display.region
    n = len(display.decisions)
    x = left + (right - left) * (np.arange(n) + 0.5) / n
    y = lower + (upper - lower) * (np.arange(n) + 0.5) / n
    return np.column_stack([np.tile(x, n), np.repeat(y, n)])


@pytest.mark.parametrize(
    "model",
    [
        FaLKSVC(40),
        FaLKSVC(40, routing="centre"),
        FaLKSVC(40, kernel="poly", degree=2, coef0=1.0, gamma=1.0),
        FastLSVC(40, random_state=0),
        FaLKSVCCV((30, 60), C=(1, 4), gamma_percentile=50, n_centres=4, random_state=0),
    ],
    ids=["falk", "centre", "poly", "fast", "cv"],
)
def test_shows_what_the_model_says(model, data):
    X, y = data
    model.fit(X, y)
    display = LocalModelsDisplay.from_estimator(model, X, y, **SMALL)
    places = grid(display)
    np.testing.assert_array_equal(display.decisions.ravel(), model.predict(places))
    np.testing.assert_allclose(display.centres, X[model.centres_], atol=1e-5)
    # A place near a centre of its own is answered by that centre's machine, and there are others.
    assert len(np.unique(display.routes)) > 1
    assert display.routes.max() < model.n_machines_
    np.testing.assert_array_equal(display.regions_.get_array(), display.decisions)
    assert len(display.points_.get_offsets()) == len(display.points)
    drawn = display.centres_.get_offsets()
    left, right, lower, upper = display.region
    assert 0 < len(drawn) <= model.n_machines_
    assert ((drawn >= [left, lower]) & (drawn <= [right, upper])).all()


def test_a_circle_holds_the_neighbourhood(data):
    X, y = data
    model = FaLKSVC(40, n_assigned=10).fit(X, y)
    display = LocalModelsDisplay.from_estimator(model, X, y, n_neighbourhoods=3, **SMALL)
    assert len(display.outlines) == 3
    assert len(display.outlines_) == 6
    for pair in display.outlines:
        for outline, count in zip(pair, [40, 10], strict=True):
            centre = outline[:-1].mean(axis=0)
            radius = np.linalg.norm(outline[0] - centre)
            assert np.linalg.norm(X[model.centres_] - centre, axis=1).min() < 1e-2
            inside = np.linalg.norm(X - centre, axis=1) < radius * 1.0001
            assert abs(inside.sum() - count) <= 1


def test_routes_are_those_of_the_owners(data):
    X, y = data
    model = FaLKSVC(40).fit(X, y)
    display = LocalModelsDisplay.from_estimator(model, X, y, **SMALL)
    gaps = np.linalg.norm(grid(display)[:, None] - X, axis=2)
    expected = model.owners_[gaps.argmin(axis=1)]
    assert (display.routes.ravel() == expected).mean() > 0.999
    borders = display.borders_.get_array()[..., 3] > 0
    assert borders.any()
    same = display.routes == display.routes[0, 0]
    assert not borders[:-1, :-1][same[:-1, :-1] & same[1:, :-1] & same[:-1, 1:]].any()


def test_a_pipeline_is_drawn_in_the_features_of_its_last_step(data):
    X, y = data
    X = X * [1.0, 1000.0]
    model = make_pipeline(StandardScaler(), FaLKSVC(40)).fit(X, y)
    display = LocalModelsDisplay.from_estimator(model, X, y, **SMALL)
    scaled = model[0].transform(X)
    np.testing.assert_allclose(display.centres, scaled[model[-1].centres_], atol=1e-5)
    places = model[0].inverse_transform(grid(display))
    np.testing.assert_array_equal(display.decisions.ravel(), model.predict(places))
    assert display.ax_.get_xlabel() == "x0"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("features", [(2, 3), "pca", None])
def test_more_features_are_cut_by_a_plane_through_the_mean(features):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = FaLKSVC(40).fit(X, y)
    display = LocalModelsDisplay.from_estimator(model, X, y, features=features, **SMALL)
    if features == (2, 3):
        places = np.tile(X.to_numpy().mean(axis=0), (40 * 40, 1))
        places[:, [2, 3]] = grid(display)
        np.testing.assert_array_equal(display.decisions.ravel(), model.predict(_frame(X, places)))
        assert display.ax_.get_ylabel() == "petal width (cm)"
    else:
        assert "second principal" in display.ax_.get_ylabel()
    assert "plane through the mean" in display.ax_.get_xlabel()
    assert set(display.targets) == {0, 1, 2}
    assert len(display.outlines) > 0


def _frame(like, values):
    return type(like)(values, columns=like.columns)


def test_layers_and_regions(data):
    X, y = data
    model = FaLKSVC(40).fit(X, np.where(y == 1, "$a_", "b"))
    labels = np.where(y == 1, "$a_", "b")
    display = LocalModelsDisplay.from_estimator(
        model, X, labels, layers=["points"], region=(0, 1, 0, 1), legend=False, **SMALL
    )
    assert display.regions_ is display.borders_ is display.centres_ is None
    assert display.outlines_ == []
    inside = ((X >= 0) & (X <= 1)).all(axis=1)
    assert len(display.points) == inside.sum()
    assert display.ax_.get_xlim() == (0, 1)
    figure, ax = plt.subplots()
    again = display.plot(ax)
    assert again.figure_ is figure
    assert len(ax.images) == 2
    figure.draw_without_rendering()  # a class name that looks like a formula is none
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names[:2] == [r"class \$a_", "class b"]
    some = LocalModelsDisplay.from_estimator(model, X, labels, n_points=7, **SMALL)
    assert len(some.points) == 7


def test_errors_say_what_to_do(data):
    X, y = data
    model = FaLKSVC(40).fit(X, y)
    with pytest.raises(TypeError, match="KNNSVC has no cover"):
        LocalModelsDisplay.from_estimator(KNNSVC(40).fit(X, y), X, y)
    with pytest.raises(ValueError, match="two different columns from 0 to 1"):
        LocalModelsDisplay.from_estimator(model, X, y, features=(0, 2))
    with pytest.raises(ValueError, match="is empty"):
        LocalModelsDisplay.from_estimator(model, X, y, region=(1, 0, 0, 1))
    with pytest.raises(ValueError, match="there are only"):
        LocalModelsDisplay.from_estimator(model, X, y, layers=["circles"], **SMALL)
    with pytest.raises(ValueError, match="two features"):
        LocalModelsDisplay.from_estimator(FaLKSVC(40).fit(X[:, :1], y), X[:, :1], y)
    X, y = load_iris(return_X_y=True)
    model = FaLKSVC(40, multi_class="global").fit(X, y)
    with pytest.raises(ValueError, match="multi_class='local'"):
        LocalModelsDisplay.from_estimator(model, X, y)
