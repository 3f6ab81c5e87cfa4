"""The core's walks against the slow reference, and its answers against its walks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.nsv.machines import KERNELS, random_machine
from tests.reference import nsv as reference

from vicinal.engine import EarlyMachine, Walking

WALKINGS = {
    "paper": Walking(corrected=False),
    "paper, tug of war": Walking(corrected=False, balanced=True),
    "score": Walking(),
    "term": Walking(weighted=True),
    "tug of war": Walking(balanced=True),
}
NO_FILTER = (np.zeros((0, 12), np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32))

every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
every_walking = pytest.mark.parametrize("walking", WALKINGS.values(), ids=WALKINGS)
every_embedding = pytest.mark.parametrize("embedding", ["pca", "kernel_pca", "index"])
numbers_of_classes = pytest.mark.parametrize("n_classes", [2, 4])


def n_blocks(arguments):
    return int((-(-arguments[1] // 16)).sum())


def thresholds_at(levels, n_classes):
    return np.tile(np.asarray(levels, dtype=np.float32), (n_classes, 1))


@numbers_of_classes
@every_kernel
@every_walking
@every_embedding
def test_trace(embedding, walking, kernel, n_classes):
    arguments, queries = random_machine(n_classes, kernel=kernel)
    queries = queries[:30]
    n_steps = n_blocks(arguments) if embedding == "index" else 60
    leaders, leanings = EarlyMachine(*arguments).trace(queries, embedding, 6, n_steps, walking)
    slow = reference.Machine(*arguments)
    expected, how_far = slow.trace(queries, embedding, 6, n_steps, **walking._asdict())
    leads = leanings > 0
    agree = np.where(expected >= 0, leads & (leaders == expected), ~leads)
    # Rounding may swap two vectors of nearly the same score, and turn an output of nearly zero.
    assert agree.mean() > 0.99
    close = np.isclose(leanings, how_far, rtol=1e-4, atol=1e-4 * (1 + np.abs(how_far).max()))
    assert close[expected >= 0].mean() > 0.98
    # All vectors are in: the order no longer matters.
    np.testing.assert_allclose(
        leanings[:, -1][expected[:, -1] >= 0],
        how_far[:, -1][expected[:, -1] >= 0],
        rtol=1e-3,
        atol=1e-4 * (1 + np.abs(how_far).max()),
    )


@numbers_of_classes
@every_kernel
def test_settle(kernel, n_classes):
    arguments, queries = random_machine(n_classes, kernel=kernel)
    winners, leanings = EarlyMachine(*arguments).settle(queries)
    slow = reference.Machine(*arguments)
    outputs = [slow.outputs(values) for values in slow.values(queries)]
    scale = max(np.abs(g[np.isfinite(g)]).max() for g in outputs)
    np.testing.assert_allclose(leanings, [g.min(axis=1) for g in outputs], atol=1e-5 * scale)
    votes = [((g > 0) & np.isfinite(g)).sum(axis=1) for g in outputs]
    np.testing.assert_array_equal(winners, np.argmax(votes, axis=1))


@every_walking
@numbers_of_classes
def test_a_query_stops_at_the_first_threshold_that_it_exceeds(n_classes, walking):
    arguments, queries = random_machine(n_classes)
    machine = EarlyMachine(*arguments)
    winners, _ = machine.settle(queries)
    levels, stopped = [], np.full(len(queries), -1)
    expected = winners.copy()
    walks = [("index", 0, 2), ("kernel_pca", 3, 0), ("pca", 2, 1), ("kernel_pca", 6, 11)]
    counts = np.full(len(queries), 60)
    for embedding, n_axes, n_steps in walks:
        leaders, leanings = machine.trace(queries, embedding, n_axes, n_steps, walking)
        limits = np.maximum(np.quantile(leanings, 0.8, axis=0), 0).astype(np.float32)
        stops = leanings > limits
        first = np.where(stops.any(axis=1), stops.argmax(axis=1), -1)
        here = (first >= 0) & (stopped < 0)
        stopped[here] = first[here]
        if embedding != "index":
            counts[here] = first[here]
        by_blocks = here & (embedding == "index")
        counts[by_blocks] = -1
        expected[here] = leaders[here, first[here]]
        levels.append((embedding, n_axes, thresholds_at(limits, n_classes)))
    decisions, codes, touched = machine.answer(queries, levels, NO_FILTER, walking)
    assert 0 < (stopped >= 0).sum() < len(queries)
    np.testing.assert_array_equal(touched[counts >= 0], counts[counts >= 0])
    blocks = counts < 0  # of at most sixteen vectors
    assert blocks.any()
    assert (touched[blocks] <= 16 * stopped[blocks]).all()
    assert (touched[blocks] >= stopped[blocks]).all()
    np.testing.assert_array_equal(codes, expected)
    won = decisions > 0 if n_classes == 2 else decisions.argmax(axis=1)
    untied = (stopped >= 0) if n_classes > 2 else slice(None)
    np.testing.assert_array_equal(won[untied], expected[untied])


def test_figure_2():
    """The paper's own algorithm: two classes, from the bias, with L_k and H_k."""
    arguments, queries = random_machine(m=40)
    slow = reference.Machine(*arguments)
    coef = np.where(slow.classes == 1, 1, -1) * slow.support[0]
    terms, bias = slow.values(queries) * coef, float(slow.bias[0, 1])
    rough = slow.values(queries, embedding="pca", n_axes=4)
    orders = [slow.order(r, weighted=False, balanced=True) for r in rough]
    partial = bias + np.cumsum([t[o] for t, o in zip(terms, orders, strict=True)], axis=1)
    partial = np.column_stack([np.full(len(queries), bias), partial])
    exact = terms.sum(axis=1) + bias
    low, high = reference.max_smoothed(*reference.simple_thresholds(partial, exact), window=2)
    low[0], high[0] = -np.inf, np.inf  # the paper's loop takes a step before it looks
    found = [
        reference.figure_2(order, term, bias, low, high)
        for order, term in zip(orders, terms, strict=True)
    ]
    limits = np.array([-low, high], dtype=np.float32)
    levels = [("pca", 4, np.ascontiguousarray(limits))]
    walking = WALKINGS["paper, tug of war"]
    decisions, codes, touched = EarlyMachine(*arguments).answer(queries, levels, NO_FILTER, walking)
    same = touched == [k for _, k in found]
    assert same.mean() > 0.95  # thresholds are outputs of some of these queries, to the last bit
    outputs = np.array([g for g, _ in found])
    np.testing.assert_allclose(decisions[same], outputs[same], atol=1e-4)
    np.testing.assert_array_equal(codes, exact > 0)


@numbers_of_classes
def test_the_filter_answers_first(n_classes):
    arguments, queries = random_machine(n_classes)
    machine = EarlyMachine(*arguments)
    rng = np.random.default_rng(1)
    n_rows = 1 if n_classes == 2 else n_classes
    weights = rng.normal(size=(n_rows, 12)).astype(np.float32)
    bias = rng.normal(size=n_rows).astype(np.float32)
    scores = queries @ weights.T + bias
    if n_classes == 2:
        scores = np.column_stack([np.zeros(len(scores)), scores])
    ordered = np.sort(scores, axis=1)
    lead, leader = ordered[:, -1] - ordered[:, -2], scores.argmax(axis=1)
    limits = np.linspace(1.0, 4.0, n_classes).astype(np.float32)
    answered = lead > limits[leader]
    assert 0 < answered.sum() < len(queries)
    decisions, codes, touched = machine.answer(queries, [], (weights, bias, limits), Walking())
    winners, _ = machine.settle(queries)
    np.testing.assert_array_equal(touched, np.where(answered, 0, 60))
    np.testing.assert_array_equal(codes, np.where(answered, leader, winners))
    if n_classes == 2:
        np.testing.assert_allclose(decisions[answered], scores[answered, 1], rtol=1e-4)


@numbers_of_classes
def test_threads_and_groups_change_nothing(n_classes):
    arguments, queries = random_machine(n_classes)
    queries = np.repeat(queries, 12, axis=0)
    machine = EarlyMachine(*arguments)
    levels = [
        ("kernel_pca", 2, thresholds_at([2.0], n_classes)),
        ("pca", 2, thresholds_at([1.0], n_classes)),
        ("index", 0, thresholds_at([1.0] * 3, n_classes)),
        ("pca", 6, thresholds_at([0.5] * 9, n_classes)),
    ]
    expected = machine.answer(queries, levels, NO_FILTER, Walking())
    for found in (
        machine.answer(queries, levels, NO_FILTER, Walking(), n_threads=3),
        pickle.loads(pickle.dumps(machine)).answer(queries, levels, NO_FILTER, Walking()),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    one_by_one = [machine.answer(q[None], levels, NO_FILTER, Walking()) for q in queries[::12]]
    for part, other in zip(zip(*one_by_one, strict=True), expected, strict=True):
        np.testing.assert_array_equal(np.concatenate(part), other[::12])


def test_what_does_not_fit_is_refused():
    arguments, queries = random_machine()
    machine = EarlyMachine(*arguments)
    limits = thresholds_at([1.0], 2)
    with pytest.raises(ValueError, match="fewer axes"):
        machine.answer(queries, [("pca", 7, limits)], NO_FILTER, Walking())
    with pytest.raises(ValueError, match="fewer axes"):
        machine.answer(queries, [("kernel_pca", 7, limits)], NO_FILTER, Walking())
    with pytest.raises(ValueError, match="fewer vectors than steps"):
        machine.trace(queries, "pca", 6, 61, Walking())
    with pytest.raises(ValueError, match="fewer vectors than steps"):
        machine.trace(queries, "index", 0, n_blocks(arguments) + 1, Walking())
    with pytest.raises(ValueError, match="number of features"):
        machine.settle(queries[:, :5].copy())
    with pytest.raises(ValueError, match="thresholds"):
        machine.answer(queries, [("pca", 6, limits[:1])], NO_FILTER, Walking())
    wide = (np.zeros((2, 12), np.float32), np.zeros(2, np.float32), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="filter"):
        machine.answer(queries, [], wide, Walking())
    with pytest.raises(ValueError, match="fit together"):
        EarlyMachine(arguments[0][:-1].copy(), *arguments[1:])
    with pytest.raises(ValueError, match="basis"):
        EarlyMachine(*arguments[:-1], arguments[-1][:-1].copy())
    with pytest.raises(ValueError, match="landmark does not exist"):
        EarlyMachine(*arguments[:-2], arguments[-2] + np.int32(60), arguments[-1])


@pytest.mark.parametrize("value", [1e30, np.inf, np.nan])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_nothing_is_read_outside_for_queries_out_of_reach(kernel, value):
    arguments, queries = random_machine(3, kernel=kernel)
    queries[::2, 3] = value
    machine = EarlyMachine(*arguments)
    for walking in WALKINGS.values():
        for embedding, n_steps in [("pca", 60), ("kernel_pca", 60), ("index", n_blocks(arguments))]:
            leaders, _ = machine.trace(queries, embedding, 6, n_steps, walking)
            assert ((leaders >= 0) & (leaders < 3)).all()


def test_weights_that_add_up_to_infinity():
    (vectors, class_sv, support, *rest), queries = random_machine(2)
    machine = EarlyMachine(vectors, class_sv, support * np.float32(3e38), *rest)
    leaders, _ = machine.trace(queries, "pca", 6, 60, Walking(balanced=True))
    assert np.isin(leaders, [0, 1]).all()
