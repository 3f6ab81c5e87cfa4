"""Local deep kernel learning: a non-linear machine at the price of a few linear ones."""

from vicinal.ldkl.forest import Forest, LDKLModel

__all__ = ["Forest", "LDKLModel"]
