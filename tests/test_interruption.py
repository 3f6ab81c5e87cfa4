"""Ctrl-C stops a long fit at once and leaves the process sane; a progress bar shows the steps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.callback import ProgressBar
from tests.local.problems import binary

from vicinal import KNNSVC, FaLKSVC, FaLKSVCCV, FastLSVC

# Fits for minutes if nobody stops it, says when it starts, and then fits something small.
LONG_FIT = """
import threading, time
import numpy as np
from vicinal import {name}
rng = np.random.default_rng(0)
X = rng.normal(size=(60_000, 20))
y = rng.integers(0, 2, len(X))
model = {model}
print("fitting", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", time.time(), flush=True)
else:
    print("finished", time.time(), flush=True)
assert threading.active_count() == 1
small = {name}(20).fit(X[:200], y[:200])
assert len(small.predict(X[:10])) == 10
print("sane", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one child")
@pytest.mark.parametrize(
    ("name", "model", "call"),
    [
        ("FaLKSVC", "FaLKSVC(2000, C=1000.0, n_jobs=2)", "model.fit(X, y)"),
        ("FaLKSVC", "FaLKSVC(60_000, C=1000.0)", "model.fit(X, y)"),
        ("KNNSVC", "KNNSVC(2000, C=1000.0, n_jobs=2).fit(X, y)", "model.predict(X)"),
    ],
    ids=["many machines", "one large machine", "machines of queries"],
)
def test_ctrl_c(name, model, call):
    script = LONG_FIT.format(name=name, model=model, call=call)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        guard = threading.Timer(100, process.kill)
        guard.start()
        try:
            assert process.stdout.readline() == "fitting\n", process.stderr.read()
            time.sleep(2.5)
            sent = time.time()
            os.kill(process.pid, signal.SIGINT)
            rest, errors = process.communicate()
        finally:
            guard.cancel()
    assert rest, f"it did not come back: {errors}"
    what, when, sane = rest.split()
    assert what == "interrupted"
    assert float(when) - sent < 1.0
    assert sane == "sane", errors
    assert process.returncode == 0


@pytest.mark.parametrize(
    "model",
    [
        FaLKSVC(30),
        FastLSVC(30, random_state=0),
        FaLKSVCCV((20, 40), C=(1, 8), random_state=0),
        KNNSVC(30),
    ],
    ids=lambda model: type(model).__name__,
)
def test_progress_bar(model, capsys):
    pytest.importorskip("rich")
    X, y, Q = binary()
    expected = model.fit(X, y).decision_function(Q)
    model.set_callbacks(ProgressBar()).fit(X, y)
    shown = capsys.readouterr().out
    np.testing.assert_array_equal(model.decision_function(Q), expected)
    assert type(model).__name__ in shown
    assert "100%" in shown
