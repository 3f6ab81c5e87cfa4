"""The classes that a model file may hold, and what makes an instance of one trustworthy.

A file may come from anybody, so nothing that it says is taken for granted: every field must have
the type that its class declares, and what belongs together must fit together. The engine checks
every index that it follows; asking it to answer no queries at all makes it do so here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from vicinal import engine
from vicinal.io import early, ldkl, sparse
from vicinal.io.codec import Kind
from vicinal.io.records import Parts, below, estimator, record, require
from vicinal.io.types import fits
from vicinal.kernels import KernelSpec
from vicinal.ldkl import LDKLClassifier, LDKLRegressor
from vicinal.local import KNNSVC, FaLKSVC, FaLKSVCCV, FastLSVC
from vicinal.local.cover import Cover
from vicinal.local.internal import Grid
from vicinal.local.lazy import LazyModel
from vicinal.local.machines import Machines, Training
from vicinal.local.model import LocalModel
from vicinal.local.route import Route
from vicinal.neighbors import CoverTreeClassifier, CoverTreeNeighbors
from vicinal.neighbors.index import KDTreeIndex, NeighbourIndex, make_index
from vicinal.neighbors.metric import FramedMetric
from vicinal.nsv import KernelMachine, NSVClassifier
from vicinal.problem import Floats, Frame, Problem
from vicinal.sparse import PSKClassifier, ReducedSetClassifier, RSVMClassifier, SKLAClassifier

# --- Training data --------------------------------------------------------------------------------

_PROBLEM = record(Problem, lambda problem: _check_problem(problem))


def _problem_parts(problem: Problem) -> dict[str, Any]:
    """Leave out the arrays that say nothing: no row was dropped, and every weight is one."""
    parts = _PROBLEM.parts(problem)
    if np.array_equal(problem.rows, np.arange(problem.n_rows)):
        parts["rows"] = None
    if (problem.weights == 1).all():
        parts["weights"] = None
    return parts


def _whole_problem(parts: Parts) -> Problem:
    complete = dict(parts)
    n = len(complete["points"])
    if complete["rows"] is None:
        complete["rows"] = np.arange(n, dtype=np.int32)
    if complete["weights"] is None:
        complete["weights"] = np.ones(n, dtype=np.float32)
    whole: Problem = _PROBLEM.whole(complete)
    return whole


# --- Indexes --------------------------------------------------------------------------------------


def _index_parts(index: engine.NeighbourIndex) -> dict[str, Any]:
    return {"points": index.points, "state": index.state()}


def _whole_index(parts: Parts) -> engine.NeighbourIndex:
    points, state = parts["points"], parts["state"]
    # The engine would convert other types, which takes memory.
    alike = all(a.dtype in (np.int32, np.float32) for a in state.values() if _is_array(a))
    require(fits(points, Floats) and alike, "an index has arrays of wrong types")
    return engine.NeighbourIndex.from_state(points, state)


def _whole_kd_tree(parts: Parts) -> NeighbourIndex:
    points = parts["points"]
    require(
        fits(points, Floats) and points.ndim == 2 and np.isfinite(points).all(),
        "the points of a kd-tree are none",
    )
    return make_index(points, algorithm="kd_tree")


# --- What fits together ---------------------------------------------------------------------------


def _check_frame(frame: Frame) -> None:
    sound = frame.offset.ndim == 1 and np.isfinite(frame.offset).all()
    require(sound and 0 < frame.scale < np.inf, "a frame has no finite place and size")


def _check_problem(problem: Problem) -> None:
    n = problem.n_points
    require(
        problem.points.ndim == 2
        and problem.frame.offset.shape == problem.points.shape[1:]
        and problem.targets.shape == problem.weights.shape == problem.rows.shape == (n,)
        and problem.classes.ndim == 1
        and below(problem.targets, problem.n_classes)
        and below(problem.rows, problem.n_rows),
        "the training data do not fit together",
    )


def _check_machines(model: Any) -> None:
    """Check all of a local model but its route."""
    problem, cover, n_machines = model.problem, model.cover, len(model.machines)
    require(
        below(cover.centres, problem.n_points)
        and cover.owners.shape == (problem.n_points,)
        and below(cover.owners, n_machines),
        "the cover does not fit the training data",
    )
    nowhere = np.empty(0, dtype=np.int32)
    model.machines.evaluate(problem, _no_queries(problem), nowhere, model.kernel, n_threads=1)


def _check_route(model: LocalModel) -> None:
    route = model.route
    require(
        route.machine_of.shape == (len(route.index.points),)
        and below(route.machine_of, len(model.machines)),
        "the routes do not lead to the machines",
    )
    _check_index(route.index, model.problem)


def _check_lazy_model(model: LazyModel) -> None:
    _check_index(model.index, model.problem)
    require(model.index.points.shape == model.problem.points.shape, "the index misses points")
    require(1 <= model.n_neighbors <= model.problem.n_points, "n_neighbors is out of range")
    model.decide(_no_queries(model.problem), n_threads=1)


def _check_index(index: NeighbourIndex, problem: Problem) -> None:
    require(index.points.shape[1:] == problem.points.shape[1:], "the index has other features")


def _check_classifier(model: Any) -> None:
    """Check a local classifier; a selection that was not refitted has no models."""
    if not hasattr(model, "models_"):
        return
    models, n_classes = model.models_, len(model.classes_)
    alike = {type(part) for part in models}
    require(alike in ({LocalModel}, {LazyModel}), "there are no models")
    n_models = 1 if len(models) == 1 else n_classes * (n_classes - 1) // 2
    require(
        len(models) == n_models
        and all(part.problem.n_classes == (n_classes if n_models == 1 else 2) for part in models),
        "the models do not fit the classes",
    )
    for part in models:
        require(part.problem.points.shape[1] == model.n_features_in_, "the models differ in width")


def _check_neighbours(model: Any) -> None:
    points = model._index_.points
    require(fits(model._metric, FramedMetric), "the metric is none")
    require(
        points.shape == (model.n_samples_fit_, model.n_features_in_)
        and model._metric.frame.offset.shape == points.shape[1:],
        "the index does not fit the data",
    )
    if isinstance(model, CoverTreeClassifier):
        targets = model._targets
        require(
            targets.shape == (len(points),)
            and targets.dtype.kind == "i"
            and below(targets, len(model.classes_)),
            "the labels do not fit the index",
        )


def _is_array(part: Any) -> bool:
    return isinstance(part, np.ndarray)


def _no_queries(problem: Problem) -> Any:
    return np.empty((0, problem.points.shape[1]), dtype=np.float32)


def _check_pipeline(pipeline: Pipeline) -> None:
    for name, step in pipeline.steps:
        known = isinstance(step, SCALERS + MODELS) or step == "passthrough"
        require(isinstance(name, str) and known, "a step of the pipeline is no estimator")


def _whole_pipeline(parts: Parts) -> Pipeline:
    # Without its `memory`: a place on a disk from which the next fit would load code.
    pipeline = Pipeline(parts["steps"])
    _check_pipeline(pipeline)
    return pipeline


# --- All of them ----------------------------------------------------------------------------------

CLASSIFIERS = (FaLKSVC, FastLSVC, FaLKSVCCV, KNNSVC)
NEIGHBOURS = (CoverTreeClassifier, CoverTreeNeighbors)
SCALERS = (MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler)

LDKL = (LDKLClassifier, LDKLRegressor)
SPARSE = (PSKClassifier, RSVMClassifier, SKLAClassifier, ReducedSetClassifier)

MODELS = (*CLASSIFIERS, *NEIGHBOURS, *SPARSE, *LDKL, NSVClassifier, KernelMachine, Pipeline)
"""What a file may hold as its model."""

_KINDS = [
    record(KernelSpec),
    record(Frame, _check_frame),
    record(FramedMetric),
    Kind(Problem, _problem_parts, _whole_problem),
    record(Training),
    record(Cover),
    record(Machines),
    record(Grid),
    record(Route),
    record(LocalModel, _check_route, before={"route": _check_machines}),
    record(LazyModel, _check_lazy_model),
    Kind(engine.NeighbourIndex, _index_parts, _whole_index),
    Kind(KDTreeIndex, lambda index: {"points": index.points}, _whole_kd_tree),
    *(estimator(cls, _check_classifier) for cls in CLASSIFIERS),
    *(estimator(cls, _check_neighbours) for cls in NEIGHBOURS),
    *(estimator(cls) for cls in SCALERS),
    *early.kinds(SCALERS, (*CLASSIFIERS, *SPARSE)),
    *sparse.kinds(SCALERS),
    *ldkl.kinds(),
    Kind(Pipeline, lambda pipeline: {"steps": pipeline.steps}, _whole_pipeline),
]
KINDS = {kind.type.__name__: kind for kind in _KINDS}
"""Every class that a model file may hold, by the name that stands for it there."""
