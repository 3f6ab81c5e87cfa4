"""A map of local models: decisions, centres, neighbourhoods, and who answers where."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from vicinal.inspection.drawing import (
    FAINT,
    colours,
    ink,
    legend_above,
    legend_columns,
    need,
    new_axes,
    plain,
)
from vicinal.inspection.outlines import outline_neighbourhoods
from vicinal.inspection.plane import Features, Plane, Region, inside
from vicinal.inspection.subject import Subject
from vicinal.problem import Codes, Doubles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Layer = Literal["regions", "routes", "points", "centres", "neighbourhoods"]
LAYERS: tuple[Layer, ...] = ("regions", "routes", "points", "centres", "neighbourhoods")

MOST_NAMED = 10
"""Classes in a legend; the colours of more are too alike."""


class LocalModelsDisplay:
    """A map of the machines of a fitted model, as the first figures of the FaLK-SVM paper.

    Make it with :meth:`from_estimator`. All parameters are kept as attributes.

    Parameters
    ----------
    region : tuple of float
        Left, right, lower and upper end of the map.
    decisions : int array of shape (resolution, resolution)
        Position in `classes` of the predicted class, the lowest row first.
    routes : int array of shape (resolution, resolution)
        Number of the machine that answers.
    points : array of shape (n_points, 2)
        A sample of the data.
    targets : int array of shape (n_points,)
        Positions of their labels in `classes`.
    classes : array of shape (n_classes,)
    centres : array of shape (n_machines, 2)
    outlines : sequence of pairs of arrays of shape (n_corners, 2)
        The neighbourhoods of some machines: around the k points that train it, and around the k'
        points that its centre covers.
    n_neighbors, n_assigned : int
        The sizes k and k'.
    labels : tuple of str
        Of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    regions_, borders_ : matplotlib AxesImage or None
    points_, centres_ : matplotlib PathCollection or None
    outlines_ : list of matplotlib Line2D
        Two for each neighbourhood.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVC
    >>> from vicinal.inspection import LocalModelsDisplay
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> model = FaLKSVC(n_neighbors=50).fit(X, y)
    >>> display = LocalModelsDisplay.from_estimator(model, X, y, resolution=50)
    >>> len(display.centres) == model.n_machines_
    True
    """

    def __init__(
        self,
        *,
        region: Region,
        decisions: NDArray[np.intp],
        routes: Codes,
        points: Doubles,
        targets: NDArray[np.intp],
        classes: NDArray[Any],
        centres: Doubles,
        outlines: Sequence[tuple[Doubles, Doubles]],
        n_neighbors: int,
        n_assigned: int,
        labels: tuple[str, str],
    ) -> None:
        self.region = region
        self.decisions = decisions
        self.routes = routes
        self.points = points
        self.targets = targets
        self.classes = classes
        self.centres = centres
        self.outlines = outlines
        self.n_neighbors = n_neighbors
        self.n_assigned = n_assigned
        self.labels = labels

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        features: Features | None = None,
        region: Region | None = None,
        resolution: int = 500,
        n_points: int = 5000,
        n_neighbourhoods: int = 4,
        random_state: Any = 0,
        layers: Collection[Layer] = LAYERS,
        legend: bool = True,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the map of a fitted model.

        Parameters
        ----------
        estimator : FaLKSVC, FastLSVC, FaLKSVCCV, or a Pipeline that ends in one
            Of a pipeline the last step is drawn, in the features that it gets.
        X : array-like of shape (n_samples, n_features)
            Points to draw, of the training data or others.
        y : array-like of shape (n_samples,)
        features : tuple of two int or "pca", default=None
            The two features to draw, or the first two principal components of X; None takes
            "pca" for more than two features. Points, centres and neighbourhoods are then projected
            to the plane, while decisions and routes are those on the plane through the mean of X.
        region : tuple of float, default=None
            Left, right, lower and upper end of the map; None shows nearly all of X.
        resolution : int, default=500
            Number of places along each axis at which the model is asked.
        n_points : int, default=5000
            Points of X to draw at most, of those inside the region.
        n_neighbourhoods : int, default=4
            Neighbourhoods to outline, far from each other and inside the region if possible.
        random_state : int, RandomState instance or None, default=0
            For the sample of points.
        layers, legend, ax
            As in :meth:`plot`.

        Returns
        -------
        display : LocalModelsDisplay
        """
        need("pyplot")
        subject = Subject.of(estimator, X)
        plane = Plane.of(subject.X, subject.names, features)
        places = plane.project(subject.X)
        region = _around(places) if region is None else region
        low_x, high_x, low_y, high_y = region
        if not (low_x < high_x and low_y < high_y):
            raise ValueError(
                f"region={region!r} is empty: give its left, right, lower and upper end."
            )
        columns, rows = np.meshgrid(
            _middles(low_x, high_x, resolution), _middles(low_y, high_y, resolution)
        )
        grid = plane.lift(np.column_stack([columns.ravel(), rows.ravel()]))
        classes = subject.classifier.classes_
        shape = (resolution, resolution)
        known = np.isin(y, classes)  # a class of other points may be new to the model
        seen = np.flatnonzero(inside(places, region) & known)
        some = check_random_state(random_state).permutation(seen)[:n_points]
        centres = plane.project(subject.places(subject.model.cover.centres))
        return cls(
            region=region,
            decisions=np.searchsorted(classes, subject.predict(grid)).reshape(shape),
            routes=subject.routes(grid).reshape(shape),
            points=places[some],
            targets=np.searchsorted(classes, np.asarray(y)[some]),
            classes=classes,
            centres=centres,
            outlines=outline_neighbourhoods(subject, plane, centres, region, n_neighbourhoods),
            n_neighbors=subject.n_neighbors,
            n_assigned=subject.model.cover.n_assigned,
            labels=plane.labels,
        ).plot(ax, layers=layers, legend=legend)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        layers: Collection[Layer] = LAYERS,
        legend: bool = True,
    ) -> Self:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        layers : collection of str, default=all
            What to draw: "regions" colours each place by its predicted class, "routes" draws the
            borders between the places that different machines answer, "points" are a sample of
            the data, "centres" those of the machines, and "neighbourhoods" outline the k points
            on which some machines were trained, and dashed the k' of them that the centre covers.
        legend : bool, default=True

        Returns
        -------
        display : LocalModelsDisplay
        """
        if unknown := set(layers) - set(LAYERS):
            raise ValueError(f"layers has {sorted(unknown)}, but there are only {list(LAYERS)}.")
        if ax is None:
            ax = new_axes(figsize=(6.4, self.height_for(6.4)))[0, 0]
        handles = self._class_handles() if {"regions", "points"} & set(layers) else []
        self.regions_: Any = None
        self.borders_: Any = None
        self.points_: Any = None
        self.centres_: Any = None
        self.outlines_: list[Any] = []
        if "regions" in layers:
            self._draw_regions(ax)
        if "routes" in layers:
            handles.append(self._draw_routes(ax))
        if "points" in layers:
            self._draw_points(ax)
        if "centres" in layers:
            handles.append(self._draw_centres(ax))
        if "neighbourhoods" in layers:
            handles += self._draw_neighbourhoods(ax)
        ax.set(xlim=self.region[:2], ylim=self.region[2:])
        ax.set_xlabel(plain(self.labels[0]))
        ax.set_ylabel(plain(self.labels[1]))
        if _similar_spans(self.region):
            ax.set_aspect("equal")
        if legend and handles:
            legend_above(ax, handles=handles, markerscale=1.5)
        self.ax_ = ax
        self.figure_: Any = ax.figure
        return self

    def height_for(self, width: float) -> float:
        """Return the inches of a figure of a width in which the map, legend and labels fit."""
        left, right, lower, upper = self.region
        ratio = (upper - lower) / (right - left) if _similar_spans(self.region) else 0.8
        n_entries = 4 + (len(self.classes) if len(self.classes) <= MOST_NAMED else 0)
        n_lines = -(-n_entries // legend_columns(0.775 * width)) + self.labels[0].count("\n")
        return 0.8 + 0.21 * n_lines + (width - 0.8) * ratio

    def _draw_regions(self, ax: Any) -> None:
        self.regions_ = ax.imshow(
            self.decisions, **self._by_class(), **self._image(), alpha=0.28, interpolation="nearest"
        )

    def _draw_routes(self, ax: Any) -> Any:
        lines = np.zeros((*self.routes.shape, 4))
        lines[..., :3] = need("colors").to_rgb(FAINT)
        lines[..., 3] = 0.75 * _borders(self.routes)
        self.borders_ = ax.imshow(lines, **self._image(), interpolation="antialiased")
        return need("lines").Line2D([], [], color=FAINT, label="border between machines")

    def _draw_points(self, ax: Any) -> None:
        size = float(np.clip(10_000 / max(len(self.points), 1), 4, 16))
        dots = {"s": size, "alpha": 0.7, "linewidths": 0, "rasterized": True}
        self.points_ = ax.scatter(*self.points.T, c=self.targets, **self._by_class(), **dots)

    def _draw_centres(self, ax: Any) -> Any:
        seen = self.centres[inside(self.centres, self.region)]
        size = float(np.clip(4000 / max(len(seen), 1), 5, 14))
        self.centres_ = ax.scatter(*seen.T, s=size, color=ink(), linewidths=0, label="centres")
        return self.centres_

    def _draw_neighbourhoods(self, ax: Any) -> list[Any]:
        for pair in self.outlines:
            for outline, style in zip(pair, ["-", "--"], strict=True):
                self.outlines_ += ax.plot(*outline.T, style, color=ink(), linewidth=1.4)
        if self.outlines_:
            self.outlines_[0].set_label(f"k = {self.n_neighbors} train a machine")
            self.outlines_[1].set_label(f"k′ = {self.n_assigned} are covered")
        return self.outlines_[:2]

    def _class_handles(self) -> list[Any]:
        if len(self.classes) > MOST_NAMED:
            return []
        palette = colours(len(self.classes))
        patch = need("patches").Patch
        return [
            patch(color=colour, label=plain(f"class {label}"))
            for label, colour in zip(self.classes, palette, strict=True)
        ]

    def _by_class(self) -> dict[str, Any]:
        """How matplotlib turns codes of classes into colours."""
        palette = colours(len(self.classes))
        cmap = need("colors").ListedColormap(palette)
        return {"cmap": cmap, "vmin": -0.5, "vmax": len(palette) - 0.5}

    def _image(self) -> dict[str, Any]:
        """Where matplotlib puts an image of the region."""
        return {"extent": self.region, "origin": "lower", "aspect": "auto"}


def _around(places: Doubles) -> Region:
    """Return a region that holds nearly all places: a few far ones would make a dot of them."""
    low, high = np.quantile(places, [0.01, 0.99], axis=0)
    margin = np.where(high > low, 0.12 * (high - low), 0.5)
    (x0, y0), (x1, y1) = low - margin, high + margin
    return float(x0), float(x1), float(y0), float(y1)


def _middles(low: float, high: float, count: int) -> Doubles:
    """Return the middles of so many equal parts of an interval."""
    return low + (high - low) * (np.arange(count) + 0.5) / count


def _borders(routes: Codes) -> NDArray[np.bool_]:
    """Return the pixels whose right or upper neighbour has another machine."""
    borders = np.zeros(routes.shape, dtype=bool)
    borders[:, :-1] |= routes[:, :-1] != routes[:, 1:]
    borders[:-1] |= routes[:-1] != routes[1:]
    return borders


def _similar_spans(region: Region) -> bool:
    """Whether equal units on both axes leave a picture and not a strip."""
    left, right, lower, upper = region
    return 1 / 3 < (right - left) / (upper - lower) < 3
