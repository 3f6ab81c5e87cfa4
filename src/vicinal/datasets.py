"""Artificial data on which local machines can be judged against a known optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

# The spiral arm of the 2SPIRAL data set: SCALE * tau**EXPONENT * (sin(tau), cos(tau)).
SCALE = 1 / 500
EXPONENT = 2.5
LAST_ANGLE = 10 * np.pi

# Makes the best attainable accuracy 88.5 %: found, and checked in the tests, by comparing the
# generator's own class densities on its own samples.
NOISE = 0.0685


def make_two_spirals(
    n_samples: int = 100_000, *, noise: float = NOISE, random_state: Any = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Two interlaced spirals that blur into each other: the 2SPIRAL data of Segata & Blanzieri.

    A point of class 0 lies at ``tau**2.5 / 500 * (sin(tau), cos(tau))`` for one of evenly spaced
    angles ``tau`` in [0, 10π], a point of class 1 at the mirror image through the origin. Both
    coordinates then get Gaussian noise whose variance is `noise` times the distance to the next
    inner twist. Twists of the two classes alternate, so the next inner twist is one of the other
    class: half a turn earlier on the same ray (the origin itself, within the first half turn).

    With the default `noise` no classifier can reach more than 88.5 ± 0.5 % accuracy on unseen
    points.

    Parameters
    ----------
    n_samples : int, default=100_000
        Number of points, half of each class. If it is odd, class 0 has one more.
    noise : float, default=0.0685
        Variance of the noise over the distance to the next inner twist; 0 draws clean spirals.
    random_state : int, RandomState instance or None, default=None
        Determines the noise and the order of the points. Pass an int for the same points each
        time.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points, in random order.
    y : ndarray of shape (n_samples,)
        The class of each point, 0 or 1.

    References
    ----------
    N. Segata, E. Blanzieri: Fast Local Support Vector Machines for Large Datasets. Technical
    Report DISI-08-063, University of Trento, 2008, section 3.2.

    Examples
    --------
    >>> from vicinal.datasets import make_two_spirals
    >>> X, y = make_two_spirals(1000, random_state=0)
    >>> X.shape, y.mean()
    ((1000, 2), np.float64(0.5))
    """
    if n_samples < 2:
        raise ValueError(f"n_samples={n_samples} leaves a class empty; ask for 2 or more.")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise={noise} is no variance; give a finite number >= 0.")
    rng = check_random_state(random_state)

    sizes = [(n_samples + 1) // 2, n_samples // 2]
    tau = np.concatenate([LAST_ANGLE * np.arange(size) / size for size in sizes])
    y = np.repeat([0, 1], sizes)
    X = spiral(tau) * np.where(y == 0, 1, -1)[:, None]
    X += np.sqrt(noise * gap_inwards(tau))[:, None] * rng.standard_normal(X.shape)

    order = rng.permutation(n_samples)
    return X[order], y[order]


def spiral(tau: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points of the arm of class 0, without noise, at angles `tau`."""
    return radius(tau)[:, None] * np.column_stack([np.sin(tau), np.cos(tau)])


def gap_inwards(tau: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance from the arm at angles `tau` to the next inner twist, which is the other class's."""
    return radius(tau) - radius(np.maximum(tau - np.pi, 0))


def radius(tau: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of the arm from the origin at angles `tau`."""
    return SCALE * tau**EXPONENT
