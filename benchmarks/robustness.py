"""Model files: none of 20,000 damaged ones is believed, each true one gives the same predictions.

`files` counts what was tried. Damaged files are those of a disk, a network or an editor; a forged
one has a true checksum over contents that were changed at random. A forged file may still be a
model (a coefficient is another number, say): then it must answer queries, or refuse them, like any
model; each that does is `loaded`. A crash would end the benchmark. `slowest_s` is the longest
time to an error or an answer. `memory_of_size` is the memory that it takes to load a file of some
16 MB, or to refuse it, in sizes of the file, each in a process of its own.

Then: predictions of loaded models against those of the saved ones, `different` of them, and the
sizes of the files beside those of their arrays; ONNX Runtime's predictions of exported models
against ours on three real data sets; processes killed while they save, and Ctrl-C while
`vicinal train` fits 3 million points.

What it must cost
-----------------
A damaged file: one pass of SHA-256 over it, 0.5 to 2 GB/s, and a small buffer. One that loads: its
arrays, a second copy of its points in the index, and the descriptions of both.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import vicinal
from common import Config, run_alone
from problems import two_spirals
from vicinal import (
    KNNSVC,
    CoverTreeClassifier,
    CoverTreeNeighbors,
    FaLKSVC,
    FaLKSVCCV,
    FastLSVC,
    KernelMachine,
    ModelFormatError,
    NSVClassifier,
)
from vicinal.io import describe

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import contextlib

from reference.mutations import damaged, forge

MODELS = [
    FaLKSVC(20),
    FaLKSVC(20, routing="centre", algorithm="kd_tree"),
    FaLKSVC(20, multi_class="global"),
    FaLKSVC(20, kernel="poly", gamma=0.3, degree=2, coef0=1),
    FastLSVC(20, random_state=0),
    FaLKSVCCV((10, 20), C=(1, 8), random_state=0),
    KNNSVC(20),
    CoverTreeClassifier(3),
    CoverTreeNeighbors(3, algorithm="tree"),
    make_pipeline(StandardScaler(), FaLKSVC(20)),
    make_pipeline(StandardScaler(), NSVClassifier(SVC(), max_disagreement=None, n_components=2)),
    NSVClassifier(make_pipeline(StandardScaler(), SVC(kernel="poly", coef0=1))),
    KernelMachine(np.eye(3), np.array([1.0, -1.0, 0.5]), classes=np.array([0, 1])),
]
N_DAMAGED, N_FORGED = 20_000, 5_000
N_LARGE = 400_000
SAVE_FOR_EVER = """
import sys, vicinal
model = vicinal.load(sys.argv[1])
print("saving", flush=True)
while True:
    vicinal.save(model, sys.argv[1])
"""


def rows(config: Config) -> Iterator[dict[str, Any]]:
    warnings.simplefilter("ignore")  # NumPy's, about numbers that a forged file holds
    with tempfile.TemporaryDirectory() as folder:
        yield from mutations(config, Path(folder))
        yield from memory(config, Path(folder))
        yield from round_trips(config, Path(folder))
        yield from onnx(config)
        yield kills(config, Path(folder))
        yield interruption(config, Path(folder))


def small_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=160) / 5, [-0.5, 0.5])
    return X[:120], y[:120], X[120:]


# --- Mutated files --------------------------------------------------------------------------------


def mutations(config: Config, folder: Path) -> Iterator[dict[str, Any]]:
    X, y, Q = small_data()
    rng = np.random.default_rng(1)
    counts: dict[str, dict[str, Any]] = {}
    share = (200 if config.quick else N_DAMAGED) // len(MODELS)
    n_forged = (50 if config.quick else N_FORGED) // len(MODELS)
    for model in MODELS:
        original = folder / "original"
        vicinal.save(clone(model).fit(X, y), original)
        for kind, content in islice(damaged(original.read_bytes(), rng), share):
            (folder / "mutant").write_bytes(content)
            _count(counts, kind, *_outcome(folder / "mutant", Q))
        for _ in range(n_forged):
            kind = forge(original, folder / "mutant", rng)
            _count(counts, kind, *_outcome(folder / "mutant", Q))
    yield from counts.values()
    yield {
        "changed": "all",
        **{name: sum(row[name] for row in counts.values()) for name in ("files", "refused")},
        "loaded": sum(row["loaded"] for row in counts.values()),
        "slowest_s": max(row["slowest_s"] for row in counts.values()),
    }


def _outcome(path: Path, queries: np.ndarray) -> tuple[bool, float]:
    start = time.perf_counter()
    try:
        model = vicinal.load(path)
    except ModelFormatError:
        return True, time.perf_counter() - start
    with contextlib.suppress(ValueError):  # its numbers may make no sense to it either
        _answer(model, queries)
    return False, time.perf_counter() - start


def _count(counts: dict[str, dict[str, Any]], kind: str, refused: bool, seconds: float) -> None:
    row = counts.setdefault(
        kind, {"changed": kind, "files": 0, "refused": 0, "loaded": 0, "slowest_s": 0.0}
    )
    row["files"] += 1
    row["refused" if refused else "loaded"] += 1
    row["slowest_s"] = max(row["slowest_s"], seconds)


def _answer(model: Any, queries: np.ndarray) -> np.ndarray:
    if hasattr(model, "kneighbors"):
        return np.hstack(model.kneighbors(queries))
    if hasattr(model, "predict_proba"):
        return model.predict_proba(queries)
    return model.decision_function(queries)


def memory(config: Config, folder: Path) -> Iterator[dict[str, Any]]:
    problem = two_spirals(4_000 if config.quick else N_LARGE, 10)
    original, mutant = folder / "large", folder / "mutant"
    vicinal.save(FaLKSVC(250, n_jobs=config.n_jobs).fit(problem.X, problem.y), original)
    rng = np.random.default_rng(2)
    n_files = 2 if config.quick else 20
    costs: dict[str, list[tuple[float, float]]] = {}

    def load(kind: str, path: Path) -> None:
        (seconds, held, refused), _ = run_alone(_peak, path)
        outcome = f"{kind}, {'refused' if refused else 'loaded'}"
        costs.setdefault(outcome, []).append((seconds, held / path.stat().st_size))

    load("true", original)
    for _, content in islice(damaged(original.read_bytes(), rng), n_files):
        mutant.write_bytes(content)
        load("damaged", mutant)
    for _ in range(n_files):
        forge(original, mutant, rng)
        load("forged", mutant)
    for outcome, found in costs.items():
        seconds, sizes = zip(*found, strict=True)
        yield {
            "large_files": outcome,
            "files": len(found),
            "true_MB": original.stat().st_size / 1e6,
            "slowest_s": max(seconds),
            "memory_of_size": max(sizes),
        }


def _peak(path: Path) -> tuple[float, float, bool]:
    """Seconds and bytes that it takes to load a file, or to refuse it, in a process of its own."""
    describe(Path(__file__).parents[1] / "tests" / "io" / "version_1.safetensors")  # imports
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    start = time.perf_counter()
    refused = False
    try:
        vicinal.load(path)
    except ModelFormatError:
        refused = True
    return time.perf_counter() - start, _status("VmHWM") - before, refused


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


# --- True files -----------------------------------------------------------------------------------


def round_trips(config: Config, folder: Path) -> Iterator[dict[str, Any]]:
    X, y, Q = small_data()
    for model in MODELS:
        fitted = clone(model).fit(X, y)
        vicinal.save(fitted, folder / "model")
        same = _answer(vicinal.load(folder / "model"), Q) == _answer(fitted, Q)
        file = describe(folder / "model")
        yield {
            "model": " ".join(str(model).split()),
            "queries": len(Q),
            "different": int((~same).sum()),
            "file_bytes": file.n_bytes,
            "array_bytes": sum(array.nbytes for array in file.arrays.values()),
        }


def onnx(config: Config) -> Iterator[dict[str, Any]]:
    from onnxruntime import InferenceSession

    for load in (load_breast_cancer, load_digits, load_wine):
        X, y = load(return_X_y=True)
        X, X_test, y, _ = train_test_split(X, y, test_size=0.5, random_state=0)
        for model in (
            FaLKSVC(60, C=10.0, routing="centre"),
            FaLKSVC(60, kernel="poly", gamma=0.1, coef0=1, routing="centre"),
            FaLKSVC(len(X), len(X), C=10.0),
        ):
            pipeline = make_pipeline(MinMaxScaler(), model).fit(X, y)
            session = InferenceSession(vicinal.to_onnx(pipeline).SerializeToString())
            label, decision = session.run(None, {"X": X_test})
            gap = np.abs(decision - pipeline.decision_function(X_test)).max()
            yield {
                "data": load.__name__.removeprefix("load_"),
                "model": f"{model.kernel}, {pipeline[-1].n_machines_} machines",
                "queries": len(X_test),
                "labels_different": int((label != pipeline.predict(X_test)).sum()),
                "decision_gap": float(gap),
            }


# --- Processes that are stopped -------------------------------------------------------------------


def kills(config: Config, folder: Path) -> dict[str, Any]:
    problem = two_spirals(20_000, 10)
    path = folder / "killed" / "model"
    path.parent.mkdir()
    vicinal.save(FaLKSVC(250).fit(problem.X, problem.y), path)
    expected = path.read_bytes()
    rng = np.random.default_rng(3)
    n_kills = 3 if config.quick else 50
    n_intact = 0
    for _ in range(n_kills):
        with subprocess.Popen(
            [sys.executable, "-c", SAVE_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            process.stdout.readline()
            time.sleep(rng.uniform(0, 0.1))
            process.kill()
        n_intact += path.read_bytes() == expected
    return {"killed_while_saving": n_kills, "old_model_intact": n_intact}


def interruption(config: Config, folder: Path) -> dict[str, Any]:
    n = 30_000 if config.quick else 3_000_000
    problem = two_spirals(n, 10)
    data = folder / "spirals.npz"
    np.savez(data, X=problem.X, y=problem.y)
    place = folder / "interrupted"
    place.mkdir()
    command = ["train", str(data), "-o", str(place / "model"), "--set", "n_neighbors=1000"]
    waits = []
    for delay in (1.0, 3.0, 6.0):
        with subprocess.Popen(
            [sys.executable, "-m", "vicinal", *command, "--set", "C=256"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            time.sleep(delay if not config.quick else 0.7)
            sent = time.perf_counter()
            process.send_signal(signal.SIGINT)
            process.communicate()
            waits.append(time.perf_counter() - sent)
    return {
        "interrupted_at_points": n,
        "slowest_stop_s": max(waits),
        "exit_code": process.returncode,
        "files_left": len(os.listdir(place)),
    }
