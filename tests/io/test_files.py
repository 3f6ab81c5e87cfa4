"""A loaded model is the model; whatever else a file holds is refused with the reason."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, NuSVC

import vicinal
from reference.mutations import damaged, forge
from vicinal import (
    KNNSVC,
    CoverTreeClassifier,
    CoverTreeNeighbors,
    FaLKSVC,
    FaLKSVCCV,
    FastLSVC,
    ModelFormatError,
)
from vicinal.io import container, describe
from vicinal.ldkl import LDKLClassifier, LDKLRegressor
from vicinal.nsv import KernelMachine, NSVClassifier
from vicinal.sparse import PSKClassifier, ReducedSetClassifier, RSVMClassifier, SKLAClassifier

VERSION_1 = Path(__file__).parent / "version_1.safetensors"

EXPANSION = KernelMachine(
    np.arange(15.0).reshape(5, 3),
    np.array([1.0, -2.0, 1.5, -0.5, 1.0]),
    bias=0.25,
    kernel="normalised_poly",
    coef0=0.5,
    classes=np.array(["a", "b"]),
)

MODELS = [
    FaLKSVC(20, C=4.0, n_jobs=2),
    FaLKSVC(20, kernel="linear", routing="centre", algorithm="kd_tree"),
    FaLKSVC(20, kernel="poly", gamma=0.3, degree=2, coef0=1, algorithm="tree"),
    FaLKSVC(20, multi_class="global", class_weight="balanced"),
    FaLKSVC(np.int64(20), C=np.float32(2), algorithm="scan"),
    FastLSVC(20, random_state=0),
    FaLKSVCCV((10, 20), C=(1, 8), random_state=0),
    FaLKSVCCV((10, 20), gamma=["local", "scale", 0.5], per_machine=True, random_state=0),
    FaLKSVCCV(10, refit=False, random_state=0),
    KNNSVC(20),
    KNNSVC(20, C=[1, 16], selection="internal", algorithm="kd_tree"),
    CoverTreeClassifier(3, weights="distance"),
    CoverTreeClassifier(3, algorithm="kd_tree"),
    CoverTreeNeighbors(4, metric="rbf", gamma=0.5, algorithm="tree"),
    NSVClassifier(random_state=0),
    NSVClassifier(
        make_pipeline(StandardScaler(), "passthrough", SVC(C=10, gamma=2.0, break_ties=True)),
        max_disagreement=None,
        n_components=2,
        random_state=0,
    ),
    NSVClassifier(NuSVC(nu=0.2, kernel="poly", coef0=1), n_components=1, max_disagreement=None),
    NSVClassifier(embedding="kernel_pca", max_disagreement=None, n_components=5, random_state=0),
    NSVClassifier(embedding="index", max_disagreement=None, random_state=0),
    NSVClassifier(SVC(kernel="linear"), random_state=0),
    NSVClassifier(FaLKSVC(20), random_state=0),
    NSVClassifier(EXPANSION, max_disagreement=None, n_components=2, order="tug_of_war"),
    make_pipeline(MinMaxScaler(), NSVClassifier(SVC(kernel="sigmoid"), random_state=0)),
    EXPANSION,
    ReducedSetClassifier(n_vectors=9, random_state=0),
    PSKClassifier(9, max_iter=5, learn_gamma=True, early_stopping=True, random_state=0),
    make_pipeline(StandardScaler(), PSKClassifier(9, kernel="poly", max_iter=5, random_state=0)),
    SKLAClassifier(5, max_iter=2, random_state=0),
    RSVMClassifier(init=np.eye(3), class_weight="balanced"),
    make_pipeline(
        MinMaxScaler(),
        ReducedSetClassifier(make_pipeline(StandardScaler(), NuSVC(nu=0.2, kernel="poly")), 5),
    ),
    ReducedSetClassifier(SVC(kernel="linear")),
    LDKLClassifier(3, n_trees=2, max_iter=2, random_state=0, sharpness=(2, 50.0)),
    LDKLClassifier(2, embedding="softmax", max_iter=2, early_stopping=True, random_state=0),
    make_pipeline(
        StandardScaler(), LDKLRegressor(2, global_features="quadratic", max_iter=2, random_state=0)
    ),
    *(
        make_pipeline(scaler, FaLKSVC(20))
        for scaler in (MaxAbsScaler(), MinMaxScaler(), RobustScaler(), StandardScaler())
    ),
]


def data(labels=range(3)):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3)) * [1, 10, 100] + 5
    y = np.digitize(X[:, 0] - 5 + rng.normal(size=240) / 5, [-0.5, 0.5])
    return X[:200], np.asarray(list(labels))[y[:200]], X[200:]


def answers(model, Q):
    if getattr(model, "refit", True):
        for method in ("decision_function", "predict", "predict_proba", "kneighbors", "n_touched"):
            if hasattr(model, method):
                found = getattr(model, method)(Q)
                yield from found if isinstance(found, tuple) else (found,)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    X, y, _ = data()
    vicinal.save(FaLKSVC(20).fit(X, y), path)
    return path


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_round_trip(model, tmp_path):
    X, y, Q = data()
    path = tmp_path / "model"
    vicinal.save(model.fit(X, y), path)
    loaded = vicinal.load(path)
    for expected, found in zip(answers(model, Q), answers(loaded, Q), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert str(loaded.get_params()) == str(model.get_params())
    public = {name for name in vars(model) if name.endswith("_")} - {"estimator_"}
    assert {name for name in vars(loaded) if name.endswith("_")} == public
    vicinal.save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "labels", [["no", "ja é", "🙂"], [True, False, True], [1.0, -2.0, 7.0], [-(2**62), 0, 2**62]]
)
@pytest.mark.parametrize("dtype", [None, object])
def test_labels(labels, dtype, tmp_path):
    if dtype is object and not isinstance(labels[0], str):
        pytest.skip("scikit-learn takes no other objects for labels")
    X, y, Q = data(labels)
    model = FaLKSVC(20).fit(X, y.astype(dtype or y.dtype))
    vicinal.save(model, tmp_path / "m")
    found = vicinal.load(tmp_path / "m").predict(Q)
    assert found.dtype == model.classes_.dtype
    np.testing.assert_array_equal(found, model.predict(Q))


def test_feature_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y, Q = data()
    names = ["a", "grün", "c"]
    model = FaLKSVC(20).fit(pandas.DataFrame(X, columns=names), y)
    vicinal.save(model, tmp_path / "m")
    loaded = vicinal.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.feature_names_in_, names)
    frame = pandas.DataFrame(Q, columns=names)
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["c", "a", "grün"]])


class TestNearestVectors:
    """Of the estimator that was wrapped, a file holds the recipe."""

    def test_what_was_wrapped_can_be_fitted_again(self, tmp_path):
        X, y, Q = data()
        model = NSVClassifier(make_pipeline(RobustScaler(), SVC(C=7)), random_state=0).fit(X, y)
        vicinal.save(model, tmp_path / "m")
        loaded = vicinal.load(tmp_path / "m")
        assert not hasattr(loaded, "estimator_")
        assert not hasattr(loaded.estimator[-1], "support_")
        assert loaded.fidelity_check(Q, share=1.0, limit=1.0).n_checked > 0
        again = loaded.fit(X, y)
        np.testing.assert_array_equal(again.decision_function(Q), model.decision_function(Q))

    def test_what_was_frozen_is_not(self, tmp_path):
        X, y, Q = data()
        model = NSVClassifier(FrozenEstimator(SVC().fit(X, y)), random_state=0).fit(X)
        vicinal.save(model, tmp_path / "m")
        loaded = vicinal.load(tmp_path / "m")
        np.testing.assert_array_equal(loaded.predict(Q), model.predict(Q))
        with pytest.raises(NotFittedError):
            loaded.fit(X)
        vicinal.save(NSVClassifier(EXPANSION, random_state=0).fit(X), tmp_path / "m")
        assert vicinal.load(tmp_path / "m").fit(X).estimator_.bias == EXPANSION.bias

    def test_steps_that_a_file_cannot_hold(self, tmp_path):
        X, y, _ = data()
        model = NSVClassifier(make_pipeline(PCA(2), SVC())).fit(X, y)
        with pytest.raises(TypeError, match=r"PCA.*a model file cannot hold"):
            vicinal.save(model, tmp_path / "m")

    @pytest.mark.parametrize(
        ("place", "change"),
        [
            ("expansion.support", lambda a: a + np.inf),
            ("expansion.support", lambda a: a[:, :-1]),
            ("expansion.vectors", lambda a: np.pad(a, [(0, 0), (0, 1)])),
            ("expansion.vectors", lambda a: a.astype(np.float64)),
            ("expansion.class_sv", lambda a: -a),
            ("expansion.class_sv", lambda a: a + 1),
            ("expansion.bias", lambda a: a[:-1]),
            ("expansion.frame.offset", lambda a: a[:-1]),
            ("machine.axes", lambda a: np.tile(a, (5, 1))),
            ("machine.axes", lambda a: a * np.nan),
            ("levels[0].thresholds", lambda a: a[:-1]),
            ("levels[0].thresholds", lambda a: np.tile(a, 9)),
            ("linear.weights", lambda a: a[:-1]),
            ("linear.thresholds", lambda a: a[:-1]),
        ],
    )
    def test_parts_that_do_not_fit(self, place, change, tmp_path):
        X, y, _ = data()
        scaled = make_pipeline(StandardScaler(), SVC(C=10))
        model = NSVClassifier(scaled, max_disagreement=None, n_components=2, random_state=0)
        vicinal.save(model.fit(X, y), tmp_path / "m")
        contents = container.read(tmp_path / "m")
        name = f"model.model_.{place}"
        arrays = contents.arrays | {name: np.ascontiguousarray(change(contents.arrays[name]))}
        container.write(tmp_path / "m", contents.document, arrays, "0")
        with pytest.raises(ModelFormatError):
            vicinal.load(tmp_path / "m")


class TestReducedSets:
    """A file holds the expansion, and of the estimator the recipe."""

    def test_what_was_reduced_can_be_fitted_again(self, tmp_path):
        X, y, Q = data()
        model = ReducedSetClassifier(SVC(C=7), n_vectors=9, random_state=0).fit(X, y)
        vicinal.save(model, tmp_path / "m")
        loaded = vicinal.load(tmp_path / "m")
        assert not hasattr(loaded, "estimator_")
        again = loaded.fit(X, y)
        np.testing.assert_array_equal(again.decision_function(Q), model.decision_function(Q))

    @pytest.mark.parametrize(
        ("place", "change"),
        [
            ("coef", lambda a: a[:-1]),
            ("coef", lambda a: a * np.nan),
            ("coef", lambda a: a[:, :-1]),
            ("bias", lambda a: a[:-1]),
            ("vectors", lambda a: np.pad(a, [(0, 0), (0, 1)])),
            ("vectors", lambda a: a.astype(np.float64)),
        ],
    )
    def test_parts_that_do_not_fit(self, place, change, tmp_path):
        X, y, _ = data()
        vicinal.save(ReducedSetClassifier(n_vectors=9).fit(X, y), tmp_path / "m")
        contents = container.read(tmp_path / "m")
        name = f"model.expansion_.{place}"
        arrays = contents.arrays | {name: np.ascontiguousarray(change(contents.arrays[name]))}
        container.write(tmp_path / "m", contents.document, arrays, "0")
        with pytest.raises(ModelFormatError):
            vicinal.load(tmp_path / "m")


def test_loaded_models_fit_again(saved):
    X, y, Q = data()
    again = vicinal.load(saved).fit(X, y)
    np.testing.assert_array_equal(again.predict(Q), vicinal.load(saved).predict(Q))


def test_size_is_that_of_the_arrays(tmp_path):
    X = np.random.default_rng(0).uniform(size=(20_000, 8))
    y = (X[:, 0] + X[:, 1] > 1).astype(int)
    vicinal.save(FaLKSVC(100, algorithm="tree").fit(X, y), tmp_path / "m")
    found = describe(tmp_path / "m")
    assert found.n_bytes == (tmp_path / "m").stat().st_size
    assert found.n_bytes - sum(array.nbytes for array in found.arrays.values()) < 10_000
    # The points are there once, though problem, index and machines all have them.
    of_points = [name for name, array in found.arrays.items() if array.nbytes >= X.size * 4]
    assert of_points == ["model.models_[0].problem.points"]
    assert found.library_version == vicinal.__version__


def test_version_1_stays_readable():
    """Files of the first format, made once and for all, keep their answers."""
    model = vicinal.load(VERSION_1)
    assert describe(VERSION_1).format_version == 1
    Q = [[0.0, 1.0], [1.0, -0.5], [0.5, 0.25], [2.0, 0.5]]
    np.testing.assert_array_equal(model.predict(Q), ["upper", "lower", "lower", "lower"])
    expected = np.load(VERSION_1.with_suffix(".npy"))
    np.testing.assert_allclose(model.decision_function(Q), expected, rtol=1e-5)


def test_newer_version_is_refused(saved, monkeypatch):
    model = vicinal.load(saved)
    monkeypatch.setattr(container, "VERSION", 2)
    vicinal.save(model, saved)
    monkeypatch.undo()
    with pytest.raises(ModelFormatError, match=r"model.safetensors .*format 2.*upgrade vicinal"):
        vicinal.load(saved)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "does not begin like"),
        (b"\x80\x04\x95" + bytes(100), "does not begin like"),
        (b"\x10" + bytes(7) + b'{"a":1}', "ends inside its header"),
        (b"\x02" + bytes(7) + b"{}", "not that of a model file"),
        (b"\x02" + bytes(7) + b"[]", "not that of a model file"),
        ((4 << 20).to_bytes(8, "little") + b"[" * (4 << 20), "more than that of any model"),
    ],
)
def test_other_files(content, reason, tmp_path):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFormatError, match=reason):
        vicinal.load(tmp_path / "m")


def test_damaged_files(saved):
    rng = np.random.default_rng(0)
    for kind, content in islice(damaged(saved.read_bytes(), rng), 2000):
        (saved.parent / "damaged").write_bytes(content)
        with pytest.raises(ModelFormatError) as error:
            vicinal.load(saved.parent / "damaged")
        assert "damaged is no usable model: " in str(error.value), kind


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.filterwarnings("ignore")  # of NumPy, about numbers that a file made up
def test_forged_files(model, tmp_path):
    """A checksum is no proof of good will: a file that holds one may still hold anything."""
    X, y, Q = data()
    vicinal.save(model.fit(X, y), tmp_path / "true")
    rng = np.random.default_rng(0)
    outcomes = {"refused": 0, "loaded": 0}
    for _ in range(100):
        forge(tmp_path / "true", tmp_path / "forged", rng)
        try:
            loaded = vicinal.load(tmp_path / "forged")
        except ModelFormatError:
            outcomes["refused"] += 1
            continue
        outcomes["loaded"] += 1
        with contextlib.suppress(ValueError):  # its numbers may make no sense to it either
            list(answers(loaded, Q))
    assert outcomes["refused"] > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: LogisticRegression().fit(X, y), "got a LogisticRegression"),
        (lambda X, y: StandardScaler().fit(X), "got a StandardScaler"),
        (
            lambda X, y: FastLSVC(20, random_state=np.random.RandomState(0)).fit(X, y),
            r"model.parameters\['random_state'\] is a numpy.random.mtrand.RandomState",
        ),
    ],
)
def test_what_cannot_be_saved(make, message, tmp_path):
    X, y, _ = data()
    with pytest.raises(TypeError, match=message):
        vicinal.save(make(X, y), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_saving_where_nothing_can_be_saved(saved):
    with pytest.raises(NotFittedError):
        vicinal.save(FaLKSVC(), saved)
    with pytest.raises(FileNotFoundError, match="is no folder"):
        vicinal.save(vicinal.load(saved), saved.parent / "nowhere" / "m")
    with pytest.raises(ValueError, match="is no plain file"):
        vicinal.save(vicinal.load(saved), saved.parent)
    with pytest.raises(FileNotFoundError):
        vicinal.load(saved.parent / "nothing")


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()
    X, y, _ = data()

    def fail(*arguments):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        vicinal.save(FaLKSVC(30).fit(X, y), saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_links_stay_links(saved):
    link = saved.parent / "link"
    link.symlink_to(saved)
    X, y, _ = data()
    vicinal.save(FaLKSVC(30).fit(X, y), link)
    assert link.is_symlink()
    assert vicinal.load(saved).n_neighbors == 30


SAVE_FOR_EVER = """
import sys, vicinal
model = vicinal.load(sys.argv[1])
print("saving", flush=True)
while True:
    vicinal.save(model, sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_kill_during_save(saved):
    expected = saved.read_bytes()
    for delay in np.linspace(0.0, 0.05, 4):
        with subprocess.Popen(
            [sys.executable, "-c", SAVE_FOR_EVER, str(saved)], stdout=subprocess.PIPE, text=True
        ) as process:
            guard = threading.Timer(60, process.kill)
            guard.start()
            assert process.stdout.readline() == "saving\n"
            time.sleep(delay)
            os.kill(process.pid, signal.SIGKILL)
            guard.cancel()
        assert saved.read_bytes() == expected


def test_nothing_is_unpickled(saved, monkeypatch):
    """No import and no pickle happens on behalf of a file."""
    import pickle

    def refuse(*arguments, **named):
        raise AssertionError("a pickle was read")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    before = set(sys.modules)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vicinal.load(saved)
    assert set(sys.modules) == before
