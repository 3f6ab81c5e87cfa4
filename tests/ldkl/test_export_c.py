"""The C source of trained trees, compiled, answers as they do."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from tests.ldkl.forests import FORMS, random_forest

from vicinal import LDKLClassifier, LDKLRegressor
from vicinal.ldkl.export_c import classifier_source
from vicinal.ldkl.forest import LDKLModel
from vicinal.problem import Frame

COMPILER = shutil.which("cc")
STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]

needs_a_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture
def compiled(tmp_path):
    """Return functions of a C source: those of single queries, for rows of them."""

    def build(source, n_outputs, answer=ctypes.c_int, name="ldkl"):
        (tmp_path / "trees.c").write_text(source, encoding="ascii")
        library = tmp_path / "trees.so"
        done = subprocess.run(
            [COMPILER, *STRICT, "trees.c", "-o", str(library), "-lm"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        loaded = ctypes.CDLL(str(library))
        pointer = ctypes.POINTER(ctypes.c_float)
        one, score_one = getattr(loaded, f"{name}_predict"), getattr(loaded, f"{name}_scores")
        one.argtypes, one.restype = [pointer], answer
        score_one.argtypes, score_one.restype = [pointer, pointer], None

        def predict(X):
            return np.array([one(x.ctypes.data_as(pointer)) for x in X.astype(np.float32)])

        def scores(X):
            out = np.empty((len(X), n_outputs), dtype=np.float32)
            for x, row in zip(X.astype(np.float32), out, strict=True):
                score_one(x.ctypes.data_as(pointer), row.ctypes.data_as(pointer))
            return out

        return predict, scores

    return build


@needs_a_compiler
@pytest.mark.parametrize("depths", [(1,), (4,), (3, 5)], ids=str)
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_scores_of_every_form(form, n_outputs, depths, compiled):
    forest = random_forest(6, depths, n_outputs, form)
    model = LDKLModel(Frame(np.zeros(6), 1.0), forest)
    source = classifier_source(model, np.arange(max(2, n_outputs)), "ldkl")
    X = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32)
    predict, scores = compiled(source, n_outputs)
    expected = model.score(X)
    atol = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(scores(X), expected, rtol=1e-5, atol=atol)
    codes = expected.argmax(axis=1) if n_outputs > 1 else expected[:, 0] > 0
    np.testing.assert_array_equal(predict(X), codes)


@needs_a_compiler
@pytest.mark.parametrize(
    ("n_classes", "parameters"),
    [
        (2, {}),
        (2, {"n_trees": 3, "constant": 0.5}),
        (2, {"global_features": "quadratic", "loss": "hinge"}),
        (2, {"compositional": True, "sigma": 0.5}),
        (5, {}),
        (5, {"n_trees": 2, "compositional": True, "global_features": "quadratic"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("offset", [0.0, 1000.1])
def test_classifiers(n_classes, parameters, offset, compiled):
    X, y = make_blobs(600, 3, centers=3 * n_classes, cluster_std=1.5, random_state=0)
    X = (X + offset).astype(np.float32)
    model = LDKLClassifier(4, max_iter=10, random_state=0, **parameters).fit(X, y % n_classes)
    decisions = model.decision_function(X)
    predict, scores = compiled(
        model.to_c("trees_of_4"), model.model_.forest.n_outputs, name="trees_of_4"
    )
    np.testing.assert_allclose(scores(X).reshape(decisions.shape), decisions, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(model.classes_[predict(X)], model.predict(X))


@needs_a_compiler
@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e30, 1e-39])
def test_units_of_the_features(unit, compiled):
    X, y = make_moons(300, noise=0.1, random_state=0)
    X *= unit
    model = LDKLClassifier(3, max_iter=20, random_state=0).fit(X, y)
    predict, _ = compiled(model.to_c(), 1)
    queries = X.astype(np.float32)
    np.testing.assert_array_equal(predict(queries), model.predict(queries))
    far = np.array([[3e38, 0], [-3e38, 3e38]], dtype=np.float32)
    np.testing.assert_array_equal(predict(far), model.predict(far))


@needs_a_compiler
def test_origins_that_single_precision_does_not_hold(compiled):
    model = LDKLModel(Frame(np.full(2, 1 / 3), 1 / 3), random_forest(2))
    X = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    _, scores = compiled(classifier_source(model, np.arange(2), "ldkl"), 1)
    np.testing.assert_allclose(scores(X), model.score(X), rtol=1e-4, atol=1e-4)


@needs_a_compiler
@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler((-1, 3)),
        MaxAbsScaler(),
        RobustScaler(),
        RobustScaler(with_centering=False, with_scaling=False),
        make_pipeline(MinMaxScaler(), "passthrough", StandardScaler()),
    ],
    ids=str,
)
def test_scalers(scaler, compiled):
    X, y = make_moons(300, noise=0.1, random_state=0)
    X = (X * [3.0, 0.01] + [5.0, -0.2]).astype(np.float32).astype(np.float64)
    model = make_pipeline(scaler, LDKLClassifier(4, max_iter=20, random_state=0)).fit(X, y)
    predict, scores = compiled(model[-1].to_c(scaler=model[:-1]), 1)
    decisions = model.decision_function(X)
    np.testing.assert_allclose(scores(X)[:, 0], decisions, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(predict(X), decisions > 0)


@needs_a_compiler
def test_pruned_trees(compiled):
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = LDKLClassifier(4, max_iter=20, random_state=0).fit(X, y)
    sizes = np.abs(model.model_.forest.gates).max(axis=1)
    model.prune(np.median(sizes))
    assert (model.model_.forest.children == -1).any()
    predict, _ = compiled(model.to_c(), 1)
    queries = X.astype(np.float32)
    np.testing.assert_array_equal(predict(queries), model.predict(queries))


@needs_a_compiler
def test_regressors(compiled):
    X = np.random.default_rng(0).uniform(-3, 3, (500, 2)).astype(np.float32)
    model = LDKLRegressor(4, n_trees=2, max_iter=20, random_state=0)
    model.fit(X, 100 * np.sin(X[:, 0]) + 7000)
    predict, _ = compiled(model.to_c(), 1, ctypes.c_float)
    np.testing.assert_allclose(predict(X), model.predict(X), rtol=1e-6)


@needs_a_compiler
def test_labels_stay_in_their_comment(compiled):
    X, y = make_moons(100, random_state=0)
    labels = np.array(["*/ # error /*", "ä\n\\ ??/"])[y]
    model = LDKLClassifier(2, max_iter=5, random_state=0).fit(X, labels)
    predict, _ = compiled(model.to_c(), 1)
    queries = X.astype(np.float32)
    np.testing.assert_array_equal(model.classes_[predict(queries)], model.predict(queries))


def test_what_is_no_c():
    with pytest.raises(NotFittedError):
        LDKLClassifier().to_c()
    X, y = make_moons(100, random_state=0)
    with pytest.raises(ValueError, match="name of a function, got '2nd'"):
        LDKLClassifier(2, max_iter=1).fit(X, y).to_c("2nd")
    for scaler, message in [
        (Normalizer(), "got a Normalizer"),
        (MinMaxScaler(clip=True).fit(X), "has clip=True"),
    ]:
        with pytest.raises(ValueError, match=message):
            LDKLClassifier(2, max_iter=1).fit(X, y).to_c(scaler=scaler)
    with pytest.raises(ValueError, match="embedding='tree'"):
        LDKLClassifier(2, max_iter=1, embedding="softmax").fit(X, y).to_c()
