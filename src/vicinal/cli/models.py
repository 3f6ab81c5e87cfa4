"""From names and settings on the command line to estimators."""

from __future__ import annotations

import ast
import json
from typing import Any

from vicinal.cli.errors import UsageError

MODELS = {
    "falk": "FaLKSVC",
    "falk-cv": "FaLKSVCCV",
    "fast": "FastLSVC",
    "knn-svm": "KNNSVC",
    "cover-knn": "CoverTreeClassifier",
    "nsv": "NSVClassifier",
    "pskc": "PSKClassifier",
    "rsvm": "RSVMClassifier",
    "skla": "SKLAClassifier",
    "reduced-set": "ReducedSetClassifier",
    "ldkl": "LDKLClassifier",
}
"""The names of estimators, and their classes in `vicinal`."""

SCALERS = {"minmax": "MinMaxScaler", "standard": "StandardScaler", "none": None}
"""The names of scalers, and their classes in `sklearn.preprocessing`."""

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def build(name: str, settings: list[str], *, jobs: int, seed: int | None) -> Any:
    """Return an estimator with parameters as they were given, checked."""
    import vicinal

    if name not in MODELS:
        raise UsageError(f"there is no model {name!r}; there are {', '.join(MODELS)}.")
    estimator = getattr(vicinal, MODELS[name])()
    if "estimator" in estimator.get_params():
        from sklearn.svm import SVC

        estimator.set_params(estimator=SVC())  # so that its parameters have names
    known = estimator.get_params()
    chosen = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--set takes NAME=VALUE; {setting!r} has no '='.")
        if key not in known:
            raise UsageError(f"{name} has no parameter {key!r}; it has {', '.join(sorted(known))}.")
        chosen[key] = value_of(text)
    defaults = {"n_jobs": jobs} | ({} if seed is None else {"random_state": seed})
    estimator.set_params(**{key: value for key, value in defaults.items() if key in known})
    estimator.set_params(**chosen)
    try:
        estimator._validate_params()
        if "estimator" in known:
            estimator.estimator._validate_params()
    except ValueError as error:
        raise UsageError(str(error)) from error
    return estimator


def with_scaler(estimator: Any, scaler: str) -> Any:
    """Return a pipeline that scales features first, or the estimator itself for "none"."""
    from sklearn import preprocessing
    from sklearn.pipeline import make_pipeline

    if scaler not in SCALERS:
        raise UsageError(f"there is no scale {scaler!r}; there are {', '.join(SCALERS)}.")
    kind = SCALERS[scaler]
    return estimator if kind is None else make_pipeline(getattr(preprocessing, kind)(), estimator)


def value_of(text: str) -> Any:
    """Return the value of a Python or JSON literal, else the text itself.

    Examples
    --------
    >>> [value_of(text) for text in ("250", "[1, 4]", "1e-3", "none", "rbf")]
    [250, [1, 4], 0.001, None, 'rbf']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError):
            continue
    return text


def last_step(model: Any) -> Any:
    """Return the estimator at the end of a pipeline, or the model that is no pipeline."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def n_support_vectors(estimator: Any) -> int | None:
    """Return the number of support vectors of all machines, where there are such."""
    import numpy as np

    return int(np.sum(estimator.n_support_)) if hasattr(estimator, "n_support_") else None


def load(path: str, *, jobs: int) -> Any:
    """Load a model that predicts with some number of threads."""
    from vicinal.io import load

    model = load(path)
    if hasattr(last_step(model), "n_jobs"):
        last_step(model).n_jobs = jobs
    return model
