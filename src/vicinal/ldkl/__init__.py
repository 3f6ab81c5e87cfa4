"""Local deep kernel learning: a non-linear machine at the price of a few linear ones."""

from vicinal.ldkl.classifier import LDKLClassifier
from vicinal.ldkl.forest import Forest, LDKLModel
from vicinal.ldkl.regressor import LDKLRegressor

__all__ = ["Forest", "LDKLClassifier", "LDKLModel", "LDKLRegressor"]
