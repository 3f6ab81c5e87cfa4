"""Neighbourhoods as lines on a plane."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from vicinal.inspection.plane import Plane, Region, inside
from vicinal.inspection.subject import Subject
from vicinal.problem import Doubles

_MOST_LOOKED_AT = 200  # centres among which neighbourhoods to draw are chosen


def outline_neighbourhoods(
    subject: Subject, plane: Plane, centres: Doubles, region: Region, count: int
) -> list[tuple[Doubles, Doubles]]:
    """Outline some neighbourhoods: one amidst the region, each of the others far from the rest."""
    candidates = np.flatnonzero(inside(centres, region))[:_MOST_LOOKED_AT]
    if count == 0 or len(candidates) == 0:
        return []
    n_assigned = subject.model.cover.n_assigned
    outline = _circle if subject.is_flat else _hull
    found: list[tuple[Doubles, Doubles]] = []
    for row in subject.neighbourhoods(candidates):
        members = plane.project(subject.places(row))
        found.append((outline(members), outline(members[:n_assigned])))
    whole = np.array([inside(outer, region).all() for outer, _ in found])
    left = np.flatnonzero(whole) if whole.any() else np.arange(len(found))
    places = centres[candidates[left]]
    middle = np.reshape(region, (2, 2)).mean(axis=1)
    chosen = [int(np.linalg.norm(places - middle, axis=1).argmin())]
    gaps = np.full(len(left), np.inf)
    while len(chosen) < min(count, len(left)):
        gaps = np.minimum(gaps, np.linalg.norm(places - places[chosen[-1]], axis=1))
        chosen.append(int(gaps.argmax()))
    return [found[left[each]] for each in chosen]


def _circle(places: Doubles) -> Doubles:
    """Return the circle around the first place through the last, the farthest."""
    angles = np.linspace(0, 2 * np.pi, 100)
    radius = np.linalg.norm(places[-1] - places[0])
    return places[0] + radius * np.column_stack([np.cos(angles), np.sin(angles)])


def _hull(places: Doubles) -> Doubles:
    """Return the closed line around some places."""
    try:
        corners = ConvexHull(places).vertices
    except (QhullError, ValueError):  # too few, or all on one line
        corners = np.lexsort(places.T)[[0, -1]]
    return places[np.append(corners, corners[0])]
