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
