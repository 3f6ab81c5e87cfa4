"""Which centres exist, and which of them owns each training point.

A candidate becomes a centre unless an earlier centre's k'-neighbourhood holds it already, which
looks sequential. It need not be: the neighbourhoods of the next candidates are found in parallel,
and then they are accepted in order, those still uncovered. The result is the same as one by one.

Candidates come in the order of the cover tree's levels, the highest first, so that early centres
are far apart (Segata & Blanzieri, JMLR 11, 2010, Eq. 9), or in random order (the same, Fast Local
Support Vector Machines for Large Datasets, 2008, Section 2.2).

Duplicates are never candidates: a neighbourhood ends after k' points, so of many equal ones some
would stay uncovered for ever and each become a centre. They belong where their twin belongs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vicinal import engine
from vicinal.local.machines import Neighbourhoods
from vicinal.neighbors.index import NeighbourIndex, make_index
from vicinal.problem import Codes

Order = Literal["levels", "random"]
Ownership = Literal["rank", "first"]

_UNRANKED = np.iinfo(np.int32).max
_SEARCHES_PER_THREAD = 8
_LARGEST_SEARCH = 1 << 22  # indices in one batch of neighbourhoods


@dataclass(frozen=True)
class Cover:
    """Centres as positions of points, and the number of the centre that owns each point."""

    centres: Codes
    owners: Codes
    n_assigned: int


def candidates(levels: Codes, order: Order, random_state: np.random.RandomState) -> Codes:
    """Return the points that may become centres, in the order in which they are tried.

    Parameters
    ----------
    levels : int32 array of shape (n_points,)
        Of a cover tree of all points.
    order : {"levels", "random"}
    random_state : RandomState
    """
    distinct = np.flatnonzero(levels != engine.DUPLICATE).astype(np.int32)
    if order == "random":
        return random_state.permutation(distinct)
    depth = levels[distinct].max() - levels[distinct]
    # NumPy sorts short integers in linear time, and a base above 1.01 goes no deeper.
    return distinct[np.argsort(np.minimum(depth, 2**15 - 1).astype(np.int16), kind="stable")]


def twins(tree: engine.NeighbourIndex) -> Codes:
    """Return for each duplicate the first point equal to it, and -1 for all others."""
    return np.where(tree.levels == engine.DUPLICATE, tree.parents, -1).astype(np.int32)


class Covering:
    """A cover in the making.

    Parameters
    ----------
    index : NeighbourIndex
    order : int32 array
        The candidates, in order.
    twin_of : int32 array of shape (n_points,)
        The equal point whose owner a duplicate gets, -1 for other points.
    n_neighbors, n_assigned : int
        Size of the neighbourhoods, and of the part of them that counts as covered.
    ownership : {"rank", "first"}
        A point belongs to the centre in whose neighbourhood it comes earliest (Eq. 11 of the 2010
        paper), or to the first one that covered it.
    n_threads : int
    """

    def __init__(
        self,
        index: NeighbourIndex,
        order: Codes,
        twin_of: Codes,
        *,
        n_neighbors: int,
        n_assigned: int,
        ownership: Ownership,
        n_threads: int,
    ) -> None:
        n_points = len(index.points)
        self._index = index
        self._order = order
        self._twin_of = twin_of
        self._n_neighbors = n_neighbors
        self._n_assigned = n_assigned
        self._n_threads = n_threads
        self._covered = np.zeros(n_points, dtype=np.uint8)
        self._ranks = np.full(n_points, _UNRANKED, dtype=np.int32)
        self._owners = np.full(n_points, -1, dtype=np.int32)
        self._first = np.full(n_points, -1, dtype=np.int32) if ownership == "first" else None
        self._centres: list[Codes] = []
        self.n_centres = 0
        self.n_searches = 0
        self._tried = 0

    @property
    def share_covered(self) -> float:
        """Share of the points that lie in the k'-neighbourhood of some centre."""
        return np.count_nonzero(self._covered) / len(self._covered)

    def batches(self) -> Iterator[Neighbourhoods]:
        """Yield the neighbourhoods of the next centres until every candidate is covered."""
        smallest = _SEARCHES_PER_THREAD * self._n_threads
        largest = max(smallest, _LARGEST_SEARCH // self._n_neighbors)
        size = smallest
        while len(batch := self._next_uncovered(size)):
            _, neighbours = self._index.query(
                self._index.points[batch], self._n_neighbors, n_threads=self._n_threads
            )
            accepted = engine.accept_centres(
                batch,
                neighbours,
                self._n_assigned,
                self._covered,
                self._ranks,
                self._owners,
                self.n_centres,
            )
            if self._first is not None:
                self._claim(batch[accepted], neighbours[accepted])
            self._centres.append(batch[accepted])
            self.n_centres += int(accepted.sum())
            self.n_searches += len(batch)
            # A search for a candidate that is then refused was for nothing: fewer at a time when
            # many are refused, more when hardly any is. No size changes the result.
            refused = 1.0 - accepted.mean()
            if refused > 0.25:
                size = max(smallest, size // 2)
            elif refused < 0.1:
                size = min(largest, size * 2)
            yield neighbours[accepted]

    def cover(self) -> Cover:
        """Return the cover by the centres found so far, in which every point has an owner."""
        centres = np.concatenate(self._centres)
        owners = (self._owners if self._first is None else self._first).copy()
        waiting = np.flatnonzero((owners < 0) & (self._twin_of >= 0))
        owners[waiting] = owners[self._twin_of[waiting]]
        homeless = np.flatnonzero(owners < 0)
        if len(homeless):  # stopped early: the nearest centre serves
            nearest = make_index(
                self._index.points[centres], self._index.metric, n_threads=self._n_threads
            )
            _, found = nearest.query(self._index.points[homeless], 1, n_threads=self._n_threads)
            owners[homeless] = found[:, 0]
        return Cover(centres, owners, self._n_assigned)

    def _next_uncovered(self, count: int) -> Codes:
        found: list[Codes] = []
        width = count
        while count > 0 and self._tried < len(self._order):
            width *= 2  # as more and more are covered, what is left lies farther apart
            window = self._order[self._tried : self._tried + width]
            at = np.flatnonzero(self._covered[window] == 0)[:count]
            self._tried += int(at[-1]) + 1 if len(at) == count else len(window)
            found.append(window[at])
            count -= len(at)
        return np.concatenate(found) if found else self._order[:0]

    def _claim(self, centres: Codes, neighbours: Neighbourhoods) -> None:
        """Give points without an owner to the first of some centres that covers them."""
        assert self._first is not None
        ids = self.n_centres + np.arange(len(centres), dtype=np.int32)
        # The centre counts among its own even where twins crowd it out of its neighbourhood.
        points = np.column_stack([centres, neighbours[:, : self._n_assigned]])
        owners = np.broadcast_to(ids[:, None], points.shape)
        points, owners = points.ravel()[::-1], owners.ravel()[::-1]
        free = self._first[points] < 0
        # Of several assignments to one place the last one stays: backwards, that is the first.
        self._first[points[free]] = owners[free]
