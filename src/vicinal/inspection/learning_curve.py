"""Accuracy and fit time against the number of training points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedShuffleSplit, learning_curve

from vicinal.inspection.drawing import (
    colours,
    count_axis,
    need,
    new_axes,
    percent_axis,
    plain,
    seconds_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LearningCurve:
    """Accuracy on held-out points, and the time of the fit, against the number of training points.

    Make it with :meth:`from_estimator`. All parameters are kept as attributes.

    Parameters
    ----------
    train_sizes : int array of shape (n_sizes,)
    scores : dict of arrays of shape (n_sizes, n_splits)
        Accuracy on held-out points, by the name of the estimator.
    fit_times : dict of arrays of shape (n_sizes, n_splits)
        Seconds.
    score_name : str, default="accuracy"
        What the scores are.

    Attributes
    ----------
    axes_ : array of matplotlib Axes
        Of accuracy and of time.
    figure_ : matplotlib Figure
    score_lines_, time_lines_ : list of matplotlib Line2D
        One for each estimator.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVC
    >>> from vicinal.inspection import LearningCurve
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> curve = LearningCurve.from_estimator(FaLKSVC(50), X, y, train_sizes=[100, 800])
    >>> curve.train_sizes
    array([100, 800])
    """

    def __init__(
        self,
        *,
        train_sizes: NDArray[np.intp],
        scores: Mapping[str, NDArray[np.float64]],
        fit_times: Mapping[str, NDArray[np.float64]],
        score_name: str = "accuracy",
    ) -> None:
        self.train_sizes = train_sizes
        self.scores = scores
        self.fit_times = fit_times
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        train_sizes: ArrayLike | None = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        axes: Sequence[Axes] | None = None,
    ) -> Self:
        """Fit one or several estimators to more and more points.

        Parameters
        ----------
        estimator : estimator, or dict of estimators by name
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        train_sizes : array-like, default=None
            Numbers or shares of training points, as in
            :func:`sklearn.model_selection.learning_curve`; None takes seven shares from 1 % to all,
            each 2.15 times the one before.
        cv : int, splitter or iterable, default=None
            As there; None holds out a fifth of the points, three times.
        scoring : str or callable, default=None
            As there; None is the accuracy.
        n_jobs : int, default=None
            Fits at a time, as there. Several make each other slow, which the times show.
        random_state : int, RandomState instance or None, default=0
            For cv=None.
        axes : sequence of two matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : LearningCurve
        """
        need("pyplot")
        several = estimator if isinstance(estimator, Mapping) else {_name(estimator): estimator}
        if not several:
            raise ValueError("estimator is an empty dict: give at least one estimator by name.")
        if cv is None:
            cv = StratifiedShuffleSplit(n_splits=3, test_size=0.2, random_state=random_state)
        elif not hasattr(cv, "split") and not isinstance(cv, int):
            cv = list(cv)  # every estimator needs the splits
        scores, fit_times = {}, {}
        for name, each in several.items():
            sizes, _, scores[name], fit_times[name], _ = learning_curve(
                each,
                X,
                y,
                train_sizes=np.geomspace(0.01, 1, 7) if train_sizes is None else train_sizes,
                cv=cv,
                scoring=scoring,
                n_jobs=n_jobs,
                return_times=True,
                error_score="raise",
            )
        score_name = "accuracy"
        if scoring is not None:
            score_name = scoring.replace("_", " ") if isinstance(scoring, str) else "score"
        return cls(
            train_sizes=sizes, scores=scores, fit_times=fit_times, score_name=score_name
        ).plot(axes)

    def plot(self, axes: Sequence[Axes] | None = None) -> Self:
        """Draw accuracy above and time below.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        display : LearningCurve
        """
        if axes is None:
            axes = new_axes(2, 1, sharex=True, figsize=(6.4, 6.4))[:, 0]
        above, below = axes
        palette = colours(len(self.scores))
        self.score_lines_ = self._draw(above, self.scores, palette)
        self.time_lines_ = self._draw(below, self.fit_times, palette)
        if self.score_name == "accuracy":
            percent_axis(above.yaxis)
        above.set_ylabel(f"{self.score_name} on held-out points")
        seconds_axis(below, "seconds to fit")
        for ax in axes:
            ax.grid(alpha=0.3)
            count_axis(ax, "training points")
        if len(self.scores) > 1:
            above.legend(frameon=False)
        if above.get_shared_x_axes().joined(above, below):
            above.set_xlabel("")
        self.axes_ = np.asarray(axes)
        self.figure_: Any = above.figure
        return self

    def _draw(
        self, ax: Any, values: Mapping[str, NDArray[np.float64]], palette: list[Any]
    ) -> list[Any]:
        lines = []
        for (name, runs), colour, marker in zip(
            values.items(), palette, _markers(len(palette)), strict=True
        ):
            lines += ax.plot(
                self.train_sizes, runs.mean(axis=1), color=colour, marker=marker, label=plain(name)
            )
            if runs.shape[1] > 1:
                band = runs.min(axis=1), runs.max(axis=1)
                ax.fill_between(self.train_sizes, *band, color=colour, alpha=0.2, linewidth=0)
        return lines


def _name(estimator: Any) -> str:
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    return type(last).__name__


def _markers(count: int) -> list[str]:
    """Return a marker for each curve, so that colour is not all that tells them apart."""
    return [("o", "s", "^", "D", "v", "P", "X")[each % 7] for each in range(count)]
