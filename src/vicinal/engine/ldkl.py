"""Local deep kernel learning: the compiled core behind plain functions."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from vicinal.engine.cpu import Codes, Floats, _core


class LocalForm(NamedTuple):
    """What a node of a local forest computes."""

    sigma: float = 1.0
    """Factor of a gate's argument."""
    constant: float = 1.0
    """The last feature of every query, in place of a bias."""
    quadratic: bool = False
    """Machines multiply the products of all pairs of features, not the features."""
    compositional: bool = False
    """A gate is multiplied by all gates above it."""


class LocalForest:
    """Trees of gated linear machines, packed in the order in which a walk reads them.

    Parameters
    ----------
    splits : float32 array of shape (n_inner, n_features + 1)
    gates : float32 array of shape (n_nodes, n_features + 1)
    weights : float32 array of shape (n_nodes, n_outputs, n_global)
    children : int32 array of shape (n_inner, 2)
    roots : int32 array of shape (n_trees,)
    form : LocalForm
    """

    def __init__(
        self,
        splits: Floats,
        gates: Floats,
        weights: Floats,
        children: Codes,
        roots: Codes,
        form: LocalForm,
    ) -> None:
        self._arguments = (splits, gates, weights, children, roots, form)
        self._forest = _core.LocalForest(*self._arguments[:-1], tuple(form))

    def score(self, queries: Floats, *, n_threads: int = 1) -> NDArray[Any]:
        """Return the scores of queries on their hard paths, a column for each output."""
        return self._forest.score(queries, n_threads)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arrays it was made of."""
        return (type(self), self._arguments)
