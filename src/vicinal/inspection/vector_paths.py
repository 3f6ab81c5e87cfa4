"""The paths of the vectors of a sparse kernel machine while it is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from vicinal.inspection.drawing import colours, ink, legend_above, need, new_axes, plain
from vicinal.inspection.plane import Features, Plane
from vicinal.problem import Doubles
from vicinal.sparse import PSKClassifier, RSVMClassifier, SKLAClassifier

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHARED = (
    "n_vectors", "fraction", "C", "kernel", "gamma", "degree", "coef0", "init", "class_weight",
)  # fmt: skip


class VectorPathsDisplay:
    """Where the vectors of a machine go while it is trained, and its objective beside them.

    Make it with :meth:`from_estimator`. All parameters are kept as attributes.

    Parameters
    ----------
    paths : array of shape (n_steps + 1, n_vectors, 2)
        The place of every vector on a plane before the first step and after each.
    objective : array of shape (n_steps + 1,)
    places : array of shape (n_points, 2)
        Of the training points on that plane.
    y : array of shape (n_points,)
    labels : tuple of str, default=("", "")
        Of the two axes of the plane.

    Attributes
    ----------
    axes_ : array of matplotlib Axes
        Of the paths and of the objective.
    figure_ : matplotlib Figure
    path_lines_ : list of matplotlib Line2D
        One for each vector.
    objective_line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import PSKClassifier
    >>> from vicinal.inspection import VectorPathsDisplay
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = PSKClassifier(6, C=10, init="random", random_state=0)
    >>> display = VectorPathsDisplay.from_estimator(model, X, y)
    >>> display.paths.shape[1:]
    (6, 2)
    """

    def __init__(
        self,
        *,
        paths: Doubles,
        objective: Doubles,
        places: Doubles,
        y: NDArray[Any],
        labels: tuple[str, str] = ("", ""),
    ) -> None:
        self.paths = paths
        self.objective = objective
        self.places = places
        self.y = y
        self.labels = labels

    @classmethod
    def from_estimator(
        cls,
        estimator: PSKClassifier | SKLAClassifier,
        X: ArrayLike,
        y: ArrayLike,
        *,
        features: Features | None = None,
        axes: Sequence[Axes] | None = None,
    ) -> Self:
        """Train a copy of a machine and watch its vectors.

        Parameters
        ----------
        estimator : PSKClassifier or SKLAClassifier
            It need not be fitted, and is left as it is.
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        features : tuple of two int or "pca", default=None
            Columns of X, or the first two principal components of the training points. None is
            "pca" where there are more than two columns.
        axes : sequence of two matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : VectorPathsDisplay
        """
        need("pyplot")
        if not isinstance(estimator, PSKClassifier | SKLAClassifier):
            raise TypeError(
                f"{type(estimator).__name__} moves no vectors: give a PSKClassifier or a"
                " SKLAClassifier."
            )
        points = check_array(X, dtype=np.float64)
        seed = check_random_state(estimator.random_state).randint(2**31 - 1)
        model = clone(estimator).set_params(random_state=seed, warm_start=False)
        # What never moves stays at the start, and has the objective of squared losses there.
        parameters = {name: getattr(model, name) for name in _SHARED}
        start = RSVMClassifier(random_state=seed, **parameters).fit(points, y)
        watcher = _Watcher()
        model.set_callbacks(watcher).fit(points, y)
        steps = [start.vectors_, *watcher.vectors]
        first = start.objective_ if isinstance(model, PSKClassifier) else [np.nan]
        names = [f"feature {i}" for i in range(points.shape[1])]
        plane = Plane.of(points, names, features)
        return cls(
            paths=np.array([plane.project(vectors) for vectors in steps]),
            objective=np.concatenate([first, model.objective_[: len(watcher.vectors)]]),
            places=plane.project(points),
            y=np.asarray(y),
            labels=(plane.labels[0].split("\n")[0], plane.labels[1]),
        ).plot(axes)

    def plot(self, axes: Sequence[Axes] | None = None) -> Self:
        """Draw the paths on the left and the objective on the right.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        display : VectorPathsDisplay
        """
        if axes is None:
            axes = new_axes(1, 2, figsize=(10.0, 4.6))[0]
        left, right = axes
        classes = np.unique(self.y)
        for label, colour in zip(classes, colours(len(classes)), strict=True):
            mine = self.places[self.y == label]
            left.plot(*mine.T, ".", color=colour, alpha=0.4, markersize=4, label=plain(label))
        self.path_lines_ = [
            left.plot(*path.T, color=ink(), linewidth=0.8)[0]
            for path in self.paths.transpose(1, 0, 2)
        ]
        for ends, marker, name in ((self.paths[0], "s", "start"), (self.paths[-1], "o", "end")):
            left.plot(*ends.T, marker, color=ink(), fillstyle="none", markersize=6, label=name)
        left.set_xlabel(self.labels[0])
        left.set_ylabel(self.labels[1])
        legend_above(left)
        self.objective_line_: Any = right.plot(self.objective, color=ink())[0]
        right.set_yscale("log")
        right.set_xlabel("step")
        right.set_ylabel("objective")
        right.grid(alpha=0.3)
        self.axes_ = np.asarray(axes)
        self.figure_: Any = left.figure
        return self


class _Watcher:
    """A callback that keeps the vectors after every step."""

    def __init__(self) -> None:
        self.vectors: list[Doubles] = []

    def setup(self, estimator: Any, context: Any) -> None:
        """Begin anew."""
        self.vectors = []

    def teardown(self, estimator: Any, context: Any) -> None:
        """Keep what there is."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Wait for the end of the step."""

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        """Keep the vectors of a step; the whole fit, which ends too, has no more to tell."""
        if fitted_estimator is not None and context.task_name == "steps":
            self.vectors.append(fitted_estimator.vectors_)
        return False
