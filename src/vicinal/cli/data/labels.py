"""Labels: whole numbers as integers, other numbers as floats, all else as strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[Any]


def natural(labels: Labels) -> Labels:
    """Return labels as numbers if all of them are numbers."""
    if labels.dtype.kind in "OSU":
        text = labels.astype(str)
        if (np.char.find(text, "_") >= 0).any():
            return text  # Python takes 1_0 for 10
        try:
            numbers = text.astype(np.float64)
        except ValueError:
            return text
        if not np.isfinite(numbers).all():
            return text  # a class may be called "nan"
        labels = numbers
    if labels.dtype.kind == "f" and (np.abs(labels) < 2**53).all():
        whole = labels.astype(np.int64)
        return whole if (whole == labels).all() else labels
    return labels


def as_written(labels: Labels) -> Labels:
    """Return labels as they are shown: strings stay strings, whole numbers lose their point."""
    return labels if labels.dtype.kind in "OSU" else natural(labels)


def as_text(labels: Labels) -> list[str]:
    """Return labels as they are written in text files."""
    return [str(label) for label in as_written(labels).tolist()]


def comparable(true: Labels, predicted: Labels) -> tuple[Labels, Labels]:
    """Return two kinds of labels as one: "1" equals 1."""
    true, predicted = natural(true), natural(predicted)
    if (true.dtype.kind == "U") != (predicted.dtype.kind == "U"):
        return np.asarray(as_text(true)), np.asarray(as_text(predicted))
    return true, predicted
