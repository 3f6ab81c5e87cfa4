"""A prediction as an ONNX graph: frame, route, kernel expansion, votes.

Arrays of the model are single precision, as in the engine, and all arithmetic on them is double:
squared distances come from dot products, and in single precision too little would be left of them.

Queries are answered machine by machine: they are sorted by their routes, cut into runs of one
machine, and a loop over the runs gathers the support vectors of each once. Memory beyond that of
the queries is bounded, for a run is no longer than `_CELLS` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from vicinal.kernels import EUCLIDEAN, POLY, RBF, KernelSpec, Metric
from vicinal.local.model import LocalModel
from vicinal.problem import FAR, Floats, Frame

Input = str | NDArray[Any] | np.generic
"""The name of a result, or a constant."""

_CELLS = 1 << 20
"""Numbers in an intermediate matrix, about: eight megabytes."""

_MOST_ROWS = 4096
"""Queries of one run, at most."""


class Graph:
    """Nodes, written as calls: ``g("Add", a, b)`` adds two results and names their sum."""

    def __init__(self, outer: Graph | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = outer.constants if outer else []
        self._numbers = outer._numbers if outer else count()

    def __call__(self, op: str, *inputs: Input, **attributes: Any) -> str:
        """Append a node and return the name of its result."""
        return self.several(op, 1, *inputs, **attributes)[0]

    def several(self, op: str, n_results: int, *inputs: Input, **attributes: Any) -> list[str]:
        """Append a node of several results and return their names."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        results = [self._name(op.lower()) for _ in range(n_results)]
        self.nodes.append(helper.make_node(op, names, results, **attributes))
        return results

    def constant(self, value: Any, hint: str = "constant") -> str:
        """Keep an array in the file and return its name."""
        name = self._name(hint)
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def in_runs(
        self,
        starts: str,
        ends: str,
        answer: Callable[[Graph, str, str], str],
        nothing: NDArray[Any],
    ) -> str:
        """Put the answers to all runs, each from a start up to its end, behind each other."""
        body = Graph(self)
        run, go_on, so_far = (body._name(hint) for hint in ("run", "go_on", "so_far"))
        at = body("Unsqueeze", run, _ints(0))
        found = answer(body, body("Gather", starts, at), body("Gather", ends, at))
        results = [body("Identity", go_on), body("SequenceInsert", so_far, found)]

        def typed(flag: str, answers: str) -> list[onnx.ValueInfoProto]:
            dtype = helper.np_dtype_to_tensor_dtype(nothing.dtype)
            return [
                helper.make_tensor_value_info(flag, TensorProto.BOOL, []),
                helper.make_tensor_sequence_value_info(answers, dtype, None),
            ]

        counter = helper.make_tensor_value_info(run, TensorProto.INT64, [])
        inputs, outputs = [counter, *typed(go_on, so_far)], typed(*results)
        loop = helper.make_graph(body.nodes, body._name("body"), inputs, outputs)
        begin = self("SequenceConstruct", nothing)
        answers = self("Loop", self("Size", starts), "", begin, body=loop)
        return self("ConcatFromSequence", answers, axis=0)

    def length(self, x: str, axis: int = 0) -> str:
        """Return one dimension, as an array of one."""
        return self("Shape", x, start=axis, end=axis + 1)

    def scalar(self, x: str) -> str:
        """Turn an array of one into a number."""
        return self("Squeeze", x)

    def double(self, x: str) -> str:
        """Convert to double precision."""
        return self("Cast", x, to=TensorProto.DOUBLE)

    def range(self, stop: str, step: int = 1) -> str:
        """Count from 0 up to an array of one."""
        return self("Range", np.int64(0), self.scalar(stop), np.int64(step))

    def transposed(self, x: str) -> str:
        """Swap the last two axes of a matrix."""
        return self("Transpose", x, perm=[1, 0])

    def _name(self, hint: str) -> str:
        return f"{hint}_{next(self._numbers)}"


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
            X = g(op, X, _doubles(operand))
    return X


def framed(g: Graph, frame: Frame, X: str) -> str:
    """Move queries into a frame: single precision from here on."""
    moved = g("Mul", g("Sub", X, _doubles(frame.offset)), _doubles(1.0 / frame.scale))
    near = g("Clip", moved, _doubles(-FAR), _doubles(FAR))
    return g("Cast", near, to=TensorProto.FLOAT)


def decided(g: Graph, model: LocalModel, queries: str) -> str:
    """Return the decisions of the machines that the queries are routed to."""
    expansions = _Expansions.of(model)
    decide = _decide_binary if model.problem.n_classes == 2 else _decide_several
    n_queries = g.length(queries)
    if len(model.machines) == 1:
        routes = g("Expand", np.int64(0), n_queries)
    else:
        routes = _routed(g, model, queries)
    in_order, order = g.several("TopK", 2, routes, n_queries, largest=0)
    _, firsts, run_of, _ = g.several("Unique", 4, in_order)
    # A run of one machine begins with its first query, and again after every so many.
    place = g("Sub", g.range(n_queries), g("Gather", firsts, run_of))
    begins = g("Equal", g("Mod", place, np.int64(_rows_at_once(expansions.widest))), np.int64(0))
    starts = g("Reshape", g("NonZero", begins), _ints(-1))
    rest = g("Slice", starts, _ints(1), _ints(np.iinfo(np.int64).max))
    ends = g("Concat", rest, n_queries, axis=0)
    constants = expansions.constants(g)

    def answer(g: Graph, start: str, end: str) -> str:
        machine = g("Gather", in_order, start)
        x = g.double(g("Gather", queries, g("Slice", order, start, end)))

        def of_machine(name: str) -> str:
            ptr = constants[f"{name}_ptr"]
            after = g("Add", machine, np.int64(1))
            return g("Slice", constants[name], g("Gather", ptr, machine), g("Gather", ptr, after))

        vectors = g.double(g("Gather", constants["points"], of_machine("sv")))
        gamma = g.double(g("Gather", constants["gamma"], machine))
        values = _kernel(g, model.kernel, gamma, x, vectors)
        return decide(g, values, of_machine)

    width = () if model.problem.n_classes == 2 else (model.problem.n_classes,)
    decisions = g.in_runs(starts, ends, answer, np.empty((0, *width)))
    return g("ScatterND", decisions, g("Unsqueeze", order, _ints(1)), decisions)


def voted(g: Graph, pairs: Sequence[str], n_classes: int) -> str:
    """Combine the decisions of one model for each pair of classes, as `votes.combine_pairs`."""
    columns = [g("Unsqueeze", decisions, _ints(1)) for decisions in pairs]
    place = np.zeros((n_classes, n_classes), dtype=np.int64)
    for column, (a, b) in enumerate(combinations(range(n_classes), 2)):
        place[a, b] = place[b, a] = column
    outputs = g("Gather", g("Concat", *columns, axis=1), place, axis=1)
    return _votes(g, outputs, g.range(g.constant(_ints(n_classes))))


def winners(g: Graph, decisions: str, n_classes: int) -> str:
    """Return the code of the winning class of each query."""
    if n_classes == 2:
        return g("Cast", g("Greater", decisions, _doubles(0.0)), to=TensorProto.INT64)
    return g("ArgMax", decisions, axis=1, keepdims=0)


def _routed(g: Graph, model: LocalModel, queries: str) -> str:
    """Return the machine of the nearest indexed point, the first of several at one distance."""
    index = model.route.index
    points = g.double(g.constant(index.points.T, "centres"))
    squares = np.einsum("ij,ij->i", index.points, index.points, dtype=np.float64)
    machine_of = g.constant(model.route.machine_of.astype(np.int64), "machine_of_centre")
    selves = g.constant(squares, "squares_of_centres")
    rows, n_queries = _rows_at_once(len(squares)), g.length(queries)
    starts = g.range(n_queries, rows)
    ends = g("Min", g("Add", starts, np.int64(rows)), n_queries)

    def nearest(g: Graph, start: str, end: str) -> str:
        x = g.double(g("Slice", queries, start, end))
        apart = _apart(g, index.metric, x, points, selves)
        return g("Gather", machine_of, g("ArgMin", apart, axis=1, keepdims=0))

    return g.in_runs(starts, ends, nearest, np.empty(0, dtype=np.int64))


def _apart(g: Graph, metric: Metric, x: str, points: str, squares: str) -> str:
    """Return what orders points by their distance from x: the same for all but a constant."""
    dots = g("MatMul", x, points)
    if metric == EUCLIDEAN:
        return g("Sub", squares, g("Mul", dots, _doubles(2.0)))
    _, gamma, coef0, degree = metric

    def kernel(dot: str) -> str:
        return _polynomial(g, g("Mul", dot, _doubles(gamma)), coef0, degree)

    # The engine rounds these distances to single precision, and so decides ties by index.
    own = g("ReduceSumSquare", x, axes=[1], keepdims=1)
    selves = g("Add", kernel(own), kernel(squares))
    squared = g("Sub", selves, g("Mul", kernel(dots), _doubles(2.0)))
    known = g("Greater", squared, g("Mul", selves, _doubles(1e-14)))
    single = g("Cast", g("Min", squared, _doubles(1e38)), to=TensorProto.FLOAT)
    return g("Where", known, single, np.float32(0.0))


def _kernel(g: Graph, spec: KernelSpec, gamma: str, x: str, vectors: str) -> str:
    """Return the kernel values between queries and support vectors, as `core/kernel.hpp`."""
    if spec.kind != RBF:
        values = g("Mul", g("MatMul", x, g.transposed(vectors)), gamma)
        if spec.kind != POLY:
            return values
        values = _polynomial(g, values, float(np.float32(spec.coef0)), spec.degree)
        return g("Clip", values, _doubles(-1e30), _doubles(1e30))
    # Relative to one of the vectors, where the squared distances of near points do not cancel.
    origin = g("Slice", vectors, _ints(0), _ints(1))
    x, vectors = g("Sub", x, origin), g("Sub", vectors, origin)
    squares = g(
        "Add",
        g("ReduceSumSquare", x, axes=[1], keepdims=1),
        g("ReduceSumSquare", vectors, axes=[1], keepdims=0),
    )
    dots = g("MatMul", x, g.transposed(vectors))
    squared = g("Sub", squares, g("Mul", dots, _doubles(2.0)))
    exponent = g("Mul", squared, g("Neg", gamma))
    return g("Exp", g("Clip", exponent, _doubles(-87.0), _doubles(0.0)))


def _polynomial(g: Graph, scaled_dot: str, coef0: float, degree: int) -> str:
    return g("Pow", g("Add", scaled_dot, _doubles(coef0)), _doubles(degree))


def _decide_binary(g: Graph, values: str, of_machine: Callable[[str], str]) -> str:
    outputs = g("MatMul", values, g.double(of_machine("coef")))
    return g("Add", outputs, g.double(of_machine("bias")))


def _decide_several(g: Graph, values: str, of_machine: Callable[[str], str]) -> str:
    """Return the votes of one machine for all classes, -1 for those that it does not know."""
    own = of_machine("own")
    coef = g("Reshape", g.double(of_machine("coef")), g("Concat", g.length(own), _ints(-1), axis=0))
    n_classes = g.length(coef, 1)
    classes = g.range(n_classes)
    # Coefficients of the vectors of class a against class b, in column (a, b).
    of_class = g("Equal", g("Unsqueeze", own, _ints(1)), g("Unsqueeze", classes, _ints(0)))
    of_pair = g("Mul", g("Unsqueeze", g.double(of_class), _ints(2)), g("Unsqueeze", coef, _ints(1)))
    flat = g("Reshape", of_pair, g("Concat", g.length(own), _ints(-1), axis=0))
    square = g("Concat", _ints(-1), n_classes, n_classes, axis=0)
    parts = g("Reshape", g("MatMul", values, flat), square)
    bias = g("Reshape", g.double(of_machine("bias")), square)
    outputs = g("Add", g("Add", parts, g("Transpose", parts, perm=[0, 2, 1])), bias)
    known = _votes(g, outputs, classes)
    with_absent = g("Pad", known, _ints(0, 0, 0, 1), _doubles(-1.0))
    return g("Gather", with_absent, of_machine("column"), axis=1)


def _votes(g: Graph, outputs: str, classes: str) -> str:
    """Turn the outputs of all pairs, a symmetric matrix for each query, into votes.

    The later class of a pair has the vote if the output is positive, else the earlier one.
    """
    a, b = g("Unsqueeze", classes, _ints(1)), g("Unsqueeze", classes, _ints(0))
    later = g("Less", a, b)  # whether the column's class is the later one
    side = g("Sub", g.double(later), g.double(g("Less", b, a)))
    won = g.double(g("Equal", g("Greater", outputs, _doubles(0.0)), later))
    votes = g("ReduceSum", g("Mul", won, g("Abs", side)), _ints(1), keepdims=0)
    confidence = g("ReduceSum", g("Mul", outputs, side), _ints(1), keepdims=0)
    most = g("Mul", g("Add", g("Abs", confidence), _doubles(1.0)), _doubles(3.0))
    return g("Add", votes, g("Div", confidence, most))


@dataclass(frozen=True)
class _Expansions:
    """The machines of a model in ragged arrays, none of them empty.

    Parameters
    ----------
    points : float32 array of shape (n, n_features)
        The points that are a support vector of any machine.
    gamma : float32 array of shape (n_machines,)
    ragged : dict of list of arrays
        For each machine: "sv", rows of `points`; "coef", for two classes one for each vector, for
        more one for each vector and class, 0 against its own; "bias", one, or a symmetric matrix;
        for more than two classes "own", the class of each vector among those the machine knows,
        and "column", where among those each class stands, or behind all.
    widest : int
        The most numbers that a machine makes of one query.
    """

    points: Floats
    gamma: Floats
    ragged: dict[str, list[NDArray[Any]]]
    widest: int

    @classmethod
    def of(cls, model: LocalModel) -> _Expansions:
        machines, n_classes = model.machines, model.problem.n_classes
        names = ["sv", "coef", "bias"] + ["own", "column"] * (n_classes > 2)
        ragged: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
        for m, centre in enumerate(model.cover.centres[: len(machines)]):
            sv, coef, bias, classes, class_sv = (
                getattr(machines, name)[ptr[m] : ptr[m + 1]]
                for name, ptr in (
                    ("sv", machines.sv_ptr),
                    ("coef", machines.coef_ptr),
                    ("bias", machines.bias_ptr),
                    ("classes", machines.class_ptr),
                    ("class_sv", machines.class_ptr),
                )
            )
            if n_classes == 2 and len(classes) == 1:
                bias = np.array([2.0 * classes[0] - 1.0], dtype=np.float32)
            elif n_classes > 2:
                own = np.repeat(np.arange(len(classes)), class_sv)
                coef, bias = _against_each(coef, own), _of_each_pair(bias, len(classes))
                column = np.full(n_classes, len(classes))
                column[classes] = np.arange(len(classes))
                ragged["column"].append(column)
            if len(sv) == 0:  # a vector that changes nothing
                sv, own = np.array([centre]), np.zeros(1, dtype=np.int64)
                coef = np.zeros(1 if n_classes == 2 else len(classes), dtype=np.float32)
            ragged["sv"].append(sv)
            ragged["coef"].append(coef.ravel())
            ragged["bias"].append(bias.ravel())
            if n_classes > 2:
                ragged["own"].append(own)
        used, places = np.unique(np.concatenate(ragged["sv"]), return_inverse=True)
        ragged["sv"] = np.split(places, np.cumsum([len(sv) for sv in ragged["sv"]])[:-1])
        widest = max(len(run) for name in ("sv", "bias") for run in ragged[name])
        return cls(model.problem.points[used], machines.gamma, ragged, widest)

    def constants(self, g: Graph) -> dict[str, str]:
        """Put the arrays into a graph and return their names there."""
        arrays: dict[str, NDArray[Any]] = {"points": self.points, "gamma": self.gamma}
        for name, runs in self.ragged.items():
            values = np.concatenate(runs)
            exact = values.dtype.kind == "i" and name in ("sv", "column")
            arrays[name] = values if values.dtype.kind == "f" else values.astype(np.int64 if exact else np.int64)
            arrays[f"{name}_ptr"] = np.cumsum([0, *map(len, runs)], dtype=np.int64)
        return {name: g.constant(array, name) for name, array in arrays.items()}


def _against_each(coef: Floats, own: NDArray[np.intp]) -> Floats:
    """From LIBSVM's layout to a column for each class, 0 against the vector's own."""
    n_classes = 1 + len(coef) // max(1, len(own))
    block = coef.reshape(n_classes - 1, len(own))
    against = np.arange(n_classes)
    row = np.minimum(against - (own[:, None] < against), n_classes - 2)
    found = block[row, np.arange(len(own))[:, None]]
    return np.where(own[:, None] == against, np.float32(0), found)


def _of_each_pair(bias: Floats, n_classes: int) -> Floats:
    out = np.zeros((n_classes, n_classes), dtype=np.float32)
    out[np.triu_indices(n_classes, 1)] = bias
    return out + out.T


def _rows_at_once(width: int) -> int:
    return min(max(1, _CELLS // width), _MOST_ROWS)


def _doubles(value: Any) -> NDArray[np.float64]:
    return np.asarray(value, dtype=np.float64)


def _ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)
