"""Every format and compression gives the same arrays back; what is wrong is found to the cell."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

import vicinal as library
from vicinal.cli.data import Data, DataFile, delimited, svmlight, text, write
from vicinal.cli.data.batch import Layout
from vicinal.cli.errors import DataError, UsageError

FORMATS = ["svm", "libsvm", "txt", "csv", "tsv", "npz", "parquet"]
COMPRESSIONS = ["gz", "bz2", "xz", "zst"]

# Of scikit-learn, where a test gives an array to a model that was trained with names.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data(problem) -> Data:
    X = np.where(problem.X[:60] > 4, 0.0, problem.X[:60])  # some zeros, for svmlight to leave out
    return Data(X, problem.y[:60], ["left", "right"], "kind")


def equal(found: Data, data: Data) -> None:
    np.testing.assert_allclose(found.X, data.X, rtol=1e-15)  # svmlight files have 16 digits
    np.testing.assert_array_equal(found.y, data.y)
    assert found.y.dtype.kind == data.y.dtype.kind


def needs(ending: str) -> None:
    if "parquet" in ending:
        pytest.importorskip("pyarrow")
    if "zst" in ending:
        pytest.importorskip("zstandard")


# --- formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [*FORMATS, *(f"csv.{end}" for end in COMPRESSIONS),
                                    *(f"svm.{end}" for end in COMPRESSIONS), "npz.gz",
                                    "parquet.zst"])  # fmt: skip
def test_round_trip(data, ending):
    needs(ending)
    write(f"data.{ending}", None, data)
    found = DataFile(f"data.{ending}").read()
    equal(found, data)
    if ending.split(".")[0] in ("csv", "tsv", "parquet"):
        assert (found.names, found.target) == (data.names, data.target)


@pytest.mark.parametrize("ending", ["csv", "tsv", "npz", "parquet"])
def test_labels_may_be_text(data, ending):
    needs(ending)
    named = Data(data.X, np.array(["no", "yes, really"])[data.y], data.names, data.target)
    write(f"data.{ending}", None, named)
    equal(DataFile(f"data.{ending}").read(), named)
    with pytest.raises(DataError, match=r"labels that are numbers, and '(no|yes, really)' is none"):
        write("data.svm", None, named)


def test_compressed_files_are_compressed(data):
    pytest.importorskip("zstandard")
    import zstandard

    write("data.csv", None, data)
    with open("data.csv", "rb") as file:
        plain = file.read()
    decompress = {
        "gz": gzip.decompress,
        "bz2": bz2.decompress,
        "xz": lzma.decompress,
        "zst": lambda found: zstandard.ZstdDecompressor().decompressobj().decompress(found),
    }
    for ending in COMPRESSIONS:
        write(f"data.csv.{ending}", None, data)
        with open(f"data.csv.{ending}", "rb") as file:
            assert decompress[ending](file.read()) == plain


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_damaged_compression(data, ending):
    needs(ending)
    path = f"data.csv.{ending}"
    write(path, None, data)
    with open(path, "rb") as file:
        whole = file.read()
    for wrong in (whole[: len(whole) // 2], b"nothing of the kind"):
        with open(path, "wb") as file:
            file.write(wrong)
        with pytest.raises(DataError, match=f"^{path} is cut off, damaged, or no .{ending} file"):
            DataFile(path).read()


def test_two_compressed_files_in_one(data):
    for ending in COMPRESSIONS:
        needs(ending)
        path = f"data.svm.{ending}"
        write(path, None, data)
        with open(path, "rb") as file:
            twice = file.read() * 2
        with open(path, "wb") as file:
            file.write(twice)
        assert len(DataFile(path).read().X) == 2 * len(data.X)


# --- text -----------------------------------------------------------------------------------------

ROWS = [[1.5, 2.0], [-3.0, 0.25]]


@pytest.mark.parametrize(
    ("content", "y"),
    [
        ("1.5,2,7\n-3,.25,8\n", [7, 8]),
        ("1.5,2,7\r\n-3,.25,8\r\n", [7, 8]),
        ("\ufeffa,b,c\n1.5,2,7\n\n-3,.25,8", [7, 8]),
        ("a;b;c\n1.5;2;0.5\n-3;.25;1\n", [0.5, 1.0]),
        ("a\tb\tc\n1.5\t2\tx\n-3\t.25\ty\n", ["x", "y"]),
        ('"a, b",b,c\n1.5, 2, x\n-3, .25 ,y z\n', ["x", "y z"]),
        ('1.5,2,"x, y"\n-3,.25,"z"\n', ["x, y", "z"]),
        ("0,1,kind\n1.5,2,1\n-3,.25,2\n", [1, 2]),
        ("a,b;left;kind\n1.5;2;7\n-3;.25;8\n", [7, 8]),
        ("1.5,2,1_0\n-3,.25,1_1\n", ["1_0", "1_1"]),
    ],
)
@pytest.mark.parametrize("arrow", [True, False])
def test_delimited_text(content, y, arrow, monkeypatch):
    if arrow:
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(delimited, "pyarrow", None)
    with open("data.csv", "w", encoding="utf-8", newline="") as file:
        file.write(content)
    found = DataFile("data.csv").read()
    np.testing.assert_array_equal(found.X, ROWS)
    assert found.y.tolist() == y


@pytest.mark.parametrize("target", ["kind", "2"])
def test_target(target):
    with open("data.csv", "w") as file:
        file.write("a,kind,b\n1.5,x,2\n-3,y,0.25\n")
    found = DataFile("data.csv", layout=Layout(target)).read()
    np.testing.assert_array_equal(found.X, ROWS)
    assert found.y.tolist() == ["x", "y"]
    assert (found.names, found.target) == (["a", "b"], "kind")
    with pytest.raises(UsageError, match="no column 'c'; it has a, kind, b"):
        DataFile("data.csv", layout=Layout("c")).read()


@pytest.mark.parametrize(
    "content",
    [
        "1 1:1.5 2:2\n-1 1:-3 2:0.25\n",
        "+1 1:1.5 2:2 \n-1\t1:-3  2:2.5e-1",
        "1 1:1.5 2:2 # a comment\n\n# another\n-1 1:-3 2:0.25\n",
        "1 qid:3 1:1.5 2:2\r\n-1 qid:3 1:-3 2:0.25\r\n",
    ],
)
@pytest.mark.parametrize("arrow", [True, False])
def test_svmlight_text(content, arrow, monkeypatch):
    if arrow:
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(svmlight, "pyarrow", None)
    with open("data.svm", "w", newline="") as file:
        file.write(content)
    found = DataFile("data.svm").read()
    np.testing.assert_array_equal(found.X, ROWS)
    assert found.y.tolist() == [1, -1]


def test_fast_reader_of_svmlight_reads_what_scikit_learn_reads():
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40)) * (rng.random((300, 40)) < 0.2) * 10.0 ** rng.integers(-9, 9)
    write("data.svm", None, Data(X, rng.integers(-2, 3, 300), [], ""))
    with open("data.svm", "rb") as file:
        content = file.read()
    for zero_based in (False, True):
        batch = svmlight._parse_fast(content, zero_based)
        expected, y = load_svmlight_file(io.BytesIO(content), zero_based=zero_based)
        np.testing.assert_array_equal(batch.X.toarray(), expected.toarray())
        np.testing.assert_array_equal(batch.y, y)


def test_zero_based():
    with open("data.svm", "w") as file:
        file.write("1 0:1.5 1:2\n-1 0:-3 1:0.25\n")
    np.testing.assert_array_equal(DataFile("data.svm", layout=Layout(None, True)).read().X, ROWS)


# --- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.svm", "1 1:2\n1 1:x\n", "a.svm, line 2, column 2: the value of '1:x' is no finite"),
        ("a.svm", "1 1:2\n\n#\n1 2:1 1:4\n", "line 4, column 3: feature 1 follows feature 2"),
        ("a.svm", "1 1:2\n1 0:4\n", "line 2, column 2: feature 0: indices count from 1"),
        ("a.svm", "1 1:2\nyes 1:4\n", "line 2, column 1: the label 'yes' is no number"),
        ("a.svm", "1 1:2\n1 1:nan\n", "line 2, column 2: the value of '1:nan'"),
        ("a.svm", "nan 1:2\n", "line 1, column 1: the label 'nan'"),
        ("a.svm", "1 1:2:3 4\n", "line 1, column 2: the value of '1:2:3'"),
        ("a.svm", "1 1:2 4\n", "line 1, column 3: '4' is no pair"),
        ("a.svm", "1 -1:2\n", "line 1, column 2: '-1:2' is no pair"),
        ("a.svm", "1 0x1:2\n", "line 1, column 2: '0x1:2' is no pair"),
        ("a.csv", "a,b,y\n1,2,0\n1,two,1\n", "a.csv, line 3, column 2 (b): 'two' is no number"),
        ("a.csv", "1,2,0\n\n1,,1\n", "a.csv, line 3, column 2: a value is missing"),
        ("a.csv", "1,2,0\n1,NA,1\n", "line 2, column 2: a value is missing"),
        ("a.csv", "1,2,0\n1,inf,1\n", "line 2, column 2: 'inf' is not finite"),
        ("a.csv", "1,2,0\n1,2\n", "line 2: 2 columns, where the first line has 3"),
        ("a.csv", "1,2,0\n1,2,\n", "line 2, column 3: the label is missing"),
        ("a.csv", "1\n2\n", "a.csv has no features"),
        ("a.csv", "a,b,y\n1_0,2,0\n", "a.csv, line 2, column 1 (a): '1_0' is no number"),
        ("a.svm", "1 1:1_0\n", "a.svm, line 1, column 2: the value of '1:1_0' is no finite number"),
        ("a.csv", "a;y\n0,5;1\n", "(a): '0,5' is no number: numbers have a decimal point, and no"),
        ("a.csv", "a,y\nb,z\n", "'a' is no number (line 1 was taken as data: --header says"),
        ("a.csv", "# by x\na,b\n1,2\n", "two columns or more. (line 1 was taken as data: --header"),
        ("a.csv", "a,b,y\r1,2,0\r", "a.csv: lines end with a carriage return alone"),
        ("a.csv", 'a,y\n1,"x\ny"\n2,z\n', "a.csv"),
        ("a.csv", "a,b,y\n", "a.csv has a header and no rows"),
        ("a.txt", "1,2,0\n", "line 1, column 1: the label '1,2,0' is no number"),
        ("a.txt", "1,2,0\n", "(is this CSV? Then say --format csv)"),
        ("a.csv", "", "a.csv is empty"),
        ("a.svm", "", "a.svm is empty"),
        ("a.svm", "# nothing\n", "a.svm is empty"),
        ("a.npz", "text", "a.npz is no NPZ archive"),
        ("a.parquet", "text", "a.parquet is no Parquet file"),
    ],
)
@pytest.mark.parametrize("arrow", [True, False])
def test_place_of_an_error(vicinal, name, content, message, arrow, monkeypatch):
    if arrow or name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    if not arrow:
        monkeypatch.setattr(svmlight, "pyarrow", None)
        monkeypatch.setattr(delimited, "pyarrow", None)
    with open(name, "w", encoding="utf-8") as file:
        file.write(content)
    done = vicinal("train", name, "-o", "model")
    assert done.code == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == b""


def test_place_of_an_error_in_a_later_block(vicinal, monkeypatch):
    monkeypatch.setattr(text, "BLOCK_BYTES", 50)
    lines = [f"{i % 2} 1:{i} 2:{i}\n" for i in range(1, 100)]
    lines[76] = "1 1:4 2:four\n"
    done = vicinal("train", "-", "-o", "model", stdin="".join(lines).encode())
    assert done.stderr.startswith("vicinal: standard input, line 77, column 3: ")


def test_text_that_is_none(vicinal):
    with open("a.csv", "wb") as file:
        file.write(b"1,2,a\n1,2,\xff\xfe\n")
    assert "a.csv, line 2: this is no UTF-8 text" in vicinal("train", "a.csv", "-o", "m").stderr


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": [[1.0]]}, "no array y, only X"),
        ({"data": [[1.0]]}, "no array X, only data"),
        ({"X": [1.0], "y": [1]}, "X must be a table of numbers; it is float64 of shape (1,)"),
        ({"X": [["a"]], "y": [1]}, "X must be a table of numbers"),
        ({"X": [[1.0]], "y": [1, 2]}, "X has 1 rows, and y has shape (2,)"),
        ({"X": [[1.0, 2.0], [np.nan, 0]], "y": [1, 2]}, "row 2, column 1: a value is missing"),
        ({"X": [[1.0]], "y": np.array([None])}, "array y cannot be read: it holds Python objects."),
    ],
)
def test_wrong_archives(arrays, message):
    np.savez("a.npz", **{key: np.asarray(value) for key, value in arrays.items()})
    with pytest.raises(DataError) as caught:
        DataFile("a.npz").read()
    assert message in str(caught.value)
    assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_labels_of_several_lines(end):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"a": [1.0, 2.0], "y": ["x", f"y{end}es"]})
    parquet.write_table(table, "a.parquet")
    with pytest.raises(
        DataError, match=r"a.parquet: the label 'y\\[nr]es' holds the end of a line"
    ):
        DataFile("a.parquet").read()


@pytest.mark.parametrize(
    ("content", "header", "n_rows", "names"),
    [
        ("1,2,3\n4,5,6\n", None, 2, None),
        ("1,2,3\n4,5,6\n", True, 1, ["1", "2"]),
        ("a,b,c\n4,5,6\n", None, 1, ["a", "b"]),
        ("1,2,c\n4,5,6\n", False, 2, None),
    ],
)
def test_header(content, header, n_rows, names):
    with open("data.csv", "w") as file:
        file.write(content)
    found = DataFile("data.csv", layout=Layout(header=header)).read()
    assert (len(found.X), found.names) == (n_rows, names)


def test_header_of_numbers(vicinal, problem):
    rows = "".join(f"{a},{b},{label}\n" for (a, b), label in zip(problem.X, problem.y, strict=True))
    with open("data.csv", "w") as file:
        file.write("10,20,30\n" + rows)
    train = ("train", "data.csv", "-o", "m", "--set", "n_neighbors=50", "--json")
    done = vicinal(*train)
    assert done.json["classes"] == [0, 1, 30]
    assert done.stderr.startswith("vicinal: warning: the class 30 occurs in the first row of data")
    done = vicinal(*train, "--header", "--target", "30")
    assert done.json["classes"] == [0, 1]
    assert done.stderr == ""


def test_data_without_rows_for_a_model(vicinal, problem):
    write("data.csv", None, Data(problem.X, problem.y, ["a", "b"], "y"))
    assert vicinal("train", "data.csv", "-o", "m", "--set", "n_neighbors=50").code == 0
    for content, message in [("", "is empty: it has no rows"), ("a,b,y\n", "has a header and no")]:
        with open("none.csv", "w") as file:
            file.write(content)
        for command in (["predict", "-o", "labels"], ["evaluate"]):
            done = vicinal(command[0], "none.csv", "-m", "m", *command[1:])
            assert (done.code, done.stdout) == (1, b"")
            assert f"none.csv {message}" in done.stderr
    assert not Path("labels").exists()


def test_values_too_large_to_be_standardised(vicinal):
    with open("data.csv", "w") as file:
        file.write("1,0\n1e308,1\n" * 5)
    done = vicinal("train", "data.csv", "-o", "m", "--scale", "standard")
    assert done.code == 1
    assert done.stderr == "vicinal: data.csv: values are too large for --scale standard.\n"


def test_wrong_tables():
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    for columns, message in [
        ({"a": ["x", "y"], "y": [0, 1]}, "column a: its type is string, and features are numbers"),
        ({"a": [1.0, None], "y": [0, 1]}, "row 2, column 1 (a): a value is missing"),
        ({"a": [1.0, 2.0], "y": ["x", None]}, "row 2: the label is missing"),
    ]:
        pyarrow.parquet.write_table(arrow.table(columns), "a.parquet")
        with pytest.raises(DataError) as caught:
            DataFile("a.parquet").read()
        assert message in str(caught.value)


# --- data for a model -----------------------------------------------------------------------------


@pytest.fixture
def wide(vicinal):
    """A model of four features, of which the last two are of no use."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    write("wide.csv", None, Data(X, (X[:, 0] > 0).astype(int), list("abcd"), "y"))
    assert vicinal("train", "wide.csv", "-o", "wide", "--set", "n_neighbors=20").code == 0
    return library.load("wide"), X


def test_absent_features_of_svmlight_are_zero(vicinal, wide):
    model, X = wide
    narrow = np.where(np.arange(4) < 2, X, 0.0)
    write("narrow.svm", None, Data(narrow[:, :2], np.zeros(80, dtype=int), [], ""))
    done = vicinal("predict", "narrow.svm", "-m", "wide")
    assert [int(label) for label in done.text.split()] == model.predict(narrow).tolist()


def test_features_that_the_model_lacks(vicinal, wide):
    with open("more.svm", "w") as file:
        file.write("1 1:1 4:2\n1 1:1 5:2\n")
    done = vicinal("predict", "more.svm", "-m", "wide")
    assert done.code == 1
    assert "more.svm, line 2, column 3: feature 5 is unknown to the model" in done.stderr
    for columns in (3, 6):
        write("more.csv", None, Data(np.ones((4, columns - 1)), np.ones(4), ["x"] * 5, "y"))
        np.savetxt("more.csv", np.ones((3, columns)), delimiter=",")
        done = vicinal("predict", "more.csv", "-m", "wide")
        assert f"more.csv has {columns} columns, and the model needs 4 features" in done.stderr


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_labels_may_be_absent(vicinal, wide, ending):
    needs(ending)
    model, X = wide
    expected = model.predict(X).tolist()
    write(f"with.{ending}", None, Data(X, np.zeros(80, dtype=int), list("abcd"), "y"))
    # The last feature stands where the labels would: the file has features alone.
    write(f"without.{ending}", None, Data(X[:, :3], X[:, 3], list("abc"), "d"))
    for name in ("with", "without"):
        found = vicinal("predict", f"{name}.{ending}", "-m", "wide").text.split()
        assert [int(label) for label in found] == expected
    done = vicinal("evaluate", f"without.{ending}", "-m", "wide")
    assert "has no labels" in done.stderr


def test_text_labels_come_back(vicinal, problem):
    names = np.array(["left arm", "right arm"])
    write("named.csv", None, Data(problem.X, names[problem.y], ["a", "b"], "arm"))
    vicinal("train", "named.csv", "-o", "m", "--set", "n_neighbors=50")
    model = library.load("m")
    predictions = vicinal("predict", "named.csv", "-m", "m").stdout
    assert predictions.decode().splitlines() == model.predict(problem.X).tolist()
    done = vicinal("evaluate", "-", "--labels", "named.csv", "--json", stdin=predictions)
    assert done.json["accuracy"] == model.score(problem.X, names[problem.y])


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["svm", "csv", "tsv", "parquet", "npz"])
def test_streaming_changes_nothing(vicinal, problem, ending, monkeypatch):
    needs(ending)
    write(f"data.{ending}", None, Data(problem.X, problem.y, ["a", "b"], "y"))
    vicinal("train", f"data.{ending}", "-o", "m", "--set", "n_neighbors=50")
    arguments = ("-m", "m", "--decision")
    whole = vicinal("predict", f"data.{ending}", *arguments)
    assert len(whole.text.splitlines()) == len(problem.X)
    monkeypatch.setattr(text, "BLOCK_BYTES", 1000)
    monkeypatch.setattr("vicinal.cli.data._DENSE_BYTES", 70 * 16)
    if ending == "parquet":
        monkeypatch.setattr("vicinal.cli.data.parquet._ROWS", 64)
    assert vicinal("predict", f"data.{ending}", *arguments).stdout == whole.stdout
    with open(f"data.{ending}", "rb") as file:
        content = file.read()
    kind = {"svm": ()}.get(ending, ("--format", ending))
    assert vicinal("predict", "-", *kind, *arguments, stdin=content).stdout == whole.stdout


@pytest.mark.parametrize("kind", ["svmlight", "csv", "tsv", "npz", "parquet"])
def test_convert_between_streams(vicinal, data, kind):
    needs(kind)
    write("data.npz", None, data)
    content = Path("data.npz").read_bytes()
    there = vicinal("convert", "-", "-", "--format", "npz", "--to", kind, stdin=content)
    assert there.stderr == ""
    back = vicinal("convert", "-", "back.npz", "--format", kind, "--json", stdin=there.stdout)
    assert back.json == {"data": "back.npz", "points": 60, "features": 2}
    equal(DataFile("back.npz").read(), data)


@pytest.mark.parametrize("ending", ["svm", "csv"])
def test_text_is_read_as_it_is_needed(problem, ending, monkeypatch):
    write(f"data.{ending}", None, Data(problem.X, problem.y, ["a", "b"], "y"))
    with open(f"data.{ending}", "rb") as file:
        stream = io.BytesIO(file.read())
    monkeypatch.setattr(text, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    model = SimpleNamespace(n_features_in_=2)
    file = DataFile("-", {"svm": None, "csv": "csv"}[ending]).for_model(model)
    rows = 0
    for i, batch in enumerate(file.batches(), 1):
        rows += len(batch.X)
        assert stream.tell() <= 1000 * i
    assert rows == len(problem.X)


@pytest.mark.parametrize("name", ["data.csv", "data.svm"])
def test_threads_of_arrow_hold_no_python_objects(data, name, monkeypatch):
    """They may free what they hold when the interpreter ends, which aborts the process."""
    pyarrow = pytest.importorskip("pyarrow")
    write(name, None, data)
    read, given = delimited.arrow_csv.read_csv, []

    def spy(stream, **options):
        given.append(stream)
        return read(stream, **options)

    monkeypatch.setattr(delimited.arrow_csv, "read_csv", spy)
    equal(DataFile(name).read(), data)
    assert [type(stream) for stream in given] == [pyarrow.BufferReader]
