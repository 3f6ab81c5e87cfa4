"""One affine map of each feature in place of scalers and a frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from vicinal.problem import Doubles, Frame


def origin_and_factor(frame: Frame, scaler: Any) -> tuple[Doubles, Doubles]:
    """Return o and f such that (x - o) f is x, scaled and then moved into the frame."""
    origin, factor = np.zeros_like(frame.offset), np.ones_like(frame.offset)
    for offset, scale in [*_moves(scaler), (frame.offset, 1.0 / frame.scale)]:
        origin = origin + offset / factor
        factor = factor * scale
    return origin, factor


def _moves(scaler: Any) -> Iterator[tuple[Doubles | float, Doubles | float]]:
    """Yield the offset and the factor of each step."""
    if isinstance(scaler, Pipeline):
        for _, step in scaler.steps:
            yield from _moves(step)
    elif scaler is not None and scaler != "passthrough":
        yield _move(scaler)


def _move(scaler: Any) -> tuple[Doubles | float, Doubles | float]:
    if type(scaler) not in (StandardScaler, RobustScaler, MaxAbsScaler, MinMaxScaler):
        raise ValueError(
            "scaler must be a StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler, or a"
            f" Pipeline of them, got a {type(scaler).__qualname__}."
        )
    check_is_fitted(scaler)
    if getattr(scaler, "clip", False):
        raise ValueError(f"scaler cuts features off, which C does not: {scaler} has clip=True.")
    if isinstance(scaler, MinMaxScaler):
        return -scaler.min_ / scaler.scale_, scaler.scale_
    centre = getattr(scaler, "mean_" if isinstance(scaler, StandardScaler) else "center_", None)
    if isinstance(scaler, StandardScaler) and not scaler.with_mean:
        centre = None
    scale = getattr(scaler, "scale_", None)
    return 0.0 if centre is None else centre, 1.0 if scale is None else 1.0 / scale
