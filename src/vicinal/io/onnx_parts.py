"""The parts of a prediction in ONNX: scalers, frame, route, kernel expansion, votes.

Arrays of the model are single precision, as in the engine, and all arithmetic on them is double:
squared distances come from dot products, and in single precision too little would be left of them.

Queries are answered machine by machine: they are sorted by their routes, cut into runs of one
machine, and a loop over the runs gathers the support vectors of each once. Memory beyond that of
the queries is bounded, for a run is no longer than `_CELLS` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from onnx import TensorProto
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from vicinal.io.onnx_graph import Graph, doubles, ints
from vicinal.io.onnx_machines import expansions
from vicinal.kernels import EUCLIDEAN, POLY, RBF, KernelSpec, Metric
from vicinal.local.model import LocalModel
from vicinal.nsv.expansion import SIGMOID
from vicinal.problem import FAR, Frame
from vicinal.sparse import SharedExpansion

_CELLS = 1 << 20
"""Numbers in an intermediate matrix, about: eight megabytes."""

_MOST_ROWS = 4096
"""Queries of one run, at most."""


def scaled(g: Graph, scaler: Any, X: str) -> str:
    """Scale as scikit-learn does, operation by operation."""
    steps: list[tuple[str, Any]]
    if isinstance(scaler, StandardScaler):
        mean = scaler.mean_ if scaler.with_mean else None
        steps = [("Sub", mean), ("Div", scaler.scale_)]
    elif isinstance(scaler, RobustScaler):
        centre = scaler.center_ if scaler.with_centering else None
        steps = [("Sub", centre), ("Div", scaler.scale_ if scaler.with_scaling else None)]
    elif isinstance(scaler, MaxAbsScaler):
        low, high = (-1.0, 1.0) if getattr(scaler, "clip", False) else (None, None)
        steps = [("Div", scaler.scale_), ("Max", low), ("Min", high)]
    else:
        assert isinstance(scaler, MinMaxScaler)
        low, high = scaler.feature_range if scaler.clip else (None, None)
        steps = [("Mul", scaler.scale_), ("Add", scaler.min_), ("Max", low), ("Min", high)]
    for op, operand in steps:
        if operand is not None:
            X = g(op, X, doubles(operand))
    return X


def framed(g: Graph, frame: Frame, X: str) -> str:
    """Move queries into a frame: single precision from here on."""
    moved = g("Mul", g("Sub", X, doubles(frame.offset)), doubles(1.0 / frame.scale))
    near = g("Clip", moved, doubles(-FAR), doubles(FAR))
    return g("Cast", near, to=TensorProto.FLOAT)


def decided(g: Graph, model: LocalModel, queries: str) -> str:
    """Return the decisions of the machines that the queries are routed to."""
    n_classes, n_queries = model.problem.n_classes, g.length(queries)
    arrays = expansions(model)
    names = {name: g.constant(array, name) for name, array in arrays.items()}
    if len(model.machines) == 1:
        routes = g("Expand", np.int64(0), n_queries)
    else:
        routes = _routed(g, model, queries)
    in_order, order = g.several("TopK", 2, routes, n_queries, largest=0)
    widest = max(np.diff(arrays[ptr]).max() for ptr in ("sv_ptr", "bias_ptr"))
    starts, ends = _runs_of_equals(g, in_order, n_queries, rows_at_once(widest))

    def answer(g: Graph, start: str, end: str) -> str:
        machine = g("Gather", in_order, start)

        def of_machine(name: str) -> str:
            ptr, after = names[f"{name}_ptr"], g("Add", machine, np.int64(1))
            return g("Slice", names[name], g("Gather", ptr, machine), g("Gather", ptr, after))

        x = g.double(g("Gather", queries, g("Slice", order, start, end)))
        vectors = g.double(g("Gather", names["points"], of_machine("sv")))
        gamma = g.double(g("Gather", names["gamma"], machine))
        values = kernel_values(g, model.kernel, gamma, x, vectors)
        return (_decide_two if n_classes == 2 else _decide_several)(g, values, of_machine)

    nothing = np.empty((0, n_classes) if n_classes > 2 else 0)
    decisions = g.in_runs(starts, ends, answer, nothing)
    return g("ScatterND", decisions, g("Unsqueeze", order, ints(1)), decisions)


def expanded(g: Graph, expansion: SharedExpansion, X: str) -> str:
    """Return the outputs of one expansion for queries in the user's units, a column each."""
    x = g.double(framed(g, expansion.frame, X))
    kind, gamma, coef0, degree = expansion.kernel
    spec = KernelSpec(kind, gamma, coef0, degree, 50.0)
    vectors = g.double(g.constant(expansion.vectors, "vectors"))
    values = kernel_values(g, spec, g.constant(doubles(gamma)), x, vectors)
    return g("Add", g("MatMul", values, doubles(expansion.coef)), doubles(expansion.bias))


def columns(g: Graph, outputs: str, n_columns: int) -> list[str]:
    """Return the columns of a matrix one by one."""
    return [g("Gather", outputs, np.int64(each), axis=1) for each in range(n_columns)]


def voted(g: Graph, pairs: Sequence[str], n_classes: int) -> str:
    """Combine the decisions of one model for each pair of classes, as `votes.combine_pairs`."""
    columns = [g("Unsqueeze", decisions, ints(1)) for decisions in pairs]
    place = np.zeros((n_classes, n_classes), dtype=np.int64)
    for column, (a, b) in enumerate(combinations(range(n_classes), 2)):
        place[a, b] = place[b, a] = column
    outputs = g("Gather", g("Concat", *columns, axis=1), place, axis=1)
    return votes(g, outputs, g.range(g.constant(ints(n_classes))))


def winners(g: Graph, decisions: str, n_classes: int) -> str:
    """Return the code of the winning class of each query."""
    if n_classes == 2:
        return g("Cast", g("Greater", decisions, doubles(0.0)), to=TensorProto.INT64)
    return g("ArgMax", decisions, axis=1, keepdims=0)


def _routed(g: Graph, model: LocalModel, queries: str) -> str:
    """Return the machine of the nearest indexed point, the first of several at one distance."""
    index = model.route.index
    points = g.double(g.constant(index.points.T, "centres"))
    squares = np.einsum("ij,ij->i", index.points, index.points, dtype=np.float64)
    machine_of = g.constant(model.route.machine_of.astype(np.int64), "machine_of_centre")
    selves = g.constant(squares, "squares_of_centres")
    rows, n_queries = rows_at_once(len(squares)), g.length(queries)
    starts = g.range(n_queries, rows)
    ends = g("Min", g("Add", starts, np.int64(rows)), n_queries)

    def nearest(g: Graph, start: str, end: str) -> str:
        x = g.double(g("Slice", queries, start, end))
        apart = _apart(g, index.metric, x, points, selves)
        return g("Gather", machine_of, g("ArgMin", apart, axis=1, keepdims=0))

    return g.in_runs(starts, ends, nearest, np.empty(0, dtype=np.int64))


def _runs_of_equals(g: Graph, values: str, n_values: str, longest: int) -> tuple[str, str]:
    """Return where runs of equal values begin and end; one too long is cut."""
    _, firsts, run_of, _ = g.several("Unique", 4, values)
    place = g("Sub", g.range(n_values), g("Gather", firsts, run_of))
    begins = g("Equal", g("Mod", place, np.int64(longest)), np.int64(0))
    starts = g("Reshape", g("NonZero", begins), ints(-1))
    behind_first = g("Slice", starts, ints(1), ints(np.iinfo(np.int64).max))
    return starts, g("Concat", behind_first, n_values, axis=0)


def _apart(g: Graph, metric: Metric, x: str, points: str, squares: str) -> str:
    """Return what orders points by their distance from x: the same for all but a constant."""
    dots = g("MatMul", x, points)
    if metric == EUCLIDEAN:
        return g("Sub", squares, g("Mul", dots, doubles(2.0)))
    _, gamma, coef0, degree = metric

    def kernel(dot: str) -> str:
        return _polynomial(g, g("Mul", dot, doubles(gamma)), coef0, degree)

    # The engine rounds these distances to single precision, and so decides ties by index.
    own = g("ReduceSumSquare", x, axes=[1], keepdims=1)
    selves = g("Add", kernel(own), kernel(squares))
    squared = g("Sub", selves, g("Mul", kernel(dots), doubles(2.0)))
    known = g("Greater", squared, g("Mul", selves, doubles(1e-14)))
    single = g("Cast", g("Min", squared, doubles(1e38)), to=TensorProto.FLOAT)
    return g("Where", known, single, np.float32(0.0))


def kernel_values(g: Graph, spec: KernelSpec, gamma: str, x: str, vectors: str) -> str:
    """Return the kernel values between queries and support vectors, as `core/kernel.hpp`."""
    if spec.kind != RBF:
        values = g("Mul", g("MatMul", x, g.transposed(vectors)), gamma)
        if spec.kind == SIGMOID:
            return g("Tanh", g("Add", values, doubles(np.float32(spec.coef0))))
        if spec.kind != POLY:
            return values
        values = _polynomial(g, values, float(np.float32(spec.coef0)), spec.degree)
        return g("Clip", values, doubles(-1e30), doubles(1e30))
    # Relative to one of the vectors, where the squared distances of near points do not cancel.
    origin = g("Slice", vectors, ints(0), ints(1))
    x, vectors = g("Sub", x, origin), g("Sub", vectors, origin)
    squares = g(
        "Add",
        g("ReduceSumSquare", x, axes=[1], keepdims=1),
        g("ReduceSumSquare", vectors, axes=[1], keepdims=0),
    )
    dots = g("MatMul", x, g.transposed(vectors))
    squared = g("Sub", squares, g("Mul", dots, doubles(2.0)))
    exponent = g("Mul", squared, g("Neg", gamma))
    return g("Exp", g("Clip", exponent, doubles(-87.0), doubles(0.0)))


def _polynomial(g: Graph, scaled_dot: str, coef0: float, degree: int) -> str:
    return g("Pow", g("Add", scaled_dot, doubles(coef0)), doubles(degree))


def _decide_two(g: Graph, values: str, of_machine: Callable[[str], str]) -> str:
    outputs = g("MatMul", values, g.double(of_machine("coef")))
    return g("Add", outputs, g.double(of_machine("bias")))


def _decide_several(g: Graph, values: str, of_machine: Callable[[str], str]) -> str:
    """Return the votes of one machine for all classes, -1 for those that it does not know."""
    own = g("Cast", of_machine("own"), to=TensorProto.INT64)
    coef = g("Reshape", g.double(of_machine("coef")), g("Concat", g.length(own), ints(-1), axis=0))
    n_classes = g.length(coef, 1)
    classes = g.range(n_classes)
    # Coefficients of the vectors of class a against class b, in column (a, b).
    of_class = g("Equal", g("Unsqueeze", own, ints(1)), g("Unsqueeze", classes, ints(0)))
    of_pair = g("Mul", g("Unsqueeze", g.double(of_class), ints(2)), g("Unsqueeze", coef, ints(1)))
    flat = g("Reshape", of_pair, g("Concat", g.length(own), ints(-1), axis=0))
    square = g("Concat", ints(-1), n_classes, n_classes, axis=0)
    parts = g("Reshape", g("MatMul", values, flat), square)
    bias = g("Reshape", g.double(of_machine("bias")), square)
    outputs = g("Add", g("Add", parts, g("Transpose", parts, perm=[0, 2, 1])), bias)
    known = votes(g, outputs, classes)
    with_absent = g("Pad", known, ints(0, 0, 0, 1), doubles(-1.0))
    return g("Gather", with_absent, of_machine("column"), axis=1)


def votes(g: Graph, outputs: str, classes: str) -> str:
    """Turn the outputs of all pairs, a symmetric matrix for each query, into votes.

    The later class of a pair has the vote if the output is positive, else the earlier one.
    """
    a, b = g("Unsqueeze", classes, ints(1)), g("Unsqueeze", classes, ints(0))
    later = g("Less", a, b)  # whether the column's class is the later one
    side = g("Sub", g.double(later), g.double(g("Less", b, a)))
    won = g.double(g("Equal", g("Greater", outputs, doubles(0.0)), later))
    votes = g("ReduceSum", g("Mul", won, g("Abs", side)), ints(1), keepdims=0)
    confidence = g("ReduceSum", g("Mul", outputs, side), ints(1), keepdims=0)
    most = g("Mul", g("Add", g("Abs", confidence), doubles(1.0)), doubles(3.0))
    return g("Add", votes, g("Div", confidence, most))


def rows_at_once(width: int) -> int:
    """Return how many queries go together, each with so many numbers in one matrix."""
    return int(np.clip(_CELLS // width, 1, _MOST_ROWS))
