"""500,000 lines of LIBSVM text are read in less time than FaLKSVC takes to train on them.

CoverType's 54 features, of which about 12 a row are not zero, as `vicinal train` reads them: text
to a dense array of doubles and an array of labels. Twice: "integers" are CoverType's own values, 35
MB of text, and "digits" are the same scaled to [0, 1] and written with all digits of a double, more
than 100 MB. The page cache holds the file.

"train" is what `vicinal train` does: blocks of 4 MB, which pyarrow's CSV reader takes for a table
of two columns, index and value, with all cores. "scikit-learn" is `load_svmlight_file` and
`toarray`, which `vicinal train` falls back on where there is no pyarrow or a block is not plain
pairs: it makes a Python object of each number, on one core. The training is that of
`covertype_full.py`, on all cores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from common import Config, load, measure
from problems import covertype, named, unit_cube
from vicinal import FaLKSVC
from vicinal.cli.data import DataFile

PARAMETERS = {"n_neighbors": 250, "C": 16.0, "gamma_percentile": 10}


def rows(config: Config) -> Iterator[dict[str, Any]]:
    n = 5000 if config.quick else 500_000
    problem = covertype(config, n, n // 20)
    model = FaLKSVC(**PARAMETERS, n_jobs=config.n_jobs)
    training = measure(lambda: model.fit(problem.X, problem.y), repeats=config.repeats).median
    yield {"model": named(model), "points": n, "cores": config.n_jobs, "fit_s": training}

    with tempfile.TemporaryDirectory() as folder:
        for values, X in tables(config, n):
            file = Path(folder) / "data.svm"
            dump_svmlight_file(X, problem.y, str(file), zero_based=False)
            for name in READERS:
                yield {"values": values, **reading(name, file, X, training, config)}


def reading(
    name: str, file: Path, X: np.ndarray, training: float, config: Config
) -> dict[str, Any]:
    timing = measure(lambda: READERS[name](file), repeats=config.repeats)
    return {
        "megabytes": file.stat().st_size / 1e6,
        "reader": name,
        "read_s": timing.median,
        "of_training": timing.median / training,
        "same_data": np.allclose(timing.result[0], X, rtol=1e-15, atol=0),  # 16 digits are written
    }


def tables(config: Config, n: int) -> Iterator[tuple[str, np.ndarray]]:
    if config.quick:
        yield "digits", covertype(config, n, n // 20).X
        return
    X, _ = load(config, "covtype")
    yield "integers", X[:n].astype(np.int64)
    yield "digits", unit_cube(X)[:n].astype(np.float64)


def by_train(file: Path) -> tuple[np.ndarray, np.ndarray]:
    data = DataFile(str(file)).read()
    return data.X, data.y


def by_sklearn(file: Path) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_svmlight_file(str(file), zero_based=False)
    return X.toarray(), y


READERS = {"train": by_train, "scikit-learn": by_sklearn}
