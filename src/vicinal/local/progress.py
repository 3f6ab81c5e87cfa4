"""Progress of a fit: callbacks, the report, and what is left behind when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from sklearn.base import BaseEstimator

Report = dict[str, dict[str, Any]]
"""Seconds and counts of each step of a fit."""

Attributes = Callable[[], dict[str, Any]]


class Progress:
    """Tells the callbacks of an estimator how far a task is, in a fixed number of steps.

    Parameters
    ----------
    context : CallbackContext
        Of a task whose `max_subtasks` is `n_steps`.
    name : str
        Of a step.
    n_steps : int
    hook_arguments : dict
        The estimator and its data.
    """

    def __init__(self, context: Any, name: str, n_steps: int, hook_arguments: dict[str, Any]):
        self._context = context
        self._name = name
        self._n_steps = n_steps
        self._arguments = hook_arguments
        self._n_ended = 0
        self.stopped = False
        self._begin_step()

    def reach(self, share: float, attributes: Attributes | None = None) -> bool:
        """Report a share of the work as done; return whether a callback wants no more of it.

        `attributes` makes the fitted attributes of an estimator that would stop here.
        """
        n_done = int(share * self._n_steps)
        while self._n_ended < n_done:
            # Only the last of several steps has a new estimator to show.
            last = self._n_ended + 1 == n_done
            self.stopped |= self._end_step(attributes if last else None)
            if self._n_ended < self._n_steps:
                self._begin_step()
        return self.stopped

    def _begin_step(self) -> None:
        self._step = self._context.subcontext(task_name=self._name)
        self._step.call_on_fit_task_begin(**self._arguments)

    def _end_step(self, attributes: Attributes | None) -> bool:
        self._n_ended += 1
        return bool(
            self._step.call_on_fit_task_end(**self._arguments, reconstruction_attributes=attributes)
        )


def hook_arguments(estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
    """Return what every hook of a callback is told."""
    metadata = None if sample_weight is None else {"sample_weight": sample_weight}
    return {"estimator": estimator, "X": X, "y": y, "metadata": metadata}


@contextmanager
def timed(report: Report, step: str) -> Iterator[None]:
    """Add the time spent inside to a step of a report."""
    begin = perf_counter()
    try:
        yield
    finally:
        count(report, step, seconds=perf_counter() - begin)


def count(report: Report, step: str, **numbers: float) -> None:
    """Add some numbers to a step of a report."""
    entry = report.setdefault(step, {})
    for name, number in numbers.items():
        entry[name] = entry.get(name, 0) + number


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Take fitted attributes back to what they were if a fit fails or is interrupted."""
    before = _fitted(estimator)
    try:
        yield
    except BaseException:
        for name in _fitted(estimator):
            delattr(estimator, name)
        estimator.__dict__.update(before)
        raise


def _fitted(estimator: BaseEstimator) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}
