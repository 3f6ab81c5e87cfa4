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


def soft_score(forest, sharpness, queries):
    """Scores of trees in training: every query takes every path, each with its share."""
    return np.array([_soft_score(forest, sharpness, x) for x in queries])


def _soft_score(forest, sharpness, query):
    x = np.append(query.astype(np.float64), forest.form.constant)
    z = np.array([x[i] * x[j] for i in range(len(x)) for j in range(i, len(x))])
    z = z if forest.form.quadratic else x
    scores = np.zeros(forest.shape.n_outputs)
    for splits, gates, weights in zip(forest.splits, forest.gates, forest.weights, strict=True):
        share = np.ones(forest.shape.n_nodes)
        product = np.ones(forest.shape.n_nodes)
        for k in range(forest.shape.n_nodes):
            product[k] *= np.tanh(forest.form.sigma * (gates[k].astype(np.float64) @ x))
            scores += share[k] * product[k] * (weights[k].astype(np.float64) @ z)
            if k >= forest.shape.n_inner:
                continue
            t = np.tanh(sharpness * (splits[k].astype(np.float64) @ x))
            share[2 * k + 1] = share[k] * (1 - t) / 2
            share[2 * k + 2] = share[k] * (1 + t) / 2
            if forest.form.compositional:
                product[2 * k + 1] = product[2 * k + 2] = product[k]
    return scores


def loss(name, scores, targets, weights):
    """The mean loss, of one score for two classes and of a score a class for more."""
    own = targets.astype(int)
    if name == "squared_error":
        losses = (scores[:, 0] - targets) ** 2 / 2
    elif scores.shape[1] == 1:
        margin = np.where(own == 1, 1, -1) * scores[:, 0]
        losses = {
            "logistic": np.log1p(np.exp(-margin)),
            "hinge": np.maximum(0, 1 - margin),
            "squared_hinge": np.maximum(0, 1 - margin) ** 2,
        }[name]
    else:
        of_own = scores[np.arange(len(own)), own]
        rivals = scores + np.where(np.arange(scores.shape[1]) == own[:, None], -np.inf, 0)
        losses = {
            "logistic": np.log(np.exp(scores).sum(axis=1)) - of_own,
            "hinge": np.maximum(0, 1 - of_own + rivals.max(axis=1)),
            "squared_hinge": np.maximum(0, 1 - of_own + rivals.max(axis=1)) ** 2,
        }[name]
    return float(np.mean(weights * losses))
