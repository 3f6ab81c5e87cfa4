"""What the selection of parameters found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.inspection.drawing import FAINT, colours, ink, need, new_axes, percent_axis
from vicinal.local.selection import FaLKSVCCV

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SelectionDisplay:
    """The accuracy of every candidate of a :class:`vicinal.FaLKSVCCV`, and which of them won.

    Make it with :meth:`from_estimator`. All parameters are kept as attributes.

    Parameters
    ----------
    sizes : list of int
        The values of k.
    kernels : list of dict
        The values of all parameters but k and C, such as percentiles.
    C : list of float
    accuracy : array of shape (n_sizes, n_kernels, n_C)
        Mean accuracy in the cross-validation; NaN where a candidate was not tried.
    n_centres : int array of shape (n_sizes, n_kernels, n_C)
        At how many centres each was tried.
    best : tuple of int
        Position of the winner.

    Attributes
    ----------
    dropped : bool array of shape (n_sizes, n_kernels, n_C)
        Candidates that were tried at fewer centres than others of their size.
    axes_ : array of matplotlib Axes
        One for each size, or one alone for lines.
    figure_ : matplotlib Figure
    images_ : list of matplotlib QuadMesh
        The heat map of each size; empty where lines are drawn.
    lines_ : list of matplotlib Line2D
        If only k and one more parameter vary: one for each k; empty where heat maps are drawn.
    best_ : matplotlib Artist
        The mark of the winner.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal import FaLKSVCCV
    >>> from vicinal.inspection import SelectionDisplay
    >>> X, y = make_moons(600, noise=0.2, random_state=0)
    >>> model = FaLKSVCCV(n_neighbors=(50, 100), random_state=0).fit(X, y)
    >>> display = SelectionDisplay.from_estimator(model)
    >>> display.sizes[display.best[0]] == model.best_params_["n_neighbors"]
    True
    """

    def __init__(
        self,
        *,
        sizes: list[int],
        kernels: list[dict[str, Any]],
        C: list[float],
        accuracy: NDArray[np.float64],
        n_centres: NDArray[np.intp],
        best: tuple[int, int, int],
    ) -> None:
        self.sizes = sizes
        self.kernels = kernels
        self.C = C
        self.accuracy = accuracy
        self.n_centres = n_centres
        self.best = best

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """Candidates that were tried at fewer centres than others of their size."""
        most = self.n_centres.max(axis=(1, 2), keepdims=True)
        return (self.n_centres > 0) & (self.n_centres < most)

    @classmethod
    def from_estimator(cls, estimator: Any, *, axes: Sequence[Axes] | None = None) -> Self:
        """Draw what a selection found.

        Parameters
        ----------
        estimator : FaLKSVCCV, or a Pipeline that ends in one
        axes : sequence of matplotlib Axes, default=None
            As in :meth:`plot`.

        Returns
        -------
        display : SelectionDisplay
        """
        need("pyplot")
        if isinstance(estimator, Pipeline):
            estimator = estimator[-1]
        if not isinstance(estimator, FaLKSVCCV):
            raise TypeError(
                f"{type(estimator).__name__} selects no parameters: give a FaLKSVCCV, or a Pipeline"
                " that ends in one."
            )
        check_is_fitted(estimator, "cv_results_")
        results = estimator.cv_results_
        params: list[dict[str, Any]] = results["params"]
        sizes = sorted({each["n_neighbors"] for each in params})
        C = sorted({each["C"] for each in params})
        kernels: list[dict[str, Any]] = []
        for each in map(_kernel, params):
            if each not in kernels:
                kernels.append(each)
        shape = len(sizes), len(kernels), len(C)
        accuracy, n_centres = np.full(shape, np.nan), np.zeros(shape, dtype=np.intp)
        places = [
            (sizes.index(each["n_neighbors"]), kernels.index(_kernel(each)), C.index(each["C"]))
            for each in params
        ]
        columns = tuple(np.transpose(places))
        accuracy[columns] = results["mean_test_score"]
        n_centres[columns] = results["n_centres"]
        best = places[int(np.argmin(results["rank_test_score"]))]
        return cls(
            sizes=sizes, kernels=kernels, C=C, accuracy=accuracy, n_centres=n_centres, best=best
        ).plot(axes)

    def plot(self, axes: Sequence[Axes] | None = None) -> Self:
        """Draw a heat map for each k, or lines if at most one parameter beside k varies.

        A heat map has accuracies in percent; candidates that were dropped are hatched, those that
        were not tried are grey, and the winner has a frame. On lines the dropped have no dot,
        and the winner has a star.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, default=None
            One for each k, or one alone for lines; None makes a new figure.

        Returns
        -------
        display : SelectionDisplay
        """
        self.images_: list[Any] = []
        self.lines_: list[Any] = []
        if min(len(self.C), len(self.kernels)) == 1:
            axes = [new_axes()[0, 0]] if axes is None else axes
            self._draw_lines(axes[0])
        else:
            axes = self._one_for_each_size() if axes is None else axes
            self._draw_maps(axes)
        self.axes_ = np.asarray(axes)
        self.figure_: Any = axes[0].figure
        return self

    def _draw_maps(self, axes: Any) -> None:
        rectangle = need("patches").Rectangle
        lowest, highest = np.nanmin(self.accuracy), np.nanmax(self.accuracy)
        shades = {"cmap": "cividis", "vmin": lowest, "vmax": max(highest, lowest + 1e-3)}
        for ax, size, accuracy, dropped in zip(
            axes, self.sizes, self.accuracy, self.dropped, strict=True
        ):
            self.images_.append(ax.pcolormesh(np.ma.masked_invalid(accuracy), **shades))
            grey = {"facecolor": FAINT, "alpha": 0.3, "linewidth": 0, "label": "not tried"}
            untried = [rectangle((j, i), 1, 1, **grey) for i, j in np.argwhere(np.isnan(accuracy))]
            for box in untried:
                ax.add_patch(box)
            if untried:  # below the axes, beside the name of the horizontal one
                place = {"loc": "upper right", "bbox_to_anchor": (1, 0), "borderaxespad": 1.8}
                look = {"frameon": False, "fontsize": "small", "handlelength": 1, "borderpad": 0}
                ax.legend(handles=untried[:1], **place, **look)
            for row, column in np.argwhere(~np.isnan(accuracy)):
                value = accuracy[row, column]
                # Fixed colours: they must differ from the cell, whatever the background.
                letters = "#101010" if value > (lowest + highest) / 2 else "#fafafa"
                if dropped[row, column]:
                    box = {"fill": False, "edgecolor": letters, "alpha": 0.45, "linewidth": 0}
                    ax.add_patch(rectangle((column, row), 1, 1, hatch="////", **box))
                ax.text(
                    column + 0.5,
                    row + 0.5,
                    f"{100 * value:.1f}",
                    color=letters,
                    ha="center",
                    va="center",
                    fontsize="small",
                )
            ax.set_xticks(np.arange(len(self.C)) + 0.5, [f"{C:g}" for C in self.C])
            ax.set_yticks(np.arange(len(self.kernels)) + 0.5, self._kernel_labels())
            ax.tick_params(length=0)
            ax.set(title=f"k = {size}", xlabel="C", ylabel=self._kernel_name())
        size, kernel, C = self.best
        self.best_: Any = axes[size].add_patch(
            rectangle((C, kernel), 1, 1, fill=False, edgecolor="#D55E00", linewidth=4)
        )
        axes[size].set_title(f"k = {self.sizes[size]}, with the best")

    def _draw_lines(self, ax: Any) -> None:
        accuracy = self.accuracy.reshape(len(self.sizes), -1)
        dropped = self.dropped.reshape(len(self.sizes), -1)
        line, place = self.best[0], max(self.best[1:])
        names = [f"k = {size}" for size in self.sizes]
        ticks, label = self._kernel_labels(), self._kernel_name()
        if len(self.C) > 1:
            ticks, label = [f"{C:g}" for C in self.C], "C"
        elif len(self.kernels) == 1:  # nothing but k
            accuracy, dropped, line, place = accuracy.T, dropped.T, 0, line
            names, ticks, label = ["accuracy"], [str(size) for size in self.sizes], "k"
        for values, gone, name, colour in zip(
            accuracy, dropped, names, colours(len(names)), strict=True
        ):
            kept = np.flatnonzero(~np.isnan(values) & ~gone).tolist()
            self.lines_ += ax.plot(values, color=colour, marker="o", markevery=kept, label=name)
        (self.best_,) = ax.plot(
            [place], [accuracy[line, place]], "*", color=ink(), markersize=14, label="best"
        )
        ax.set_xticks(range(len(ticks)), ticks)
        ax.set(xlabel=label, ylabel="accuracy in the cross-validation")
        ax.grid(color=FAINT, alpha=0.3)
        percent_axis(ax.yaxis)
        ax.legend(frameon=False)

    def _one_for_each_size(self) -> Sequence[Axes]:
        n_columns = min(2, len(self.sizes))
        n_rows = -(-len(self.sizes) // n_columns)
        inches = 4.4 * n_columns, (1.1 + 0.45 * len(self.kernels)) * n_rows
        axes = new_axes(n_rows, n_columns, figsize=inches).ravel()
        for unused in axes[len(self.sizes) :]:
            unused.remove()
        kept: Sequence[Axes] = axes[: len(self.sizes)]
        return kept

    def _kernel_name(self) -> str:
        names = {name for kernel in self.kernels for name in kernel}
        return names.pop() if len(names) == 1 else "kernel"

    def _kernel_labels(self) -> list[str]:
        if self._kernel_name() != "kernel":
            return [_short(value) for kernel in self.kernels for value in kernel.values()]
        return [
            "\n".join(f"{name} {_short(value)}" for name, value in kernel.items())
            for kernel in self.kernels
        ]


def _kernel(params: dict[str, Any]) -> dict[str, Any]:
    """Return what tells the kernels of candidates apart."""
    return {
        name: value
        for name, value in params.items()
        if name not in ("n_neighbors", "C") and value is not None
    }


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"
