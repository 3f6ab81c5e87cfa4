"""A model that was trained with names of columns finds them again, wherever they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vicinal as library
from vicinal.cli.data import delimited

ENDINGS = ["csv", "tsv", "parquet"]
NAMES = ["a", "b", "c"]

rng = np.random.default_rng(0)
POINTS = rng.normal(size=(90, 3)) * [1.0, 10.0, 100.0]
TABLE = dict(zip(NAMES, POINTS.T, strict=True)) | {
    "label": (POINTS[:, 0] > 0).astype(int),
    "id": np.arange(90),
    "note": np.array([f"row {i}" for i in range(90)]),
}


def put(path: str, *names: str, header: bool = True) -> None:
    """Write some columns of the table."""
    if path.endswith("parquet"):
        arrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        pyarrow.parquet.write_table(arrow.table({name: TABLE[name] for name in names}), path)
        return
    delimiter = "\t" if path.endswith("tsv") else ","
    rows = zip(*(TABLE[name].tolist() for name in names), strict=True)
    lines = [list(names)] * header + [[str(cell) for cell in row] for row in rows]
    Path(path).write_text("".join(f"{delimiter.join(line)}\n" for line in lines))


def fit(vicinal, path: str, *options: str) -> np.ndarray:
    """Train a model from a file whose labels come first, and return what it predicts."""
    put(path, "label", *NAMES)
    done = vicinal("train", path, "--target", "label", "-o", "m", *options, *SETTINGS)
    assert done.code == 0, done.stderr
    model = library.load("m")
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        return model.predict(POINTS)


SETTINGS = ("--set", "n_neighbors=20")


@pytest.mark.parametrize(
    ("ending", "arrow"), [("csv", True), ("csv", False), ("tsv", True), ("parquet", True)]
)
@pytest.mark.parametrize(
    "names",
    [
        ["label", "a", "b", "c"],
        ["a", "b", "c", "label"],
        ["c", "label", "a", "b"],
        ["b", "c", "a"],
        ["note", "c", "b", "id", "a", "label"],
    ],
)
def test_predict_finds_features_by_name(vicinal, names, ending, arrow, monkeypatch):
    if not arrow:
        monkeypatch.setattr(delimited, "pyarrow", None)
    expected = fit(vicinal, f"train.{ending}")
    put(f"new.{ending}", *names)
    done = vicinal("predict", f"new.{ending}", "-m", "m")
    assert done.stderr == ""
    assert [int(label) for label in done.text.split()] == expected.tolist()


@pytest.mark.parametrize("ending", ENDINGS)
def test_evaluate_finds_the_labels(vicinal, ending):
    expected = (fit(vicinal, f"train.{ending}") == TABLE["label"]).mean()

    def evaluate(*names, target=()):
        put(f"new.{ending}", *names)
        return vicinal("evaluate", f"new.{ending}", "-m", "m", "--json", *target)

    for done in [
        evaluate("label", *NAMES),
        evaluate("c", "a", "label", "b"),
        evaluate("id", "c", "a", "note", "label", "b", target=("--target", "label")),
        evaluate("id", "c", "a", "note", "label", "b", target=("--target", "5")),
    ]:
        assert done.stderr == ""
        assert done.json["accuracy"] == expected

    for done, code, message in [
        (evaluate("b", "c", "a"), 1, "has no labels to compare with"),
        (evaluate(*NAMES, "label", "id"), 2, "2 columns beside the model's features (label, id)"),
        (evaluate(*NAMES, "id", target=("--target", "label")), 2, "has no column 'label'; it has"),
        (evaluate(*NAMES, "label", target=("--target", "b")), 2, "'b' of new"),
        (evaluate("label", "id", "b"), 1, f"new.{ending} lacks the columns a, c, which the model"),
    ]:
        assert done.code == code
        assert message in done.stderr
        assert done.stderr.count("\n") == 1


def test_features_that_are_absent_or_there_twice(vicinal):
    fit(vicinal, "train.csv")
    put("new.csv", "a", "b", "label")
    done = vicinal("predict", "new.csv", "-m", "m")
    assert done.stderr == "vicinal: new.csv lacks the column c, which the model needs.\n"
    assert (done.code, done.stdout) == (1, b"")
    put("new.csv", "a", "b", "c", "a")
    assert "new.csv has more than one column a." in vicinal("predict", "new.csv", "-m", "m").stderr


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_standard_input(vicinal, kind):
    put(f"train.{kind}", "label", *NAMES)
    put(f"new.{kind}", "id", "c", "b", "a", "note")
    train, new = (Path(f"{name}.{kind}").read_bytes() for name in ("train", "new"))
    vicinal("train", "-", "--format", kind, "--target", "1", "-o", "m", *SETTINGS, stdin=train)
    assert vicinal("info", "m", "--json").json["feature_names"] == NAMES
    done = vicinal("predict", "-", "--format", kind, "-m", "m", "-o", "labels", stdin=new)
    assert done.stderr == ""
    assert np.loadtxt("labels", dtype=int).tolist() == fit(vicinal, f"train.{kind}").tolist()


def test_files_and_models_without_names(vicinal):
    put("names.csv", *NAMES, "label")
    put("plain.csv", *NAMES, "label", header=False)
    put("features.csv", *NAMES, header=False)
    put("moved.csv", "c", "a", "b", "label")
    for name in ("plain", "names"):
        assert vicinal("train", f"{name}.csv", "-o", name, *SETTINGS).code == 0
    assert vicinal("info", "plain", "--json").json["feature_names"] is None
    expected = library.load("plain").predict(POINTS).tolist()
    for data, model in [
        ("plain", "names"),
        ("features", "names"),
        ("names", "plain"),
        ("moved", "names"),
    ]:
        done = vicinal("predict", f"{data}.csv", "-m", model)
        assert [int(label) for label in done.text.split()] == expected
    moved = library.load("plain").predict(POINTS[:, [2, 0, 1]]).tolist()
    done = vicinal("predict", "moved.csv", "-m", "plain")
    assert [int(label) for label in done.text.split()] == moved


def test_columns_that_are_ignored_may_hold_anything(vicinal):
    expected = fit(vicinal, "train.csv").tolist()
    rows = "".join(f"?,{c},{a},,{b}\n" for a, b, c in POINTS.tolist())
    Path("new.csv").write_text(f"label,c,a,note,b\n{rows}")
    assert [int(label) for label in vicinal("predict", "new.csv", "-m", "m").text.split()] == (
        expected
    )
    Path("new.csv").write_text(f"label,c,a,note,b\n{rows}?,1,?,,2\n")
    done = vicinal("predict", "new.csv", "-m", "m")
    assert "new.csv, line 92, column 3 (a): a value is missing" in done.stderr


def test_names_that_are_numbers(vicinal):
    """Such a header looks like a row, if the column of labels is not there to tell."""
    rows = [",".join(map(str, row)) for row in POINTS.tolist()]
    labels = TABLE["label"].tolist()
    with_labels = (f"{label},{row}\n" for label, row in zip(labels, rows, strict=True))
    Path("train.csv").write_text(f"label,0,1,2\n{''.join(with_labels)}")
    Path("new.csv").write_text("\n".join(["0,1,2", *rows]))
    vicinal("train", "train.csv", "--target", "label", "-o", "m", *SETTINGS)
    assert vicinal("info", "m", "--json").json["feature_names"] == ["0", "1", "2"]
    assert len(vicinal("predict", "new.csv", "-m", "m").text.split()) == len(rows)


@pytest.mark.parametrize("scale", ["minmax", "none"])
def test_names_are_where_scikit_learn_leaves_them(vicinal, scale):
    expected = fit(vicinal, "train.csv", "--scale", scale)
    model = library.load("m")
    assert model.feature_names_in_.dtype == object
    assert model.feature_names_in_.tolist() == NAMES
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(POINTS, columns=NAMES)
    np.testing.assert_array_equal(model.predict(frame), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a", "c"]])


def test_names_that_tell_nothing_apart_are_forgotten(vicinal):
    put("train.csv", "a", "b", "a", "label")
    assert vicinal("train", "train.csv", "-o", "m", *SETTINGS).code == 0
    assert vicinal("info", "m", "--json").json["feature_names"] is None
    assert len(vicinal("predict", "train.csv", "-m", "m").text.split()) == 90


def test_tune_and_report(vicinal, monkeypatch):
    seen = {}

    class Page:
        def write(self, path):
            pass

    def model_report(model, X=None, y=None):
        seen.update(X=X, y=y)
        return Page()

    monkeypatch.setattr("vicinal.report.model_report", model_report)
    put("train.csv", "label", *NAMES)
    put("new.csv", "c", "label", "b", "a")
    lists = ("--set", "n_neighbors=[20,40]", "--set", "C=[1]")
    assert vicinal("tune", "train.csv", "--target", "label", "-o", "m", *lists).code == 0
    assert vicinal("report", "m", "new.csv").code == 0
    np.testing.assert_array_equal(seen["X"], POINTS)
    np.testing.assert_array_equal(seen["y"], TABLE["label"])


def test_info_shows_a_few_names(vicinal):
    fit(vicinal, "train.csv")
    assert "a, b, c\n" in vicinal("info", "m").text
    wide = np.column_stack([rng.normal(size=(40, 12)), np.arange(40) % 2])
    header = ",".join([*(f"wide{i}" for i in range(12)), "y"])
    np.savetxt("wide.csv", wide, delimiter=",", header=header, comments="")
    vicinal("train", "wide.csv", "-o", "m", *SETTINGS)
    assert "wide6, wide7 and 4 more" in vicinal("info", "m").text
    assert len(vicinal("info", "m", "--json").json["feature_names"]) == 12
