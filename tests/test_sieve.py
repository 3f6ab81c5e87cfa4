"""A sieve answers as a scan does, to the last bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from vicinal import engine
from vicinal.neighbors.index import fastest


def points(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    flat = rng.normal(size=(n, 5)) @ rng.normal(size=(5, d))
    X = {
        "flat": flat + 0.05 * rng.normal(size=(n, d)),
        "round": rng.normal(size=(n, d)),
        "binary": rng.integers(0, 2, size=(n, d)),
        "twins": np.repeat(flat[: n // 4 + 1], 4, axis=0)[:n],
        "one place": np.full((n, d), 3.0),
        "far": flat + 1000.0,
        "long": flat * 1e13,
    }[kind]
    return np.ascontiguousarray(X, dtype=np.float32)


def both(X):
    return (engine.NeighbourIndex(X, structure=structure) for structure in ("scan", "sieve"))


@pytest.mark.parametrize("kind", ["flat", "round", "binary", "twins", "one place", "far", "long"])
@pytest.mark.parametrize("n", [1, 15, 17, 700])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_nearest_is_that_of_a_scan(kind, n, n_threads):
    every = points(kind, n + 300, 40)
    X, Q = every[:n].copy(), every  # the points themselves are among the queries
    scan, sieve = both(X)
    for found, expected in zip(
        sieve.query(Q, 1, n_threads=n_threads), scan.query(Q, 1), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_other_queries_are_those_of_a_scan():
    X, Q = points("flat", 300, 40), points("flat", 20, 40, seed=1)
    scan, sieve = both(X)
    for found, expected in zip(sieve.query(Q, 7), scan.query(Q, 7), strict=True):
        np.testing.assert_array_equal(found, expected)
    for found, expected in zip(sieve.query_radius(Q, 3.0), scan.query_radius(Q, 3.0), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_far_queries():
    X = points("flat", 300, 40)
    scan, sieve = both(X)
    for reach in (1e3, 1e8, 1e15):
        Q = np.clip(X[::7] * reach, -1e15, 1e15).astype(np.float32)
        np.testing.assert_array_equal(sieve.query(Q, 1)[1], scan.query(Q, 1)[1])


def test_copies_are_sieves():
    X = points("flat", 300, 40)
    _, sieve = both(X)
    again = pickle.loads(pickle.dumps(sieve))
    assert again.structure == "sieve"
    assert sieve.state()["structure"] == "scan"  # which versions without a sieve can read
    np.testing.assert_array_equal(again.query(X, 1)[1][:, 0], np.arange(300))


def test_chosen_where_few_axes_hold_the_variance():
    for kind, structure in (("flat", "sieve"), ("round", "scan")):
        tree = engine.NeighbourIndex(points(kind, 1500, 60))
        if fastest(tree, 1) is not tree:
            assert fastest(tree, 1).structure == structure
        assert fastest(tree, 5).structure in ("tree", "scan")
