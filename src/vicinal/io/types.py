"""Whether a value has the type that an annotation asks for."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from vicinal import engine
from vicinal.neighbors.index import KDTreeIndex, NeighbourIndex


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is what a type hint of a field says; arrays, whether of that dtype."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if hint is None:
        return value is None
    if hint is NeighbourIndex:
        return isinstance(value, engine.NeighbourIndex | KDTreeIndex)
    if hint in (int, float):
        abstract = Integral if hint is int else Real
        return isinstance(value, abstract) and not isinstance(value, bool | np.bool_)
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is np.ndarray:
        (dtype,) = get_args(arguments[1]) or (Any,)
        return isinstance(value, np.ndarray) and dtype in (Any, value.dtype.type)
    if origin is tuple:
        same_for_all = len(arguments) == 2 and arguments[1] is Ellipsis
        hints = [arguments[0]] * len(value) if same_for_all else arguments
        return (
            isinstance(value, tuple)
            and len(value) == len(hints)
            and all(fits(item, each) for item, each in zip(value, hints, strict=True))
        )
    if origin in (list, Sequence):
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    return type(value) is hint
