"""The same answers, whatever the threads, the input's dtype, the chunks or the instruction set."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.agnostic.configurations import answers

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def expected():
    return answers()


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_threads(expected, n_jobs):
    assert_equal(answers(n_jobs=n_jobs), expected)


def test_input_dtype(expected):
    assert_equal(answers(dtype=np.float32), expected)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunk_size(expected, chunk):
    assert_equal(answers(chunk=chunk), expected)


def test_memory_layout(expected):
    from tests.agnostic.configurations import data, estimators

    X, y, Q = data()
    model = next(model for name, model in estimators(1) if name == "FaLKSVC")
    wide = np.repeat(Q, 2, axis=1)
    decisions = model.fit(np.asfortranarray(X), y).decision_function(wide[:, ::2])
    np.testing.assert_array_equal(decisions, expected["FaLKSVC"])


def instruction_sets():
    """Those that were built and that this machine can run."""
    found = []
    for isa in ("baseline", "avx2", "avx512"):
        probe = [sys.executable, "-c", "import vicinal.engine"]
        environment = os.environ | {"VICINAL_ISA": isa}
        if not subprocess.run(probe, env=environment, capture_output=True).returncode:
            found.append(isa)
    return found


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_instruction_set(expected, isa, tmp_path):
    """Other vector widths add in another order: the same answers to float32's precision."""
    if isa not in instruction_sets():
        pytest.skip(f"this machine does not run {isa}")
    out = tmp_path / "answers.npz"
    command = [sys.executable, "-m", "tests.agnostic.configurations", str(out)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"VICINAL_ISA": isa}, check=True)
    with np.load(out) as found:
        for name in expected:
            one, other = found[name], expected[name]
            np.testing.assert_array_equal(one.shape, other.shape)
            if name in ("indices", "distances", "CoverTreeClassifier"):
                np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=name)
                continue
            # The solver stops anywhere inside its tolerance, and a vote is a whole step.
            near = np.isclose(one, other, rtol=1e-2, atol=1e-2)
            assert near.mean() > 0.97, name
            assert (one.argmax(axis=1) == other.argmax(axis=1)).mean() > 0.98, name


def test_one_instruction_set_can_be_forced():
    for isa in instruction_sets():
        module = f"vicinal._core_{isa}"
        script = f"import sys, vicinal.engine; print('{module}' in sys.modules)"
        result = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"VICINAL_ISA": isa},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.strip() == "True"


def test_an_unknown_instruction_set_says_so():
    result = subprocess.run(
        [sys.executable, "-c", "import vicinal.engine"],
        env=os.environ | {"VICINAL_ISA": "abacus"},
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert "abacus" in result.stderr
    assert "VICINAL_ISA" in result.stderr


def test_import_starts_nothing():
    """No thread, no compile, no warning."""
    script = "import threading, vicinal; print(threading.active_count())"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True
    )
    assert result.stdout.strip() == "1", result.stderr
    assert importlib.import_module("vicinal").__all__
