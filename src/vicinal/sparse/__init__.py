"""Sparse kernel machines: few vectors, placed where they count.

In the making: names and defaults may still change.
"""

from vicinal.sparse.expansion import SharedExpansion
from vicinal.sparse.reduced_set import ReducedSetClassifier

__all__ = ["ReducedSetClassifier", "SharedExpansion"]
