"""Chooses the compiled core: the widest instruction set that this processor has."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

VARIABLE = "VICINAL_ISA"
"""Environment variable that forces an instruction set: avx512, avx2 or baseline."""


def instruction_sets() -> list[str]:
    """Return the instruction sets to choose from here, narrowest first."""
    baseline = importlib.import_module("vicinal._core_baseline")
    return list(baseline.instruction_sets())


def load(name: str | None = None) -> tuple[str, ModuleType]:
    """Return the name and the module of an instruction set, by default the widest.

    Raises
    ------
    ImportError
        If the instruction set asked for is unknown, or this processor lacks it.
    """
    available = instruction_sets()
    name = name or os.environ.get(VARIABLE) or available[-1]
    if name not in available:
        raise ImportError(
            f"{VARIABLE}={name!r} is not available here: choose among {', '.join(available)},"
            " or leave it unset for the fastest."
        )
    return name, importlib.import_module(f"vicinal._core_{name}")
