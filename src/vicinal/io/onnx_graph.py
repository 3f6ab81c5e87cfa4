"""A graph in ONNX, written as calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Input = str | NDArray[Any] | np.generic
"""The name of a result, or a constant."""


class Graph:
    """Nodes, written as calls: ``g("Add", a, b)`` adds two results and names their sum."""

    def __init__(self, outer: Graph | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = outer.constants if outer else []
        self._numbers: Iterator[int] = outer._numbers if outer else count()

    def __call__(self, op: str, *inputs: Input, output: str = "", **attributes: Any) -> str:
        """Append a node and return the name of its result."""
        output = output or self._name(op.lower())
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(op, names, [output], **attributes))
        return output

    def several(self, op: str, n_results: int, *inputs: Input, **attributes: Any) -> list[str]:
        """Append a node of several results and return their names."""
        self(op, *inputs, **attributes)
        more = [self._name(op.lower()) for _ in range(n_results - 1)]
        self.nodes[-1].output.extend(more)
        return list(self.nodes[-1].output)

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
        at = body("Unsqueeze", run, ints(0))
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
        answers = self("Loop", self("Size", starts), np.True_, begin, body=loop)
        return self("ConcatFromSequence", answers, axis=0)

    def length(self, x: str, axis: int = 0) -> str:
        """Return one dimension, as an array of one."""
        return self("Shape", x, start=axis, end=axis + 1)

    def double(self, x: str) -> str:
        """Convert to double precision."""
        return self("Cast", x, to=TensorProto.DOUBLE)

    def range(self, stop: str, step: int = 1) -> str:
        """Count from 0 up to an array of one."""
        return self("Range", np.int64(0), self("Squeeze", stop), np.int64(step))

    def transposed(self, x: str) -> str:
        """Swap the last two axes of a matrix."""
        return self("Transpose", x, perm=[1, 0])

    def _name(self, hint: str) -> str:
        return f"{hint}_{next(self._numbers)}"


def doubles(value: Any) -> NDArray[np.float64]:
    """Return a constant, or several."""
    return np.asarray(value, dtype=np.float64)


def ints(*values: int) -> NDArray[np.int64]:
    """Return an array of one dimension."""
    return np.array(values, dtype=np.int64)
