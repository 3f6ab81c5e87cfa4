"""Regions of queries that have thresholds of their own: the leaves of a shallow tree."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from vicinal.problem import Codes, Floats


class Regions(NamedTuple):
    """A tree whose nodes ask whether a feature exceeds a limit.

    Parameters
    ----------
    feature : int32 array of shape (n_nodes,)
        -1 at leaves.
    limit : float32 array of shape (n_nodes,)
    below, above : int32 array of shape (n_nodes,)
        Where to go, always to a later node; at leaves, the number of the region.
    """

    feature: Codes
    limit: Floats
    below: Codes
    above: Codes

    @classmethod
    def one(cls) -> Self:
        """Return the tree without a question."""
        zero = np.zeros(1, dtype=np.int32)
        return cls(zero - 1, np.zeros(1, dtype=np.float32), zero, zero)

    @classmethod
    def grow(
        cls,
        queries: Floats,
        errors: Floats,
        n_regions: int,
        n_least: int,
        random_state: np.random.RandomState,
    ) -> Self:
        """Part queries so that errors are much alike in each region.

        No region has fewer than `n_least` of them, so there may be fewer regions than asked for.
        """
        if n_regions == 1 or len(queries) < 2 * n_least:
            return cls.one()
        regressor = DecisionTreeRegressor(
            max_leaf_nodes=n_regions, min_samples_leaf=n_least, random_state=random_state
        )
        tree = regressor.fit(queries, errors).tree_
        is_leaf = tree.children_left < 0
        number = np.cumsum(is_leaf) - 1
        return cls(
            np.where(is_leaf, -1, tree.feature).astype(np.int32),
            np.where(is_leaf, 0.0, tree.threshold).astype(np.float32),
            np.where(is_leaf, number, tree.children_left).astype(np.int32),
            np.where(is_leaf, number, tree.children_right).astype(np.int32),
        )

    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return int((self.feature < 0).sum())

    def of(self, queries: Floats) -> Codes:
        """Return the region of each query."""
        node = np.zeros(len(queries), dtype=np.intp)
        open_ = np.arange(len(queries))
        while self.n_regions > 1 and len(open_):
            here = node[open_]
            open_, here = open_[self.feature[here] >= 0], here[self.feature[here] >= 0]
            exceeds = queries[open_, self.feature[here]] > self.limit[here]
            node[open_] = np.where(exceeds, self.above[here], self.below[here])
        return self.below[node]

    def rows(self, queries: Floats) -> list[NDArray[np.intp]]:
        """Return the rows of the queries in each region."""
        regions = self.of(queries)
        return [np.flatnonzero(regions == number) for number in range(self.n_regions)]
