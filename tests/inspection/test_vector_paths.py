"""Paths of vectors: they begin at the start, and end where the machine has its vectors."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import make_blobs

from vicinal import PSKClassifier, RSVMClassifier, SKLAClassifier
from vicinal.inspection import VectorPathsDisplay

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def clusters(n_features=2):
    return make_blobs(200, n_features=n_features, centers=4, random_state=0)


@pytest.mark.parametrize("classifier", [PSKClassifier, SKLAClassifier])
def test_paths_lead_from_the_start_to_the_machine(classifier):
    X, y = clusters()
    far = X[:4] + 3
    model = classifier(init=far, gamma=0.1, C=10, max_iter=10, random_state=0)
    display = VectorPathsDisplay.from_estimator(model, X, y)
    assert not hasattr(model, "expansion_")
    fitted = model.fit(X, y)
    assert display.paths.shape == (fitted.n_iter_ + 1, 4, 2)
    np.testing.assert_allclose(display.paths[0], far, atol=1e-5)
    np.testing.assert_allclose(display.paths[-1], fitted.vectors_, atol=1e-4)
    np.testing.assert_allclose(display.objective[1:], fitted.objective_, rtol=1e-4)
    assert len(display.path_lines_) == 4
    assert len(display.objective_line_.get_ydata()) == fitted.n_iter_ + 1


def test_many_features_are_seen_on_a_plane():
    X, y = clusters(5)
    model = PSKClassifier(6, C=10, max_iter=5, random_state=0)
    by_default = VectorPathsDisplay.from_estimator(model, X, y)
    assert by_default.paths.shape[1:] == (6, 2)
    columns = VectorPathsDisplay.from_estimator(model, X, y, features=(3, 1))
    np.testing.assert_allclose(columns.places, X[:, [3, 1]])
    assert columns.axes_[0].get_xlabel() == "feature 3"


def test_machines_that_stay_have_no_paths():
    with pytest.raises(TypeError, match="RSVMClassifier moves no vectors"):
        VectorPathsDisplay.from_estimator(RSVMClassifier(), *clusters())
