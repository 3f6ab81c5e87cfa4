"""What the commands do is what the library does, told in tables or in one JSON object."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import vicinal as library
from vicinal.cli.models import MODELS, value_of

pytestmark = pytest.mark.usefixtures("files")


def arrays(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_svmlight_file(name)
    return X.toarray(), y.astype(int)


@pytest.fixture
def reference(files):
    X, y = arrays(str(files / "train.svm"))
    return make_pipeline(MinMaxScaler(), library.FaLKSVC(50, C=10)).fit(X, y)


@pytest.fixture
def model(vicinal, files):
    done = vicinal("train", "train.svm", "-o", "model", "--set", "n_neighbors=50", "--set", "C=10")
    assert done.code == 0, done.stderr
    return "model"


def test_accuracy_is_that_of_the_library(vicinal, model, reference):
    X, y = arrays("test.svm")
    found = vicinal("evaluate", "test.svm", "-m", model, "--json").json
    assert found["accuracy"] == reference.score(X, y)
    assert found["balanced_accuracy"] == balanced_accuracy_score(y, reference.predict(X))
    assert found["points"] == sum(each["points"] for each in found["classes"]) == len(y)
    assert np.trace(found["confusion"]) == round(found["accuracy"] * len(y))
    assert found["queries_per_second"] > 0


def test_predictions_are_those_of_the_library(vicinal, model, reference):
    X, _ = arrays("test.svm")
    done = vicinal("predict", "test.svm", "-m", model)
    assert done.text.split() == [str(label) for label in reference.predict(X)]
    assert done.stderr == ""

    lines = [line.split("\t") for line in vicinal(
        "predict", "test.svm", "-m", model, "--decision"
    ).text.splitlines()]  # fmt: skip
    assert [label for label, _ in lines] == done.text.split()
    np.testing.assert_array_equal([float(d) for _, d in lines], reference.decision_function(X))


def test_predictions_as_json(vicinal, model, reference):
    X, _ = arrays("test.svm")
    found = vicinal("predict", "test.svm", "-m", model, "--json", "--decision").json
    assert found["labels"] == reference.predict(X).tolist()
    assert found["decisions"] == reference.decision_function(X).tolist()
    found = vicinal("predict", "test.svm", "-m", model, "--json", "-o", "labels").json
    assert found["output"] == "labels"
    assert found["points"] == len(X)
    assert "labels" not in found
    np.testing.assert_array_equal(np.loadtxt("labels", dtype=int), reference.predict(X))


def test_labels_that_the_model_does_not_know(vicinal, model):
    Path("other.svm").write_text("7 1:1 2:1\n8 1:1 2:2\n")
    done = vicinal("evaluate", "other.svm", "-m", model, "--json")
    assert done.json["accuracy"] == 0
    assert (
        done.stderr
        == "vicinal: warning: no label of other.svm (7, 8) is a class of model (0, 1).\n"
    )


def test_train_reports(vicinal, reference):
    settings = ("--set", "n_neighbors=50", "--set", "C=10")
    report = vicinal("train", "train.svm", "-o", "model", *settings, "--json").json
    assert report["estimator"] == "FaLKSVC"
    assert report["parameters"]["n_neighbors"] == 50
    assert report["machines"] == reference[-1].n_machines_
    assert report["support_vectors"] == reference[-1].n_support_.sum()
    assert report["classes"] == [0, 1]
    assert {"reading", "index", "cover", "training", "saving"} <= set(report["seconds"])
    table = vicinal("train", "train.svm", "-o", "model", *settings).text
    assert "support vectors" in table
    assert f"{report['support_vectors']:,}" in table


@pytest.mark.parametrize("name", MODELS)
def test_every_model_trains_predicts_and_tells_of_itself(vicinal, name):
    few = ("n_vectors=100", "gamma=100")
    special = {
        "falk-cv": ("n_neighbors=[20, 40]",),
        "nsv": ("estimator__gamma=100",),
        "pskc": few,
        "rsvm": few,
        "skla": (*few, "max_iter=2"),
        "reduced-set": ("n_vectors=150", "estimator__gamma=100"),
        "ldkl": ("n_trees=4",),
    }
    chosen = special.get(name, ("n_neighbors=20",))
    settings = [part for setting in chosen for part in ("--set", setting)]
    done = vicinal("train", "train.svm", "-o", "m", "--model", name, *settings, "--seed", 0)
    assert done.code == 0, done.stderr
    assert vicinal("evaluate", "test.svm", "-m", "m", "--json").json["accuracy"] > 0.6
    lines = vicinal("predict", "test.svm", "-m", "m", "--decision").text.splitlines()
    assert len(lines) == 300
    assert [line.split("\t")[0] for line in lines] == vicinal(
        "predict", "test.svm", "-m", "m"
    ).text.split()

    found = vicinal("info", "m", "--json").json
    assert found["estimator"] == MODELS[name]
    assert found["steps"] == ["MinMaxScaler", MODELS[name]]
    assert found["features"] == 2
    assert found["classes"] == [0, 1]
    assert found["bytes"] == Path("m").stat().st_size
    assert sum(array["bytes"] for array in found["arrays"]) < found["bytes"]
    assert MODELS[name] in vicinal("info", "m").text


def test_trees_of_machines(vicinal):
    done = vicinal("train", "train.svm", "-o", "m", "--model", "ldkl", "--set", "depth=5", "--json")
    assert done.json["cost"] == vicinal("info", "m", "--json").json["cost"] == 14
    assert "dot products a query" in vicinal("info", "m").text
    done = vicinal("convert", "m", "1-tree.c", "--json")
    assert done.json["functions"] == "m_1_tree_*"
    source = Path("1-tree.c").read_text(encoding="ascii")
    assert source == library.load("m")[-1].to_c("m_1_tree", scaler=library.load("m")[0])
    vicinal("train", "train.svm", "-o", "machines")
    assert "only ldkl becomes C" in vicinal("convert", "machines", "m.c").stderr
    pytest.importorskip("matplotlib")
    assert vicinal("report", "m", "test.svm").code == 0
    assert "dot products for a query" in Path("report.html").read_text(encoding="utf-8")


def test_nearest_support_vectors(vicinal):
    settings = ["--set", "estimator__gamma=2", "--set", "max_disagreement=0.02", "--seed", 0]
    done = vicinal("train", "train.svm", "-o", "m", "--model", "nsv", *settings, "--json")
    assert done.json["support_vectors"] == library.load("m")[-1].n_support_
    found = vicinal("info", "m", "--json").json
    assert found["calibration"]["disagreement"] <= 0.02
    assert "SVC(gamma=2)" in found["parameters"]["estimator"]
    text = vicinal("info", "m").text
    assert "answered by filter" in text
    assert "SVC(gamma=2)" in text
    pytest.importorskip("matplotlib")
    assert vicinal("report", "m", "test.svm", "-o", "page.html").code == 0
    page = Path("page.html").read_text()
    assert "A query touches" in page
    assert "answered by filter" in page
    for setting, message in [
        ("C=10", "estimator, estimator__C, "),
        ("estimator__C=-1", "The 'C' parameter of SVC must be a float in the range (0.0, inf]"),
    ]:
        done = vicinal("train", "train.svm", "-o", "m", "--model", "nsv", "--set", setting)
        assert done.code == 2
        assert message in done.stderr


@pytest.mark.parametrize(("scale", "steps"), [("standard", 2), ("none", 1)])
def test_scale(vicinal, scale, steps):
    vicinal("train", "train.svm", "-o", "m", "--scale", scale, "--set", "n_neighbors=50")
    loaded = library.load("m")
    assert len(vicinal("info", "m", "--json").json["steps"]) == steps
    if scale == "standard":
        assert isinstance(loaded[0], StandardScaler)


def test_tune_chooses_what_the_library_chooses(vicinal):
    X, y = arrays("train.svm")
    grid = {"n_neighbors": [25, 50], "C": [1, 16]}
    settings = [part for key, value in grid.items() for part in ("--set", f"{key}={value}")]
    chosen = library.FaLKSVCCV(**grid, random_state=3).fit(MinMaxScaler().fit_transform(X), y)

    found = vicinal("tune", "train.svm", *settings, "--seed", 3, "--json").json
    assert found["best_parameters"] == chosen.best_params_
    assert found["best_score"] == chosen.best_score_
    assert found["candidates"][0]["score"] == chosen.best_score_
    assert len(found["candidates"]) == len(chosen.cv_results_["params"])
    assert "model" not in found

    table = vicinal("tune", "train.svm", *settings, "--seed", 3, "-o", "best").text
    assert f"--set n_neighbors={chosen.best_params_['n_neighbors']}" in table
    accuracy = vicinal("evaluate", "test.svm", "-m", "best", "--json").json["accuracy"]
    X_test, y_test = arrays("test.svm")
    assert accuracy == chosen.score(MinMaxScaler().fit(X).transform(X_test), y_test)


def test_evaluate_takes_predictions_of_others(vicinal, model):
    labels = vicinal("predict", "test.svm", "-m", model, "--decision").stdout
    direct = vicinal("evaluate", "test.svm", "-m", model, "--json").json
    piped = vicinal("evaluate", "-", "--labels", "test.svm", "--json", stdin=labels).json
    direct.pop("queries_per_second")
    assert piped == direct
    short = vicinal("evaluate", "-", "--labels", "test.svm", stdin=b"1\n0\n")
    assert short.code == 1
    assert short.stderr == "vicinal: - has 2 labels, and test.svm has 300.\n"


def test_progress_is_for_terminals(vicinal):
    command = ("train", "train.svm", "-o", "m", "--set", "n_neighbors=50", "--json")
    quiet = vicinal(*command)
    shown = vicinal(*command, terminal=True)
    assert quiet.stderr == ""
    assert "read 800 rows" in shown.stderr
    assert "FaLKSVC" in shown.stderr
    assert "100%" in shown.stderr
    assert shown.json["machines"] == quiet.json["machines"]
    assert not hasattr(library.load("m"), "_skl_callbacks")
    shown = vicinal("predict", "test.svm", "-m", "m", "-o", "labels", terminal=True)
    assert "predicted 300 rows" in shown.stderr


def test_convert_to_onnx(vicinal, reference):
    runtime = pytest.importorskip("onnxruntime")
    X, _ = arrays("test.svm")
    settings = ("--set", "n_neighbors=50", "--set", "routing=centre")
    vicinal("train", "train.svm", "-o", "m", *settings)
    done = vicinal("convert", "m", "m.onnx", "--json")
    assert done.json["bytes"] == Path("m.onnx").stat().st_size
    labels = runtime.InferenceSession("m.onnx").run(["label"], {"X": X})[0]
    np.testing.assert_array_equal(labels, library.load("m").predict(X))


def test_convert_says_why_not(vicinal, model):
    pytest.importorskip("onnx")
    done = vicinal("convert", model, "m.onnx")
    assert done.code == 1
    assert "centre" in done.stderr
    assert not Path("m.onnx").exists()


def test_report(vicinal, model, monkeypatch):
    seen = {}

    class Page:
        def write(self, path):
            Path(path).write_text("<html>")

    def model_report(model, X=None, y=None):
        seen.update(model=model, X=X, y=y)
        return Page()

    monkeypatch.setattr("vicinal.report.model_report", model_report)
    done = vicinal("report", model, "test.svm", "-o", "page.html")
    assert done.text == "page.html\n"
    assert Path("page.html").read_text() == "<html>"
    np.testing.assert_array_equal(seen["y"], arrays("test.svm")[1])
    assert seen["X"].shape == (300, 2)
    assert vicinal("report", model, "--json").json["page"] == "report.html"
    assert seen["X"] is seen["y"] is None


def test_report_needs_a_classifier_for_data(vicinal, problem):
    library.save(library.CoverTreeNeighbors().fit(problem.X), "index")
    done = vicinal("report", "index", "test.svm")
    assert done.code == 2
    assert "index is no classifier" in done.stderr


def test_demo(vicinal, monkeypatch):
    def demo(path, *, n_jobs, random_state, on_step, n_samples=100_000):
        on_step(f"Training on {n_samples:,} points")
        return SimpleNamespace(path=path, rows=[{"model": "FaLKSVC", "accuracy": 0.88, "n": None}])

    monkeypatch.setattr(import_module("vicinal.report.demo"), "demo", demo)
    done = vicinal("demo", "-o", "page.html", "--samples", 2000)
    assert "Training on 2,000 points" in done.stderr
    assert "FaLKSVC" in done.text
    assert done.text.splitlines()[-1] == "page.html"
    assert vicinal("demo", "--json").json["rows"][0]["accuracy"] == 0.88


def test_help_and_version(vicinal):
    for command in ("train", "predict", "tune", "evaluate", "info", "report", "convert", "demo"):
        assert command in vicinal().text
        assert f"vicinal {command}" in vicinal(command, "--help").text
    assert vicinal().code == 0
    assert vicinal("--version").text == f"vicinal {library.__version__}\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("250", 250),
        ("1e-3", 0.001),
        ("[1, 4.5]", [1, 4.5]),
        ("(1, 2)", (1, 2)),
        ("True", True),
        ("false", False),
        ("none", None),
        ("null", None),
        ("{1: 2.0}", {1: 2.0}),
        ("'8'", "8"),
        ("rbf", "rbf"),
        ("a=b", "a=b"),
    ],
)
def test_values_of_settings(text, value):
    assert value_of(text) == value
    assert type(value_of(text)) is type(value)
