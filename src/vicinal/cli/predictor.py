"""A model that answers a file piece by piece, and so one of any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.cli.data import DataFile
from vicinal.cli.data.batch import Batch
from vicinal.cli.data.labels import as_text, as_written
from vicinal.cli.errors import DataError, UsageError
from vicinal.cli.models import last_step, load
from vicinal.local.votes import winners

Codes = NDArray[np.intp]


class Predictor:
    """Predicts a file batch by batch, and counts."""

    def __init__(
        self,
        model: str,
        file: DataFile,
        *,
        jobs: int,
        decision: bool = False,
        labels: bool = True,
    ) -> None:
        self._model = load(model, jobs=jobs)
        if not hasattr(self._model, "classes_"):
            raise UsageError(f"{model} is no classifier.")
        self._file = file.for_model(self._model, labels=labels)
        self._decide = _decision_of(self._model) if decision else None
        self._winners = getattr(last_step(self._model), "_winners", winners)
        self.classes = as_written(self._model.classes_)
        self.texts = self.classes.astype(object)
        self.texts[:] = as_text(self._model.classes_)
        self.n_points = 0
        self.seconds = 0.0

    @property
    def rate(self) -> float | None:
        """Queries answered in a second, without the time for reading them."""
        return self.n_points / self.seconds if self.seconds else None

    def __iter__(self) -> Iterator[tuple[Batch, Codes, Any]]:
        """Yield batch, codes of the labels, and decisions."""
        for batch in self._file.batches():
            begin = perf_counter()
            if self._decide is None:
                decisions = None
                codes = np.searchsorted(self._model.classes_, self._model.predict(batch.X))
            else:
                decisions = self._decide(batch.X)
                codes = self._winners(decisions)
            self.seconds += perf_counter() - begin
            self.n_points += len(codes)
            yield batch, codes, decisions

    def compared(self) -> tuple[Any, Any]:
        """Return true and predicted labels of the whole file."""
        true, codes = [], []
        for batch, found, _ in self:
            if batch.y is None:
                raise DataError(f"{self._file.title} has no labels to compare with.")
            true.append(batch.y)
            codes.append(found)
        return np.concatenate(true), self.classes[np.concatenate(codes)]


def _decision_of(model: Any) -> Callable[[Any], Any]:
    for name in ("decision_function", "predict_proba"):
        if hasattr(model, name):
            return getattr(model, name)
    raise UsageError(f"--decision: {type(model).__name__} makes no decisions, only labels.")
