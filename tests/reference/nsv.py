"""Nearest support vectors as in the paper's Figure 2, query by query and step by step.

Double precision, everything sorted, nothing shared with the package.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

LINEAR, RBF, POLY, SIGMOID = 0, 1, 2, 3


def kernel_values(products: NDArray, kernel: tuple, xx: NDArray, vv: NDArray) -> NDArray:
    """From dot products and squared lengths to kernel values."""
    kind, gamma, coef0, degree = kernel
    if kind == RBF:
        return np.exp(-gamma * np.maximum(0.0, xx[:, None] + vv[None] - 2 * products))
    if kind == POLY:
        return (gamma * products + coef0) ** degree
    return np.tanh(gamma * products + coef0) if kind == SIGMOID else gamma * products


class Machine:
    """A one-against-one expansion: vectors by class, LIBSVM's layout, approximations on axes."""

    def __init__(
        self, vectors, class_sv, support, bias, kernel, axes, landmarks=(), basis=()
    ) -> None:
        self.vectors, self.axes = np.asarray(vectors, float), np.asarray(axes, float)
        self.support, self.kernel = np.asarray(support, float), kernel
        self.landmarks, self.basis = np.asarray(landmarks, int), np.asarray(basis, float)
        self.n_classes = len(class_sv)
        self.classes = np.repeat(np.arange(self.n_classes), class_sv)
        self.bias = dict(zip(combinations(range(self.n_classes), 2), bias, strict=True))

    def values(self, queries, *, embedding=None, n_axes=None):
        """Exact kernel values, or those approximated on the first axes or block by block."""
        Q, V = np.asarray(queries, float), self.vectors
        xx, vv = (Q**2).sum(axis=1), (V**2).sum(axis=1)
        if embedding == "pca":
            axes = self.axes[:n_axes]
            return kernel_values((Q @ axes.T) @ (V @ axes.T).T, self.kernel, xx, vv)
        if embedding == "kernel_pca":
            chosen, basis = self.landmarks[:n_axes], self.basis[:n_axes, :n_axes]
            return (self.values(Q)[:, chosen] @ basis.T) @ (self.values(V)[:, chosen] @ basis.T).T
        if embedding == "index":
            return self.block_values(Q)
        return kernel_values(Q @ V.T, self.kernel, xx, vv)

    def blocks(self):
        """Runs of at most sixteen vectors of one class."""
        for a in range(self.n_classes):
            mine = np.flatnonzero(self.classes == a)
            yield from (mine[i : i + 16] for i in range(0, len(mine), 16))

    def block_values(self, Q):
        """One value for all vectors of a block: that of its centre, smoothed for RBF."""
        out = np.empty((len(Q), len(self.vectors)))
        weight = self.support.max(axis=0)
        kind, gamma = self.kernel[:2]
        for block in self.blocks():
            V, w = self.vectors[block], weight[block] / weight[block].sum()
            centre = w @ V
            if kind == RBF:  # the mean over a normal density around the centre
                wider = 1 + 2 * gamma * (w @ (V - centre) ** 2)
                gaps = np.exp(-gamma * (Q - centre) ** 2 / wider) / np.sqrt(wider)
                out[:, block] = gaps.prod(axis=1)[:, None]
            else:
                products = (Q @ centre)[:, None]
                out[:, block] = kernel_values(products, self.kernel, np.zeros(1), np.zeros(1))
        return out

    def start(self):
        """Outputs without any vector: [a, b] is what speaks for a against b."""
        g = np.full((self.n_classes, self.n_classes), np.inf)
        for (a, b), bias in self.bias.items():
            g[b, a], g[a, b] = bias, -bias
        return g

    def add(self, g, i, value):
        """Add the term of vector i."""
        a = self.classes[i]
        for b in range(self.n_classes):
            if a != b:
                term = self.support[b - 1 if a < b else b, i] * value
                g[a, b] += term
                g[b, a] -= term

    def outputs(self, values):
        """All terms of one query."""
        g = self.start()
        for i, value in enumerate(values):
            self.add(g, i, value)
        return g

    def order(self, approximations, *, weighted, balanced):
        """The vectors in the order in which one query touches them."""
        weight = self.support.max(axis=0)
        score = np.abs(approximations) * weight if weighted else approximations
        best = list(np.argsort(-score))
        if not balanced:
            return best
        cumulative, out = np.zeros(self.n_classes), []
        while best:
            left = sorted({self.classes[i] for i in best})
            lightest = min(left, key=lambda a: cumulative[a])
            i = next(i for i in best if self.classes[i] == lightest)
            best.remove(i)
            out.append(i)
            cumulative[lightest] += weight[i]
        return out

    def block_order(self, approximations, *, weighted, balanced):
        """The same for the blocks that one query touches."""
        weight = self.support.max(axis=0)
        blocks = list(self.blocks())
        total = [weight[block].sum() for block in blocks]
        value = [approximations[block[0]] for block in blocks]
        score = np.abs(value) * total if weighted else np.array(value)
        best = list(np.argsort(-score))
        if not balanced:
            return [blocks[i] for i in best]
        cumulative, out = np.zeros(self.n_classes), []
        while best:
            owner = {i: self.classes[blocks[i][0]] for i in best}
            lightest = min(sorted(set(owner.values())), key=lambda a: cumulative[a])
            i = next(i for i in best if owner[i] == lightest)
            best.remove(i)
            out.append(blocks[i])
            cumulative[lightest] += total[i]
        return out

    def trace(
        self, queries, embedding, n_axes, n_steps, *, corrected, weighted=False, balanced=False
    ):
        """The class that wins all pairs after 0, 1, … steps (-1: none), and its least output."""
        leaders = np.full((len(queries), n_steps + 1), -1)
        leanings = np.zeros((len(queries), n_steps + 1))
        exact = self.values(queries)
        rough = self.values(queries, embedding=embedding, n_axes=n_axes)
        by_block = embedding == "index"
        for q in range(len(queries)):
            g = self.outputs(rough[q]) if corrected else self.start()
            way = {"weighted": weighted, "balanced": balanced}
            order = self.block_order(rough[q], **way) if by_block else self.order(rough[q], **way)
            for step in range(n_steps + 1):
                for i in np.atleast_1d(order[step - 1] if step else []).astype(int):
                    self.add(g, i, exact[q, i] - (rough[q, i] if corrected else 0.0))
                winning = np.flatnonzero((g > 0).all(axis=1))
                if len(winning):
                    leaders[q, step] = winning[0]
                    leanings[q, step] = g[winning[0]].min()
        return leaders, leanings


def figure_2(order, terms, bias, low, high):
    """The paper's algorithm for one query: the output at which it stops, and the steps taken."""
    g = bias
    for k, i in enumerate(order, start=1):
        g += terms[i]
        if g < low[k] or g > high[k]:
            return g, k
    return g, len(order)


def simple_thresholds(partial, exact):
    """L_k and H_k from the partial outputs of representative queries after every step."""
    low, high = [], []
    for g in partial.T:
        low.append(min([0.0, *g[(g < 0) & (exact > 0)]]))
        high.append(max([0.0, *g[(g > 0) & (exact <= 0)]]))
    return np.array(low), np.array(high)


def max_smoothed(low, high, window):
    """The widest thresholds over the steps around each."""
    around = [slice(max(0, k - window), k + window + 1) for k in range(len(low))]
    return np.array([low[s].min() for s in around]), np.array([high[s].max() for s in around])
