"""Local kernel machines with scikit-learn's interface."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vicinal.io import ModelFormatError, load, save, to_onnx
    from vicinal.ldkl import LDKLClassifier, LDKLRegressor
    from vicinal.local import KNNSVC, FaLKSVC, FaLKSVCCV, FastLSVC
    from vicinal.neighbors import CoverTree, CoverTreeClassifier, CoverTreeNeighbors
    from vicinal.nsv import KernelMachine, NSVClassifier
    from vicinal.sparse import PSKClassifier, ReducedSetClassifier, RSVMClassifier, SKLAClassifier

__version__ = "0.1.0"

__all__ = [
    "KNNSVC",
    "CoverTree",
    "CoverTreeClassifier",
    "CoverTreeNeighbors",
    "FaLKSVC",
    "FaLKSVCCV",
    "FastLSVC",
    "KernelMachine",
    "LDKLClassifier",
    "LDKLRegressor",
    "ModelFormatError",
    "NSVClassifier",
    "PSKClassifier",
    "RSVMClassifier",
    "ReducedSetClassifier",
    "SKLAClassifier",
    "load",
    "save",
    "to_onnx",
]

_HOMES = ("local", "neighbors", "nsv", "sparse", "ldkl", "io")
_ROOMS = ("datasets", "inspection", "report")


def __getattr__(name: str) -> Any:
    # What is asked for is imported then: scikit-learn takes a second, in which a command line
    # could neither answer nor be stopped with a clear word.
    if name in _HOMES or name in _ROOMS:
        return import_module(f"vicinal.{name}")
    if name in __all__:
        for home in _HOMES:
            if name in (module := import_module(f"vicinal.{home}")).__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'vicinal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_HOMES, *_ROOMS])
