"""A graph answers as the model does, in ONNX Runtime and in the reference implementation."""

import json
import sys

import numpy as np
import pytest
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_classification,
    make_moons,
)
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, NuSVC

import vicinal
from vicinal import (
    KNNSVC,
    CoverTreeClassifier,
    FaLKSVC,
    FaLKSVCCV,
    FastLSVC,
    KernelMachine,
    LDKLClassifier,
    LDKLRegressor,
    NSVClassifier,
)
from vicinal.io import onnx as vicinal_onnx
from vicinal.io.onnx import to_onnx
from vicinal.sparse import PSKClassifier, ReducedSetClassifier, RSVMClassifier

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")
onnxruntime = pytest.importorskip("onnxruntime")

DATA = {"cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}
KERNELS = {
    "local width": {},
    "one width": {"gamma": "scale"},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2},
    "inhomogeneous": {"kernel": "poly", "gamma": "scale", "coef0": 1.0},
}


def split(name):
    X, y = DATA[name](return_X_y=True)
    return train_test_split(X, y, random_state=0, stratify=y)


def centre(k, **parameters):
    return FaLKSVC(k, routing="centre", **parameters)


def moons(n=400, **parameters):
    X, y = make_moons(n, noise=0.2, random_state=0)
    return X, y, centre(40, **parameters).fit(X, y)


def session(model):
    graph = to_onnx(model)
    onnx.checker.check_model(graph, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph.SerializeToString(), options)


def assert_same(model, Q):
    labels, decisions = session(model).run(["label", "decision"], {"X": Q})
    expected = model.decision_function(Q)
    assert decisions.shape == expected.shape
    assert decisions.dtype == expected.dtype
    np.testing.assert_allclose(decisions, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(labels, model.predict(Q))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
def test_real_data(name, kernel):
    X, Q, y, _ = split(name)
    model = make_pipeline(StandardScaler(), centre(60, **KERNELS[kernel])).fit(X, y)
    assert model[-1].n_machines_ > 3
    assert_same(model, Q)


@pytest.mark.parametrize("name", ["digits", "wine"])
def test_a_model_for_each_pair_of_classes(name):
    X, Q, y, _ = split(name)
    kept = y < 5
    model = make_pipeline(MinMaxScaler(), centre(40, multi_class="global")).fit(X[kept], y[kept])
    assert len(model[-1].models_) > 1
    assert_same(model, Q)


@pytest.mark.parametrize("name", DATA)
def test_unanimous_machines(name):
    X, Q, y, _ = split(name)
    model = make_pipeline(StandardScaler(), centre(6)).fit(X, y)
    assert 0 < model[-1].n_unanimous_ < model[-1].n_machines_
    decisions = model.decision_function(Q)
    assert (np.abs(decisions) == 1).any()
    assert_same(model, Q)


def test_every_machine_unanimous():
    X = np.array([[0.0], [0.1], [5.0], [5.1]])
    model = centre(2).fit(X, [0, 0, 1, 1])
    assert model.n_unanimous_ == model.n_machines_ > 1
    assert_same(model, X)


@pytest.mark.parametrize("routing", ["rank", "first", "centre"])
@pytest.mark.parametrize("name", ["cancer", "wine"])
def test_one_machine_needs_no_route(name, routing):
    X, Q, y, _ = split(name)
    n = len(X)
    model = make_pipeline(StandardScaler(), FaLKSVC(n, n, routing=routing)).fit(X, y)
    assert model[-1].n_machines_ == 1
    assert_same(model, Q)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("name", ["cancer", "wine"])
def test_reduced_sets(name, kernel):
    X, Q, y, _ = split(name)
    machine = make_pipeline(StandardScaler(), SVC(C=10, kernel=kernel, coef0=1.0))
    model = ReducedSetClassifier(machine, 7, random_state=0)
    assert_same(make_pipeline(MinMaxScaler(), model).fit(X, y), Q)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("name", DATA)
def test_machines_of_few_vectors(name, kernel):
    X, Q, y, _ = split(name)
    for model in (PSKClassifier(9, kernel=kernel, coef0=1.0, max_iter=5), RSVMClassifier(9)):
        assert_same(make_pipeline(StandardScaler(), model).fit(X, y), Q)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"n_trees": 3, "constant": 0.5, "sigma": 2.0},
        {"compositional": True},
        {"global_features": "quadratic", "depth": 2},
        {"depth": 1},
        {"embedding": "softmax", "depth": 2, "global_features": "quadratic"},
        {"embedding": "anchors"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["cancer", "wine"])
def test_trees_of_machines(name, parameters):
    X, Q, y, _ = split(name)
    model = LDKLClassifier(**({"depth": 4} | parameters), max_iter=10, random_state=0)
    assert_same(make_pipeline(StandardScaler(), model).fit(X, y), Q)


def test_pruned_trees():
    X, y, _ = moons()
    model = LDKLClassifier(5, n_trees=2, max_iter=5, random_state=0).fit(X, y)
    model.prune(np.median(np.abs(model.model_.forest.gates).max(axis=1)))
    assert (model.model_.forest.children == -1).any()
    assert_same(model, X + 0.01)


def test_numbers():
    X = np.random.default_rng(0).uniform(-3, 3, (500, 2))
    y = 100 * np.sin(X[:, 0]) + 7000
    model = make_pipeline(StandardScaler(), LDKLRegressor(4, max_iter=20, random_state=0))
    model.fit(X, y)
    (predictions,) = session(model).run(None, {"X": X})
    np.testing.assert_allclose(predictions, model.predict(X), rtol=1e-6)
    assert "15 gated linear machines" in to_onnx(model).doc_string


def test_the_other_estimators():
    X, y, _ = moons()
    assert_same(FastLSVC(len(X), len(X), random_state=0).fit(X, y), X + 0.01)
    chosen = FaLKSVCCV((20, 40), C=(1, 10), routing="centre", per_machine=True, random_state=0)
    assert_same(chosen.fit(X, y), X + 0.01)


@pytest.mark.parametrize("algorithm", ["tree", "scan", "kd_tree"])
def test_every_index(algorithm):
    X, _, model = moons(algorithm=algorithm)
    assert_same(model, X + 0.01)


@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler(feature_range=(-2, 1)),
        MinMaxScaler(clip=True),
        MaxAbsScaler(),
        RobustScaler(),
        RobustScaler(with_centering=False),
        RobustScaler(with_scaling=False),
        "passthrough",
        Pipeline([("first", RobustScaler()), ("none", None), ("second", MinMaxScaler())]),
    ],
    ids=str,
)
def test_scalers(scaler):
    X, y, _ = moons()
    Q = 3 * X[:50] + 0.01  # some are outside of what the scalers have seen
    assert_same(make_pipeline(scaler, centre(40)).fit(X, y), Q)


def test_columns_far_from_the_origin():
    X, y, _ = moons()
    far = [1e-6, 1e3] * X + [1.0, 1e9]
    assert_same(make_pipeline(StandardScaler(), centre(40)).fit(far, y), far)
    assert_same(centre(40).fit(far, y), far)


def test_near_points_far_from_the_others():
    rng = np.random.default_rng(0)
    X = np.repeat([[-1.0, 0, 0], [1.0, 0, 0]], 60, axis=0) + 1e-6 * rng.normal(size=(120, 3))
    y = (X[:, 1] > 0).astype(int)
    assert_same(centre(30).fit(X, y), X)


EXPANSIONS = {
    "rbf": SVC(C=10),
    "linear": SVC(kernel="linear"),
    "poly": SVC(kernel="poly", coef0=1.0),
    "sigmoid": SVC(kernel="sigmoid", gamma=0.01),
    "behind a scaler": make_pipeline(MinMaxScaler(), "passthrough", NuSVC(nu=0.05)),
}


class TestNearestVectors:
    """The graph holds the exact machine."""

    @pytest.mark.parametrize("kernel", EXPANSIONS)
    @pytest.mark.parametrize("name", DATA)
    def test_real_data(self, name, kernel):
        X, Q, y, _ = split(name)
        early = NSVClassifier(EXPANSIONS[kernel], random_state=0)
        model = make_pipeline(StandardScaler(), early).fit(X, y)
        labels, decisions = session(model).run(["label", "decision"], {"X": Q})
        svc, scaled = early.estimator_, model[:-1].transform(Q)
        expected = svc.decision_function(scaled)
        scale = 1e-4 * np.abs(expected).max()
        np.testing.assert_allclose(decisions, expected, rtol=1e-3, atol=scale)
        np.testing.assert_array_equal(labels, svc.predict(scaled))

    @pytest.mark.parametrize("offset", [0.0, 100.0])
    @pytest.mark.parametrize("kernel", ["rbf", "normalised_poly", "poly", "sigmoid", "linear"])
    def test_kernel_machines(self, kernel, offset):
        rng = np.random.default_rng(0)
        X, coef = rng.normal(size=(50, 4)) + offset, rng.normal(size=50)
        gamma = 0.1 / (offset or 1.0) ** 2
        machine = KernelMachine(X, coef, 0.1, kernel, gamma=gamma, coef0=0.5, classes=["a", "b"])
        model = NSVClassifier(machine, random_state=0).fit(X)
        labels, decisions = session(model).run(["label", "decision"], {"X": X + 0.1})
        expected = machine.decision_function(X + 0.1)
        atol = 1e-5 * np.abs(coef).sum() * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(decisions, expected, atol=atol)
        known = np.abs(expected) > atol
        np.testing.assert_array_equal(labels[known], machine.predict(X + 0.1)[known])

    def test_ties_and_numbers_of_queries(self):
        X, y = make_classification(600, 8, n_informative=6, n_classes=5, random_state=0)
        for break_ties in (False, True):
            svc = SVC(break_ties=break_ties).fit(X[:200], y[:200])
            run = session(NSVClassifier(FrozenEstimator(svc), random_state=0).fit(X)).run
            np.testing.assert_array_equal(run(["label"], {"X": X})[0], svc.predict(X))
        many = np.tile(X, (20, 1))  # more than one run of the loop takes
        np.testing.assert_array_equal(run(["label"], {"X": many})[0], svc.predict(many))
        labels, decisions = run(None, {"X": X[:0]})
        assert labels.shape == (0,)
        assert decisions.shape == (0, 5)

    def test_loaded_models(self, tmp_path):
        X, y, _ = moons(100)
        model = NSVClassifier(SVC(), random_state=0).fit(X, y)
        vicinal.save(model, tmp_path / "m")
        loaded = to_onnx(vicinal.load(tmp_path / "m"))
        assert loaded.SerializeToString() == to_onnx(model).SerializeToString()
        assert f"the exact machine of {model.n_support_} vectors" in loaded.doc_string

    def test_steps_without_operators(self):
        X, _, y, _ = split("wine")
        with pytest.raises(ValueError, match="knows no PCA"):
            to_onnx(NSVClassifier(make_pipeline(PCA(2), SVC())).fit(X, y))
        with pytest.raises(NotFittedError):
            to_onnx(NSVClassifier())


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_ties_go_to_the_first_centre(kernel):
    X = np.stack(np.meshgrid(range(8), range(8)), axis=-1).reshape(-1, 2).astype(float)
    y = (X.sum(axis=1) % 3).astype(int)
    assert_same(centre(8, kernel=kernel).fit(X, y), np.concatenate([X, X + 0.5]))


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["yes", "nö"]),
        np.array(["a", "b"], dtype=object),
        np.array([-7, 2**40]),
        np.array([3, 250], dtype=np.uint8),
        np.array([False, True]),
        np.array([0.0, 1.0], dtype=np.float32),
    ],
    ids=lambda classes: f"{classes.dtype}",
)
def test_labels(classes):
    X, y, _ = moons(120)
    model = centre(40).fit(X, classes[y])
    (labels,) = session(model).run(["label"], {"X": X})
    np.testing.assert_array_equal(labels, model.predict(X))
    assert labels.dtype.kind == {"U": "O", "u": "i"}.get(classes.dtype.kind, labels.dtype.kind)


def test_any_number_of_queries():
    X, y, _ = moons()
    three = centre(40).fit(X, y + (X[:, 0] > 1.5))
    for model in (three, centre(len(X), n_assigned=len(X)).fit(X, y)):
        run, expected = session(model).run, model.decision_function(X)
        alone = [run(["decision"], {"X": x[None]})[0] for x in X[:5]]
        np.testing.assert_allclose(np.concatenate(alone), expected[:5], atol=1e-5)
        many = np.tile(X, (30, 1))  # more than one run of the loop takes
        (decisions,) = run(["decision"], {"X": many})
        np.testing.assert_allclose(decisions, np.concatenate([expected] * 30), atol=1e-5)
        labels, decisions = run(None, {"X": X[:0]})
        assert labels.shape == (0,)
        assert decisions.shape == (0, *expected.shape[1:])


@pytest.mark.parametrize("name", ["cancer", "wine"])
def test_the_reference_implementation_agrees(name):
    X, Q, y, _ = split(name)
    model = make_pipeline(StandardScaler(), centre(40)).fit(X, y)
    runtime = reference.ReferenceEvaluator(to_onnx(model))
    labels, decisions = runtime.run(None, {"X": Q[:20]})
    np.testing.assert_allclose(decisions, model.decision_function(Q[:20]), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(labels, model.predict(Q[:20]))


def test_what_the_graph_says_of_itself():
    _, _, model = moons(C=2.0)
    graph = to_onnx(make_pipeline(model))
    metadata = {entry.key: entry.value for entry in graph.metadata_props}
    assert graph.producer_name == "vicinal"
    assert metadata["class"] == "FaLKSVC"
    assert json.loads(metadata["parameters"])["C"] == 2.0
    assert f"{model.n_machines_} local" in graph.doc_string
    assert [entry.name for entry in graph.graph.input] == ["X"]
    assert [entry.name for entry in graph.graph.output] == ["label", "decision"]


def test_points_are_kept_once():
    X = np.random.default_rng(0).normal(size=(300, 20))
    model = centre(150, n_assigned=10).fit(X, X[:, 0] > 0)
    assert model.n_support_.sum() > 5 * len(X)
    assert to_onnx(model).ByteSize() < 20 * model.n_support_.sum()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FaLKSVC(20), "finds the machine .* by its nearest training point.*routing='centre'"),
        (FaLKSVC(20, multi_class="global"), "routing='centre'"),
        (FastLSVC(20), "routing='centre'"),
        (KNNSVC(20), "KNNSVC answers from its training set.*routing='centre'"),
        (CoverTreeClassifier(), "CoverTreeClassifier answers from its training set"),
        (SVC(), "takes a FaLKSVC.* got a SVC"),
        (make_pipeline(PCA(), centre(20)), "knows no PCA.*StandardScaler"),
    ],
    ids=str,
)
def test_what_has_no_graph(model, message):
    X, y, _ = moons(100)
    with pytest.raises(ValueError, match=message):
        to_onnx(model.fit(X, y + (X[:, 0] > 1.5)))


def test_labels_that_onnx_cannot_hold():
    X, y, _ = moons(100)
    model = centre(20).fit(X, y.astype(np.uint64) + np.uint64(2**63))
    with pytest.raises(ValueError, match=r"labels like .*9223372036854775808"):
        to_onnx(model)


def test_a_model_without_machines():
    with pytest.raises(NotFittedError):
        to_onnx(make_pipeline(StandardScaler(), FaLKSVC()))
    X, y, _ = moons(100)
    chosen = FaLKSVCCV(20, routing="centre", refit=False, random_state=0).fit(X, y)
    with pytest.raises(NotFittedError):
        to_onnx(chosen)


def test_a_model_too_large_for_a_file(monkeypatch):
    _, _, model = moons()
    monkeypatch.setattr(vicinal_onnx, "_MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"takes [\d,]+ bytes.*vicinal.save"):
        to_onnx(model)


def test_without_onnx(monkeypatch):
    _, _, model = moons()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'vicinal\[onnx\]'"):
        to_onnx(model)
