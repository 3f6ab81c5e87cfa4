"""Trained trees as C99, for devices that have no Python.

The source has the walk of `core/ldkl.hpp` for one query, written plainly: no allocation, no
threads, and nothing but `tanhf` from the standard library. Numbers lie in the order in which a walk
reads them: of each node its gate, its machines and its split. A query costs as many dot products as
it does here, and takes the room of one point on the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.ldkl.forest import Forest, LDKLModel
from vicinal.ldkl.units import origin_and_factor
from vicinal.problem import FAR, Floats

_NUMBERS_A_LINE = 8

_LARGE = 1e30
"""Single precision holds this, and its inverse."""

_SOURCE = Template("""\
/* $title

$text

   Compile as C99 and link the mathematical library, whose tanhf is all that is needed. */

#include <math.h>
#include <stdint.h>

$prototypes

enum {
    N_FEATURES = $n_features,
    N_LOCAL = N_FEATURES + 1, /* and the constant, in place of a bias */
    N_GLOBAL = $n_global,
    N_OUTPUTS = $n_outputs,
    N_TREES = $n_trees,
    N_INNER = $n_inner,
    LEAF_WIDTH = N_LOCAL + N_OUTPUTS * N_GLOBAL,
    INNER_WIDTH = LEAF_WIDTH + N_LOCAL
};

/* A feature's number as the trees take it is (x - origin) * factor. */
static const $real origin[N_FEATURES] = {
$origin};

static const $real factor[N_FEATURES] = {
$factor};

/* Gate and machines of each node, and the split of inner nodes, which come first. */
static const float nodes[] = {
$nodes};

/* On the negative and the positive side of each split; -1 where a walk ends. */
static const $integer children[][2] = {
$children};

static const $integer roots[N_TREES] = {
$roots};

/* Four sums side by side, for units that can. */
static float dot(const float *a, const float *b, int n)
{
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n; ++i) s0 += a[i] * b[i];
    return (s0 + s1) + (s2 + s3);
}

$machine

void ${name}_scores(const float *x, float *scores)
{
    const float *leaves = nodes + N_INNER * (int32_t)INNER_WIDTH;
    float point[N_LOCAL];
    for (int i = 0; i < N_FEATURES; ++i) {
        const $real moved = (x[i] - origin[i]) * factor[i];
        point[i] = moved > $far ? $far : moved < -$far ? -$far : (float)moved;
    }
    point[N_FEATURES] = $constant;
    for (int c = 0; c < N_OUTPUTS; ++c) scores[c] = 0.0f;
    for (int tree = 0; tree < N_TREES; ++tree) {
        int32_t node = roots[tree];
$begin        while (node >= 0) {
            const int32_t leaf = node - N_INNER;
            const float *gates = leaf < 0 ? nodes + node * (int32_t)INNER_WIDTH
                                          : leaves + leaf * (int32_t)LEAF_WIDTH;
            const float *machines = gates + N_LOCAL, *split = gates + LEAF_WIDTH;
            const float gate = ${above}tanhf($sigma * dot(gates, point, N_LOCAL));
            for (int c = 0; c < N_OUTPUTS; ++c, machines += N_GLOBAL)
                scores[c] += gate * machine(machines, point);
            node = leaf < 0 ? children[node][dot(split, point, N_LOCAL) > 0.0f] : -1;
$end        }
    }
}

$predict""")

_LINEAR = """\
static float machine(const float *weights, const float *point)
{
    return dot(weights, point, N_LOCAL);
}"""

_QUADRATIC = """\
/* Multiplies the products of all pairs of features, a row of their triangle after the other. */
static float machine(const float *weights, const float *point)
{
    float sum = 0.0f;
    for (int i = 0; i < N_LOCAL; ++i) {
        sum += point[i] * dot(weights, point + i, N_LOCAL - i);
        weights += N_LOCAL - i;
    }
    return sum;
}"""

_PREDICT_CLASS = Template("""\
int ${name}_predict(const float *x)
{
    float scores[N_OUTPUTS];
    int best = 0;
    ${name}_scores(x, scores);
    if (N_OUTPUTS == 1) return scores[0] > 0.0f;
    for (int c = 1; c < N_OUTPUTS; ++c)
        if (scores[c] > scores[best]) best = c;
    return best;
}
""")

_PREDICT_NUMBER = Template("""\
float ${name}_predict(const float *x)
{
    float score;
    ${name}_scores(x, &score);
    return (float)(score * $scale + $mean);
}
""")


def classifier_source(
    model: LDKLModel, classes: NDArray[Any], name: str, scaler: Any = None
) -> str:
    """Return C functions that score a query and find the position of its class."""
    n_outputs = 1 if len(classes) == 2 else len(classes)
    meaning = f"{n_outputs} numbers; the largest decides"
    if n_outputs == 1:
        meaning = "a number, positive for class 1"
    return _source(
        model,
        name,
        scaler,
        "Local deep kernel learning: a classifier written by vicinal.",
        [
            f"   {name}_predict returns the number of the class:",
            *(f"     {code}: {_plain(label)}" for code, label in enumerate(classes.tolist())),
            f"   {name}_scores writes {meaning}.",
        ],
        "int",
        _PREDICT_CLASS.substitute(name=name),
    )


def regressor_source(
    model: LDKLModel, mean: float, scale: float, name: str, scaler: Any = None
) -> str:
    """Return C functions that score a query and predict its number."""
    return _source(
        model,
        name,
        scaler,
        "Local deep kernel learning: a regressor written by vicinal.",
        [
            f"   {name}_predict returns the prediction.",
            f"   {name}_scores writes it for targets of mean zero and variance one.",
        ],
        "float",
        _PREDICT_NUMBER.substitute(name=name, mean=repr(mean), scale=repr(scale)),
    )


def _source(
    model: LDKLModel,
    name: str,
    scaler: Any,
    title: str,
    text: list[str],
    answer: str,
    predict: str,
) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name):
        raise ValueError(f"name must be what C takes for the name of a function, got {name!r}.")
    forest, frame = model.forest, model.frame
    if not isinstance(forest, Forest):
        raise ValueError("Only trees become C: use embedding='tree'.")
    form = forest.form
    origin, factor = origin_and_factor(frame, scaler)
    # In single precision an origin loses what a query of large numbers has lost already.
    single = ((abs(factor) > 1 / _LARGE) & (abs(factor) < _LARGE) & (abs(origin) < _LARGE)).all()
    number = _float if single else repr
    n_features = forest.n_features
    return _SOURCE.substitute(
        title=title,
        text="\n".join([*text, f"   x: {n_features} numbers, as columns of the training data."]),
        prototypes=f"void {name}_scores(const float *x, float *scores);\n"
        f"{answer} {name}_predict(const float *x);",
        name=name,
        n_features=n_features,
        n_global=forest.weights.shape[2],
        n_outputs=forest.n_outputs,
        n_trees=len(forest.roots),
        n_inner=forest.n_inner,
        real="float" if single else "double",
        integer="int16_t" if forest.n_nodes < 2**15 else "int32_t",
        origin=_lines(map(number, origin.tolist())),
        factor=_lines(map(number, factor.tolist())),
        nodes=_lines(map(_float, _in_reading_order(forest))),
        # An array of nothing is no C; what stands here is never read.
        children=_lines(f"{{{a}, {b}}}" for a, b in forest.children.tolist() or [(-1, -1)]),
        roots=_lines(map(str, forest.roots.tolist())),
        machine=_QUADRATIC if form.quadratic else _LINEAR,
        far=_float(np.float32(FAR)),
        constant=_float(np.float32(form.constant)),
        sigma=_float(np.float32(form.sigma)),
        begin="        float product = 1.0f;\n" if form.compositional else "",
        above="product * " if form.compositional else "",
        end="            product = gate;\n" if form.compositional else "",
        predict=predict,
    )


def _in_reading_order(forest: Forest) -> Floats:
    machines = forest.weights.reshape(forest.n_nodes, -1)
    leaves = np.hstack([forest.gates, machines])
    inner = np.hstack([leaves[: forest.n_inner], forest.splits])
    return np.concatenate([inner.ravel(), leaves[forest.n_inner :].ravel()])


def _float(value: Any) -> str:
    """Return the shortest literal that is this very number in single precision."""
    return f"{np.float32(value)!s}f"


def _lines(literals: Iterable[str]) -> str:
    every = list(literals)
    runs = (every[i : i + _NUMBERS_A_LINE] for i in range(0, len(every), _NUMBERS_A_LINE))
    return "".join(f"    {', '.join(run)},\n" for run in runs)


def _plain(label: Any) -> str:
    """Return a label that cannot end a comment."""
    return ascii(label).replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
