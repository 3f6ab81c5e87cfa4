"""Where queries stop, as a picture: its numbers are those of the model and of its machine."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import shuffle

from vicinal.inspection import StoppingDisplay
from vicinal.nsv import NSVClassifier

matplotlib.use("Agg")

DIGITS, NAMES = shuffle(*load_digits(return_X_y=True), random_state=0)
X, QUERIES = DIGITS[:600], DIGITS[600:]
PAPER = {"max_disagreement": None, "start": "bias", "order": "tug_of_war", "max_steps": 1000}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("linear_filter", [False, True])
def test_two_classes(linear_filter):
    model = NSVClassifier(SVC(C=10), linear_filter=linear_filter, random_state=0, **PAPER)
    model.fit(X, NAMES[:600] % 2)
    display = StoppingDisplay.from_estimator(model, QUERIES)
    svc = model.estimator_
    np.testing.assert_allclose(display.outputs, svc.decision_function(QUERIES), atol=1e-4)
    np.testing.assert_array_equal(display.steps, model.n_touched(QUERIES))
    changed = model.predict(QUERIES) != svc.predict(QUERIES)
    np.testing.assert_array_equal(display.changed, changed)
    assert display.filtered.any() == linear_filter
    assert (display.steps[display.filtered] == 0).all()
    filtered, stopped, marked = display.queries_
    assert len(filtered.get_offsets()) == display.filtered.sum()
    assert (filtered.get_offsets()[:, 0] < 0).all()
    np.testing.assert_array_equal(stopped.get_offsets()[:, 0], display.steps[~display.filtered])
    assert len(marked.get_offsets()) == changed.sum() > 0
    low, high = display.lines_
    ((level,),) = [model.model_.levels]
    np.testing.assert_array_equal(low.get_ydata(), -level.thresholds[0])
    np.testing.assert_array_equal(high.get_ydata(), level.thresholds[1])
    assert low.get_xdata()[-1] == len(low.get_xdata()) - 1


def test_more_classes_share_a_line():
    model = NSVClassifier(SVC(C=10), random_state=0, **PAPER).fit(X, NAMES[:600])
    display = StoppingDisplay.from_estimator(model, QUERIES)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_ydata(), model.model_.levels[0].thresholds[0])
    assert (display.outputs[display.changed] <= 0).all()
    assert (display.outputs > 0).mean() > 0.9
    assert "leader" in display.ax_.get_ylabel()


def test_an_index_touches_blocks():
    model = NSVClassifier(SVC(C=10), embedding="index", linear_filter=False, **PAPER)
    display = StoppingDisplay.from_estimator(model.fit(X, NAMES[:600]), QUERIES)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), 16 * np.arange(len(line.get_ydata())))


def test_pipeline_and_axes():
    model = make_pipeline(StandardScaler(), NSVClassifier(SVC(), random_state=0))
    model.fit(X, NAMES[:600] % 2)
    _, ax = plt.subplots()
    display = StoppingDisplay.from_estimator(model, QUERIES, ax=ax)
    assert display.ax_ is ax
    np.testing.assert_array_equal(display.steps, model[-1].n_touched(model[0].transform(QUERIES)))


def test_a_machine_that_is_always_exact():
    display = StoppingDisplay(
        outputs=np.array([0.5, -0.5]),
        steps=np.array([40, 40]),
        filtered=np.zeros(2, dtype=bool),
        changed=np.zeros(2, dtype=bool),
        thresholds=[],
        n_support=40,
        n_classes=2,
    ).plot()
    assert display.lines_ == []
    assert [label.get_text() for label in display.ax_.get_xticklabels()][-1] == "all\n40"


def test_others_stop_nowhere():
    with pytest.raises(TypeError, match="SVC stops nowhere"):
        StoppingDisplay.from_estimator(SVC().fit(X, NAMES[:600]), QUERIES)
