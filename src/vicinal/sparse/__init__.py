"""Sparse kernel machines: few vectors, placed where they count.

In the making: names and defaults may still change.
"""

from vicinal.sparse.compress import compress
from vicinal.sparse.expansion import SharedExpansion
from vicinal.sparse.pskc import PSKClassifier
from vicinal.sparse.reduced_set import ReducedSetClassifier
from vicinal.sparse.rsvm import RSVMClassifier

__all__ = ["PSKClassifier", "RSVMClassifier", "ReducedSetClassifier", "SharedExpansion", "compress"]
