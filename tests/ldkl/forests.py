"""Random forests for the tests."""

from __future__ import annotations

import numpy as np

from vicinal.engine import LocalForm
from vicinal.ldkl.forest import Forest

FORMS = {
    "plain": LocalForm(),
    "sigma": LocalForm(sigma=0.3, constant=0.5),
    "quadratic": LocalForm(quadratic=True),
    "compositional": LocalForm(sigma=2.0, compositional=True),
}


def random_forest(n_features=5, depths=(3, 4), n_outputs=1, form=FORMS["plain"], seed=0):
    """Complete trees of some depths with random parameters, numbered as a forest numbers nodes."""
    rng = np.random.default_rng(seed)
    n_inner = [2 ** (depth - 1) - 1 for depth in depths]
    n_leaves = [2 ** (depth - 1) for depth in depths]
    first_inner = np.cumsum([0, *n_inner])
    first_leaf = np.cumsum([sum(n_inner), *n_leaves])
    children, roots = [], []
    for t, inner in enumerate(n_inner):
        at = [*range(first_inner[t], first_inner[t + 1]), *range(first_leaf[t], first_leaf[t + 1])]
        roots.append(at[0])
        children += [[at[2 * k + 1], at[2 * k + 2]] for k in range(inner)]
    n_local = n_features + 1
    n_global = n_local * (n_local + 1) // 2 if form.quadratic else n_local
    n_nodes = sum(n_inner) + sum(n_leaves)
    return Forest(
        rng.normal(size=(sum(n_inner), n_local)).astype(np.float32),
        rng.normal(size=(n_nodes, n_local)).astype(np.float32),
        rng.normal(size=(n_nodes, n_outputs, n_global)).astype(np.float32),
        np.array(children, dtype=np.int32).reshape(-1, 2),
        np.array(roots, dtype=np.int32),
        form,
    )
