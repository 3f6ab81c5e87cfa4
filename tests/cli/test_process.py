"""The command line as a process among others: exit codes, pipes, Ctrl-C, absent packages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import vicinal as library

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither of them")


def start(*arguments, **streams):
    command = [sys.executable, "-m", "vicinal", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "absent.svm", "-o", "m"], 1, "absent.svm: No such file"),
        (["train", "train.svm", "-o", "absent/m"], 1, "absent/m cannot be written: there is no f"),
        (["train", "train.svm", "-o", "."], 2, "no plain file"),
        (["train", "train.svm", "-o", "-"], 2, "give -o a name"),
        (["train", "train.svm"], 2, "Missing option"),
        (["train", "train.svm", "-o", "m", "--bogus"], 2, "No such option: --bogus"),
        (["train", "train.svm", "-o", "m", "--model", "svc"], 2, "there are falk, falk-cv, fast"),
        (["train", "train.svm", "-o", "m", "--scale", "log"], 2, "there are minmax, standard, no"),
        (["train", "train.svm", "-o", "m", "--set", "k=1"], 2, "no parameter 'k'; it has C, algo"),
        (["train", "train.svm", "-o", "m", "--set", "C"], 2, "--set takes NAME=VALUE; 'C' has no"),
        (["train", "train.svm", "-o", "m", "--set", "C=-1"], 2, "The 'C' parameter of FaLKSVC mu"),
        (["train", "train.svm", "-o", "m", "--format", "xls"], 2, "svmlight"),
        (["tune", "train.svm", "-o", "m", "--set", "refit=false"], 2, "there is no model to save"),
        (["predict", "test.svm", "-m", "train.svm"], 1, "train.svm is no usable model"),
        (["predict", "test.svm", "-m", "absent"], 1, "absent: No such file"),
        (["evaluate", "test.svm"], 2, "evaluate needs a model, -m MODEL, or true labels"),
        (["evaluate", "-", "--labels", "-"], 2, "cannot both be standard input"),
        (["convert", "test.svm", "./test.svm"], 2, "./test.svm is the same file as test.svm"),
        (["train", "train.svm", "-o", "train.svm"], 2, "the same file as train.svm, which is read"),
        (["tune", "train.svm", "-o", "./train.svm"], 2, "the same file as train.svm"),
        (["predict", "test.svm", "-m", "m", "-o", "test.svm"], 2, "the same file as test.svm"),
        (["predict", "a", "-m", "test.svm", "-o", "test.svm"], 2, "the same file as test.svm"),
        (["report", "test.svm", "-o", "./test.svm"], 2, "the same file as test.svm"),
        (
            ["evaluate", "a", "-m", "m", "--labels", "b"],
            2,
            "--labels FILE, and not both",
        ),
        (["train", "absent.svm", "-o", "m", "--jobs", "0"], 2, "0 threads do nothing"),
        (["bogus"], 2, "No such command 'bogus'. See vicinal --help."),
    ],
)
def test_exit_codes_and_messages(vicinal, files, arguments, code, message):
    done = vicinal(*arguments)
    assert done.code == code
    assert message in done.stderr
    assert done.stderr.startswith("vicinal: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == b""
    assert sorted(path.name for path in files.iterdir()) == ["test.svm", "train.svm"]


def test_debug_shows_where(vicinal, files):
    with pytest.raises(FileNotFoundError):
        vicinal("train", "absent.svm", "-o", "m", "--debug")


def test_defects_are_told_in_one_line_too(vicinal, files, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("1 / 0")

    monkeypatch.setattr(library.FaLKSVC, "fit", fail)
    done = vicinal("train", "train.svm", "-o", "m")
    assert done.code == 1
    assert done.stderr == "vicinal: ZeroDivisionError: 1 / 0 (--debug shows where)\n"


def test_warnings_take_one_line(vicinal, files):
    done = vicinal("train", "train.svm", "-o", "m", "--set", "n_neighbors=900", "--json")
    assert done.code == 0
    assert done.stderr.startswith("vicinal: warning: n_neighbors=900 exceeds the 800 training")
    assert done.stderr.count("\n") == 1
    assert done.json["points"] == 800


def test_failure_leaves_the_old_labels(vicinal, files):
    vicinal("train", "train.svm", "-o", "m", "--set", "n_neighbors=50")
    Path("labels").write_text("old")
    Path("bad.svm").write_text("1 1:2\n1 1:x\n")
    assert vicinal("predict", "bad.svm", "-m", "m", "-o", "labels").code == 1
    assert Path("labels").read_text() == "old"
    assert not list(files.glob(".*"))


def test_pipe(vicinal, files):
    vicinal("train", "train.svm", "-o", "m", "--set", "n_neighbors=50")
    with (
        Path("test.svm").open() as data,
        start("predict", "-", "-m", "m", stdin=data, stdout=subprocess.PIPE) as predict,
        start(
            "evaluate", "-", "--labels", "test.svm", stdin=predict.stdout, stdout=subprocess.PIPE
        ) as evaluate,
    ):
        output, errors = evaluate.communicate()
        assert predict.wait() == evaluate.returncode == 0, errors
    assert "accuracy" in output


@posix_only
def test_labels_go_to_links_and_devices(vicinal, files):
    vicinal("train", "train.svm", "-o", "m", "--set", "n_neighbors=50")
    expected = vicinal("predict", "test.svm", "-m", "m").text
    Path("behind").write_text("old")
    Path("link").symlink_to("behind")
    assert vicinal("predict", "test.svm", "-m", "m", "-o", "link").code == 0
    assert Path("link").is_symlink()
    assert Path("behind").read_text() == expected
    with start(
        "predict", "test.svm", "-m", "m", "-o", "/dev/stdout", "--json", stdout=subprocess.PIPE
    ) as process:
        output, _ = process.communicate()
    assert output.startswith(expected)


@posix_only
def test_closed_pipe(vicinal, files):
    """What `| head` does."""
    vicinal("train", "train.svm", "-o", "m", "--set", "n_neighbors=50")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with start("predict", "-", "-m", "m", **pipes) as process:
        process.stdout.close()
        process.stdin.write(Path("test.svm").read_text())
        process.stdin.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@posix_only
@pytest.mark.parametrize("command", ["train", "predict"])
def test_ctrl_c(vicinal, tmp_path, command):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(15_000, 10)), rng.integers(0, 2, 15_000)  # fits into one block
    dump_svmlight_file(X, y, str(tmp_path / "data.svm"), zero_based=False)
    before = ["data.svm"]
    arguments = ["train", "data.svm", "-o", "m", "--set", "n_neighbors=2000", "--set", "C=1000"]
    if command == "predict":
        settings = ["--model", "knn-svm", *arguments[4:]]
        vicinal("train", "data.svm", "-o", "knn", *settings)
        arguments = ["predict", "data.svm", "-m", "knn", "-o", "m"]
        before = ["data.svm", "knn"]
    # The data come through a pipe, so that the process is known to be past its imports.
    arguments[1] = "-"
    with start(*arguments, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        guard = threading.Timer(100, process.kill)
        guard.start()
        process.stdin.write((tmp_path / "data.svm").read_text())
        process.stdin.close()
        process.stdin = None
        time.sleep(1.5)
        sent = time.time()
        os.kill(process.pid, signal.SIGINT)
        output, errors = process.communicate()
        assert time.time() - sent < 5.0  # a second, on a machine that does nothing else
        guard.cancel()
    assert process.returncode == 130, errors
    assert errors == "vicinal: interrupted\n"
    assert output == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@posix_only
@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("<&-", 1, "vicinal: standard input is closed.\n"),
        ("<&- 2>&-", 1, ""),
        pytest.param(
            "> /dev/full",
            1,
            "vicinal: standard output: No space left on device\n",
            marks=pytest.mark.skipif(
                not Path("/dev/full").exists(), reason="there is no such device"
            ),
        ),
    ],
)
def test_broken_streams(redirection, code, message):
    arguments = "--version" if "<" not in redirection else "convert - a.csv"
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m vicinal {arguments} {redirection}"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, message)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_full_device(vicinal, files):
    vicinal("train", "train.svm", "-o", "m", "--set", "n_neighbors=50")
    done = vicinal("predict", "test.svm", "-m", "m", "-o", "/dev/full")
    assert (done.code, done.stderr) == (1, "vicinal: /dev/full: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
@pytest.mark.parametrize("command", ["report", "demo"])
def test_pages_on_a_full_device(vicinal, files, monkeypatch, command):
    class Page:
        def write(self, path):
            Path(path).write_text("<html>")

    vicinal("train", "train.svm", "-o", "m", "--set", "n_neighbors=50")
    monkeypatch.setattr("vicinal.report.model_report", lambda *_: Page())
    monkeypatch.setattr("vicinal.report.demo.demo", lambda path, **_: Page().write(path))
    done = vicinal(command, *(["m"] if command == "report" else []), "-o", "/dev/full")
    assert (done.code, done.stderr) == (1, "vicinal: /dev/full: No space left on device\n")


def test_absent_packages():
    script = """if True:
        import sys
        sys.modules["typer"] = sys.modules["rich"] = None
        from vicinal.cli import main
        sys.exit(main(["--version"]))
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "vicinal: the command line needs more packages: pip install 'vicinal[cli]'\n"
    )


def test_absent_extras(vicinal, files, monkeypatch):
    Path("a.parquet").write_bytes(b"")
    Path("a.csv.zst").write_bytes(b"")
    for module, names, name, extra in [
        ("parquet", ["pyarrow"], "a.parquet", "parquet"),
        ("zstd", ["zstandard"], "a.csv.zst", "cli"),
    ]:
        monkeypatch.delitem(sys.modules, f"vicinal.cli.data.{module}", raising=False)
        for each in names:
            monkeypatch.setitem(sys.modules, each, None)
        monkeypatch.setattr("vicinal.cli.data.arrow.pyarrow", None)
        done = vicinal("train", name, "-o", "m")
        assert done.code == 1
        assert f"pip install 'vicinal[{extra}]'" in done.stderr
