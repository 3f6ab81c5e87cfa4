"""The machines of a model in arrays that operators of ONNX can work on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.local.machines import Machines
from vicinal.local.model import LocalModel
from vicinal.problem import Floats

Arrays = dict[str, NDArray[Any]]


def expansions(model: LocalModel) -> Arrays:
    """Return the machines of a model in ragged arrays, no run of which is empty.

    Returns
    -------
    arrays : dict
        "points", those that are a support vector of any machine, and "gamma", one for each machine.
        Of the others, run m from ``name_ptr[m]`` to ``name_ptr[m + 1]`` is machine m's. For two
        classes:

        "sv" : rows of "points"
        "coef" : one for each vector
        "bias" : one

        For more, by the places of classes among those that the machine knows:

        "sv" : rows of "points"
        "own" : the class of each vector
        "coef" : a row for each vector, a column for each class against its own, which has 0
        "bias" : a symmetric matrix, one for each pair
        "column" : the place of each class of the model; behind the last where it is not known
    """
    n_classes, n_machines = model.problem.n_classes, len(model.machines)
    each = [model.machines.take(np.array([m])) for m in range(n_machines)]
    if n_classes == 2:
        runs = [_of_two_classes(machine) for machine in each]
    else:
        runs = [_of_several_classes(machine, n_classes) for machine in each]
    arrays: Arrays = {"gamma": model.machines.gamma}
    for name in runs[0]:
        arrays[name] = np.concatenate([run[name].ravel() for run in runs])
        arrays[f"{name}_ptr"] = np.cumsum([0, *(run[name].size for run in runs)], dtype=np.int64)
    used, places = np.unique(arrays["sv"], return_inverse=True)
    return arrays | {"points": model.problem.points[used], "sv": places.astype(np.int32)}


def _of_two_classes(machine: Machines) -> Arrays:
    bias = machine.bias
    if machine.unanimous[0]:
        bias = np.array([1.0 if machine.classes[0] == 1 else -1.0], dtype=np.float32)
    if len(machine.sv) == 0:
        return {"sv": _ANY_POINT, "coef": np.zeros(1, dtype=np.float32), "bias": bias}
    return {"sv": machine.sv, "coef": machine.coef, "bias": bias}


def _of_several_classes(machine: Machines, n_classes: int) -> Arrays:
    known = len(machine.classes)
    bias = np.zeros((known, known), dtype=np.float32)
    bias[np.triu_indices(known, 1)] = machine.bias
    column = np.full(n_classes, known, dtype=np.int32)
    column[machine.classes] = np.arange(known)
    own = np.repeat(np.arange(known, dtype=np.int32), machine.class_sv)
    sv, coef = machine.sv, _against_each_class(machine.coef, own, known)
    if len(sv) == 0:
        sv, own, coef = _ANY_POINT, _ANY_POINT, np.zeros((1, known), dtype=np.float32)
    return {"sv": sv, "own": own, "coef": coef, "bias": bias + bias.T, "column": column}


_ANY_POINT = np.zeros(1, dtype=np.int32)  # as a vector of coefficient 0 it changes nothing


def _against_each_class(coef: Floats, own: NDArray[np.int32], known: int) -> Floats:
    """From LIBSVM's layout, where the row of a vector's own class is missing."""
    against, vector = np.arange(known), np.arange(len(own))
    row = np.minimum(against - (own[:, None] < against), known - 2)
    found = coef.reshape(known - 1, len(own))[row, vector[:, None]]
    return np.where(own[:, None] == against, np.float32(0.0), found)
