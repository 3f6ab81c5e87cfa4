"""Local deep kernel learning in ONNX: all queries go down all trees side by side, level by level.

A walk that has ended stays at one more node, whose numbers are zeros. At every level each query
gathers the numbers of its nodes, so memory is bounded by answering a run of queries at a time.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from vicinal.io.onnx_graph import Graph, doubles, ints
from vicinal.io.onnx_parts import framed, rows_at_once
from vicinal.ldkl import LDKLModel
from vicinal.ldkl.blend import Blend
from vicinal.ldkl.forest import Forest
from vicinal.problem import Floats


def scored(g: Graph, model: LDKLModel, X: str) -> str:
    """Return the scores of queries in the user's units, a column for each output."""
    machines, queries = model.forest, framed(g, model.frame, X)
    score: _Walked | _Blended
    if isinstance(machines, Blend):
        score, width = _Blended(g, machines), machines.weights.size
    else:
        score, width = _Walked(g, machines), len(machines.roots) * machines.weights[0].size
    n_queries, rows = g.length(queries), rows_at_once(width)
    starts = g.range(n_queries, rows)
    ends = g("Min", g("Add", starts, np.int64(rows)), n_queries)
    i, j = np.triu_indices(machines.n_features + 1)

    def answer(g: Graph, start: str, end: str) -> str:
        x = g.double(g("Slice", queries, start, end))
        x = g("Pad", x, ints(0, 0, 0, 1), doubles(np.float32(machines.form.constant)))
        z = x
        if machines.form.quadratic:
            z = g("Mul", g("Gather", x, i, axis=1), g("Gather", x, j, axis=1))
        return score(g, x, z)

    return g.in_runs(starts, ends, answer, np.empty((0, machines.n_outputs)))


class _Walked:
    """The scores of trees."""

    def __init__(self, g: Graph, forest: Forest) -> None:
        self.forest = forest
        # The last node is where ended walks are; splits of leaves lead there too.
        self.splits = g.constant(_and_zeros(forest.splits), "splits")
        self.gates = g.constant(_and_zeros(forest.gates), "gates")
        self.weights = g.constant(_and_zeros(forest.weights), "weights")
        children = np.full((forest.n_nodes + 1, 2), forest.n_nodes, dtype=np.int64)
        children[: forest.n_inner] = forest.children
        children[children < 0] = forest.n_nodes
        self.children = g.constant(children.ravel(), "children")

    def __call__(self, g: Graph, x: str, z: str) -> str:
        forest, sigma = self.forest, doubles(np.float32(self.forest.form.sigma))
        x, z = g("Unsqueeze", x, ints(1)), g("Unsqueeze", z, ints(1, 2))
        shape = g("Concat", g.length(x), ints(len(forest.roots)), axis=0)
        nodes = g("Expand", forest.roots.astype(np.int64), shape)
        product, total = "", ""
        for level in range(forest.depth):
            gate = g("Tanh", g("Mul", _dots(g, self.gates, nodes, x, 2), sigma))
            if forest.form.compositional:
                gate = product = g("Mul", product, gate) if level else gate
            machines = _dots(g, self.weights, nodes, z, 3)
            parts = g("Mul", machines, g("Unsqueeze", gate, ints(2)))
            added = g("ReduceSum", parts, ints(1), keepdims=0)
            total = g("Add", total, added) if level else added
            if level + 1 < forest.depth:
                inner = g("Min", nodes, np.int64(forest.n_inner))
                side = g("Greater", _dots(g, self.splits, inner, x, 2), doubles(0.0))
                taken = g("Cast", side, to=TensorProto.INT64)
                at = g("Add", g("Mul", nodes, np.int64(2)), taken)
                nodes = g("Gather", self.children, at)
        return total


class _Blended:
    """The scores of machines side by side."""

    def __init__(self, g: Graph, blend: Blend) -> None:
        self.blend = blend
        weights = blend.weights.reshape(-1, blend.weights.shape[2])
        self.gates = g.constant(np.ascontiguousarray(blend.gates.T), "gates")
        self.weights = g.constant(np.ascontiguousarray(weights.T), "weights")

    def __call__(self, g: Graph, x: str, z: str) -> str:
        blend, sigma = self.blend, doubles(np.float32(self.blend.form.sigma))
        arguments = g("Mul", g("MatMul", x, g.double(self.gates)), sigma)
        shares = g("Unsqueeze", g("Softmax", arguments, axis=1), ints(2))
        machines = g("MatMul", z, g.double(self.weights))
        by_machine = g("Reshape", machines, ints(-1, len(blend.gates), blend.n_outputs))
        return g("ReduceSum", g("Mul", by_machine, shares), ints(1), keepdims=0)


def _dots(g: Graph, rows: str, nodes: str, x: str, axis: int) -> str:
    gathered = g.double(g("Gather", rows, nodes))
    return g("ReduceSum", g("Mul", gathered, x), ints(axis), keepdims=0)


def _and_zeros(rows: Floats) -> Floats:
    return np.concatenate([rows, np.zeros_like(rows, shape=(1, *rows.shape[1:]))])
