"""Values of parameters to choose from: checked, in order, and as kernels of one problem."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels import Kernel, KernelName, KernelSpec
from vicinal.problem import Problem

_BOUNDS = {
    "n_neighbors": (lambda v: (v >= 2) & (v == np.floor(v)), "integers of at least 2"),
    "C": (lambda v: v > 0, "positive numbers"),
    "gamma_percentile": (lambda v: (v >= 0) & (v <= 100), "numbers from 0 to 100"),
    "degree": (lambda v: (v >= 1) & (v == np.floor(v)), "integers of at least 1"),
    "coef0": (lambda v: v >= 0, "numbers of at least 0"),
    "gamma": (lambda v: v > 0, "positive numbers, 'scale' or 'local'"),
}


def check_grid(name: str, values: Any) -> NDArray[np.float64]:
    """Return the values of a parameter to choose from, in ascending order."""
    valid, description = _BOUNDS[name]
    try:
        grid = np.unique(np.atleast_1d(np.asarray(values, dtype=np.float64)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold {description}; got {values!r}.") from error
    if grid.size == 0 or not (np.isfinite(grid) & valid(grid)).all():
        raise ValueError(f"{name} must hold {description}, and at least one; got {values!r}.")
    return grid


def check_widths(gamma: Any) -> list[Any]:
    """Return the values of gamma to choose from: rules first, then numbers in ascending order."""
    values = [gamma] if isinstance(gamma, str) or np.ndim(gamma) == 0 else list(gamma)
    rules = [rule for rule in ("local", "scale") if any(_is(value, rule) for value in values)]
    numbers = [v for v in values if not (_is(v, "local") or _is(v, "scale"))]
    return rules + (check_grid("gamma", numbers).tolist() if numbers or not rules else [])


def _is(value: Any, rule: str) -> bool:
    return isinstance(value, str) and value == rule


Candidate = tuple[dict[str, Any], KernelSpec]
"""The parameters that set a kernel apart from the others, and the kernel in a problem's frame."""


def kernel_candidates(
    problem: Problem,
    name: KernelName,
    *,
    gamma: Any,
    gamma_percentile: Any,
    degree: Any,
    coef0: Any,
) -> list[Candidate]:
    """Return the kernels that several values of their parameters make.

    Values that play no part, such as a degree of an RBF kernel, make no difference.
    """
    widths = check_widths(gamma)
    percentiles = check_grid("gamma_percentile", gamma_percentile).tolist()
    degrees = check_grid("degree", degree).astype(int).tolist()
    coef0s = check_grid("coef0", coef0).tolist()
    if name != "poly":
        degrees, coef0s = degrees[:1], coef0s[:1]
    if name == "linear":
        widths = widths[:1]
    found: list[Candidate] = []
    for each_degree, each_coef0, width in product(degrees, coef0s, widths):
        kernel = Kernel(name, width, each_degree, each_coef0)
        apart: dict[str, Any] = {}
        if len(degrees) > 1:
            apart["degree"] = each_degree
        if len(coef0s) > 1:
            apart["coef0"] = each_coef0
        if len(widths) > 1:
            apart["gamma"] = width
        if name == "rbf" and width == "local":
            for percentile in percentiles:
                spec = kernel.spec(problem, percentile=percentile)
                found.append(({**apart, "gamma_percentile": percentile}, spec))
        else:
            found.append((apart, kernel.spec(problem, percentile=percentiles[0])))
    return found
