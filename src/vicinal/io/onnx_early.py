"""The machine behind nearest support vectors in ONNX: all of its vectors, for every query.

There is no stopping early: operators work on whole matrices, where a vector left out saves nothing.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from vicinal.io.onnx_graph import Graph, doubles, ints
from vicinal.io.onnx_parts import framed, kernel_values, rows_at_once, votes
from vicinal.kernels import KernelSpec
from vicinal.nsv.expansion import Expansion, Lift
from vicinal.problem import Doubles


def decided(g: Graph, expansion: Expansion, X: str) -> str:
    """Return the decisions of a machine for queries in the user's units."""
    lift, n_classes = expansion.lift, expansion.n_classes
    queries = framed(g, expansion.frame, X) if lift is None else _lifted(g, lift, X)
    kind, gamma, coef0, degree = expansion.kernel
    spec = KernelSpec(kind, gamma, coef0, degree, 50.0)
    vectors, width = g.constant(expansion.vectors, "vectors"), g.constant(np.float32(gamma))
    n_queries, rows = g.length(queries), rows_at_once(expansion.n_vectors + n_classes**2)
    starts = g.range(n_queries, rows)
    ends = g("Min", g("Add", starts, np.int64(rows)), n_queries)

    def answer(g: Graph, start: str, end: str) -> str:
        x = g.double(g("Slice", queries, start, end))
        values = kernel_values(g, spec, g.double(width), x, g.double(vectors))
        return (_decide_two if n_classes == 2 else _decide_several)(g, expansion, values)

    return g.in_runs(starts, ends, answer, np.empty((0, n_classes) if n_classes > 2 else 0))


def winners(g: Graph, decisions: str) -> str:
    """Return the class of most votes, the first of several: the outputs decide no ties."""
    return g("ArgMax", g("Round", decisions), axis=1, keepdims=0)


def _lifted(g: Graph, lift: Lift, X: str) -> str:
    points = g("Mul", X, doubles(np.sqrt(lift.gamma)))
    one_more = g("Pad", points, ints(0, 0, 0, 1), doubles(np.sqrt(lift.coef0)))
    lengths = g("ReduceL2", one_more, axes=[1], keepdims=1)
    known = g("Where", g("Greater", lengths, doubles(0.0)), lengths, doubles(1.0))
    return g("Cast", g("Div", one_more, known), to=TensorProto.FLOAT)


def _decide_two(g: Graph, expansion: Expansion, values: str) -> str:
    coef = np.repeat([-1.0, 1.0], expansion.class_sv) * expansion.support[0]
    return g("Add", g("MatMul", values, coef), doubles(expansion.bias))


def _decide_several(g: Graph, expansion: Expansion, values: str) -> str:
    ends = np.cumsum(expansion.class_sv, dtype=np.int64)
    parts = []
    for own, (start, end) in enumerate(zip(ends - expansion.class_sv, ends, strict=True)):
        coef = _against_each_class(expansion, own, slice(start, end))
        if start == end:  # an operator needs something to add up
            start, end, coef = 0, 1, np.zeros((1, expansion.n_classes))
        run = g("Slice", values, ints(start), ints(end), ints(1))
        parts.append(g("Unsqueeze", g("MatMul", run, coef), ints(1)))
    each = g("Concat", *parts, axis=1)
    bias = np.zeros((expansion.n_classes, expansion.n_classes))
    bias[np.triu_indices(expansion.n_classes, 1)] = expansion.bias
    both = g("Add", each, g("Transpose", each, perm=[0, 2, 1]))
    outputs = g("Add", both, doubles(bias + bias.T))
    return votes(g, outputs, g.range(g.constant(ints(expansion.n_classes))))


def _against_each_class(expansion: Expansion, own: int, run: slice) -> Doubles:
    """Return what the vectors of a class add to the outputs of its pairs, 0 for its own column.

    Outputs are positive for the later class of a pair.
    """
    support = expansion.support[:, run].T.astype(np.float64)
    sign = np.where(np.arange(expansion.n_classes) < own, 1.0, -1.0)
    coef: Doubles = sign * np.insert(support, own, 0.0, axis=1)
    return coef
