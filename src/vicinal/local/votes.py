"""From the decisions of pairs of classes to classes: the one home of voting in Python.

The engine votes in the same way inside a machine of more than two classes.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Decisions = NDArray[np.float64]


def combine_pairs(pairs: Decisions, n_classes: int) -> Decisions:
    """Turn one-against-one decisions into a score for each class.

    Parameters
    ----------
    pairs : array of shape (n_queries, n_classes * (n_classes - 1) / 2)
        A column for each pair a < b of classes, positive for b.
    n_classes : int

    Returns
    -------
    scores : array of shape (n_queries, n_classes)
        The number of votes, plus a confidence that lies within a third of a vote and so only
        decides between classes with equally many.
    """
    votes = np.zeros((len(pairs), n_classes))
    confidence = np.zeros_like(votes)
    for column, (a, b) in zip(pairs.T, combinations(range(n_classes), 2), strict=True):
        votes[:, a] += column <= 0
        votes[:, b] += column > 0
        confidence[:, a] -= column
        confidence[:, b] += column
    return votes + confidence / (3 * (np.abs(confidence) + 1))


def winners(decisions: Decisions) -> NDArray[np.intp]:
    """Return the code of the winning class of each row, in either of scikit-learn's shapes."""
    if decisions.ndim == 1:
        return (decisions > 0).astype(np.intp)
    return decisions.argmax(axis=1)


def labels(decisions: Decisions, classes: NDArray[Any]) -> NDArray[Any]:
    """Return the label of the winning class of each row."""
    return classes[winners(decisions)]
