"""The one door to array code.

Everything above this package passes arrays to these functions and gets arrays back; what computes
them is decided here. Today that is the compiled core on the CPU. Another engine is a module with
the same functions.
"""

from vicinal.engine.cpu import (
    DUPLICATE,
    INSTRUCTION_SET,
    MOST_ITERATIONS,
    EarlyMachine,
    NeighbourIndex,
    Walking,
    accept_centres,
    cross_validate,
    evaluate,
    expand,
    kernel_values,
    sieve_axes,
    train,
    train_and_evaluate,
)
from vicinal.engine.ldkl import (
    LOCAL_LOSSES,
    LocalDescent,
    LocalForest,
    LocalForm,
    LocalShape,
    SoftForest,
)

__all__ = [
    "DUPLICATE",
    "INSTRUCTION_SET",
    "LOCAL_LOSSES",
    "MOST_ITERATIONS",
    "EarlyMachine",
    "LocalDescent",
    "LocalForest",
    "LocalForm",
    "LocalShape",
    "NeighbourIndex",
    "SoftForest",
    "Walking",
    "accept_centres",
    "cross_validate",
    "evaluate",
    "expand",
    "kernel_values",
    "sieve_axes",
    "train",
    "train_and_evaluate",
]
