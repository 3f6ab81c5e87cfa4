"""Local kernel machines with scikit-learn's interface."""

from vicinal.io import ModelFormatError, load, save, to_onnx
from vicinal.local import KNNSVC, FaLKSVC, FaLKSVCCV, FastLSVC
from vicinal.neighbors import CoverTree, CoverTreeClassifier, CoverTreeNeighbors

__version__ = "0.1.0"

__all__ = [
    "KNNSVC",
    "CoverTree",
    "CoverTreeClassifier",
    "CoverTreeNeighbors",
    "FaLKSVC",
    "FaLKSVCCV",
    "FastLSVC",
    "ModelFormatError",
    "load",
    "save",
    "to_onnx",
]
