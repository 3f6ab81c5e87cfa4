"""NumPy's archive of arrays: X, and y beside it."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from vicinal.cli.data.batch import Batch, Layout, check_finite
from vicinal.cli.data.streams import Stream, seekable, title
from vicinal.cli.errors import DataError


def batches(path: str, layout: Layout) -> Iterator[Batch]:
    """Read a file, all of it at once."""
    name = title(path)
    with seekable(path) as stream:
        try:
            with np.load(stream, allow_pickle=False) as arrays:
                X, y = _checked(arrays, name, layout)
        except DataError:
            raise
        except (BadZipFile, EOFError, AttributeError, TypeError, ValueError) as error:
            raise DataError(f"{name} is no NPZ archive of arrays{_reason(error)}") from error
    check_finite(X, name, 1, ((i, "") for i in range(1, X.shape[1] + 1)))
    yield Batch(X, y)


def _checked(arrays: Any, name: str, layout: Layout) -> tuple[Any, Any]:
    found = {key: _array(arrays, key, name) for key in ("X", "y") if key in arrays}
    if "X" not in found or ("y" not in found and layout.n_features is None):
        absent = "y" if "X" in found else "X"
        raise DataError(f"{name} has no array {absent}, only {', '.join(arrays) or 'nothing'}.")
    X, y = found["X"], found.get("y")
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(
            f"{name}: X must be a table of numbers; it is {X.dtype} of shape {X.shape}."
        )
    if y is not None and y.shape != (len(X),):
        raise DataError(f"{name}: X has {len(X)} rows, and y has shape {y.shape}.")
    if layout.n_features is not None and X.shape[1] != layout.n_features:
        raise DataError(
            f"{name} has {X.shape[1]} features, and the model needs {layout.n_features}."
        )
    return X.astype(np.float64, copy=False), y


def _array(arrays: Any, key: str, name: str) -> Any:
    try:
        return arrays[key]
    except ValueError as error:
        raise DataError(f"{name}: array {key} cannot be read{_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return why, without NumPy's advice to trust a pickle."""
    return ": it holds Python objects." if "pickle" in str(error) else f": {error}"


def write(stream: Stream, X: NDArray[Any], y: NDArray[Any], names: list[str], target: str) -> None:
    """Write all rows; the format has no names of features."""
    archive = BytesIO()  # a ZIP is not written from front to back
    np.savez_compressed(archive, X=X, y=y)
    stream.write(archive.getbuffer())
