"""The plane on which points of many dimensions are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from vicinal.problem import Doubles

Features = tuple[int, int] | Literal["pca"]
Region = tuple[float, float, float, float]
"""Left, right, lower and upper end of a part of a plane."""


@dataclass(frozen=True)
class Plane:
    """A point and two orthogonal directions of length one.

    Parameters
    ----------
    origin : array of shape (n_features,)
    directions : array of shape (2, n_features)
    labels : tuple of str
        Of the two axes.
    """

    origin: Doubles
    directions: Doubles
    labels: tuple[str, str]

    @classmethod
    def of(cls, X: NDArray[Any], names: list[str], features: Features | None) -> Self:
        """Choose the plane: through two features, or the principal components of the data."""
        n_features = X.shape[1]
        if n_features < 2:
            raise ValueError("A plane needs two features, and the data have one only.")
        if features is None:
            features = (0, 1) if n_features == 2 else "pca"
        mean = X.mean(axis=0, dtype=np.float64)
        if features == "pca":
            components = PCA(2, random_state=0).fit(X).components_.astype(np.float64)
            first, second = "first principal component", "second principal component"
            return cls(mean, components, (first + _elsewhere(n_features), second))
        if len(set(features)) != 2 or not all(0 <= f < n_features for f in features):
            raise ValueError(
                f"features={features!r} names no plane: give two different columns from 0 to"
                f" {n_features - 1}, or 'pca'."
            )
        i, j = features
        mean[[i, j]] = 0.0  # the axes show the features' own values
        directions = np.eye(n_features)[[i, j]]
        return cls(mean, directions, (names[i] + _elsewhere(n_features), names[j]))

    def project(self, X: NDArray[Any]) -> Doubles:
        """Return the place of each point on the plane."""
        return np.asarray((X - self.origin) @ self.directions.T)

    def lift(self, places: Doubles) -> Doubles:
        """Return the points at some places of the plane."""
        return np.asarray(self.origin + places @ self.directions)


def inside(places: Doubles, region: Region) -> NDArray[np.bool_]:
    """Return which places are in a region."""
    low, high = np.asarray(region).reshape(2, 2).T
    return np.asarray(((places >= low) & (places <= high)).all(axis=-1))


def _elsewhere(n_features: int) -> str:
    if n_features == 2:
        return ""
    return "\n(regions: on the plane through the mean)"
