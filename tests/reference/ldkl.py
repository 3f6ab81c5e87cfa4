"""Local deep kernel learning node by node, as in the paper."""

from __future__ import annotations

import numpy as np


def score(forest, queries):
    """Scores on hard paths, one query and one node at a time."""
    return np.array([_score(forest, x) for x in queries])


def _score(forest, query):
    x = np.append(query.astype(np.float64), forest.form.constant)
    z = np.array([x[i] * x[j] for i in range(len(x)) for j in range(i, len(x))])
    z = z if forest.form.quadratic else x
    scores = np.zeros(forest.n_outputs)
    for k in forest.roots:
        product = 1.0
        while k >= 0:
            gate = np.tanh(forest.form.sigma * (forest.gates[k] @ x))
            product = product * gate if forest.form.compositional else gate
            scores += product * (forest.weights[k].astype(np.float64) @ z)
            k = forest.children[k, int(forest.splits[k] @ x > 0)] if k < forest.n_inner else -1
    return scores
