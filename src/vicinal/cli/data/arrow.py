"""pyarrow where it is there, None where it is not."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


pyarrow: Any = _optional("pyarrow")
arrow_csv: Any = _optional("pyarrow.csv")


def held_by_arrow(text: bytes) -> Any:
    """Return text to read that is no Python object.

    Arrow's threads may let go of what they have read when the reader has long returned. To let go
    of a Python object they need the interpreter; if that is about to end, the process is aborted.
    """
    copy = pyarrow.BufferOutputStream()
    copy.write(text)
    return pyarrow.BufferReader(copy.getvalue())
