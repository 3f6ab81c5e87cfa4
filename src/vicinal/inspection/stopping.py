"""Where queries stop that touch only as many support vectors as they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.inspection.drawing import FAINT, colours, ink, legend_above, need, new_axes
from vicinal.nsv.classifier import NSVClassifier
from vicinal.nsv.embedding import BLOCK
from vicinal.nsv.model import Level, NearestVectors
from vicinal.problem import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILTER = -1.0
"""Where on the axis of steps the queries stand that the linear filter has answered."""


class StoppingDisplay:
    """Exact output of each query against the step at which it stops: effort follows difficulty.

    Figure 3 of DeCoste & Mazzoni's paper. Make it with :meth:`from_estimator`. All parameters are
    kept as attributes.

    Parameters
    ----------
    outputs : array of shape (n_queries,)
        Of the exact machine. For two classes it is positive for the second one. For more it is the
        leaning of the class that the query is answered with: the least of the outputs of its pairs.
    steps : int array of shape (n_queries,)
        Vectors that each query touches, as :meth:`~vicinal.NSVClassifier.n_touched` counts.
    filtered : bool array of shape (n_queries,)
        Queries that the linear filter answers.
    changed : bool array of shape (n_queries,)
        Queries that get another label than the exact machine's.
    thresholds : list of tuple of arrays of shape (n_steps + 1,) and (n_lines, n_steps + 1)
        For each walk, how many vectors it has touched after 0, 1, … steps, and what partial outputs
        have to exceed then. Two classes have a line on either side of 0.
    n_support : int
        Number of support vectors.
    n_classes : int

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    queries_ : list of matplotlib PathCollection
        Those that the filter answered, those that stopped, and those with a changed label.
    lines_ : list of matplotlib Line2D
        The thresholds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.svm import SVC
    >>> from vicinal import NSVClassifier
    >>> from vicinal.inspection import StoppingDisplay
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> model = NSVClassifier(SVC(), random_state=0).fit(X[:200], y[:200])
    >>> display = StoppingDisplay.from_estimator(model, X[200:])
    >>> bool((display.steps <= model.n_support_).all())
    True
    """

    def __init__(
        self,
        *,
        outputs: NDArray[Any],
        steps: NDArray[Any],
        filtered: NDArray[np.bool_],
        changed: NDArray[np.bool_],
        thresholds: list[tuple[NDArray[Any], Floats]],
        n_support: int,
        n_classes: int,
    ) -> None:
        self.outputs = outputs
        self.steps = steps
        self.filtered = filtered
        self.changed = changed
        self.thresholds = thresholds
        self.n_support = n_support
        self.n_classes = n_classes

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, *, ax: Axes | None = None) -> Self:
        """Ask a fitted model and its exact machine about some queries.

        Parameters
        ----------
        estimator : NSVClassifier, or a Pipeline that ends in one
            Of one machine: the thresholds of several are no one picture.
        X : array-like of shape (n_queries, n_features)
        ax : matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : StoppingDisplay
        """
        need("pyplot")
        data: Any = X
        if isinstance(estimator, Pipeline):
            check_is_fitted(estimator)
            data = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        if not isinstance(estimator, NSVClassifier):
            raise TypeError(
                f"{type(estimator).__name__} stops nowhere: give an NSVClassifier, or a Pipeline"
                " that ends in one."
            )
        queries = estimator._queries(data)
        model = estimator.model_
        if not isinstance(model, NearestVectors):
            raise ValueError(
                "Every machine of a cover stops at thresholds of its own, which no one picture"
                " shows: give an NSVClassifier of one machine."
            )
        threads = {"n_threads": estimator._n_threads}
        codes, steps = model.answer(queries, **threads)[1:]
        winners, leanings = model.machine.settle(queries, **threads)
        shown = np.ones_like(codes) if leanings.shape[1] == 2 else codes
        filtered = np.zeros(len(queries), dtype=bool)
        if len(model.linear.weights):
            leaders, leads = model.linear.scores(queries)
            filtered = (steps == 0) & (leads > model.linear.thresholds[leaders])
        return cls(
            outputs=leanings[np.arange(len(codes)), shown],
            steps=steps,
            filtered=filtered,
            changed=codes != winners,
            thresholds=[
                (_touched(level), _lines(level.thresholds, leanings.shape[1]))
                for level in model.levels
            ],
            n_support=model.expansion.n_vectors,
            n_classes=len(estimator.classes_),
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw a dot for each query, and the thresholds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        display : StoppingDisplay
        """
        if ax is None:
            ax = new_axes()[0, 0]
        ax.axhline(0.0, color=FAINT, linewidth=1)
        self._draw_queries(ax)
        self._draw_thresholds(ax)
        self._name_steps(ax)
        ax.set_ylabel("exact output" if self.n_classes == 2 else "exact leaning of the leader")
        legend_above(ax)
        self.ax_ = ax
        self.figure_: Any = ax.figure
        return self

    def _draw_queries(self, ax: Any) -> None:
        x = np.where(self.filtered, FILTER, self.steps)
        stopped, wrong, filtered = colours(3)
        dot = {"s": 9, "alpha": 0.5, "linewidths": 0}
        ring = {"s": 60, "facecolors": "none", "linewidths": 1.5}
        kinds: list[tuple[NDArray[np.bool_], str, dict[str, Any]]] = [
            (self.filtered, "answered by the filter", dot | {"color": filtered}),
            (~self.filtered, "stopped", dot | {"color": stopped}),
            (self.changed, "changed labels", ring | {"edgecolors": wrong}),
        ]
        self.queries_ = [
            ax.scatter(x[kind], self.outputs[kind], label=f"{what}: {kind.sum():,}", **look)
            for kind, what, look in kinds
        ]

    def _draw_thresholds(self, ax: Any) -> None:
        self.lines_: list[Any] = []
        for touched, lines in self.thresholds:
            for line in lines:
                label = None if self.lines_ else "thresholds"
                look = {"color": ink(), "linewidth": 1.2, "label": label}
                if len(line) == 1:  # a look at the approximations, and no walk
                    look |= {"marker": "_", "markersize": 14, "linestyle": "none"}
                self.lines_ += ax.plot(touched, line, **look)

    def _name_steps(self, ax: Any) -> None:
        ax.set_xscale("symlog", linthresh=1, linscale=0.5)
        ticks = [FILTER] if self.filtered.any() else []
        tens = 10 ** np.arange(np.log10(self.n_support / 3))
        ticks += [0.0, *tens.tolist(), float(self.n_support)]
        names = ["filter" if tick == FILTER else f"{tick:,.0f}" for tick in ticks]
        names[-1] = f"all\n{names[-1]}"
        ax.set_xticks(ticks, names)
        ax.minorticks_off()
        ax.set_xlim(ticks[0] - 0.5, 1.4 * self.n_support)
        ax.set_xlabel("support vectors touched")


def _touched(level: Level) -> NDArray[Any]:
    """Return how many vectors a walk has touched after each step, about."""
    steps = np.arange(level.thresholds.shape[-1])
    return steps * BLOCK if level.embedding == "index" else steps


def _lines(thresholds: Floats, n_classes: int) -> Floats:
    """Return the different rows of thresholds, those of the first of two classes below 0."""
    n_steps = thresholds.shape[1]
    rows = thresholds.reshape(-1, n_classes, n_steps)
    if n_classes == 2:
        rows = rows * np.array([-1, 1], dtype=np.float32)[:, None]
    return np.unique(rows.reshape(-1, n_steps), axis=0)
