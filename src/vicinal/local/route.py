"""Which machine answers a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from vicinal.kernels import Metric
from vicinal.local.cover import Cover
from vicinal.neighbors.index import Algorithm, NeighbourIndex, make_index
from vicinal.problem import Codes, Floats

Routing = Literal["rank", "first", "centre"]


@dataclass(frozen=True)
class Route:
    """The machine of the nearest indexed point.

    Parameters
    ----------
    index : NeighbourIndex
        Of all training points, or of the centres alone.
    machine_of : int32 array
        The machine that each indexed point sends its queries to.
    """

    index: NeighbourIndex
    machine_of: Codes

    @classmethod
    def to_owner(cls, index: NeighbourIndex, cover: Cover) -> Route:
        """Queries go where their nearest training point belongs (Eq. 12 of the 2010 paper)."""
        return cls(index, cover.owners)

    @classmethod
    def to_nearest_centre(
        cls,
        points: Floats,
        cover: Cover,
        metric: Metric,
        *,
        algorithm: Algorithm,
        n_threads: int,
    ) -> Route:
        """Queries go to the nearest centre (Eq. 10: FaLK-SVMc)."""
        index = make_index(points[cover.centres], metric, algorithm=algorithm, n_threads=n_threads)
        return cls(index, np.arange(len(cover.centres), dtype=np.int32))

    def __call__(self, queries: Floats, *, n_threads: int) -> Codes:
        """Return the machine of each query."""
        _, nearest = self.index.query(queries, 1, n_threads=n_threads)
        return self.machine_of[nearest[:, 0]]
