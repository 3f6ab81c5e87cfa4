"""Whatever the machine: without thresholds, the sign of its sum."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vicinal.nsv import KernelMachine, NSVClassifier

KERNELS = ["linear", "rbf", "poly", "normalised_poly", "sigmoid"]


@st.composite
def machines(draw):
    """Raw expansions with vectors of both signs, and queries; coordinates of a few digits."""
    m, d = draw(st.integers(2, 40)), draw(st.integers(1, 20))
    digits = st.integers(-400, 400).map(lambda i: i / 100)
    vectors = draw(arrays(np.float64, (m, d), elements=digits, fill=st.nothing()))
    queries = draw(arrays(np.float64, (9, d), elements=digits))
    sizes = st.floats(0.01, 100)
    coef = draw(arrays(np.float64, m, elements=sizes)) * np.where(np.arange(m) % 2, 1, -1)
    machine = KernelMachine(
        vectors if np.abs(vectors).max() > 0 else vectors + 1,
        coef,
        draw(st.floats(-3, 3)),
        draw(st.sampled_from(KERNELS)),
        gamma=draw(st.floats(0.001, 0.2)),
        degree=draw(st.integers(1, 9)),
        coef0=draw(st.floats(0, 1)),
    )
    return machine, queries


def sizes_of_terms(machine, queries):
    """The sum of |coefficient times kernel value| for each query."""
    parts = [
        KernelMachine(
            machine.vectors[[i]], [1.0], kernel=machine.kernel, gamma=machine.gamma,
            degree=machine.degree, coef0=machine.coef0,
        ).decision_function(queries)
        for i in range(len(machine.coef))
    ]  # fmt: skip
    return np.abs(np.transpose(parts) * machine.coef).sum(axis=1)


@settings(max_examples=100, deadline=None)
@given(
    machines(),
    st.sampled_from(["score", "term", "tug_of_war"]),
    st.sampled_from(["bias", "approximations"]),
    st.sampled_from(["auto", "pca", "kernel_pca", "index"]),
    st.integers(1, 30),
)
def test_thresholds_at_infinity_leave_the_sign_of_the_exact_machine(
    machine_and_queries, order, start, embedding, n_components
):
    machine, queries = machine_and_queries
    model = NSVClassifier(
        machine,
        max_disagreement=None,
        order=order,
        start=start,
        embedding=embedding,
        n_components=n_components,
        linear_filter=False,
        random_state=0,
    ).fit(queries)
    for level in model.model_.levels:
        level.thresholds[:] = np.inf
    exact = machine.decision_function(queries)
    clear = np.abs(exact) > 1e-5 * sizes_of_terms(machine, queries)
    decisions = model.decision_function(queries)
    np.testing.assert_array_equal((decisions > 0)[clear], (exact > 0)[clear])
    np.testing.assert_array_equal(model.predict(queries)[clear], machine.predict(queries)[clear])
