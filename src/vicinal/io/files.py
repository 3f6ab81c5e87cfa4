"""Save a fitted model, load it, and look into its file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from vicinal.io.codec import Decoder, Encoder
from vicinal.io.container import Contents, ModelFormatError, read, write
from vicinal.io.kinds import KINDS, MODELS

Place = str | os.PathLike[str]


def save(model: BaseEstimator, path: Place) -> None:
    """Save a fitted model in a file that holds arrays and a description, and no code.

    The file is written beside its place and then renamed: if anything fails, what was there before
    is there still.

    Parameters
    ----------
    model : estimator
        Any estimator of this package, alone or at the end of a :class:`sklearn.pipeline.Pipeline`
        behind a ``StandardScaler``, ``MinMaxScaler``, ``MaxAbsScaler`` or ``RobustScaler``.
    path : str or path-like

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> import tempfile, pathlib, vicinal
    >>> model = vicinal.FaLKSVC(2).fit([[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.safetensors"
    ...     vicinal.save(model, path)
    ...     vicinal.load(path).predict([[3.5]])
    array(['b'], dtype='<U1')
    """
    if not isinstance(model, MODELS):
        raise TypeError(
            f"save takes an estimator of vicinal, or a Pipeline of a scaler and one of them; got a"
            f" {type(model).__qualname__}."
        )
    check_is_fitted(model)
    encoder = Encoder(KINDS)
    document = encoder.encode(model, "model")
    # A link stays a link: it is the file behind it that is replaced.
    write(Path(path).resolve(), document, encoder.arrays, version("vicinal"))


def load(path: Place) -> Any:
    """Load a model that :func:`save` has saved; it predicts bit for bit the same.

    No code in the file is run, for there is none. A file may come from anybody: whatever it holds,
    it gives a model or an error, and never more than a model of its size may cost.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    model : estimator

    Raises
    ------
    ModelFormatError
        If the file is damaged, of another kind, or of a newer version. It is a `ValueError`.
    """
    contents = _read(path)
    decoder = Decoder(KINDS, contents.arrays)
    with _blaming(path):
        model = decoder.decode(contents.document)
        decoder.check_all_used()
        if not isinstance(model, MODELS):
            raise ModelFormatError("what it holds is no model")
        check_is_fitted(model)
    return model


@dataclass(frozen=True)
class ModelFile:
    """What a model file is, beside the model.

    Parameters
    ----------
    n_bytes : int
        Size on disk.
    format_version : int
    library_version : str
        The version of vicinal that has written it.
    arrays : dict of str to array
        By their places in the model; an array that the model has in several is here once.
    """

    n_bytes: int
    format_version: int
    library_version: str
    arrays: dict[str, Any]


def describe(path: Place) -> ModelFile:
    """Return what takes the space in a model file, and which version has written it.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    file : ModelFile
    """
    found = _read(path)
    return ModelFile(found.n_bytes, found.format_version, found.library_version, found.arrays)


def _read(path: Place) -> Contents:
    with _blaming(path):
        return read(Path(path))


@contextmanager
def _blaming(path: Place) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into a `ModelFormatError` that names it."""
    try:
        yield
    except OSError:
        raise
    # A document that somebody made up can fail anywhere, in any way that Python knows.
    except Exception as error:
        reason = str(error).rstrip(".")
        raise ModelFormatError(f"{os.fspath(path)} is no usable model: {reason}.") from error
