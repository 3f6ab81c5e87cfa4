"""What all displays draw with: matplotlib, imported when it is needed, and colours.

Lines and letters have the colour that matplotlib's style gives to text, so that pictures are
readable on a dark background too.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# As different to colour-blind eyes as to others, on white and on black: few colours of Okabe and
# Ito, more of Petroff.
_FEW = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C"]
_MORE = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6"]
_MORE += ["#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"]

FAINT = "#808080"
"""Lines that only guide the eye."""


def need(module: str) -> Any:
    """Import a module of matplotlib, or say how to install it."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib: install it with pip install 'vicinal[plot]'."
        ) from error


def new_axes(n_rows: int = 1, n_columns: int = 1, **options: Any) -> Any:
    """Return an array of axes in a new figure."""
    _, axes = need("pyplot").subplots(
        n_rows, n_columns, squeeze=False, layout="constrained", **options
    )
    return axes


def ink() -> str:
    """Return the colour of lines and letters."""
    return str(need("pyplot").rcParams["text.color"])


def colours(n: int) -> list[Any]:
    """Return a colour for each of n classes or curves."""
    for palette in (_FEW, _MORE):
        if n <= len(palette):
            return list(palette[:n])
    return list(need("pyplot").get_cmap("turbo")(np.linspace(0, 1, n)))


def plain(value: Any) -> str:
    """Return a name that comes from data as matplotlib takes it literally."""
    return str(value).replace("$", r"\$")


def legend_above(ax: Any, **options: Any) -> None:
    """Put the legend above the axes, where it hides nothing, in as many columns as fit."""
    look = {"frameon": False, "fontsize": "small", "borderaxespad": 0.3, "columnspacing": 1.2}
    ncols = legend_columns(ax.figure.get_figwidth() * ax.get_position(original=True).width)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=ncols, **look, **options)


def legend_columns(inches: float) -> int:
    """Return how many columns of a legend fit above axes of a width."""
    return max(1, int(inches / 1.65))


def count_axis(ax: Axes, label: str) -> None:
    """Make the horizontal axis one of counts of very different sizes, written out in full."""
    ax.set_xscale("log")
    _plain_ticks(ax.xaxis, "{x:,.0f}")
    ax.set_xlabel(label)


def seconds_axis(ax: Axes, label: str) -> None:
    """Make the vertical axis one of very different times."""
    ax.set_yscale("log")
    _plain_ticks(ax.yaxis, "{x:g}")
    ax.set_ylabel(label)


def _plain_ticks(axis: Any, form: str) -> None:
    """Write the numbers of a logarithmic axis without powers of ten."""
    ticker = need("ticker")
    low, high = axis.get_view_interval()
    if high < 50 * low:  # else there might be one tick only, or none
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(form)
    axis.set_minor_formatter(ticker.NullFormatter())


def percent_axis(axis: Any) -> None:
    """Write shares as percentages."""
    axis.set_major_formatter(need("ticker").FuncFormatter(lambda x, _: f"{100 * x:.4g} %"))
