"""Local deep kernel learning: the compiled core behind plain functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.engine.cpu import Codes, Floats, _core

_LANES = 16
"""Numbers in a vector of the core: rows of parameters are padded to whole vectors."""


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


class LocalShape(NamedTuple):
    """The size of complete trees in training."""

    n_trees: int
    depth: int
    """Levels of nodes."""
    n_outputs: int
    n_features: int

    @property
    def n_inner(self) -> int:
        """Inner nodes of a tree."""
        return 2 ** (self.depth - 1) - 1

    @property
    def n_nodes(self) -> int:
        """Nodes of a tree; those below node k are 2 k + 1 and 2 k + 2."""
        return 2**self.depth - 1


LOCAL_LOSSES = ("logistic", "hinge", "squared_hinge", "squared_error")
"""Losses by the core's numbers. For more than two classes: softmax, and hinges of the margin to the
strongest rival."""


class LocalDescent(NamedTuple):
    """How complete trees are trained."""

    loss: str = "logistic"
    """One of `LOCAL_LOSSES`."""
    joint: bool = True
    """The trees share one loss; otherwise each has its own."""
    threshold: float = 1e-3
    """A sample is not followed to nodes where less of it arrives."""
    dense: bool = True
    """Nodes that most samples reach are computed for all of them."""
    paths: bool = True
    """Samples are followed only to the nodes that they reach."""
    decay_splits: float = 0.0
    decay_gates: float = 0.0
    decay_weights: float = 0.0


class SoftForest:
    """Complete trees in training: parameters, and the moments of their gradients.

    Parameters
    ----------
    shape : LocalShape
    form : LocalForm

    Attributes
    ----------
    parameters : float32 array of shape (n_trees, n_nodes, width)
        A row for each node: split, gate and machines, each padded with zeros.
    n_steps : int
        Steps taken so far.
    """

    def __init__(self, shape: LocalShape, form: LocalForm) -> None:
        self.shape, self.form = shape, form
        n_local = shape.n_features + 1
        self.n_local = n_local
        self.n_global = n_local * (n_local + 1) // 2 if form.quadratic else n_local
        self._local, self._global = _padded(n_local), _padded(self.n_global)
        width = 2 * self._local + shape.n_outputs * self._global
        self.parameters = np.zeros((shape.n_trees, shape.n_nodes, width), dtype=np.float32)
        self.moments = np.zeros((2, *self.parameters.shape), dtype=np.float32)
        self.n_steps = 0

    @property
    def splits(self) -> Floats:
        """A view of shape (n_trees, n_inner, n_local)."""
        return self.parameters[:, : self.shape.n_inner, : self.n_local]

    @property
    def gates(self) -> Floats:
        """A view of shape (n_trees, n_nodes, n_local)."""
        return self.parameters[:, :, self._local : self._local + self.n_local]

    @property
    def weights(self) -> Floats:
        """A view of shape (n_trees, n_nodes, n_outputs, n_global)."""
        weights = self.parameters[:, :, 2 * self._local :]
        weights = weights.reshape(*weights.shape[:2], self.shape.n_outputs, self._global)
        return weights[..., : self.n_global]

    def descend(
        self,
        descent: LocalDescent,
        points: Floats,
        targets: Floats,
        weights: Floats,
        order: Codes,
        *,
        batch: int,
        rates: Floats,
        sharpness: Floats,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Take a step for each `batch` entries of `order` and return the mean loss of each.

        Stops after a step whose loss is not finite.
        """
        losses = _core.local_descend(
            *self._names(descent),
            points,
            targets,
            weights,
            order,
            batch,
            rates,
            sharpness,
            self.n_steps,
            self.parameters.reshape(-1),
            self.moments.reshape(-1),
            n_threads,
        )
        self.n_steps += len(losses)
        return losses

    def gradient(
        self,
        descent: LocalDescent,
        points: Floats,
        targets: Floats,
        weights: Floats,
        *,
        sharpness: float,
        n_threads: int = 1,
    ) -> tuple[float, Floats]:
        """Return the mean loss of all samples and its gradient, shaped as the parameters."""
        loss, gradient = _core.local_gradient(
            *self._names(descent),
            points,
            targets,
            weights,
            sharpness,
            self.parameters.reshape(-1),
            n_threads,
        )
        return loss, gradient.reshape(self.parameters.shape)

    def score(
        self, descent: LocalDescent, points: Floats, *, sharpness: float, n_threads: int = 1
    ) -> Floats:
        """Return the scores of points on their soft paths, a column for each output."""
        return _core.local_soft_scores(
            *self._names(descent), points, sharpness, self.parameters.reshape(-1), n_threads
        )

    def _names(self, descent: LocalDescent) -> tuple[tuple[Any, ...], ...]:
        how = (LOCAL_LOSSES.index(descent.loss), *descent[1:])
        return tuple(self.shape), tuple(self.form), how


def _padded(n: int) -> int:
    return -(-n // _LANES) * _LANES
