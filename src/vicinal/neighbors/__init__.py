"""Exact nearest neighbours: the cover tree, its estimators, and the choice of an index."""

from vicinal.neighbors.estimators import CoverTreeClassifier, CoverTreeNeighbors
from vicinal.neighbors.index import fastest, make_index
from vicinal.neighbors.tree import CoverTree

__all__ = [
    "CoverTree",
    "CoverTreeClassifier",
    "CoverTreeNeighbors",
    "fastest",
    "make_index",
]
