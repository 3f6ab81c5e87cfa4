"""The trained trees of local deep kernel learning, as plain arrays.

    C. Jose, P. Goyal, P. Aggrwal, M. Varma: Local deep kernel learning for efficient non-linear SVM
    prediction, ICML 2013.

A query walks from each root to a leaf and adds, at every node that it meets, the node's gate times
its machines. A tree of `depth` levels so costs three dot products at each inner node and two at the
leaf, for one output, whatever the number of its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vicinal import engine
from vicinal.engine import LocalForm, SoftForest
from vicinal.ldkl.blend import Blend
from vicinal.problem import Codes, Floats, Frame

_NEAR = 1.0
"""Centres of columns no farther from zero, in units of the frame, need no other origin."""


@dataclass(frozen=True)
class Forest:
    """Trees of gated linear machines.

    Nodes are numbered with the inner nodes of all trees first, tree by tree and from the top, and
    their leaves after them in the same order; a child's number exceeds its parent's. Below, x is a
    query in its frame with `form.constant` behind its last feature, and z are the global features:
    x itself, or if `form.quadratic` the products ``x[i] * x[j]`` for all ``i <= j``, row by row of
    that triangle.

    Parameters
    ----------
    splits : float32 array of shape (n_inner, n_features + 1)
        A query goes from inner node k to ``children[k, 1]`` if ``splits[k] @ x > 0`` and to
        ``children[k, 0]`` otherwise.
    gates : float32 array of shape (n_nodes, n_features + 1)
        The gate of node k is ``tanh(form.sigma * gates[k] @ x)``; if `form.compositional`, times
        all gates met before in this tree.
    weights : float32 array of shape (n_nodes, n_outputs, n_global)
        Node k adds its gate times ``weights[k] @ z`` to the scores.
    children : int32 array of shape (n_inner, 2)
        -1 where the walk ends.
    roots : int32 array of shape (n_trees,)
        Scores of all trees are added up.
    form : LocalForm
    """

    splits: Floats
    gates: Floats
    weights: Floats
    children: Codes
    roots: Codes
    form: LocalForm

    @property
    def n_features(self) -> int:
        """Number of features, without the constant one."""
        return self.gates.shape[1] - 1

    @property
    def n_inner(self) -> int:
        """Number of inner nodes."""
        return len(self.splits)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.gates)

    @property
    def n_outputs(self) -> int:
        """Number of scores: one for two classes and for regression, else one a class."""
        return self.weights.shape[1]

    @property
    def n_parameters(self) -> int:
        """Number of trained numbers."""
        return self.splits.size + self.gates.size + self.weights.size

    @property
    def cost(self) -> float:
        """Dot products of `n_features` numbers on the most expensive path, over all trees."""
        node = 1 + self.n_outputs * self.weights.shape[2] / self.gates.shape[1]
        below = np.zeros(self.n_nodes + 1)  # the last is the child -1
        below[: self.n_nodes] = node
        for k in reversed(range(self.n_inner)):
            below[k] = 1 + node + below[self.children[k]].max()
        return float(below[self.roots].sum())

    @property
    def depth(self) -> int:
        """Number of nodes on the longest path of a tree."""
        below = np.zeros(self.n_nodes + 1, dtype=np.int64)  # the last is the child -1
        below[: self.n_nodes] = 1
        for k in reversed(range(self.n_inner)):
            below[k] = 1 + below[self.children[k]].max()
        return int(below[self.roots].max())

    @cached_property
    def _packed(self) -> engine.LocalForest:
        return engine.LocalForest(
            self.splits, self.gates, self.weights, self.children, self.roots, self.form
        )

    def score(self, queries: Floats, *, n_threads: int = 1) -> Floats:
        """Return the scores of queries in the frame: an array of shape (n_queries, n_outputs)."""
        return self._packed.score(queries, n_threads=n_threads)

    @classmethod
    def of(cls, soft: SoftForest) -> Self:
        """Return complete trees as they are once their splits are hard."""
        n_trees, n_inner, n_nodes = len(soft.splits), soft.shape.n_inner, soft.shape.n_nodes
        tree, node = np.divmod(np.arange(n_trees * n_nodes, dtype=np.int32), n_nodes)
        order = np.lexsort((node, tree, node >= n_inner))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        of_tree = place.reshape(n_trees, n_nodes)
        children = of_tree[:, 1:].reshape(-1, 2)
        return cls(
            np.ascontiguousarray(soft.splits.reshape(-1, soft.n_local)),
            soft.gates.reshape(-1, soft.n_local)[order],
            soft.weights.reshape(-1, *soft.weights.shape[2:])[order],
            children.astype(np.int32),
            of_tree[:, 0].astype(np.int32),
            soft.form,
        )

    def prune(self, tolerance: float = 0.0) -> Self:
        """Return the forest without the subtrees whose gates all vanish.

        A gate vanishes if none of its numbers exceeds `tolerance` in size.
        """
        kept = np.abs(self.gates).max(axis=1) > tolerance
        kept[self.roots] = True
        kept = np.append(kept, False)  # the child -1
        inner = np.zeros(self.n_nodes, dtype=bool)
        for k in reversed(range(self.n_inner)):
            inner[k] = kept[self.children[k]].any()
            kept[k] |= inner[k]
        numbers = np.flatnonzero(kept)
        numbers = np.concatenate([numbers[inner[numbers]], numbers[~inner[numbers]]])
        place = np.full(self.n_nodes + 1, -1, dtype=np.int32)
        place[numbers] = np.arange(len(numbers))
        inner_numbers = numbers[inner[numbers]]
        return type(self)(
            self.splits[inner_numbers],
            self.gates[numbers],
            self.weights[numbers],
            place[self.children[inner_numbers]],
            place[self.roots],
            self.form,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without what is made again from the arrays."""
        return {name: value for name, value in self.__dict__.items() if name != "_packed"}


@dataclass(frozen=True)
class LDKLModel:
    """A forest and the frame of its queries.

    Parameters
    ----------
    frame : Frame
    forest : Forest or Blend
        Trees, or machines side by side.
    """

    frame: Frame
    forest: Forest | Blend

    def score(self, X: NDArray[Any], *, n_threads: int = 1) -> Floats:
        """Return the scores of rows in the user's units."""
        scores = self.forest.score(self.frame.queries(X), n_threads=n_threads)
        lost = ~np.isfinite(scores).all(axis=1)
        if lost.any():  # so far away that single precision overflows, unless coordinates are cut
            scores[lost] = self.forest.score(self.frame.apply(X[lost]), n_threads=n_threads)
        return scores


def unit_frame(X: NDArray[Any], *, centred: bool = True) -> Frame:
    """Return the frame in which the most variable column varies by about one.

    One unit for all columns, so that their proportions stay what the user made them. Data that are
    in such a frame already stay as they are: moving a query takes a third of the time of its score.
    """
    offset = Frame.of(X, centred=centred).offset
    with np.errstate(over="ignore"):
        spread = np.sqrt(np.mean((X - offset) ** 2, axis=0, dtype=np.float64)).max()
    exponent = np.rint(np.log2(spread)) if 0 < spread < np.inf else 0.0
    if exponent == 0 and np.abs(offset).max() <= _NEAR:
        offset = np.zeros_like(offset)
    return Frame(offset, float(np.exp2(exponent)))
