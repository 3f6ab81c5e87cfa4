"""Whether answers still agree with the exact machine on the queries that really come."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.nsv.cover import EarlyCover
from vicinal.nsv.model import NearestVectors
from vicinal.problem import Doubles, Floats


class Fidelity(NamedTuple):
    """What a check found out.

    Parameters
    ----------
    n_queries, n_checked, n_changed : int
        Of the queries checked, so many have another label than the exact machine's.
    disagreement : float
        The share of changed labels among all queries, as estimated from those checked.
    """

    n_queries: int
    n_checked: int
    n_changed: int
    disagreement: float


@dataclass(frozen=True)
class Usual:
    """What the features of the calibration data are like."""

    mean: Doubles
    spread: Doubles

    @classmethod
    def of(cls, queries: Floats) -> Usual:
        """Measure some queries."""
        spread = queries.std(axis=0, dtype=np.float64)
        return cls(queries.mean(axis=0, dtype=np.float64), np.where(spread > 0, spread, 1.0))

    def dissimilarity(self, queries: Floats) -> Doubles:
        """Return how unlike the usual each query is: about 1 for those that are like it."""
        return np.square((queries - self.mean) / self.spread).mean(axis=1)


def check(
    model: NearestVectors | EarlyCover,
    usual: Usual,
    queries: Floats,
    *,
    share: float,
    limit: float | None,
    random_state: np.random.RandomState,
    n_threads: int,
) -> tuple[Fidelity, NDArray[Any]]:
    """Answer some queries exactly too, and those unlike the calibration data more often.

    Returns
    -------
    fidelity : Fidelity
    changed : int array
        The queries whose label changed.
    """
    unlike = 1.0 + usual.dissimilarity(queries)
    chance = np.minimum(1.0, share * len(queries) * unlike / unlike.sum())
    chosen = np.flatnonzero(random_state.random_sample(len(queries)) < chance)
    early = model.answer(queries[chosen], n_threads=n_threads).codes
    exact = model.answer_exactly(queries[chosen], n_threads=n_threads).codes
    changed = early != exact
    # Each stands for as many queries as its chance was small.
    disagreement = float((changed / chance[chosen]).sum() / len(queries))
    found = Fidelity(len(queries), len(chosen), int(changed.sum()), disagreement)
    if limit is not None and disagreement > limit:
        warnings.warn(
            f"About {100 * disagreement:.2g} % of these queries get another label than the exact"
            f" machine's ({found.n_changed} of {found.n_checked} checked), above the limit of"
            f" {100 * limit:.2g} %: calibrate with data like them, or lower max_disagreement.",
            stacklevel=3,
        )
    return found, chosen[changed]
