"""Runs command lines in this process, and makes the data that they are about."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from vicinal.cli import main
from vicinal.datasets import make_two_spirals

pytest.importorskip("typer")
pytest.importorskip("rich")


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode()

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        return json.loads(self.text)


class Text(io.TextIOWrapper):
    """Has room for another `isatty`."""


@pytest.fixture
def vicinal(monkeypatch, tmp_path):
    """A function that runs `vicinal ARGUMENTS` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: Any, stdin: bytes = b"", terminal: bool = False) -> Outcome:
        streams = {name: io.BytesIO() for name in ("stdout", "stderr")}
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            wrapped = {name: Text(stream, encoding="utf-8") for name, stream in streams.items()}
            for name, stream in wrapped.items():
                patch.setattr(sys, name, stream)
            patch.setattr(wrapped["stderr"], "isatty", lambda: terminal)
            code = main([str(argument) for argument in arguments])
            for stream in wrapped.values():
                stream.flush()
        return Outcome(code, streams["stdout"].getvalue(), streams["stderr"].getvalue().decode())

    return run


@dataclass(frozen=True)
class Problem:
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@pytest.fixture(scope="session")
def problem() -> Problem:
    X, y = make_two_spirals(800, random_state=0)
    X_test, y_test = make_two_spirals(300, random_state=1)
    return Problem(X, y, X_test, y_test)


@pytest.fixture
def files(problem, tmp_path) -> Path:
    """A folder with train.svm and test.svm."""
    dump_svmlight_file(problem.X, problem.y, str(tmp_path / "train.svm"), zero_based=False)
    dump_svmlight_file(problem.X_test, problem.y_test, str(tmp_path / "test.svm"), zero_based=False)
    return tmp_path
