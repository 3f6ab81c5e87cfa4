"""Sparse kernel machines: few vectors, placed where they count.

In the making: names and defaults may still change.
"""

from vicinal.sparse.expansion import SharedExpansion

__all__ = ["SharedExpansion"]
