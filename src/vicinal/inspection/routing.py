"""How the machines of a model share the queries, and how well each answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from vicinal.inspection.drawing import (
    FAINT,
    colours,
    count_axis,
    ink,
    legend_above,
    need,
    new_axes,
    percent_axis,
)
from vicinal.inspection.subject import Subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RoutingDisplay:
    """How many queries each machine answers, and its accuracy: where the model is weak.

    Make it with :meth:`from_estimator`. All parameters are kept as attributes.

    Parameters
    ----------
    n_queries : int array of shape (n_machines,)
        Queries that each machine answers.
    n_correct : int array of shape (n_machines,)
        Those that it answers correctly.
    unanimous : bool array of shape (n_machines,)
        Machines whose neighbourhood holds one class.

    Attributes
    ----------
    accuracy : array of shape (n_machines,)
        NaN for a machine without queries.
    score : float
        Accuracy of all machines together.
    weakest : int array
        The machines that make more errors than the model does on average, those with the most
        errors above it first.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    machines_ : list of matplotlib PathCollection
        Of machines with several classes, and of those with one.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVC
    >>> from vicinal.inspection import RoutingDisplay
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> model = FaLKSVC(n_neighbors=50).fit(X[:500], y[:500])
    >>> display = RoutingDisplay.from_estimator(model, X[500:], y[500:])
    >>> int(display.n_queries.sum())
    500
    """

    def __init__(
        self,
        *,
        n_queries: NDArray[np.intp],
        n_correct: NDArray[np.intp],
        unanimous: NDArray[np.bool_],
    ) -> None:
        self.n_queries = n_queries
        self.n_correct = n_correct
        self.unanimous = unanimous

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Share of its queries that each machine answers correctly."""
        return self.n_correct / np.where(self.n_queries > 0, self.n_queries, np.nan)

    @property
    def score(self) -> float:
        """Share of all queries that are answered correctly."""
        return float(self.n_correct.sum() / self.n_queries.sum())

    @property
    def weakest(self) -> NDArray[np.intp]:
        """Machines with more errors than average, those with the most above it first."""
        excess = self.score * self.n_queries - self.n_correct
        order = np.argsort(-excess, kind="stable")
        return order[excess[order] > 1e-9 * len(excess)]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_named: int = 3,
        ax: Axes | None = None,
    ) -> Self:
        """Ask a fitted model about points whose class is known.

        Parameters
        ----------
        estimator : FaLKSVC, FastLSVC, FaLKSVCCV, or a Pipeline that ends in one
        X : array-like of shape (n_queries, n_features)
            Points that were not used for training, or the accuracy is too good.
        y : array-like of shape (n_queries,)
        n_named, ax
            As in :meth:`plot`.

        Returns
        -------
        display : RoutingDisplay
        """
        need("pyplot")
        subject = Subject.of(estimator, X)
        machines = subject.model.machines
        routes = subject.routes(subject.X)
        correct = subject.predict(subject.X) == np.asarray(y)
        return cls(
            n_queries=np.bincount(routes, minlength=len(machines)),
            n_correct=np.bincount(routes[correct], minlength=len(machines)),
            unanimous=machines.unanimous,
        ).plot(ax, n_named=n_named)

    def plot(self, ax: Axes | None = None, *, n_named: int = 3) -> Self:
        """Draw a dot for each machine that answers queries, a larger one for several in a place.

        The band is where nine of ten machines would lie if all were equally good.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        n_named : int, default=3
            How many of the weakest machines to name.

        Returns
        -------
        display : RoutingDisplay
        """
        if ax is None:
            ax = new_axes()[0, 0]
        self._draw_band(ax)
        ax.axhline(
            self.score, color=FAINT, linewidth=1, label=f"all together: {100 * self.score:.1f} %"
        )
        self._draw_machines(ax)
        self._draw_names(ax, n_named)
        count_axis(ax, "queries that the machine answers")
        percent_axis(ax.yaxis)
        ax.set_ylabel("accuracy")
        legend_above(ax)
        self.ax_ = ax
        self.figure_: Any = ax.figure
        return self

    def _draw_band(self, ax: Any) -> None:
        sizes = np.unique(np.geomspace(1, max(2, self.n_queries.max()), 200).astype(int))
        low, high = (binom.ppf(q, sizes, self.score) / sizes for q in (0.05, 0.95))
        ax.fill_between(
            sizes, low, high, color=FAINT, alpha=0.18, linewidth=0, label="expected by chance"
        )

    def _draw_machines(self, ax: Any) -> None:
        asked = self.n_queries > 0
        several, one = colours(2)
        looks: list[tuple[NDArray[np.bool_], dict[str, Any]]] = [
            (~self.unanimous, {"color": several, "label": "machines, the weakest numbered"}),
            (self.unanimous, {"color": one, "label": "machines of one class", "marker": "s"}),
        ]
        self.machines_ = []
        for kind, look in looks:
            places = np.column_stack([self.n_queries, self.accuracy])[asked & kind]
            (x, y), counts = _distinct(places)
            ax.scatter([], [], s=18, alpha=0.7, linewidths=0, **look)  # for the legend
            look = {**look, "label": None, "s": 18 * np.sqrt(counts)}
            self.machines_.append(ax.scatter(x, y, alpha=0.7, linewidths=0, **look))

    def _draw_names(self, ax: Any, n_named: int) -> None:
        named: dict[tuple[float, float], list[str]] = {}
        for machine in self.weakest[:n_named]:
            place = float(self.n_queries[machine]), float(self.accuracy[machine])
            named.setdefault(place, []).append(str(machine))
        for number, (place, names) in enumerate(named.items()):
            shift = 5, (-3, 5, -11)[number % 3]  # so that neighbours do not hide each other
            beside = {"xytext": shift, "textcoords": "offset points", "fontsize": "small"}
            ax.annotate(", ".join(names), place, **beside, color=ink())


def _distinct(places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return coordinates without repetition, and how often each place was there."""
    found, counts = np.unique(places, axis=0, return_counts=True)
    return found.T, counts
