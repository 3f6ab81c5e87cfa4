"""Sparse kernel machines: few vectors, placed where they count."""

from vicinal.sparse.compress import compress
from vicinal.sparse.expansion import SharedExpansion
from vicinal.sparse.pskc import PSKClassifier
from vicinal.sparse.reduced_set import ReducedSetClassifier
from vicinal.sparse.rsvm import RSVMClassifier
from vicinal.sparse.skla import SKLAClassifier

__all__ = [
    "PSKClassifier",
    "RSVMClassifier",
    "ReducedSetClassifier",
    "SKLAClassifier",
    "SharedExpansion",
    "compress",
]
