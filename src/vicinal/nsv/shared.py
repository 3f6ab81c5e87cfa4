"""Machines whose outputs share their vectors, as pairs of classes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels import LINEAR
from vicinal.nsv.expansion import Expansion, one_vector_a_pair
from vicinal.problem import Doubles
from vicinal.sparse import SharedExpansion


def of_pairs(shared: SharedExpansion, n_classes: int) -> Expansion:
    """Return an expansion that has an output for each pair of classes, positive for the later."""
    return _of_pairs(shared, shared.coef, shared.bias, n_classes)


def of_classes(shared: SharedExpansion, n_classes: int) -> Expansion:
    """Return an expansion that has an output for each class, of which the largest wins.

    Such a class wins all its pairs, if the output of a pair is the difference of both.
    """
    if n_classes == 2:
        return of_pairs(shared, 2)
    earlier, later = np.array(list(combinations(range(n_classes), 2))).T
    coef = shared.coef[:, later] - shared.coef[:, earlier]
    return _of_pairs(shared, coef, shared.bias[later] - shared.bias[earlier], n_classes)


def _of_pairs(shared: SharedExpansion, coef: Doubles, bias: Doubles, n_classes: int) -> Expansion:
    """Let a vector stand with every class that it supports against another one."""
    support = np.zeros((n_classes, n_classes, len(coef)))
    for column, (a, b) in enumerate(combinations(range(n_classes), 2)):
        support[a, b] = np.maximum(-coef[:, column], 0.0)
        support[b, a] = np.maximum(coef[:, column], 0.0)
    stands: NDArray[np.bool_] = np.any(support > 0, axis=1)
    if n_classes == 2 and shared.kernel[0] != LINEAR and not stands.any(axis=1).all():
        raise ValueError(
            "The machine has no vectors of one class, so its coefficients are all of one sign:"
            " supported are machines with vectors of both."
        )
    which = [np.flatnonzero(stands[a]) for a in range(n_classes)]
    vectors = shared.vectors[np.concatenate(which)].astype(np.float64)
    class_sv: NDArray[Any] = stands.sum(axis=1)
    against_others = np.concatenate(
        [np.delete(support[a], a, axis=0)[:, stands[a]] for a in range(n_classes)], axis=1
    )
    if shared.kernel[0] == LINEAR:
        vectors, class_sv, against_others = one_vector_a_pair(vectors, class_sv, against_others)
    return Expansion.of_arrays(vectors, class_sv, against_others, bias, shared.kernel, shared.frame)
